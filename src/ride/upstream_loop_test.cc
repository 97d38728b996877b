// Which loop a driver's requests run on.
#include <atomic>

#include <gtest/gtest.h>

#include "ride/test_support.h"

namespace fak::ride {
namespace {

using test::Eventually;
using test::kChat;
using test::MakePrepared;
using test::Start;
using test::Upstream;
using test::WaitingSink;

// What came in which batch, and whether all of it was told on that loop.
class BatchSink final : public driver::EventSink {
 public:
  explicit BatchSink(net::EventLoop& loop) : loop_(loop) {}
  void OnEvent(wire::Event&& event) noexcept override {
    on_loop_ = on_loop_ && loop_.InLoop();
    raw_ += std::holds_alternative<wire::RawChunk>(event) ? 1 : 0;
    if (std::holds_alternative<wire::Done>(event)) {
      ended_.store(true);
    }
  }
  void BeginBatch() noexcept override { ++begun_; }
  void ListHot(HotLines& lines) const noexcept override {
    lines_above_.store(lines.lines());
    ++listed_;
  }

  net::EventLoop& loop_;
  bool on_loop_ = true;
  std::atomic<int> raw_{0};
  int begun_ = 0;
  std::atomic<bool> ended_{false};
  mutable std::atomic<int> listed_{0};
  mutable std::atomic<size_t> lines_above_{0};
};

TEST(UpstreamLoop, KeepsRequestsOnTheLoopThatItWasGivenAndLeavesItBehind) {
  const std::string chunk = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
  const std::string last =
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
  Upstream upstream;
  upstream.Answer(kChat, {200, {}, chunk + chunk + last + "data: [DONE]\n\n"});
  net::EventLoop loop;
  loop.Start("requests");
  const auto driver = Start(upstream.url(), "openai", {}, {.maybe_request_loop = &loop});
  const auto sink = std::make_shared<BatchSink>(loop);
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), sink));
  ASSERT_TRUE(Eventually([&sink] { return sink->ended_.load(); }));
  EXPECT_TRUE(sink->on_loop_);
  EXPECT_EQ(sink->raw_, 3);
  EXPECT_EQ(sink->begun_, 1) << "they came in one read";
  driver->Stop();
  const auto late = std::make_shared<WaitingSink>();
  EXPECT_EQ(driver->Admit(MakePrepared("{}", true), late).error().code, Code::kUnavailable);
  driver->Cancel("req-1");
  bool drained = false;
  driver->Drain([&drained] { drained = true; });
  EXPECT_TRUE(drained);
  bool alive = false;
  loop.Invoke([&alive] { alive = true; });
  EXPECT_TRUE(alive);
}

// After 4 reads of its body, and each time that as many again have come.
TEST(UpstreamLoop, ListsWhatTheNextPieceOfALongStreamTouches) {
  Upstream upstream;
  upstream.Hold(kChat, test::kBegun);
  net::EventLoop loop;
  loop.Start("requests");
  const auto driver = Start(upstream.url(), "openai", {}, {.maybe_request_loop = &loop});
  const auto sink = std::make_shared<BatchSink>(loop);
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), sink));
  for (int came = 1; came <= 20; ++came) {
    ASSERT_TRUE(Eventually([&] { return sink->raw_.load() == came; })) << came;
    EXPECT_LE(sink->listed_.load(), came < 4 ? 0 : came < 8 ? 1 : came < 16 ? 2 : 3) << came;
    upstream.Continue(test::kBegun.body);
  }
  EXPECT_GE(sink->listed_.load(), 2);
  EXPECT_GE(sink->lines_above_.load(), 20u) << "of the exchange, the request, the relay";
  driver->Stop();
}

}  // namespace
}  // namespace fak::ride
