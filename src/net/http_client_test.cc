#include "net/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "net/test_support.h"

namespace fak::net {
namespace {

using test::Eventually;
using test::RawListener;
using test::RawSocket;
using test::TestCertificate;
using test::TestHandler;
using test::Writer;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// What a sink was told.
struct Seen {
  int status = 0;
  HttpHeaders headers;
  std::string body;
  std::optional<Status> done;
  bool freed = false;
};

class TestSink : public HttpResponseSink {
 public:
  explicit TestSink(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
  ~TestSink() override { seen_->freed = true; }
  void OnHead(int status, HttpHeaders headers) override {
    seen_->status = status;
    seen_->headers = std::move(headers);
  }
  void OnBody(std::string_view bytes) override {
    seen_->body += bytes;
    if (on_body) {
      on_body(bytes);
    }
  }
  void OnDone(Status status) override {
    EXPECT_FALSE(seen_->done) << "done twice";
    seen_->done = std::move(status);
  }
  std::function<void(std::string_view)> on_body;

 private:
  const std::shared_ptr<Seen> seen_;
};

class HttpClientTest : public testing::Test {
 protected:
  HttpClientTest() {
    loop_.Start("test-client");
    Make({});
  }
  ~HttpClientTest() override { client_.reset(); }

  void Make(HttpClientOptions options) {
    auto made = HttpClient::Make(loop_, std::move(options));
    ASSERT_TRUE(made) << made.error().detail;
    client_ = *std::move(made);
  }
  static HttpClientRequest Request(uint16_t port, std::string method = "POST",
                                   std::string body = "{}") {
    HttpClientRequest request;
    request.method = std::move(method);
    request.origin = {false, "127.0.0.1", port};
    request.target = "/x";
    request.body = std::move(body);
    return request;
  }
  std::shared_ptr<Seen> Send(HttpClientRequest request,
                             std::shared_ptr<HttpExchange>* exchange = nullptr) {
    auto seen = std::make_shared<Seen>();
    loop_.Invoke([&] {
      auto made = client_->Send(std::move(request), std::make_unique<TestSink>(seen));
      if (exchange != nullptr) {
        *exchange = std::move(made);
      }
    });
    return seen;
  }
  bool Done(const std::shared_ptr<Seen>& seen) {
    return Eventually(loop_, [&seen] { return seen->done.has_value(); });
  }
  HttpClientStats Stats() {
    HttpClientStats stats;
    loop_.Invoke([&] { stats = client_->stats(); });
    return stats;
  }

  EventLoop loop_;
  std::unique_ptr<HttpClient> client_;
};

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

TEST_F(HttpClientTest, SendsWhatItWasGivenAndStripsWhatIsOneConnectionsOwn) {
  RawListener upstream;
  HttpClientRequest request = Request(upstream.port(), "POST", "hello");
  request.headers = {{"X-A", "1"},
                     {"Connection", "X-B"},
                     {"X-B", "2"},
                     {"Transfer-Encoding", "x"},
                     {"Content-Length", "99"},
                     {"TE", "x"}};
  const auto seen = Send(std::move(request));
  RawSocket socket = upstream.Accept();
  EXPECT_EQ(socket.ReadThrough("hello"),
            "POST /x HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(upstream.port()) +
                "\r\nX-A: 1\r\nContent-Length: 5\r\n\r\nhello");
  socket.Send(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nX-C: 3\r\nKeep-Alive: x\r\n"
      "Content-Length: 2\r\n\r\nok");
  ASSERT_TRUE(Done(seen));
  EXPECT_TRUE(*seen->done);
  EXPECT_EQ(seen->status, 201);
  EXPECT_EQ(seen->headers.Get("x-c"), "3");
  EXPECT_FALSE(seen->headers.Has("Keep-Alive"));
  EXPECT_EQ(seen->body, "ok");
  EXPECT_TRUE(seen->freed);
}

TEST_F(HttpClientTest, RefusesTextThatWouldForgeAHead) {
  HttpClientRequest bad_header = Request(1);
  bad_header.headers = {{"X", "a\r\nY: b"}};
  HttpClientRequest bad_target = Request(1);
  bad_target.target = "/ HTTP/1.1\r\nX: y";
  for (HttpClientRequest& request : {std::ref(bad_header), std::ref(bad_target)}) {
    const auto seen = Send(std::move(request));
    ASSERT_TRUE(Done(seen));
    EXPECT_EQ(seen->done->error().code, Code::kInvalidArgument);
  }
}

TEST_F(HttpClientTest, ReadsEveryFramingAtAnyCut) {
  struct Case {
    std::string response;
    std::string body;
    bool kept;
  };
  const Case cases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", true},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
       "hello", true},
      {"HTTP/1.1 200 OK\r\n\r\nhello", "hello", false},
      {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", false},
      {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", "hello", false},
      {"HTTP/1.1 204 No Content\r\n\r\n", "", true},
  };
  for (const Case& c : cases) {
    RawListener upstream;
    const auto seen = Send(Request(upstream.port()));
    RawSocket socket = upstream.Accept();
    socket.ReadThrough("{}");
    for (const char byte : c.response) {
      ASSERT_TRUE(socket.Send({&byte, 1}));
    }
    if (!c.kept) {
      socket.ShutdownSend();
    }
    ASSERT_TRUE(Done(seen));
    EXPECT_TRUE(*seen->done) << c.response;
    EXPECT_EQ(seen->body, c.body);
    EXPECT_EQ(Stats().idle, c.kept ? 1u : 0u) << c.response;
    Make({});
  }
}

TEST_F(HttpClientTest, AHeadResponseHasNoBody) {
  RawListener upstream;
  const auto seen = Send(Request(upstream.port(), "HEAD", ""));
  RawSocket socket = upstream.Accept();
  EXPECT_THAT(socket.ReadThrough("\r\n\r\n"), Not(HasSubstr("Content-Length")));
  socket.Send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  ASSERT_TRUE(Done(seen));
  EXPECT_TRUE(*seen->done);
  EXPECT_EQ(Stats().idle, 1u);
}

TEST_F(HttpClientTest, UsesAConnectionAgain) {
  RawListener upstream;
  std::optional<RawSocket> socket;
  for (int i = 0; i < 3; ++i) {
    const auto seen = Send(Request(upstream.port()));
    if (!socket) {
      socket = upstream.Accept();
    }
    EXPECT_THAT(socket->ReadThrough("{}"), StartsWith("POST"));
    socket->Send(kOk);
    ASSERT_TRUE(Done(seen));
  }
  const HttpClientStats stats = Stats();
  EXPECT_EQ(stats.connects_total, 1u);
  EXPECT_EQ(stats.reuses_total, 2u);
  EXPECT_EQ(stats.connections, 1u);
  EXPECT_EQ(stats.idle, 1u);
}

TEST_F(HttpClientTest, KeepsNoConnectionThatTheRequestIsToClose) {
  RawListener upstream;
  HttpClientRequest request = Request(upstream.port());
  request.keep_connection = false;
  const auto seen = Send(std::move(request));
  RawSocket socket = upstream.Accept();
  EXPECT_THAT(socket.ReadThrough("{}"), HasSubstr("\r\nConnection: close\r\n"));
  socket.Send(kOk);  // which says nothing of the connection
  ASSERT_TRUE(Done(seen));
  EXPECT_TRUE(*seen->done);
  EXPECT_EQ(Stats().connections, 0u);
}

TEST_F(HttpClientTest, ClosesKeptConnectionsInTime) {
  Make({.keep_idle_ms = 30});
  RawListener upstream;
  const auto seen = Send(Request(upstream.port()));
  RawSocket socket = upstream.Accept();
  socket.ReadThrough("{}");
  socket.Send(kOk);
  ASSERT_TRUE(Done(seen));
  EXPECT_TRUE(socket.AtEnd());
  EXPECT_EQ(Stats().connections, 0u);
}

TEST_F(HttpClientTest, DoesNotUseAConnectionThatWasClosedMeanwhile) {
  RawListener upstream;
  for (int i = 0; i < 3; ++i) {
    const auto seen = Send(Request(upstream.port()));
    RawSocket socket = upstream.Accept();
    socket.ReadThrough("{}");
    socket.Send(kOk);
    ASSERT_TRUE(Done(seen));
    EXPECT_TRUE(*seen->done);
    // Closed, or broken by bytes that nobody asked for.
    if (i == 1) {
      socket.Send("HTTP/1.1 408 Request Timeout\r\n\r\n");
    }
    socket.Close();
  }
  const HttpClientStats stats = Stats();
  EXPECT_EQ(stats.connects_total, 3u);
  EXPECT_EQ(stats.resends_total, 0u);
}

TEST_F(HttpClientTest, SendsAgainOnlyWhatCanDoNoHarm) {
  for (const bool safe : {true, false}) {
    RawListener upstream;
    const auto first = Send(Request(upstream.port()));
    RawSocket socket = upstream.Accept();
    socket.ReadThrough("{}");
    socket.Send(kOk);
    ASSERT_TRUE(Done(first));
    // The upstream takes the next request on the kept connection and closes without a word.
    const auto second = Send(Request(upstream.port(), safe ? "GET" : "POST"));
    socket.ReadThrough("{}");
    socket.Close();
    if (safe) {
      RawSocket fresh = upstream.Accept();
      EXPECT_THAT(fresh.ReadThrough("{}"), StartsWith("GET"));
      fresh.Send(kOk);
    }
    ASSERT_TRUE(Done(second));
    EXPECT_EQ(second->done->has_value(), safe);
    EXPECT_EQ(Stats().resends_total, safe ? 1u : 0u);
    if (!safe) {
      EXPECT_EQ(second->done->error().code, Code::kUpstreamError);
    }
    Make({});
  }
}

TEST_F(HttpClientTest, DoesNotSendAgainOnAFreshConnection) {
  RawListener upstream;
  const auto seen = Send(Request(upstream.port(), "GET", ""));
  upstream.Accept().Close();
  ASSERT_TRUE(Done(seen));
  EXPECT_EQ(seen->done->error().code, Code::kUpstreamError);
  EXPECT_EQ(Stats().connects_total, 1u);
}

TEST_F(HttpClientTest, BoundsConnectionsAndThoseWhoWait) {
  Make({.connections_per_origin_max = 1, .waiting_per_origin_max = 1});
  RawListener upstream;
  const auto first = Send(Request(upstream.port()));
  const auto second = Send(Request(upstream.port()));
  const auto third = Send(Request(upstream.port()));
  ASSERT_TRUE(Done(third));
  EXPECT_EQ(third->done->error().code, Code::kResourceExhausted);
  EXPECT_EQ(Stats().waiting, 1u);
  RawSocket socket = upstream.Accept();
  for (const auto& seen : {first, second}) {
    socket.ReadThrough("{}");
    socket.Send(kOk);
    ASSERT_TRUE(Done(seen));
    EXPECT_TRUE(*seen->done);
  }
  EXPECT_EQ(Stats().connects_total, 1u);
}

TEST_F(HttpClientTest, AWaitingRequestGetsTheConnectionThatAnotherGaveUp) {
  Make({.connections_per_origin_max = 1});
  RawListener upstream;
  std::shared_ptr<HttpExchange> first_exchange;
  const auto first = Send(Request(upstream.port()), &first_exchange);
  std::shared_ptr<HttpExchange> waiting_exchange;
  const auto waiting = Send(Request(upstream.port()), &waiting_exchange);
  const auto second = Send(Request(upstream.port()));
  RawSocket socket = upstream.Accept();
  socket.ReadThrough("{}");
  loop_.Invoke([&] {
    waiting_exchange->Cancel();
    first_exchange->Cancel();
  });
  EXPECT_TRUE(socket.AtEnd());
  RawSocket fresh = upstream.Accept();
  fresh.ReadThrough("{}");
  fresh.Send(kOk);
  ASSERT_TRUE(Done(second));
  EXPECT_TRUE(*second->done);
  EXPECT_FALSE(first->done);
  EXPECT_FALSE(waiting->done);
}

TEST_F(HttpClientTest, CancelClosesAtOnceAtEachStage) {
  RawListener upstream;
  for (const std::string_view progress : {"", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\n\r\npart"}) {
    std::shared_ptr<HttpExchange> exchange;
    const auto seen = Send(Request(upstream.port()), &exchange);
    RawSocket socket = upstream.Accept();
    socket.ReadThrough("{}");
    socket.Send(progress);
    ASSERT_TRUE(
        Eventually(loop_, [&] { return exchange->response_started() == !progress.empty(); }));
    loop_.Invoke([&exchange] { exchange->Cancel(); });
    EXPECT_TRUE(socket.AtEnd());
    EXPECT_FALSE(seen->done);
    EXPECT_TRUE(seen->freed);
  }
  EXPECT_EQ(Stats().connections, 0u);
}

TEST_F(HttpClientTest, ASinkMayCancelFromInside) {
  RawListener upstream;
  auto seen = std::make_shared<Seen>();
  std::shared_ptr<HttpExchange> exchange;
  loop_.Invoke([&] {
    auto sink = std::make_unique<TestSink>(seen);
    sink->on_body = [&](std::string_view) { exchange->Cancel(); };
    exchange = client_->Send(Request(upstream.port()), std::move(sink));
  });
  RawSocket socket = upstream.Accept();
  socket.ReadThrough("{}");
  // Two chunks in one read: the second must not be delivered any more.
  socket.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
  EXPECT_TRUE(socket.AtEnd());
  EXPECT_TRUE(Eventually(loop_, [&seen] { return seen->freed; }));
  EXPECT_EQ(seen->body, "a");
  EXPECT_FALSE(seen->done);
}

TEST_F(HttpClientTest, FailsWithTheReasonWhenAnUpstreamBreaksOff) {
  struct Case {
    std::string sent;
    std::string why;
  };
  const Case cases[] = {
      {"", "closed without a response"},
      {"HTTP/1.1 200 OK\r\nContent-Le", "in the middle of a response's head"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "in the middle of a body"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
       "in the middle of a body"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "chunked body"},
      {"HTTP/1.1 200 OK\nX: y\n\n", "LF without CR"},
      {"SSH-2.0-OpenSSH\r\n\r\n", "HTTP response"},
      {"HTTP/1.1 101 Switching Protocols\r\n\r\n", "status 101"},
      {"HTTP/1.1 200 OK\r\nX: " + std::string(70'000, 'x'), "head of more than"},
  };
  for (const Case& c : cases) {
    RawListener upstream;
    std::shared_ptr<HttpExchange> exchange;
    const auto seen = Send(Request(upstream.port()), &exchange);
    RawSocket socket = upstream.Accept();
    socket.ReadThrough("{}");
    socket.Send(c.sent);
    socket.ShutdownSend();
    ASSERT_TRUE(Done(seen)) << c.sent;
    ASSERT_FALSE(*seen->done) << c.sent;
    EXPECT_EQ(seen->done->error().code, Code::kUpstreamError);
    EXPECT_THAT(seen->done->error().detail, HasSubstr(c.why));
    EXPECT_THAT(seen->done->error().detail, StartsWith("http://127.0.0.1:"));
    loop_.Invoke([&] { EXPECT_TRUE(exchange->request_bytes_sent()); });
  }
  EXPECT_EQ(Stats().connections, 0u);
}

TEST_F(HttpClientTest, AResetInABodyThatEndsWithTheConnectionIsAnError) {
  RawListener upstream;
  const auto seen = Send(Request(upstream.port()));
  RawSocket socket = upstream.Accept();
  socket.ReadThrough("{}");
  socket.Send("HTTP/1.1 200 OK\r\n\r\npart");
  ASSERT_TRUE(Eventually(loop_, [&seen] { return seen->body == "part"; }));
  socket.Reset();
  ASSERT_TRUE(Done(seen));
  EXPECT_FALSE(*seen->done);
}

TEST_F(HttpClientTest, TakesAnAnswerThatComesBeforeTheRequestIsOut) {
  RawListener upstream;
  const auto seen = Send(Request(upstream.port(), "POST", std::string(32 << 20, 'x')));
  RawSocket socket = upstream.Accept();
  socket.ReadThrough("\r\n\r\n");
  socket.Send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig");
  ASSERT_TRUE(Done(seen));
  EXPECT_TRUE(*seen->done);
  EXPECT_EQ(seen->status, 413);
  EXPECT_EQ(seen->body, "big");
  EXPECT_EQ(Stats().connections, 0u) << "half a request is on it";
}

TEST_F(HttpClientTest, SendsLargeBodiesWhole) {
  RawListener upstream;
  std::string body(3 << 20, 'x');
  body.back() = 'y';
  const auto seen = Send(Request(upstream.port(), "POST", body));
  RawSocket socket = upstream.Accept();
  socket.ReadThrough("\r\n\r\n");
  EXPECT_EQ(socket.ReadBytes(body.size()), body);
  socket.Send(kOk);
  ASSERT_TRUE(Done(seen));
  EXPECT_TRUE(*seen->done);
}

TEST_F(HttpClientTest, TimesOutAtEachStage) {
  RawListener upstream;
  struct Case {
    HttpTimeouts timeouts;
    std::string sent;
    std::string why;
  };
  const Case cases[] = {
      {{.first_byte_ms = 30}, "", "no response after 30 ms"},
      {{.first_byte_ms = 30}, "HTTP/1.1 2", "silent in a response for 30 ms"},
      {{.idle_ms = 30}, "HTTP/1.1 200 OK\r\n\r\npart", "silent in a response for 30 ms"},
      {{.total_ms = 30}, "HTTP/1.1 200 OK\r\n\r\npart", "not done after 30 ms"},
  };
  for (const Case& c : cases) {
    HttpClientRequest request = Request(upstream.port());
    request.timeouts = c.timeouts;
    const auto seen = Send(std::move(request));
    RawSocket socket = upstream.Accept();
    socket.ReadThrough("{}");
    socket.Send(c.sent);
    ASSERT_TRUE(Done(seen));
    ASSERT_FALSE(*seen->done);
    EXPECT_EQ(seen->done->error().code, Code::kDeadlineExceeded);
    EXPECT_THAT(seen->done->error().detail, HasSubstr(c.why));
    EXPECT_TRUE(socket.AtEnd());
  }
}

TEST_F(HttpClientTest, SaysWhyThereIsNoConnection) {
  RawListener closed;
  const uint16_t port = closed.port();
  closed.Close();
  std::shared_ptr<HttpExchange> exchange;
  const auto refused = Send(Request(port), &exchange);
  ASSERT_TRUE(Done(refused));
  EXPECT_EQ(refused->done->error().field, kUnreachedField);
  EXPECT_THAT(refused->done->error().detail, EndsWith("can't connect: Connection refused"));
  loop_.Invoke([&] { EXPECT_FALSE(exchange->request_bytes_sent()); });
  // Who waits for a connection waits no longer than for one.
  Make({.connections_per_origin_max = 1});
  RawListener upstream;
  const auto first = Send(Request(upstream.port()));
  HttpClientRequest request = Request(upstream.port());
  request.timeouts.connect_ms = 30;
  const auto late = Send(std::move(request));
  ASSERT_TRUE(Done(late));
  EXPECT_EQ(late->done->error().code, Code::kResourceExhausted);
  EXPECT_THAT(late->done->error().detail, HasSubstr("came free in 30 ms"));
  loop_.Invoke([&] { EXPECT_FALSE(first->done); });
}

TEST_F(HttpClientTest, SaysThatWeHaveNoDescriptorLeft) {
  if (test::kSanitized) {
    GTEST_SKIP() << "the sanitizers need descriptors themselves, to look at memory";
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlimit none = {3, files.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const auto lacking = Send(Request(1));
  const bool done = Done(lacking);
  setrlimit(RLIMIT_NOFILE, &files);
  ASSERT_TRUE(done);
  EXPECT_EQ(lacking->done->error().code, Code::kResourceExhausted);
  EXPECT_THAT(lacking->done->error().detail, EndsWith("can't connect: Too many open files"));
}

TEST_F(HttpClientTest, LooksNamesUp) {
  RawListener upstream;
  HttpClientRequest request = Request(upstream.port());
  request.origin.host = "localhost";
  const auto seen = Send(std::move(request));
  RawSocket socket = upstream.Accept();
  EXPECT_THAT(socket.ReadThrough("{}"),
              HasSubstr("Host: localhost:" + std::to_string(upstream.port()) + "\r\n"));
  socket.Send(kOk);
  ASSERT_TRUE(Done(seen));
  HttpClientRequest nowhere = Request(1);
  nowhere.origin.host = "no-such-host.invalid";
  const auto lost = Send(std::move(nowhere));
  ASSERT_TRUE(Done(lost));
  EXPECT_EQ(lost->done->error().field, kUnreachedField);
  EXPECT_THAT(lost->done->error().detail, HasSubstr("can't look up the host"));
}

TEST_F(HttpClientTest, PausingFillsTheUpstreamsWindow) {
  RawListener upstream;
  std::shared_ptr<HttpExchange> exchange;
  HttpClientRequest request = Request(upstream.port());
  request.timeouts.idle_ms = 400;  // must not fire while paused
  const auto seen = Send(std::move(request), &exchange);
  loop_.Invoke([&exchange] { exchange->Pause(); });  // before the head, so that no time can run
  RawSocket socket = upstream.Accept();
  socket.ReadThrough("{}");
  constexpr size_t kBytes = 32 << 20;
  socket.Send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kBytes) + "\r\n\r\n");
  ASSERT_TRUE(Eventually(loop_, [&seen] { return seen->status == 200; }));
  std::atomic<bool> all_sent{false};
  std::thread sender([&] {
    EXPECT_TRUE(socket.Send(std::string(kBytes, 'x')));
    all_sent = true;
  });
  // Longer than the idle timeout; the sender must still be stuck.
  std::promise<void> later;
  std::unique_ptr<Timer> timer;
  loop_.Invoke([&] {
    timer = std::make_unique<Timer>(loop_.timers(), [&later] { later.set_value(); });
    timer->ArmMs(600);
  });
  later.get_future().get();
  EXPECT_FALSE(all_sent);
  loop_.Invoke([&] {
    timer.reset();
    EXPECT_LE(seen->body.size(), 64u * 1024);
    EXPECT_FALSE(seen->done);
    exchange->Resume();
  });
  ASSERT_TRUE(Done(seen));
  sender.join();
  EXPECT_TRUE(*seen->done);
  EXPECT_EQ(seen->body.size(), kBytes);
}

TEST_F(HttpClientTest, DestroyingItCancelsEverything) {
  RawListener upstream;
  const auto seen = Send(Request(upstream.port()));
  RawSocket socket = upstream.Accept();
  socket.ReadThrough("{}");
  client_.reset();
  EXPECT_TRUE(socket.AtEnd());
  EXPECT_TRUE(seen->freed);
  EXPECT_FALSE(seen->done);
}

// A server that answers over TLS, whole and streamed.
class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    handler_.on_request = Answer;
    loop_.Start("test-tls");
    auto started = HttpServer::Start(
        loop_,
        {.address = "0.0.0.0",
         .tls = TlsServerOptions{certificate_.certificate_file, certificate_.key_file}},
        handler_);
    EXPECT_TRUE(started) << started.error().detail;
    server_ = *std::move(started);
  }
  static void Answer(HttpRequest&& request, Writer response) {
    EXPECT_TRUE(request.peer_is_loopback);
    if (request.target == "/stream") {
      response->StartStream(200, {});
      for (int i = 0; i < 100; ++i) {
        response->Write(std::to_string(i) + "\n");
      }
      response->End();
      return;
    }
    response->Send({200, {{"X-Tls", request.tls ? "yes" : "no"}}, request.body});
  }
  Result<HttpResponse> Fetch(TlsClientOptions options, const std::string& host, std::string target,
                             std::string body) {
    auto client = HttpClient::Make(loop_, {.tls = std::move(options)});
    EXPECT_TRUE(client);
    HttpClientRequest request;
    request.method = "POST";
    request.origin = {true, host, server_->port()};
    request.target = std::move(target);
    request.body = std::move(body);
    auto first = FetchAndWait(loop_, **client, request, 64 << 20);
    auto second = FetchAndWait(loop_, **client, request, 64 << 20);
    EXPECT_EQ(first.has_value(), second.has_value());
    if (second) {
      loop_.Invoke([&client] {
        EXPECT_EQ((*client)->stats().reuses_total, 1u);
        EXPECT_EQ((*client)->stats().connects_total, 1u);
      });
    }
    return second;
  }

  TestCertificate certificate_;
  EventLoop loop_;
  TestHandler handler_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(TlsTest, CarriesRequestsBothWays) {
  const std::string body(5 << 20, 'b');
  for (const char* host : {"localhost", "127.0.0.1"}) {
    const auto echoed = Fetch({.ca_file = certificate_.certificate_file}, host, "/", body);
    ASSERT_TRUE(echoed) << echoed.error().detail;
    EXPECT_EQ(echoed->headers.Get("X-Tls"), "yes");
    EXPECT_EQ(echoed->body, body);
  }
  const auto streamed =
      Fetch({.ca_file = certificate_.certificate_file}, "localhost", "/stream", "");
  ASSERT_TRUE(streamed);
  EXPECT_THAT(streamed->body, EndsWith("98\n99\n"));
}

TEST_F(TlsTest, VerifiesTheChainAndTheName) {
  const auto unknown = Fetch({}, "localhost", "/", "");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().field, "");  // somebody is there
  EXPECT_THAT(unknown.error().detail, HasSubstr("certificate verify failed"));
  EXPECT_FALSE(Fetch({.ca_file = certificate_.certificate_file}, "127.0.0.2", "/", ""));
  const auto unverified = Fetch({.verify = false}, "127.0.0.2", "/", "");
  EXPECT_TRUE(unverified) << unverified.error().detail;
  EXPECT_EQ(HttpClient::Make(loop_, {.tls = {.ca_file = "/none"}}).error().code,
            Code::kInvalidArgument);
}

TEST_F(TlsTest, TellsAClientThatSpeaksPlainHttp) {
  RawSocket plain = RawSocket::Connect(server_->port());
  ASSERT_TRUE(plain.Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_THAT(plain.ReadAll(),
              AllOf(HasSubstr("HTTP/1.1 400"), HasSubstr("on a port of TLS: use https://")));
  EXPECT_TRUE(Fetch({.ca_file = certificate_.certificate_file}, "localhost", "/", "x"));
}

TEST_F(TlsTest, ToldByAPlainPortInWords) {
  auto plain = HttpServer::Start(loop_, {.address = "127.0.0.1"}, handler_);
  ASSERT_TRUE(plain);
  auto client = HttpClient::Make(loop_, {.tls = {.verify = false}});
  HttpClientRequest request;
  request.origin = {true, "127.0.0.1", (*plain)->port()};
  EXPECT_THAT(FetchAndWait(loop_, **client, request, 4).error().detail,
              HasSubstr("it speaks plain HTTP: use http://"));
  RawSocket hello = RawSocket::Connect((*plain)->port());
  ASSERT_TRUE(hello.Send(std::string("\x16\x03\x01\x02\x00\x01", 6)));  // no line ends in it
  EXPECT_THAT(hello.ReadAll(), HasSubstr("a TLS client on a port of plain HTTP"));
}

TEST_F(TlsTest, RefusesAKeyOfAnotherCertificate) {
  const TestCertificate other;
  const auto started = HttpServer::Start(
      loop_, {.tls = TlsServerOptions{certificate_.certificate_file, other.key_file}}, handler_);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kInvalidArgument);
}

TEST_F(TlsTest, FetchBoundsTheBody) {
  auto client = HttpClient::Make(loop_, {.tls = {.verify = false}});
  HttpClientRequest request;
  request.method = "POST";
  request.origin = {true, "localhost", server_->port()};
  request.body = "12345";
  EXPECT_EQ(FetchAndWait(loop_, **client, request, 4).error().code, Code::kPayloadTooLarge);
  EXPECT_EQ(FetchAndWait(loop_, **client, request, 5)->body, "12345");
}

}  // namespace
}  // namespace fak::net
