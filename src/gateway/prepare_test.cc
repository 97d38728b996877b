#include "gateway/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
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

TEST(Prepare, ContinuesTheFinalMessageWhateverItsTextIs) {
  text::ModelCard card = Card();
  const auto with = [&card](const std::string& content, const std::string& shown) {
    card.maybe_chat_template = std::make_shared<const text::ChatTemplate>(
        *text::ChatTemplate::Parse("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ " + shown +
                                   " }}<|im_end|>\n{% endfor %}"));
    auto turn = Chat("say > e | end hello");
    turn->messages.array().push_back(Json::Object{{"role", "assistant"}, {"content", content}});
    turn->continue_final_message = true;
    return Prepare(turn, nullptr, &card, 0, {});
  };
  for (const char* last : {">", "e", "|", "end", "\n", "hello", "im_end", "assistant\n"}) {
    const auto prepared = with(last, "m.content");
    ASSERT_TRUE(prepared) << last;
    EXPECT_EQ((*prepared)->prompts.front().text,
              std::string("<|im_start|>user\nsay > e | end hello<|im_end|>\n"
                          "<|im_start|>assistant\n") +
                  last);
  }
  for (const char* hidden : {"\n", "", "hello"}) {
    const auto refused = with(hidden, "m.content | replace('hello', '') | trim");
    ASSERT_FALSE(refused) << hidden;
    EXPECT_EQ(refused.error().field, "continue_final_message");
  }
}

TEST(Prepare, AddsSpecialTokensUnlessToldNotTo) {
  text::ModelCard card = Card();
  text::Vocabulary vocabulary = text::SampleSpm();
  vocabulary.add_bos = true;
  card.tokenizer = *text::Tokenizer::Create(std::move(vocabulary));
  const int32_t bos = card.tokenizer->bos();
  for (const auto& turn : {Completion("hi"), Chat("hi")}) {
    const auto tokens = [&card, &turn] {
      return (*Prepare(turn, nullptr, &card, 0, {}))->prompts.front().tokens;
    };
    std::vector<int32_t> usual = tokens();
    EXPECT_EQ(usual.front(), bos);
    turn->add_special_tokens = true;
    EXPECT_EQ(tokens(), usual);
    turn->add_special_tokens = false;
    usual.erase(usual.begin());
    EXPECT_EQ(tokens(), usual);
  }
}

TEST(Prepare, TellsTheTemplateTheEffortOrNamesTheField) {
  text::ModelCard card = Card();
  const auto with = [&card](const std::string& source, const std::string& effort, Json kwargs) {
    card.maybe_chat_template =
        std::make_shared<const text::ChatTemplate>(*text::ChatTemplate::Parse(source));
    auto turn = Chat("hi");
    turn->reasoning_effort = effort;
    turn->chat_template_kwargs = std::move(kwargs);
    const auto prepared = *Prepare(turn, nullptr, &card, 0, {});
    const driver::PreparedPrompt& prompt = prepared->prompts.front();
    return std::pair(prompt.text, prompt.unserved_field);
  };
  using Seen = std::pair<std::string, std::string>;
  EXPECT_EQ(with("{{ reasoning_effort }}", "low", {}), Seen("low", ""));
  const char thinks[] = "{{ 'think' if enable_thinking else 'answer' }}";
  EXPECT_EQ(with(thinks, "low", {}), Seen("think", ""));
  EXPECT_EQ(with(thinks, "none", {}), Seen("answer", ""));
  EXPECT_EQ(with(thinks, "low", Json(Json::Object{{"enable_thinking", Json(false)}})),
            Seen("answer", ""));
  EXPECT_EQ(with("plain", "low", {}), Seen("plain", "reasoning_effort"));
  EXPECT_EQ(with("plain", "none", {}), Seen("plain", "")) << "no switch, and nothing to turn off";
}

TEST(FoldSalt, KeepsTenantsApartAndWithinTheBoundOfASalt) {
  EXPECT_EQ(FoldSalt("", "s"), "s");
  EXPECT_NE(FoldSalt("a", "bc"), FoldSalt("ab", "c"));
  const std::string longest(limits::kCacheSaltBytesMax, 'x');
  EXPECT_EQ(FoldSalt("", longest), longest);
  EXPECT_LE(FoldSalt("alice", longest).size(), limits::kCacheSaltBytesMax);
  EXPECT_NE(FoldSalt("alice", longest), FoldSalt("bob", longest));
  EXPECT_NE(FoldSalt("alice", longest), FoldSalt("alice", longest.substr(1)));
}

TEST(FoldSalt, BeginsWithWhatIsTheTenantsAlone) {
  const std::string name(limits::kTenantNameBytesMax, 'n');
  for (const std::string& salt : {std::string(), std::string("s"), std::string(256, 'x')}) {
    EXPECT_TRUE(FoldSalt("alice", salt).starts_with(TenantSalt("alice"))) << salt;
    EXPECT_FALSE(FoldSalt("alice2", salt).starts_with(TenantSalt("alice"))) << salt;
    EXPECT_TRUE(FoldSalt(name, salt).starts_with(TenantSalt(name))) << salt;
    EXPECT_LE(FoldSalt(name, salt).size(), limits::kCacheSaltBytesMax) << salt;
  }
}

}  // namespace
}  // namespace fak::gateway
