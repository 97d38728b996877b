#include "net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "net/test_support.h"

namespace fak::net {
namespace {

using test::Eventually;
using test::RawSocket;
using test::TestHandler;
using test::Writer;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() { loop_.Start("test-loop"); }
  ~HttpServerTest() override { server_.reset(); }

  void Start(HttpServerLimits limits = {}) {
    auto started = HttpServer::Start(loop_, {.limits = limits}, handler_);
    ASSERT_TRUE(started) << started.error().detail;
    server_ = *std::move(started);
  }
  RawSocket Connect(int receive_buffer = 0) {
    RawSocket socket = RawSocket::Connect(server_->port(), receive_buffer);
    EXPECT_TRUE(socket.is_open());
    return socket;
  }

  EventLoop loop_;
  TestHandler handler_;
  std::unique_ptr<HttpServer> server_;
};

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

TEST_F(HttpServerTest, KeepsConnectionsAndAnswersInOrder) {
  Start();
  RawSocket socket = Connect();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(socket.Send(kGet));
    const std::string response = socket.ReadResponse();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(response, HasSubstr("\r\nDate: "));
    EXPECT_THAT(response, Not(HasSubstr("Connection:")));
    EXPECT_THAT(response, EndsWith("\r\n\r\nGET /a "));
  }
  EXPECT_EQ(server_->stats().accepted_total, 1u);
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsOneAfterTheOther) {
  std::vector<Writer> waiting;
  handler_.on_request = [&waiting](HttpRequest&&, Writer response) {
    waiting.push_back(std::move(response));
  };
  Start();
  RawSocket socket = Connect();
  std::string requests = "\r\n";  // a blank line before a request is skipped
  constexpr int kCount = 5;
  for (int i = 0; i < kCount; ++i) {
    requests += kGet;
  }
  ASSERT_TRUE(socket.Send(requests));
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(Eventually(loop_, [&waiting] { return waiting.size() == 1; }));
    loop_.Invoke([&] {
      waiting.back()->Send({200, {}, std::to_string(i)});
      waiting.clear();
    });
    EXPECT_THAT(socket.ReadResponse(), EndsWith("\r\n\r\n" + std::to_string(i)));
  }
}

TEST_F(HttpServerTest, TakesBodiesByLengthAndInChunksAtAnyCut) {
  Start();
  RawSocket socket = Connect();
  const std::string by_length = "POST /l HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
  const std::string in_chunks =
      "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nT: x\r\n\r\n";
  ASSERT_TRUE(socket.Send(by_length + in_chunks));
  EXPECT_THAT(socket.ReadResponse(), EndsWith("POST /l hello"));
  EXPECT_THAT(socket.ReadResponse(), EndsWith("POST /c hello"));
  for (const char byte : in_chunks) {
    ASSERT_TRUE(socket.Send({&byte, 1}));
  }
  EXPECT_THAT(socket.ReadResponse(), EndsWith("POST /c hello"));
}

TEST_F(HttpServerTest, GivesNoBodyWhereThereIsNone) {
  handler_.on_request = [](HttpRequest&& request, Writer response) {
    if (request.target == "/stream") {
      response->StartStream(200, {});
      response->Write("x");
      response->End();
    } else {
      response->Send({request.target == "/204" ? 204 : 200, {{"content-length", "9"}}, "body"});
    }
  };
  Start();
  RawSocket socket = Connect();
  const auto ask = [&socket](std::string_view line) {
    EXPECT_TRUE(socket.Send(std::string(line) + " HTTP/1.1\r\nHost: h\r\n\r\n"));
    return socket.ReadThrough("\r\n\r\n");
  };
  EXPECT_THAT(ask("HEAD /"), HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(ask("HEAD /stream"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(ask("GET /204"), Not(HasSubstr("Content-Length")));
  EXPECT_THAT(ask("GET /"), EndsWith("Content-Length: 4\r\n\r\n"));
  EXPECT_EQ(socket.ReadBytes(4), "body");
}

TEST_F(HttpServerTest, SpeaksHttp10) {
  handler_.on_request = [](HttpRequest&& request, Writer response) {
    if (request.target == "/stream") {
      response->StartStream(200, {});
      response->Write("a");
      response->Write("b");
      response->End();
    } else {
      response->Send({200, {}, "x"});
    }
  };
  Start();
  RawSocket kept = Connect();
  ASSERT_TRUE(kept.Send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  EXPECT_THAT(kept.ReadResponse(), HasSubstr("Connection: keep-alive\r\n"));
  ASSERT_TRUE(kept.Send("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(kept.ReadAll(), HasSubstr("Connection: close\r\n"));
  RawSocket streamed = Connect();
  ASSERT_TRUE(streamed.Send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  const std::string response = streamed.ReadAll();
  EXPECT_THAT(response, Not(HasSubstr("chunked")));
  EXPECT_THAT(response, EndsWith("\r\n\r\nab"));
}

TEST_F(HttpServerTest, ContinuesWhenExpected) {
  Start();
  RawSocket socket = Connect();
  ASSERT_TRUE(socket.Send(
      "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_EQ(socket.ReadThrough("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(socket.Send("ok"));
  EXPECT_THAT(socket.ReadResponse(), EndsWith("POST / ok"));
}

TEST_F(HttpServerTest, RefusesByTheHeadAlone) {
  handler_.on_head = [](const HttpRequest& head) -> std::optional<HttpResponse> {
    if (head.headers.Has("Authorization")) {
      return std::nullopt;
    }
    return HttpResponse{401, {{"WWW-Authenticate", "Bearer"}}, "no key"};
  };
  Start();
  RawSocket socket = Connect();
  // The body isn't waited for, and what comes of it doesn't cost the client its answer.
  ASSERT_TRUE(socket.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n"));
  socket.Send(std::string(100'000, 'x'));
  const std::string response = socket.ReadAll();
  EXPECT_THAT(response, StartsWith("HTTP/1.1 401 Unauthorized\r\n"));
  EXPECT_THAT(response, EndsWith("no key"));
  EXPECT_EQ(handler_.requests, 0);
}

struct FaultCase {
  std::string bytes;
  int status;
};

TEST_F(HttpServerTest, AnswersBadShapesAndTakesNothingBehindThem) {
  Start({.head_bytes_max = 4096, .body_bytes_max = 10});
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
  const FaultCase cases[] = {
      {"nonsense\r\n\r\n", 400},
      {"GET / HTTP/1.1\n\n", 400},
      {"GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400},
      {post + "Content-Length : 1\r\n\r\nx", 400},
      {post + "X: a\r\n b\r\n\r\n", 400},
      {post + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {post + "Expect: the worst\r\n\r\n", 417},
      {chunked + "x\r\n", 400},
      {chunked + "1\r\nab\r\n0\r\n\r\n", 400},
      {chunked + "5\r\nhello\r\n6\r\n", 413},
      {post + "Content-Length: 11\r\n\r\n", 413},
      {"GET / HTTP/1.1\r\nX: " + std::string(5000, 'x'), 431},
      {"GET / HTTP/1.1\r\nX: " + std::string(1 << 20, 'x') + "\r\n\r\n", 431},
  };
  for (const FaultCase& bad : cases) {
    RawSocket socket = Connect();
    // A request smuggled in behind it must not run.
    socket.Send(bad.bytes + std::string(kGet));
    const std::string response = socket.ReadAll();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 " + std::to_string(bad.status) + " "))
        << bad.bytes.substr(0, 100);
    EXPECT_THAT(response, HasSubstr("Connection: close\r\n"));
    EXPECT_THAT(response, HasSubstr("\r\n\r\nfault:"));
    EXPECT_EQ(response.find("HTTP/1.1", 1), std::string::npos) << response;
  }
  EXPECT_EQ(handler_.requests, 0);
  EXPECT_EQ(server_->stats().faults_total, std::size(cases));
}

TEST_F(HttpServerTest, TimesOutSlowHeadsBodiesAndIdleConnections) {
  Start({.head_timeout_ms = 50, .body_timeout_ms = 50, .idle_timeout_ms = 50});
  RawSocket head = Connect();
  ASSERT_TRUE(head.Send("GET / HT"));
  RawSocket body = Connect();
  ASSERT_TRUE(body.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe"));
  RawSocket idle = Connect();
  EXPECT_THAT(head.ReadAll(), StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  const std::string late = body.ReadAll();
  EXPECT_THAT(late, StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  EXPECT_THAT(late, HasSubstr("fault:POST/:")) << "its head was understood";
  EXPECT_TRUE(idle.AtEnd());
  RawSocket used = Connect();
  ASSERT_TRUE(used.Send(kGet));
  EXPECT_THAT(used.ReadResponse(), StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(used.AtEnd()) << "idle after an answer";
}

TEST_F(HttpServerTest, ADrippingHeadGetsNoMoreTimeThanASilentOne) {
  Start({.head_timeout_ms = 100, .idle_timeout_ms = 10'000});
  RawSocket socket = Connect();
  ASSERT_TRUE(socket.Send("GET / HTTP/1.1\r\n"));
  const int64_t start = loop_.NowNs();
  std::thread dripper([&socket] {
    while (socket.Send("X: y\r\n")) {
      std::this_thread::yield();
    }
  });
  EXPECT_TRUE(Eventually(loop_, [this] { return server_->stats().faults_total == 1; }));
  EXPECT_LT(loop_.NowNs() - start, 5 * kNsPerSecond);
  server_.reset();
  dripper.join();
}

TEST_F(HttpServerTest, StreamsEventsAsTheyAreWritten) {
  Writer writer;
  handler_.on_request = [&writer](HttpRequest&&, Writer response) { writer = std::move(response); };
  Start();
  RawSocket socket = Connect();
  for (int round = 0; round < 2; ++round) {  // the connection is kept
    ASSERT_TRUE(socket.Send(kGet));
    ASSERT_TRUE(Eventually(loop_, [&writer] { return writer != nullptr; }));
    writer->StartStream(200, {{"Content-Type", "text/event-stream"}});
    writer->Write("data: 1\n\n");
    EXPECT_THAT(socket.ReadThrough("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
    EXPECT_EQ(socket.ReadThrough("1\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
    writer->Write("data: 22\n\n");
    EXPECT_EQ(socket.ReadThrough("22\n\n\r\n"), "a\r\ndata: 22\n\n\r\n");
    writer->End();
    EXPECT_EQ(socket.ReadThrough("0\r\n\r\n"), "0\r\n\r\n");
    writer->Write("after the end");
    loop_.Invoke([&writer] { writer.reset(); });
  }
  EXPECT_TRUE(Eventually(loop_, [this] { return server_->stats().requests == 0; }));
}

TEST_F(HttpServerTest, HoldsTheHeadUntilTheFirstBytes) {
  Writer writer;
  handler_.on_request = [&writer](HttpRequest&&, Writer response) { writer = std::move(response); };
  Start();
  RawSocket socket = Connect();
  ASSERT_TRUE(socket.Send(kGet));
  ASSERT_TRUE(Eventually(loop_, [&writer] { return writer != nullptr; }));
  writer->StartStream(200, {});
  loop_.Invoke([&] { EXPECT_EQ(writer->buffered_bytes(), 0u); });
  writer->FlushHead();
  EXPECT_THAT(socket.ReadThrough("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  writer->End();
  EXPECT_EQ(socket.ReadThrough("0\r\n\r\n"), "0\r\n\r\n");
  loop_.Invoke([&writer] { writer.reset(); });
}

TEST_F(HttpServerTest, KeepsTheOrderOfWritesFromAnotherThread) {
  std::promise<Writer> arrived;
  handler_.on_request = [&arrived](HttpRequest&&, Writer response) {
    arrived.set_value(std::move(response));
  };
  Start();
  RawSocket socket = Connect();
  ASSERT_TRUE(socket.Send(kGet));
  std::string expected;
  {
    const Writer writer = arrived.get_future().get();
    writer->StartStream(200, {});
    for (int i = 0; i < 2000; ++i) {
      writer->Write(std::to_string(i) + ",");
      expected += std::to_string(i) + ",";
    }
    writer->End();
  }
  std::string body;
  socket.ReadThrough("\r\n\r\n");
  while (true) {
    const size_t size = std::stoul(socket.ReadThrough("\r\n"), nullptr, 16);
    body += socket.ReadBytes(size);
    EXPECT_EQ(socket.ReadBytes(2), "\r\n");
    if (size == 0) {
      break;
    }
  }
  EXPECT_EQ(body, expected);
}

TEST_F(HttpServerTest, AnAbortedOrDroppedAnswerIsNeverAWholeOne) {
  handler_.on_request = [](HttpRequest&& request, Writer response) {
    if (request.target == "/a") {
      response->StartStream(200, {});
      response->Write("part");
      response->Abort();
    } else if (request.target == "/cut") {
      response->StartStream(200, {});
      response->Write("part");
    }  // and else: nothing
  };
  Start();
  RawSocket aborted = Connect();
  ASSERT_TRUE(aborted.Send(kGet));
  EXPECT_THAT(aborted.ReadAll(), EndsWith("\r\n\r\n4\r\npart\r\n"));
  RawSocket cut = Connect();
  ASSERT_TRUE(cut.Send("GET /cut HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_THAT(cut.ReadAll(), EndsWith("\r\n\r\n4\r\npart\r\n"));
  RawSocket dropped = Connect();
  ASSERT_TRUE(dropped.Send("GET /drop HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_THAT(dropped.ReadAll(), StartsWith("HTTP/1.1 500 Internal Server Error\r\n"));
}

TEST_F(HttpServerTest, NoHeaderValueEndsItsLine) {
  handler_.on_request = [](HttpRequest&&, Writer response) {
    response->Send({200, {{"X-Id", "a\r\nX-Forged: b\0"}, {"Connection", "upgrade"}}, ""});
  };
  Start();
  RawSocket socket = Connect();
  ASSERT_TRUE(socket.Send(kGet));
  const std::string response = socket.ReadResponse();
  EXPECT_THAT(response, HasSubstr("\r\nX-Id: a  X-Forged: b\r\n"));
  EXPECT_THAT(response, Not(HasSubstr("upgrade")));
}

TEST_F(HttpServerTest, SeesAClientGoAtEachStage) {
  std::mutex mutex;
  std::vector<Writer> writers;
  std::vector<std::string> gone;
  handler_.on_request = [&](HttpRequest&& request, Writer response) {
    response->OnClientGone([&, target = request.target](const Error& error) {
      EXPECT_EQ(error.code, Code::kCancelled);
      const std::lock_guard lock(mutex);
      gone.push_back(target);
    });
    if (request.target == "/streaming") {
      response->StartStream(200, {});
      response->Write("first");
    }
    const std::lock_guard lock(mutex);
    writers.push_back(std::move(response));
  };
  Start();
  const auto request = [](const char* target) {
    return "GET " + std::string(target) + " HTTP/1.1\r\nHost: h\r\n\r\n";
  };
  for (const bool reset : {false, true}) {
    const auto leave = [reset](RawSocket& socket) { reset ? socket.Reset() : socket.Close(); };
    gone.clear();
    RawSocket in_head = Connect();
    ASSERT_TRUE(in_head.Send("GET / HT"));
    leave(in_head);
    RawSocket in_body = Connect();
    ASSERT_TRUE(in_body.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe"));
    leave(in_body);
    RawSocket waiting = Connect();
    ASSERT_TRUE(waiting.Send(request("/waiting")));
    RawSocket streaming = Connect();
    ASSERT_TRUE(streaming.Send(request("/streaming")));
    EXPECT_THAT(streaming.ReadThrough("first"), EndsWith("first"));
    ASSERT_TRUE(Eventually(loop_, [&] { return writers.size() == 2; }));
    const int64_t start = loop_.NowNs();
    leave(waiting);
    leave(streaming);
    ASSERT_TRUE(Eventually(loop_, [&gone] { return gone.size() == 2; }));
    EXPECT_LT(loop_.NowNs() - start, kNsPerSecond) << "nothing was written meanwhile";
    EXPECT_TRUE(Eventually(loop_, [this] { return server_->stats().connections == 0; }));
    EXPECT_TRUE(Eventually(loop_, [this] { return server_->stats().requests == 0; }));
    loop_.Invoke([&] {
      writers[0]->Send({200, {}, "too late"});
      writers[1]->Write("too late");
      const auto told = std::make_shared<bool>(false);
      writers[0]->OnClientGone([told](const Error&) { *told = true; });
      EXPECT_FALSE(*told) << "never from inside the call";
      writers.clear();
    });
  }
  EXPECT_EQ(handler_.requests, 4);
}

TEST_F(HttpServerTest, TellsALateAskerThatTheClientHasGone) {
  Writer writer;
  handler_.on_request = [&writer](HttpRequest&&, Writer response) { writer = std::move(response); };
  Start();
  RawSocket socket = Connect();
  ASSERT_TRUE(socket.Send(kGet));
  ASSERT_TRUE(Eventually(loop_, [&writer] { return writer != nullptr; }));
  socket.Close();
  ASSERT_TRUE(Eventually(loop_, [this] { return server_->stats().connections == 0; }));
  std::promise<void> told;
  writer->OnClientGone([&told](const Error&) { told.set_value(); });
  told.get_future().get();
  loop_.Invoke([&writer] { writer.reset(); });
}

TEST_F(HttpServerTest, CutsAClientThatReadsTooSlowly) {
  Writer writer;
  std::promise<std::string> gone;
  handler_.on_request = [&](HttpRequest&&, Writer response) {
    response->OnClientGone([&gone](const Error& error) { gone.set_value(error.detail); });
    response->StartStream(200, {});
    writer = std::move(response);
  };
  constexpr size_t kMax = 256 * 1024;
  Start({.stream_buffer_bytes_max = kMax});
  RawSocket socket = Connect(/*receive_buffer=*/4096);
  ASSERT_TRUE(socket.Send(kGet));
  ASSERT_TRUE(Eventually(loop_, [&writer] { return writer != nullptr; }));
  const std::string event(64 * 1024, 'x');
  size_t buffered_max = 0;
  for (int i = 0; i < 1000 && server_->stats().requests == 1; ++i) {
    loop_.Invoke([&] {
      writer->Write(event);
      buffered_max = std::max(buffered_max, writer->buffered_bytes());
    });
  }
  EXPECT_THAT(gone.get_future().get(), HasSubstr("reads too slowly"));
  EXPECT_GT(buffered_max, kMax);
  EXPECT_LT(buffered_max, kMax + event.size() + 100);
  loop_.Invoke([&writer] { writer.reset(); });
}

TEST_F(HttpServerTest, CutsAClientThatReadsNothing) {
  std::promise<std::string> gone;
  Writer writer;
  handler_.on_request = [&](HttpRequest&&, Writer response) {
    response->OnClientGone([&gone](const Error& error) { gone.set_value(error.detail); });
    response->StartStream(200, {});
    response->Write(std::string(16 << 20, 'x'));  // more than the sockets take
    writer = std::move(response);
  };
  Start({.write_stall_ms = 50});
  RawSocket socket = Connect(/*receive_buffer=*/4096);
  ASSERT_TRUE(socket.Send(kGet));
  EXPECT_THAT(gone.get_future().get(), HasSubstr("read nothing for 50 ms"));
  loop_.Invoke([&writer] { writer.reset(); });
}

TEST_F(HttpServerTest, TellsAProducerWhenToGoOn) {
  std::promise<size_t> drained;
  Writer writer;
  handler_.on_request = [&](HttpRequest&&, Writer response) {
    response->StartStream(200, {});
    response->Write(std::string(16 << 20, 'x'));
    EXPECT_GT(response->buffered_bytes(), 1000u);
    response->OnDrained(1000,
                        [&, held = response.get()] { drained.set_value(held->buffered_bytes()); });
    writer = std::move(response);
  };
  Start();
  RawSocket socket = Connect();
  ASSERT_TRUE(socket.Send(kGet));
  EXPECT_GT(socket.ReadBytes(16 << 20).size(), 1000u);
  EXPECT_LE(drained.get_future().get(), 1000u);
  loop_.Invoke([&] {
    writer->End();
    writer.reset();
  });
}

TEST_F(HttpServerTest, SlowReadersDoNotHoldUpOthers) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  constexpr size_t kReaders = 500;
  std::vector<Writer> writers;
  std::atomic<size_t> gone{0};
  handler_.on_request = [&](HttpRequest&& request, Writer response) {
    if (request.target == "/a") {
      response->Send({200, {}, "quick"});
      return;
    }
    response->OnClientGone([&gone](const Error&) { ++gone; });
    response->StartStream(200, {});
    writers.push_back(std::move(response));
  };
  constexpr size_t kMax = 64 * 1024;
  Start({.stream_buffer_bytes_max = kMax});
  std::vector<RawSocket> readers;
  for (size_t i = 0; i < kReaders; ++i) {
    readers.push_back(Connect(/*receive_buffer=*/4096));
    ASSERT_TRUE(readers.back().Send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n"));
  }
  ASSERT_TRUE(Eventually(loop_, [&writers] { return writers.size() == kReaders; }));
  RawSocket quick = Connect();
  const std::string event(32 * 1024, 'x');
  for (int round = 0; gone < kReaders && round < 1000; ++round) {
    loop_.Invoke([&] {
      for (const Writer& writer : writers) {
        writer->Write(event);
        EXPECT_LE(writer->buffered_bytes(), kMax + event.size() + 300);
      }
    });
    ASSERT_TRUE(quick.Send(kGet));
    ASSERT_THAT(quick.ReadResponse(), EndsWith("quick")) << "in round " << round;
  }
  EXPECT_EQ(gone, kReaders);
  EXPECT_EQ(server_->stats().connections, 1u);
  loop_.Invoke([&writers] { writers.clear(); });
}

TEST_F(HttpServerTest, ClosesConnectionsOverTheBound) {
  Start({.connections_max = 2});
  RawSocket a = Connect();
  RawSocket b = Connect();
  ASSERT_TRUE(a.Send(kGet));
  EXPECT_THAT(a.ReadResponse(), StartsWith("HTTP/1.1 200"));
  ASSERT_TRUE(b.Send(kGet));
  EXPECT_THAT(b.ReadResponse(), StartsWith("HTTP/1.1 200"));
  RawSocket refused = Connect();
  EXPECT_TRUE(refused.AtEnd());
  EXPECT_EQ(server_->stats().refused_total, 1u);
  a.Close();
  ASSERT_TRUE(Eventually(loop_, [this] { return server_->stats().connections == 1; }));
  RawSocket c = Connect();
  ASSERT_TRUE(c.Send(kGet));
  EXPECT_THAT(c.ReadResponse(), StartsWith("HTTP/1.1 200"));
}

// A descriptor's number tells how many are open, whoever has them.
TEST_F(HttpServerTest, ClosesConnectionsThatWouldTakeTheLastDescriptors) {
  const int next = dup(STDIN_FILENO);
  close(next);
  Start({.descriptors_max = next + 10});
  std::vector<RawSocket> clients;
  while (clients.size() < 20 && server_->stats().refused_total == 0) {
    clients.push_back(Connect());
    ASSERT_TRUE(clients.back().Send(kGet));
    clients.back().ReadResponse();
  }
  EXPECT_EQ(server_->stats().refused_total, 1u);
  EXPECT_TRUE(clients.back().AtEnd());
  EXPECT_GT(clients.size(), 2u);
  EXPECT_LT(clients.size(), 10u);
  clients.clear();
  ASSERT_TRUE(Eventually(loop_, [this] { return server_->stats().connections == 0; }));
  RawSocket again = Connect();
  ASSERT_TRUE(again.Send(kGet));
  EXPECT_THAT(again.ReadResponse(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, StoppingTellsOpenRequests) {
  std::promise<Error> gone;
  Writer writer;
  handler_.on_request = [&](HttpRequest&&, Writer response) {
    response->OnClientGone([&gone](const Error& error) { gone.set_value(error); });
    writer = std::move(response);
  };
  Start();
  RawSocket socket = Connect();
  ASSERT_TRUE(socket.Send(kGet));
  ASSERT_TRUE(Eventually(loop_, [&writer] { return writer != nullptr; }));
  server_.reset();
  auto told = gone.get_future();
  ASSERT_EQ(told.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(told.get().code, Code::kUnavailable);
  EXPECT_TRUE(socket.AtEnd());
  writer->Send({200, {}, "too late"});
  loop_.Invoke([&writer] { writer.reset(); });
}

TEST_F(HttpServerTest, SaysWhyItCannotListen) {
  Start();
  const auto taken = HttpServer::Start(loop_, {.port = server_->port()}, handler_);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Code::kAlreadyExists);
  EXPECT_EQ(taken.error().detail,
            "127.0.0.1:" + std::to_string(server_->port()) + ": Address already in use");
  EXPECT_EQ(HttpServer::Start(loop_, {.address = "here"}, handler_).error().code,
            Code::kInvalidArgument);
  const HttpServerOptions no_certificate = {.tls = TlsServerOptions{"/none.pem", "/none.pem"}};
  EXPECT_THAT(HttpServer::Start(loop_, no_certificate, handler_).error().detail,
              HasSubstr("TLS certificate /none.pem"));
}

TEST_F(HttpServerTest, SaysWhichFileOfTlsHoldsWhat) {
  const test::TestCertificate pair;
  const std::string &certificate = pair.certificate_file, &key = pair.key_file;
  const auto file = [&pair](const char* name, std::string_view text) {
    std::string path = pair.folder.Path(name);
    EXPECT_TRUE(WriteFileAtomically(path, text));
    return path;
  };
  const std::string empty = file("empty.pem", "");
  const std::string locked = file("locked.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nx\n");
  const std::string request = file("request.pem", "-----BEGIN CERTIFICATE REQUEST-----\nx\n");
  const std::string broken = file("broken.pem", "-----BEGIN CERTIFICATE-----\nx\n");
  const std::string both =
      file("both.pem", *ReadFile(key, 1 << 20) + *ReadFile(certificate, 1 << 20));
  const auto said = [this](const std::string& its_certificate, const std::string& its_key) {
    const auto started =
        HttpServer::Start(loop_, {.tls = TlsServerOptions{its_certificate, its_key}}, handler_);
    return started ? std::string() : started.error().detail;
  };
  EXPECT_EQ(said(certificate, key), "");
  EXPECT_EQ(said(both, both), "");
  EXPECT_EQ(said(key, certificate), "TLS certificate " + key +
                                        ": it holds a private key and no certificate, and " +
                                        certificate +
                                        ", given for the key, holds a certificate: the two are "
                                        "swapped");
  EXPECT_EQ(said(key, key),
            "TLS certificate " + key + ": it holds a private key and no certificate");
  EXPECT_EQ(said(certificate, certificate),
            "TLS key " + certificate + ": it holds a certificate and no private key");
  EXPECT_EQ(said(certificate, empty), "TLS key " + empty + ": it holds nothing in PEM");
  EXPECT_THAT(said(certificate, locked), HasSubstr(locked + ": it has a passphrase"));
  EXPECT_THAT(said(request, key), HasSubstr("holds \"CERTIFICATE REQUEST\" and neither"));
  EXPECT_THAT(said(broken, key), StartsWith("TLS certificate " + broken + ": "));
}

TEST_F(HttpServerTest, SharesAPort) {
  auto first = HttpServer::Start(loop_, {.share_port = true}, handler_);
  ASSERT_TRUE(first);
  auto second = HttpServer::Start(loop_, {.port = (*first)->port(), .share_port = true}, handler_);
  ASSERT_TRUE(second) << second.error().detail;
  EXPECT_EQ((*first)->port(), (*second)->port());
}

}  // namespace
}  // namespace fak::net
