#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "driver/engine_driver.h"
#include "metrics/serving.h"

namespace fak::ride {

// Measures one request to a ridden engine from the events that come back, as the gateway sees them:
// the rows with source="gateway". A streamed chunk counts as a token where gaps are measured;
// tokens are counted from the usage that the engine reports, and not at all where it reports none.
// Passes every event on. Same thread as the sink.
class RequestMeter final : public driver::EventSink {
 public:
  // on_end is called once, before the last event is passed on. The clock outlives the meter.
  RequestMeter(std::shared_ptr<driver::EventSink> sink, std::shared_ptr<metrics::Emitter> emitter,
               const driver::Prepared& prepared, const Clock& clock, std::function<void()> on_end);
  // A request whose events never ended, because the driver refused it, ends here, uncounted.
  ~RequestMeter() override;

  void OnEvent(wire::Event&& event) noexcept override;
  void BeginBatch() noexcept override { sink_->BeginBatch(); }
  void EndBatch() noexcept override { sink_->EndBatch(); }
  void ListHot(HotLines& lines) const noexcept override {
    lines.AddObject(*this);
    sink_->ListHot(lines);
  }
  void AwaitRoom(std::function<void()> on_room) override { sink_->AwaitRoom(std::move(on_room)); }

 private:
  void TokenCame(int32_t choice);
  int64_t& LastOf(size_t choice);
  void CountEnded();
  void CountFailed(const Error& error);
  void End();

  const std::shared_ptr<driver::EventSink> sink_;
  const std::shared_ptr<metrics::Emitter> emitter_;
  const Clock& clock_;
  const bool streamed_;
  const size_t choices_;  // that were asked for
  const int64_t arrival_ns_;
  std::function<void()> on_end_;
  int64_t first_ns_ = 0;                 // 0: no token yet
  int64_t last_ns_ = 0;                  // of the first choice; 0: none yet
  std::vector<int64_t> others_last_ns_;  // of each choice behind it
  bool broken_off_ = false;              // by the engine, under a finish reason
  std::optional<wire::Usage> usage_;
};

}  // namespace fak::ride
