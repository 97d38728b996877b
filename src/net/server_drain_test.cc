#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "net/http_server.h"
#include "net/test_support.h"

namespace fak::net {
namespace {

using test::Eventually;
using test::RawSocket;
using test::TestHandler;
using test::Writer;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class ServerDrainTest : public testing::Test {
 protected:
  ServerDrainTest() { loop_.Start("test-loop"); }
  ~ServerDrainTest() override { server_.reset(); }

  void Start() { server_ = *HttpServer::Start(loop_, {}, handler_); }
  RawSocket Connect() { return RawSocket::Connect(server_->port()); }
  // Ready when all has gone.
  std::future<void> Drain(int64_t timeout_ms) {
    auto drained = std::make_shared<std::promise<void>>();
    server_->Drain(timeout_ms, [drained] { drained->set_value(); });
    return drained->get_future();
  }

  EventLoop loop_;
  TestHandler handler_;
  std::unique_ptr<HttpServer> server_;
};

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

TEST_F(ServerDrainTest, DrainsInOrder) {
  Writer writer;
  handler_.on_request = [&writer](HttpRequest&&, Writer response) { writer = std::move(response); };
  Start();
  RawSocket idle = Connect();
  RawSocket open = Connect();
  ASSERT_TRUE(open.Send(kGet));
  ASSERT_TRUE(
      Eventually(loop_, [&] { return writer != nullptr && server_->stats().connections == 2; }));
  std::future<void> done = Drain(60'000);
  EXPECT_TRUE(idle.AtEnd());
  EXPECT_FALSE(RawSocket::Connect(server_->port()).is_open());
  EXPECT_EQ(done.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  writer->Send({200, {}, "last"});
  const std::string response = open.ReadAll();
  EXPECT_THAT(response, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(response, EndsWith("last"));
  open.Close();
  done.get();
  loop_.Invoke([&writer] { writer.reset(); });
}

TEST_F(ServerDrainTest, CutsWhatDrainingCannotWaitFor) {
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
  std::future<void> done = Drain(20);
  EXPECT_EQ(gone.get_future().get().code, Code::kUnavailable);
  done.get();
  loop_.Invoke([&writer] { writer.reset(); });
}

// Only what has come whole is waited for: the rest would take as long as its sender likes.
TEST_F(ServerDrainTest, WaitsForNoHalfRequest) {
  Start();
  RawSocket half_head = Connect();
  ASSERT_TRUE(half_head.Send("P"));
  RawSocket half_body = Connect();
  ASSERT_TRUE(half_body.Send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhel"));
  RawSocket half_chunk = Connect();
  ASSERT_TRUE(
      half_chunk.Send("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n9"));
  ASSERT_TRUE(Eventually(loop_, [this] { return server_->stats().connections == 3; }));
  // Behind what they sent, on the same loop.
  RawSocket last = Connect();
  ASSERT_TRUE(last.Send(kGet));
  ASSERT_THAT(last.ReadResponse(), StartsWith("HTTP/1.1 200"));
  std::future<void> done = Drain(60'000);
  EXPECT_TRUE(half_head.AtEnd());
  for (RawSocket* half : {&half_body, &half_chunk}) {
    const std::string refused = half->ReadAll();
    EXPECT_THAT(refused, StartsWith("HTTP/1.1 503 "));
    EXPECT_THAT(refused, HasSubstr("Connection: close\r\n"));
    EXPECT_THAT(refused, HasSubstr("shutting down"));
  }
  // They keep their side open, and are left all the same.
  EXPECT_EQ(done.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

}  // namespace
}  // namespace fak::net
