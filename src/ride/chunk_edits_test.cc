#include "ride/chunk_edits.h"

#include <gtest/gtest.h>

#include "ride/relay.h"

namespace fak::ride {
namespace {

class Collector final : public driver::EventSink {
 public:
  void OnEvent(wire::Event&& event) noexcept override {
    if (const auto* raw = std::get_if<wire::RawChunk>(&event)) {
      raw_.push_back(raw->json);
    } else if (const auto* text = std::get_if<wire::TextDelta>(&event)) {
      tokens_.insert(tokens_.end(), text->tokens.begin(), text->tokens.end());
    } else if (const auto* echo = std::get_if<wire::PromptEcho>(&event)) {
      prompt_ = echo->tokens;
    } else if (const auto* usage = std::get_if<wire::UsageReport>(&event)) {
      usage_ = usage->usage;
    }
  }
  std::vector<std::string> raw_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> prompt_;
  wire::Usage usage_;
};

driver::Prepared Make(wire::Surface surface, bool asked = false) {
  driver::Prepared prepared;
  auto turn = std::make_shared<wire::Turn>();
  turn->surface = surface;
  turn->stream = true;
  turn->return_token_ids = asked;
  prepared.turn = std::move(turn);
  prepared.document = std::make_shared<const Json>(Json::Object{});
  prepared.for_resumption = true;
  return prepared;
}

void GoOn(driver::Prepared& prepared) {
  driver::Continuation said;
  said.prompt_tokens = {7, 8};
  said.tokens = {1, 2, 3};
  said.head = {{"id", R"("first")"}, {"created", "5"}, {"system_fingerprint", "null"}};
  prepared.maybe_continuation = std::make_shared<const driver::Continuation>(std::move(said));
}

std::shared_ptr<Collector> Relayed(const Adapter& adapter, const driver::Prepared& prepared,
                                   std::string_view chunk) {
  auto sink = std::make_shared<Collector>();
  Relay relay(sink, {.surface = prepared.turn->surface,
                     .streamed = true,
                     .edits = ChunkEdits(adapter, prepared)});
  relay.Feed("data: " + std::string(chunk) + "\n\n");
  return sink;
}

TEST(ChunkEdits, HideIdsThatTheClientDidntAskFor) {
  const auto chat = Relayed(
      kFak, Make(wire::Surface::kChat),
      R"({"id":"x","choices":[{"index":0,"delta":{"content":"a"},"token_ids":[4,5]}],"prompt_token_ids":[1]})");
  EXPECT_EQ(chat->raw_, std::vector<std::string>{
                            R"({"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]})"});
  EXPECT_EQ(chat->tokens_, (std::vector<int32_t>{4, 5}));

  const auto text =
      Relayed(kVllm, Make(wire::Surface::kCompletion),
              R"({"choices":[{"index":0,"text":"a","prompt_token_ids":[7,8],"token_ids":[4]}]})");
  EXPECT_EQ(
      text->raw_,
      std::vector<std::string>{
          R"({"choices":[{"index":0,"text":"a","prompt_token_ids":null,"token_ids":null}]})"});
  EXPECT_EQ(text->prompt_, (std::vector<int32_t>{7, 8}));
}

TEST(ChunkEdits, LeaveWhatTheClientAskedFor) {
  const std::string chunk = R"({"choices":[{"index":0,"delta":{"content":"a"},"token_ids":[4]}]})";
  EXPECT_EQ(Relayed(kFak, Make(wire::Surface::kChat, true), chunk)->raw_,
            std::vector<std::string>{chunk});
  driver::Prepared others = Make(wire::Surface::kChat);
  EXPECT_EQ(Relayed(kVllm, others, chunk)->raw_, std::vector<std::string>{chunk});  // a chat
  others.for_resumption = false;
  EXPECT_EQ(Relayed(kFak, others, chunk)->raw_, std::vector<std::string>{chunk});
}

TEST(ChunkEdits, GiveWhatGoesOnTheHeadOfTheFirst) {
  driver::Prepared prepared = Make(wire::Surface::kChat);
  GoOn(prepared);
  const auto sink = Relayed(
      kFak, prepared,
      R"({"id":"second","created":9,"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":4}})");
  EXPECT_EQ(
      sink->raw_,
      std::vector<std::string>{
          R"({"id":"first","created":5,"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":4}})"});
  EXPECT_EQ(sink->usage_.completion_tokens, 4);  // fak counts what was said itself
}

TEST(ChunkEdits, CountTheWholeAnswerWhereItStoodInThePrompt) {
  driver::Prepared prepared = Make(wire::Surface::kCompletion);
  GoOn(prepared);
  const auto sink = Relayed(
      kVllm, prepared,
      R"({"id":"second","choices":[],"usage":{"prompt_tokens":5,"total_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":4}}})");
  EXPECT_EQ(
      sink->raw_,
      std::vector<std::string>{
          R"({"id":"first","choices":[],"usage":{"prompt_tokens":2,"total_tokens":9,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":2}}})"});
  EXPECT_EQ(sink->usage_.prompt_tokens, 2);
  EXPECT_EQ(sink->usage_.completion_tokens, 7);
  EXPECT_EQ(sink->usage_.cached_tokens, 2);
}

}  // namespace
}  // namespace fak::ride
