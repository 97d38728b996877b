#pragma once

#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "net/http_server.h"
#include "ride/upstream_driver.h"

// For tests of upstream drivers only: a scripted upstream and readers of its answers.
namespace fak::ride::test {

inline constexpr char kChat[] = "POST /v1/chat/completions";
inline const net::HttpResponse kBegun = {
    200,
    {{"content-type", "text/event-stream"}},
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"};

// An upstream that answers each path as it is told, 404 elsewhere, and remembers what it was asked.
class Upstream final : public net::HttpHandler {
 public:
  Upstream() {
    Answer("GET /v1/models", {200, {}, R"({"data":[{"id":"m","max_model_len":99}]})"});
    loop_.Start("upstream");
    server_ = *net::HttpServer::Start(loop_, {}, *this);
  }
  ~Upstream() override {
    server_.reset();
    loop_.Stop();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()) + "/v1/"; }

  void Answer(const std::string& asked, net::HttpResponse response) {
    const std::lock_guard lock(mutex_);
    answers_[asked] = std::move(response);
    endless_.erase(asked);
  }
  // Answers that begin like this and never end.
  void Hold(const std::string& asked, net::HttpResponse begins) {
    const std::lock_guard lock(mutex_);
    endless_[asked] = std::move(begins);
  }

  // More of all answers that were held.
  void Continue(std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    for (const auto& response : held_) {
      response->Write(bytes);
    }
  }

  void OnRequest(net::HttpRequest&& request,
                 std::shared_ptr<net::ResponseWriter> response) override {
    const std::lock_guard lock(mutex_);
    const std::string asked = request.method + " " + request.target;
    asked_.push_back(asked);
    if (const auto begins = endless_.find(asked); begins != endless_.end()) {
      response->OnClientGone([this](const Error&) {
        const std::lock_guard gone_lock(mutex_);
        gone_ = true;
        wake_.notify_all();
      });
      response->StartStream(begins->second.status, begins->second.headers);
      response->Write(begins->second.body);
      held_.push_back(std::move(response));
    } else if (const auto found = answers_.find(asked); found != answers_.end()) {
      response->Send(found->second);
    } else {
      response->Send({404, {}, R"({"detail":"Not Found"})"});
    }
    requests_[asked] = std::move(request);
    wake_.notify_all();
  }
  net::HttpResponse OnFault(const net::HttpFault& fault) override { return {fault.status, {}, ""}; }

  bool WaitGone() {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, std::chrono::seconds(10),
                          [this] { return std::exchange(gone_, false); });
  }
  // The last request of that kind; waits for one with these words in its body.
  net::HttpRequest Asked(const std::string& asked, const std::string& words = "") {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, std::chrono::seconds(10), [&] {
      const auto found = requests_.find(asked);
      return found != requests_.end() && found->second.body.find(words) != std::string::npos;
    });
    return requests_[asked];
  }
  std::vector<std::string> all_asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  net::EventLoop loop_;
  std::unique_ptr<net::HttpServer> server_;
  std::map<std::string, net::HttpResponse> answers_;
  std::map<std::string, net::HttpRequest> requests_;
  std::vector<std::string> asked_;
  std::map<std::string, net::HttpResponse> endless_;
  std::vector<std::shared_ptr<net::ResponseWriter>> held_;
  bool gone_ = false;
};

class WaitingSink final : public driver::EventSink {
 public:
  void OnEvent(wire::Event&& event) noexcept override {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    wake_.notify_all();
  }
  void OnPlaced(const driver::Placement& placement) override { worker_ = placement.worker; }
  bool ended() {
    const std::lock_guard lock(mutex_);
    return !events_.empty() && (std::holds_alternative<wire::Done>(events_.back()) ||
                                std::holds_alternative<wire::Failed>(events_.back()));
  }
  const std::string& worker() const { return worker_; }
  // Waits until an event of this kind came, and gives it.
  template <class Kind>
  std::optional<Kind> Wait() {
    std::unique_lock lock(mutex_);
    std::optional<Kind> found;
    wake_.wait_for(lock, std::chrono::seconds(10), [&] {
      for (const wire::Event& event : events_) {
        if (const Kind* kind = std::get_if<Kind>(&event)) {
          found = *kind;
          return true;
        }
      }
      return false;
    });
    return found;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<wire::Event> events_;
  std::string worker_;
};

// A reader that takes nothing until it is told to.
class StalledSink final : public driver::EventSink {
 public:
  void OnEvent(wire::Event&& event) noexcept override {
    const std::lock_guard lock(mutex_);
    if (const auto* chunk = std::get_if<wire::RawChunk>(&event)) {
      bytes_ += chunk->json.size();
    }
    ended_ = ended_ || std::holds_alternative<wire::Done>(event);
  }
  void AwaitRoom(std::function<void()> on_room) override {
    {
      const std::lock_guard lock(mutex_);
      if (!takes_all_) {
        on_room_ = std::move(on_room);
        return;
      }
    }
    on_room();
  }
  void TakeAll() {
    std::function<void()> on_room;
    {
      const std::lock_guard lock(mutex_);
      takes_all_ = true;
      on_room.swap(on_room_);
    }
    if (on_room) {
      on_room();
    }
  }
  size_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  bool ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  std::mutex mutex_;
  std::function<void()> on_room_;
  bool takes_all_ = false;
  size_t bytes_ = 0;
  bool ended_ = false;
};

inline std::shared_ptr<const driver::Prepared> MakePrepared(
    const char* document, bool stream, wire::Surface surface = wire::Surface::kChat,
    const std::string& model = "") {
  auto prepared = std::make_shared<driver::Prepared>();
  auto turn = std::make_shared<wire::Turn>();
  turn->stream = stream;
  turn->surface = surface;
  turn->model = model;
  prepared->request_id = "req-1";
  prepared->turn = turn;
  prepared->document = std::make_shared<const Json>(*ParseJson(document));
  return prepared;
}

inline std::unique_ptr<UpstreamDriver> Start(const std::string& url, const std::string& engine,
                                             driver::ReplicaSpec spec = {},
                                             UpstreamOptions options = {}) {
  spec.name = "u";
  spec.engine = engine;
  spec.url = url;
  options.probe_every_ms = 20;
  auto driver = *UpstreamDriver::Make(spec, std::move(options));
  EXPECT_TRUE(driver->Start());
  (void)driver->WaitForProbe(10'000);
  return driver;
}

template <class Condition>
bool Eventually(Condition condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  return condition();
}

inline std::vector<driver::EvictOutcome> Evict(driver::CacheControl& control,
                                               driver::EvictGuarantee demanded,
                                               const std::string& model = "",
                                               driver::EvictScope scope = {},
                                               const std::string& salt = "") {
  std::promise<std::vector<driver::EvictOutcome>> done;
  control.Evict(
      {.scope = scope, .tokens = {}, .cache_salt = salt, .demanded = demanded, .model = model},
      [&done](std::vector<driver::EvictOutcome> all) { done.set_value(std::move(all)); });
  return done.get_future().get();
}

inline constexpr char kAnswer[] =
    R"({"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]})";

}  // namespace fak::ride::test
