#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/engine_driver.h"

namespace fak::ride {

// Several drivers as one: a request goes to the one with the fewest open requests of those that
// serve its model and are ready, and stays there. Nothing is retried elsewhere: that is the
// fleet's. Any thread.
class UpstreamSet final : public driver::EngineDriver,
                          public driver::CacheControl,
                          public driver::SleepControl,
                          public driver::SlotControl,
                          public driver::RemoteTokenizer {
 public:
  // At least one.
  explicit UpstreamSet(std::vector<std::unique_ptr<driver::EngineDriver>> members);

  // Of all: models together, what one of them can do; the smallest context.
  std::shared_ptr<const driver::Capabilities> capabilities() const override;
  driver::LoadReport Load() const override;
  std::vector<driver::WorkerLoad> WorkerLoads() const override;
  // kNotFound: everybody says what he serves, and it isn't that.
  Status Admit(std::shared_ptr<const driver::Prepared> prepared,
               std::shared_ptr<driver::EventSink> sink) override;
  void Cancel(std::string_view request_id) override;
  Status Start() override;
  void Drain(std::function<void()> done) override;
  void Stop() override;
  driver::CacheControl* maybe_cache_control() override { return this; }
  driver::SleepControl* maybe_sleep_control() override { return this; }
  driver::SlotControl* maybe_slot_control() override { return this; }
  driver::RemoteTokenizer* maybe_tokenizer() override;

  void Evict(driver::EvictRequest request,
             std::function<void(std::vector<driver::EvictOutcome>)> done) override;
  void SetAsleep(driver::SleepRequest request,
                 std::function<void(std::vector<driver::SleepOutcome>)> done) override;
  void ActOnSlot(driver::SlotRequest request,
                 std::function<void(std::vector<driver::SlotOutcome>)> done) override;
  void Tokenize(std::string text, std::function<void(Result<std::vector<int32_t>>)> done) override;

 private:
  const std::vector<std::unique_ptr<driver::EngineDriver>> members_;
};

}  // namespace fak::ride
