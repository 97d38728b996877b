#include "gateway/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/chat_template.h"
#include "text/sample_vocabulary.h"
#include "text/tokenizer.h"

namespace fak::gateway {
namespace {

using ::testing::HasSubstr;

text::ModelCard Card() {
  text::ModelCard card;
  card.tokenizer = *text::Tokenizer::Create(text::SampleBpe("smollm"));
  card.maybe_chat_template = std::make_shared<const text::ChatTemplate>(
      *text::ChatTemplate::Parse("{{ messages[0].content }}"));
  return card;
}

std::shared_ptr<wire::Turn> Completion(const std::string& prompt) {
  auto turn = std::make_shared<wire::Turn>();
  turn->surface = wire::Surface::kCompletion;
  turn->prompts.push_back({prompt, {}, false});
  return turn;
}

std::shared_ptr<wire::Turn> Chat(const std::string& message) {
  auto turn = std::make_shared<wire::Turn>();
  turn->messages = Json::Array{Json::Object{{"role", "user"}, {"content", message}}};
  return turn;
}

TEST(Prepare, RefusesTextThatCantFitBeforeEncodingIt) {
  const text::ModelCard card = Card();
  const std::string text(10'000, 'x');  // no token of it is longer than a byte; the longest has 24
  ASSERT_EQ(card.tokenizer->Encode(text, {.add_special = false}).size(), text.size());
  const size_t least = card.tokenizer->TokensAtLeast(text);
  const auto context = static_cast<int32_t>(least);
  for (const auto& turn : {Completion(text), Chat(text)}) {
    const auto refused = Prepare(turn, nullptr, &card, context, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kContextTooLong);
    const std::string number = std::to_string(least);
    EXPECT_THAT(refused.error().detail,
                HasSubstr("maximum context length is " + number +
                          " tokens. However, your prompt has at least " + number + " tokens"));
    // What may fit is left to the engine, and a context that isn't known refuses nothing.
    EXPECT_TRUE(Prepare(turn, nullptr, &card, context + 1, {}));
    EXPECT_TRUE(Prepare(turn, nullptr, &card, 0, {}));
  }
}

}  // namespace
}  // namespace fak::gateway
