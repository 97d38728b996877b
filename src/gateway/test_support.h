#pragma once

#include <atomic>
#include <cstdio>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/log.h"
#include "base/test_folder.h"
#include "gateway/gateway.h"
#include "net/http_client.h"
#include "net/test_support.h"
#include "text/sample_vocabulary.h"
#include "text/tokenizer.h"

// A gateway over a scripted driver, for tests of its routes.
namespace fak::gateway {

// Answers every request at once with what the test wants, and remembers it.
class ScriptedDriver final : public driver::EngineDriver,
                             public driver::CacheControl,
                             public driver::SleepControl,
                             public driver::SlotControl,
                             public driver::RemoteTokenizer {
 public:
  std::shared_ptr<const driver::Capabilities> capabilities() const override {
    auto capabilities = std::make_shared<driver::Capabilities>();
    capabilities->context_length = 77;
    capabilities->anthropic_wire = other_wires_;
    capabilities->responses_wire = other_wires_;
    capabilities->embeddings = other_wires_;
    capabilities->generate_wire = generates_natively_;
    capabilities->template_wire = other_wires_;
    return capabilities;
  }
  driver::LoadReport Load() const override {
    driver::LoadReport report;
    report.ready = true;
    report.running = 1;
    return report;
  }
  std::vector<driver::WorkerLoad> WorkerLoads() const override { return worker_loads_; }
  Status Admit(std::shared_ptr<const driver::Prepared> prepared,
               std::shared_ptr<driver::EventSink> sink) override {
    prepared_ = std::move(prepared);
    on_loop_ = maybe_loop_ != nullptr && maybe_loop_->InLoop();
    if (!worker_.empty()) {
      sink->OnPlaced({.worker = worker_, .why = why_, .model = model_});
    }
    if (refusal_) {
      return Fail(*refusal_);
    }
    if (batch_) {
      sink->BeginBatch();
    }
    for (const wire::Event& event : events_) {
      sink->OnEvent(wire::Event(event));
    }
    if (keeps_) {
      kept_ = std::move(sink);
      any_kept_.store(true);
    }
    return {};
  }
  void Cancel(std::string_view) override {}
  Status Start() override { return {}; }
  void Drain(std::function<void()> done) override { done(); }
  void Stop() override {}
  driver::CacheControl* maybe_cache_control() override { return this; }
  driver::RemoteTokenizer* maybe_tokenizer() override { return tokenizes_ ? this : nullptr; }
  driver::SleepControl* maybe_sleep_control() override { return sleeps_ ? this : nullptr; }
  void SetAsleep(driver::SleepRequest request,
                 std::function<void(std::vector<driver::SleepOutcome>)> done) override {
    slept_ = std::move(request);
    done(slept_.worker == "nobody" ? std::vector<driver::SleepOutcome>() : sleep_outcomes_);
  }
  driver::SlotControl* maybe_slot_control() override { return has_slots_ ? this : nullptr; }
  void ActOnSlot(driver::SlotRequest request,
                 std::function<void(std::vector<driver::SlotOutcome>)> done) override {
    slot_ = std::move(request);
    done(slot_.worker == "nobody" ? std::vector<driver::SlotOutcome>() : slot_outcomes_);
  }
  void Evict(driver::EvictRequest request,
             std::function<void(std::vector<driver::EvictOutcome>)> done) override {
    evicted_ = std::move(request);
    done(outcomes_);
  }
  void Tokenize(std::string /*model*/, std::string text,
                std::function<void(Result<std::vector<int32_t>>)> done) override {
    done(std::vector<int32_t>(text.size(), 7));
  }

  bool other_wires_ = false;
  bool tokenizes_ = false;
  bool sleeps_ = false;
  bool generates_natively_ = false;
  std::vector<driver::WorkerLoad> worker_loads_;
  driver::SleepRequest slept_;
  std::vector<driver::SleepOutcome> sleep_outcomes_;
  bool has_slots_ = false;
  driver::SlotRequest slot_;
  std::vector<driver::SlotOutcome> slot_outcomes_;
  driver::EvictRequest evicted_;
  std::vector<driver::EvictOutcome> outcomes_;
  bool batch_ = false;
  std::vector<wire::Event> events_ = {wire::TextDelta{0, "hey", {}, {}}, wire::Finish{},
                                      wire::UsageReport{}, wire::Done{}};
  bool keeps_ = false;  // the sink of the last request
  std::shared_ptr<driver::EventSink> kept_;
  std::atomic<bool> any_kept_{false};
  std::optional<Error> refusal_;
  std::string worker_;
  std::string why_;
  std::string model_;  // that the name meant
  std::shared_ptr<const driver::Prepared> prepared_;
  const net::EventLoop* maybe_loop_ = nullptr;
  bool on_loop_ = false;  // Admit() was called there
};

// A path where nothing is from an earlier test.
inline std::string FreshFile(const std::string& name) {
  static const TestFolder folder;
  std::string path = folder.Path(name);
  std::remove(path.c_str());
  return path;
}

class GatewayTest : public ::testing::Test {
 protected:
  void Start(GatewayOptions options = {}) {
    if (options.served_names.empty()) {
      options.served_names = {"m", "also-m"};
    }
    gateway_ = std::make_unique<Gateway>(std::move(options), driver_, metrics_,
                                         metrics_.MakeEmitter({.worker = "w"}), clock_, random_);
    Listen();
  }
  void Listen() {
    loop_.Start("gateway");
    server_ = *net::HttpServer::Start(loop_, {}, *gateway_);
    client_loop_.Start("client");
    client_ = *net::HttpClient::Make(client_loop_);
  }
  void TearDown() override {
    client_.reset();
    client_loop_.Stop();
    server_.reset();
    loop_.Stop();
    driver_.kept_.reset();  // its answer is the loop's
    gateway_.reset();
  }
  net::HttpResponse Ask(std::string method, std::string target, std::string body = "",
                        net::HttpHeaders headers = {}) {
    net::HttpClientRequest request;
    request.method = std::move(method);
    request.origin = {false, "127.0.0.1", server_->port()};
    request.target = std::move(target);
    request.body = std::move(body);
    request.headers = std::move(headers);
    return *net::FetchAndWait(client_loop_, *client_, std::move(request), 1 << 20);
  }
  static constexpr char kChat[] = R"({"messages":[{"role":"user","content":"hi"}]})";

  ScriptedDriver driver_;
  metrics::Registry metrics_;
  FakeClock clock_;
  FakeRandom random_;
  std::unique_ptr<Gateway> gateway_;
  net::EventLoop loop_;
  std::unique_ptr<net::HttpServer> server_;
  net::EventLoop client_loop_;
  std::unique_ptr<net::HttpClient> client_;
};

}  // namespace fak::gateway
