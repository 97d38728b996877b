#include "ride/upstream_meter.h"

#include <condition_variable>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "net/http_server.h"

namespace fak::ride {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// An engine whose /metrics the test decides.
class Engine final : public net::HttpHandler {
 public:
  Engine() {
    loop_.Start("engine");
    server_ = *net::HttpServer::Start(loop_, {}, *this);
  }
  ~Engine() override {
    server_.reset();
    loop_.Stop();
  }
  void OnRequest(net::HttpRequest&& request,
                 std::shared_ptr<net::ResponseWriter> response) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(request.target, "/metrics");
    ++asks_;
    if (hangs_) {
      held_ = std::move(response);
    } else {
      response->Send({status_, {}, body_});
    }
    wake_.notify_all();
  }
  net::HttpResponse OnFault(const net::HttpFault& fault) override { return {fault.status, {}, ""}; }

  void Answer(int status, std::string body) {
    const std::lock_guard lock(mutex_);
    status_ = status;
    body_ = std::move(body);
  }
  void Hang() {
    const std::lock_guard lock(mutex_);
    hangs_ = true;
  }
  // Until so many more requests have come.
  void WaitFor(int more) {
    std::unique_lock lock(mutex_);
    const int until = asks_ + more;
    EXPECT_TRUE(wake_.wait_for(lock, std::chrono::seconds(20), [&] { return asks_ >= until; }));
  }
  net::HttpClientRequest Request() const {
    net::HttpClientRequest request;
    request.origin = {false, "127.0.0.1", server_->port()};
    request.target = "/metrics";
    return request;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  net::EventLoop loop_;
  std::unique_ptr<net::HttpServer> server_;
  std::shared_ptr<net::ResponseWriter> held_;
  bool hangs_ = false;
  int asks_ = 0;
  int status_ = 200;
  std::string body_;
};

class UpstreamMeterTest : public ::testing::Test {
 protected:
  void Start(std::string engine, int every_ms = 1) {
    meter_.emplace(
        registry_,
        UpstreamMeterOptions{.worker = "w", .engine = "auto", .scrape_every_ms = every_ms}, clock_);
    loop_.Start("upstream");
    loop_.Invoke([&] {
      client_ = *net::HttpClient::Make(loop_);
      std::vector<net::HttpClientRequest> requests = {engine_.Request()};
      if (maybe_behind_ != nullptr) {
        requests.push_back(maybe_behind_->Request());
      }
      meter_->StartScraping(loop_, *client_, engine, std::move(requests));
    });
  }
  void TearDown() override {
    loop_.Invoke([&] {
      if (meter_) {
        meter_->StopScraping();
      }
      client_.reset();
    });
    loop_.Stop();
  }
  // What stands there once the engine has given an answer that it gives now: the first request to
  // come may have been answered before, and an answer has reached the meter before the next
  // request.
  std::string Exposition() {
    engine_.WaitFor(3);
    return registry_.Exposition();
  }
  driver::LoadReport Load() {
    driver::LoadReport report;
    meter_->Fill(report);
    return report;
  }
  driver::Prepared Ask(std::string model) {
    auto turn = std::make_shared<wire::Turn>();
    turn->model = std::move(model);
    driver::Prepared prepared;
    prepared.turn = turn;
    return prepared;
  }

  FakeClock clock_;
  metrics::Registry registry_{{}, clock_};
  Engine engine_;
  Engine* maybe_behind_ = nullptr;  // a worker of it
  net::EventLoop loop_;
  std::unique_ptr<net::HttpClient> client_;
  std::optional<UpstreamMeter> meter_;
};

class Ignore final : public driver::EventSink {
  void OnEvent(wire::Event&&) noexcept override {}
};

constexpr char kUp[] = "source=\"engine\",worker=\"w\"} 1";
constexpr char kDown[] = "source=\"engine\",worker=\"w\"} 0";

TEST_F(UpstreamMeterTest, ShowsWhatTheEngineSaysAndForgetsGaugesWhenItFails) {
  engine_.Answer(200,
                 "vllm:num_requests_running{model_name=\"m\"} 5\n"
                 "vllm:kv_cache_usage_perc{model_name=\"m\"} 0.25\n"
                 "vllm:cache_config_info{num_gpu_blocks=\"8\"} 1\n"
                 "vllm:num_preemptions_total{model_name=\"m\"} 3\n");
  Start("vllm");
  std::string text = Exposition();
  EXPECT_THAT(text, HasSubstr("requests_running{engine=\"vllm\",model=\"m\",role=\"aggregated\","
                              "source=\"engine\",worker=\"w\"} 5\n"));
  EXPECT_THAT(text, HasSubstr(kUp));
  EXPECT_EQ(Load().running, 5);
  EXPECT_EQ(Load().kv_usage, 0.25);
  EXPECT_EQ(Load().kv_blocks_free, 6);
  EXPECT_FALSE(Load().waiting.has_value());

  engine_.Answer(503, "");
  text = Exposition();
  EXPECT_THAT(text, Not(HasSubstr("requests_running")));
  EXPECT_THAT(text, HasSubstr(kDown));
  EXPECT_THAT(text, HasSubstr("preemptions_total{engine=\"vllm\",model=\"m\",role=\"aggregated\","
                              "source=\"engine\",worker=\"w\"} 3\n"));
  EXPECT_FALSE(Load().running.has_value());
  EXPECT_FALSE(Load().kv_usage.has_value());

  engine_.Answer(200, "<html>");
  EXPECT_THAT(Exposition(), HasSubstr(kDown));
  engine_.Answer(200, std::string(limits::kExpositionBytesMax + 1, '#'));
  EXPECT_THAT(Exposition(), HasSubstr(kDown));
  engine_.Answer(200, "vllm:num_preemptions_total{model_name=\"m\"} 4\n");
  text = Exposition();
  EXPECT_THAT(text, HasSubstr(kUp));
  EXPECT_THAT(text, HasSubstr("worker=\"w\"} 4\n"));
}

TEST_F(UpstreamMeterTest, TellsWorkersBehindAnUpstreamApartAndTakesItsLoadFromItselfAlone) {
  Engine worker;
  maybe_behind_ = &worker;
  engine_.Answer(200,
                 "dynamo_frontend_inflight_requests{model=\"m\"} 5\n"
                 "dynamo_frontend_queued_requests{model=\"m\"} 1\n");
  worker.Answer(200,
                "dynamo_component_inflight_requests{dynamo_component=\"prefill\","
                "dynamo_endpoint=\"generate\",model=\"m\"} 3\n");
  Start("dynamo");
  engine_.WaitFor(3);
  worker.WaitFor(3);
  const std::string rows = "requests_running{engine=\"dynamo\",model=\"m\",role=";
  std::string text = registry_.Exposition();
  EXPECT_THAT(text, HasSubstr(rows + "\"aggregated\",source=\"engine\",worker=\"w\"} 4\n"));
  EXPECT_THAT(text, HasSubstr(rows + "\"prefill\",source=\"engine\",worker=\"w/1\"} 3\n"));
  EXPECT_EQ(Load().running, 4);

  // A decode worker calls itself "backend", as one that does both; the frontend knows it.
  const std::string id = "{dp_rank=\"0\",worker_id=\"9619340495338262790\",worker_type=\"decode\"}";
  worker.Answer(200,
                "dynamo_component_inflight_requests{dynamo_component=\"backend\","
                "dynamo_endpoint=\"generate\",worker_id=\"857ec3370e2ad106\",model=\"m\"} 2\n"
                "dynamo_component_errors_total{dynamo_component=\"backend\","
                "dynamo_endpoint=\"generate\",worker_id=\"857ec3370e2ad106\",model=\"m\"} 6\n"
                "vllm:num_preemptions_total{model_name=\"m\"} 8\n");  // of the same process
  worker.WaitFor(3);
  EXPECT_THAT(registry_.Exposition(),
              HasSubstr(rows + "\"aggregated\",source=\"engine\",worker=\"w/1\"} 2\n"));
  engine_.Answer(200,
                 "dynamo_frontend_inflight_requests{model=\"m\"} 4\n"
                 "dynamo_frontend_queued_requests{model=\"m\"} 0\n"
                 "dynamo_frontend_worker_active_decode_blocks" +
                     id + " 0\n");
  engine_.WaitFor(3);
  worker.WaitFor(3);
  text = registry_.Exposition();
  EXPECT_THAT(text, HasSubstr(rows + "\"decode\",source=\"engine\",worker=\"w/1\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("role=\"decode\",source=\"engine\",worker=\"w/1\",outcome=\"error\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("role=\"decode\",source=\"engine\",worker=\"w/1\"} 8\n"));
  EXPECT_THAT(
      text,
      Not(HasSubstr("role=\"aggregated\",source=\"engine\",worker=\"w/1\",outcome=\"error\"} 6")));

  worker.Answer(503, "");
  worker.WaitFor(3);
  text = registry_.Exposition();
  EXPECT_THAT(text, HasSubstr("source=\"engine\",worker=\"w/1\"} 0"));  // engine_up
  EXPECT_THAT(text, HasSubstr(kUp));
  EXPECT_EQ(Load().running, 4);
  loop_.Invoke([&] { meter_->StopScraping(); });  // before the worker goes
}

TEST_F(UpstreamMeterTest, FiguresOfAnEngineThatHangsGetOldAndVanish) {
  engine_.Answer(200, "vllm:num_requests_running 5\nvllm:num_preemptions_total 3\n");
  Start("vllm");
  EXPECT_THAT(Exposition(), HasSubstr("requests_running"));
  engine_.Hang();
  engine_.WaitFor(1);
  EXPECT_THAT(registry_.Exposition(), HasSubstr("requests_running"));
  clock_.AdvanceMs(limits::kScrapeTimeoutMs + 2);  // and twice the interval
  EXPECT_THAT(registry_.Exposition(), Not(HasSubstr("requests_running")));
  EXPECT_THAT(registry_.Exposition(), HasSubstr(kDown));
  EXPECT_THAT(registry_.Exposition(), HasSubstr("preemptions_total"));
  EXPECT_FALSE(Load().running.has_value());
}

TEST_F(UpstreamMeterTest, AnEngineWithoutMetricsHasNoRowsAtAll) {
  engine_.Answer(200, "vllm_mlx_scheduler_running_requests 5\n");
  Start("mlx");
  EXPECT_THAT(Exposition(), HasSubstr("requests_running"));
  engine_.Answer(404, "Not Found");
  for (int i = 0; i < 100'000 && !registry_.Exposition().empty(); ++i) {
    loop_.Invoke([] {});  // a turn of the loop
  }
  EXPECT_EQ(registry_.Exposition(), "");
}

TEST_F(UpstreamMeterTest, AsksNothingOfAnEngineWhoseMetricsNobodyKnows) {
  Start("openai");
  loop_.Invoke([] {});
  EXPECT_EQ(engine_.asks_, 0);
  EXPECT_EQ(registry_.Exposition(), "");
}

TEST_F(UpstreamMeterTest, AnIntervalOfZeroAsksNothing) {
  Start("vllm", 0);
  loop_.Invoke([] {});
  EXPECT_EQ(engine_.asks_, 0);
}

TEST_F(UpstreamMeterTest, CountsOpenRequestsByModelsThatAreServed) {
  Start("openai");
  meter_->SetModels({"a", "b"});
  auto first = meter_->Measure(Ask("a"), std::make_shared<Ignore>());
  auto second = meter_->Measure(Ask("anything a client writes"), std::make_shared<Ignore>());
  const std::string running =
      "requests_running{engine=\"openai\",model=\"a\",role=\"aggregated\","
      "source=\"gateway\",worker=\"w\"} ";
  const std::string text = registry_.Exposition();
  EXPECT_THAT(text, HasSubstr(running + "1\n"));
  EXPECT_THAT(text, HasSubstr("model=\"other\""));
  EXPECT_THAT(text, Not(HasSubstr("anything")));
  first.reset();
  second->OnEvent(wire::Done{});
  EXPECT_THAT(registry_.Exposition(), HasSubstr(running + "0\n"));
}

TEST_F(UpstreamMeterTest, SaysWhatAProbeHasFound) {
  Start("openai");
  meter_->SetUp(true);
  EXPECT_THAT(registry_.Exposition(), HasSubstr("source=\"gateway\",worker=\"w\"} 1"));
  meter_->SetUp(false);
  EXPECT_THAT(registry_.Exposition(), HasSubstr("source=\"gateway\",worker=\"w\"} 0"));
}

}  // namespace
}  // namespace fak::ride
