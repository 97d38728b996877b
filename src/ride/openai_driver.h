#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/engine_driver.h"
#include "net/event_loop.h"
#include "net/http_client.h"
#include "net/timer_wheel.h"
#include "net/url.h"

namespace fak::ride {

struct OpenAiDriverOptions {
  net::HttpTimeouts timeouts;
  net::TlsClientOptions tls;
  int probe_every_ms = 5000;  // GET /v1/models: is it there, what does it serve
};

// Any server of the OpenAI wire as a driver: sends the client's own document with only the edits
// of docs/engines.md, passes chunks on as they come, turns failures into typed errors. Cancelling
// closes the upstream's connection. Has a loop of its own; sinks are called from it.
class OpenAiDriver final : public driver::EngineDriver {
 public:
  // spec.url may end in /v1 or not. kInvalidArgument: a URL that is none.
  [[nodiscard]] static Result<std::unique_ptr<OpenAiDriver>> Make(const driver::ReplicaSpec& spec,
                                                                  OpenAiDriverOptions options);
  ~OpenAiDriver() override;

  std::shared_ptr<const driver::Capabilities> capabilities() const override;
  driver::LoadReport Load() const override;
  Status Admit(std::shared_ptr<const driver::Prepared> prepared,
               std::shared_ptr<driver::EventSink> sink) override;
  void Cancel(std::string_view request_id) override;
  Status Start() override;
  void Drain(std::function<void()> done) override;
  void Stop() override;

 private:
  class Exchange;
  class Probe;

  OpenAiDriver(driver::ReplicaSpec spec, net::Url base, OpenAiDriverOptions options);
  void Send(std::shared_ptr<const driver::Prepared> prepared,
            std::shared_ptr<driver::EventSink> sink);
  void Forget(const std::string& request_id);
  void End(const std::string& request_id, Error error);
  void StartProbe();
  void TakeModels(std::vector<std::string> models, int32_t context);
  void ProbeFailed(std::string why);
  net::HttpClientRequest Request(std::string_view method, std::string_view path) const;

  const driver::ReplicaSpec spec_;
  const net::Url base_;
  const OpenAiDriverOptions options_;
  net::EventLoop loop_;

  // Loop thread.
  std::unique_ptr<net::HttpClient> client_;
  std::unique_ptr<net::Timer> probe_timer_;
  std::unordered_map<std::string, std::shared_ptr<Exchange>> open_;
  std::vector<std::function<void()>> drained_;

  std::atomic<bool> draining_{false};
  std::atomic<int32_t> running_{0};
  mutable std::mutex mutex_;  // guards the members below
  std::shared_ptr<const driver::Capabilities> capabilities_;
  bool up_ = false;
  std::string why_down_;  // names the upstream
  bool started_ = false;
};

}  // namespace fak::ride
