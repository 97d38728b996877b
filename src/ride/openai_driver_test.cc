#include "ride/openai_driver.h"

#include <condition_variable>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/http_server.h"

namespace fak::ride {
namespace {

using ::testing::HasSubstr;

// An upstream that answers as it is told and remembers what it was asked.
class Upstream final : public net::HttpHandler {
 public:
  Upstream() {
    loop_.Start("upstream");
    server_ = *net::HttpServer::Start(loop_, {}, *this);
  }
  ~Upstream() override {
    server_.reset();
    loop_.Stop();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()) + "/v1/"; }

  void OnRequest(net::HttpRequest&& request,
                 std::shared_ptr<net::ResponseWriter> response) override {
    const std::lock_guard lock(mutex_);
    if (request.path() == "/v1/models") {
      response->Send({200, {}, R"({"data":[{"id":"m","max_model_len":99}]})"});
      return;
    }
    request_ = std::move(request);
    response->OnClientGone([this](const Error&) {
      const std::lock_guard gone_lock(mutex_);
      gone_ = true;
      wake_.notify_all();
    });
    if (hold_) {
      response->StartStream(200, {{"content-type", "text/event-stream"}});
      response->Write("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n");
      held_ = std::move(response);
    } else {
      response->Send({status_, {}, body_});
    }
  }
  net::HttpResponse OnFault(const net::HttpFault& fault) override { return {fault.status, {}, ""}; }

  bool WaitGone() {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, std::chrono::seconds(10), [this] { return gone_; });
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  net::EventLoop loop_;
  std::unique_ptr<net::HttpServer> server_;
  net::HttpRequest request_;
  std::shared_ptr<net::ResponseWriter> held_;
  int status_ = 200;
  std::string body_;
  bool hold_ = false;
  bool gone_ = false;
};

class WaitingSink final : public driver::EventSink {
 public:
  void OnEvent(wire::Event event) noexcept override {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    wake_.notify_all();
  }
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
};

std::shared_ptr<const driver::Prepared> MakePrepared(const char* document, bool stream) {
  auto prepared = std::make_shared<driver::Prepared>();
  auto turn = std::make_shared<wire::Turn>();
  turn->stream = stream;
  prepared->request_id = "req-1";
  prepared->turn = turn;
  prepared->document = std::make_shared<const Json>(*ParseJson(document));
  return prepared;
}

constexpr char kAnswer[] =
    R"({"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]})";

TEST(OpenAiDriver, SendsTheClientsDocumentWithOnlyItsEdits) {
  Upstream upstream;
  upstream.body_ = kAnswer;
  const auto driver = *OpenAiDriver::Make(
      {.name = "u", .engine = "openai", .url = upstream.url(), .model = "theirs", .api_key = "k"},
      {});
  ASSERT_TRUE(driver->Start());
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(
      MakePrepared(R"({"zeta":1.0,"model":"ours","top_k":5,"frobnicate":{"a":[1e2]}})", false),
      sink));
  ASSERT_TRUE(sink->Wait<wire::Done>());
  EXPECT_EQ(upstream.request_.body,
            R"({"zeta":1.0,"model":"theirs","top_k":5,"frobnicate":{"a":[1e2]}})");
  EXPECT_EQ(upstream.request_.target, "/v1/chat/completions");
  EXPECT_EQ(upstream.request_.headers.Get("authorization"), "Bearer k");
  EXPECT_EQ(sink->Wait<wire::RawChunk>()->json, kAnswer);
}

TEST(OpenAiDriver, GivesUpAtTheDeadlineAndClosesTheConnection) {
  Upstream upstream;
  upstream.hold_ = true;
  const auto driver =
      *OpenAiDriver::Make({.name = "u", .engine = "openai", .url = upstream.url()}, {});
  ASSERT_TRUE(driver->Start());
  auto prepared = std::make_shared<driver::Prepared>(*MakePrepared("{}", true));
  prepared->arrival_ns = Clock::Real().NowNs();
  prepared->deadline_ns = prepared->arrival_ns + 50 * kNsPerMs;
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(prepared, sink));
  const auto failed = sink->Wait<wire::Failed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error.code, Code::kDeadlineExceeded);
  EXPECT_GE(Clock::Real().NowNs(), *prepared->deadline_ns);
  EXPECT_TRUE(upstream.WaitGone());
}

TEST(OpenAiDriver, TurnsFailuresIntoTypedErrors) {
  Upstream upstream;
  upstream.status_ = 422;
  upstream.body_ = R"({"detail":"no"})";
  const auto driver =
      *OpenAiDriver::Make({.name = "u", .engine = "openai", .url = upstream.url()}, {});
  ASSERT_TRUE(driver->Start());
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", false), sink));
  const auto failed = sink->Wait<wire::Failed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error.code, Code::kUpstreamError);
  EXPECT_EQ(failed->error.upstream_status, 422);
  EXPECT_EQ(failed->error.detail, "no");
}

TEST(OpenAiDriver, NobodyThereIsUnavailable) {
  const auto driver =
      *OpenAiDriver::Make({.name = "u", .engine = "openai", .url = "http://127.0.0.1:1"}, {});
  ASSERT_TRUE(driver->Start());
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), sink));
  const auto failed = sink->Wait<wire::Failed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error.code, Code::kUnavailable);
  EXPECT_FALSE(driver->Load().ready);
  // The probe was sent before the request; its failure names the upstream once.
  const std::string why_not = driver->Load().why_not;
  EXPECT_THAT(why_not, HasSubstr("http://127.0.0.1:1: can't connect"));
  EXPECT_EQ(why_not.rfind("http://"), 0u);
}

TEST(OpenAiDriver, CancelClosesTheUpstreamsConnection) {
  Upstream upstream;
  upstream.hold_ = true;
  const auto driver =
      *OpenAiDriver::Make({.name = "u", .engine = "openai", .url = upstream.url()}, {});
  ASSERT_TRUE(driver->Start());
  const auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(driver->Admit(MakePrepared("{}", true), sink));
  ASSERT_TRUE(sink->Wait<wire::TextDelta>());
  driver->Cancel("req-1");
  EXPECT_EQ(sink->Wait<wire::Failed>()->error.code, Code::kCancelled);
  EXPECT_TRUE(upstream.WaitGone());
  EXPECT_EQ(driver->Load().running, 0);
}

TEST(OpenAiDriver, RefusesWhatIsNoUrl) {
  EXPECT_FALSE(OpenAiDriver::Make({.name = "u", .engine = "openai", .url = "nonsense"}, {}));
  EXPECT_FALSE(OpenAiDriver::Make({.name = "u", .engine = "openai", .url = "http://a:b@c"}, {}));
}

}  // namespace
}  // namespace fak::ride
