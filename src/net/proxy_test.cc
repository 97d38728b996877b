#include "net/proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <thread>

#include "net/http_client.h"
#include "net/test_support.h"

namespace fak::net {
namespace {

using test::RawListener;
using test::RawSocket;
using test::TestCertificate;
using test::TestHandler;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Variables = std::map<std::string, std::string>;

Result<ProxyRules> Read(const Variables& variables) {
  return ProxyRules::Read([&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

std::string Way(const ProxyRules& rules, const Origin& origin) {
  const Proxy* proxy = rules.For(origin);
  return proxy == nullptr ? "directly" : proxy->origin.ToString();
}

TEST(ProxyRules, FollowsTheEnvironmentAsCurlDoes) {
  const Origin plain = {false, "engine.test", 8000};
  const Origin tls = {true, "api.engine.test", 443};
  struct Case {
    Variables variables;
    const char* plain;
    const char* tls;
  };
  const Case kCases[] = {
      {{}, "directly", "directly"},
      {{{"http_proxy", "http://p:3128"}}, "http://p:3128", "directly"},
      {{{"HTTPS_PROXY", "p:3128"}}, "directly", "http://p:3128"},
      {{{"ALL_PROXY", "http://p"}}, "http://p", "http://p"},
      {{{"ALL_PROXY", "http://p"}, {"https_proxy", "q"}}, "http://p", "http://q"},
      {{{"https_proxy", "lower"}, {"HTTPS_PROXY", "upper"}}, "directly", "http://lower"},
      {{{"all_proxy", "p"}, {"no_proxy", "engine.test"}}, "directly", "directly"},
      {{{"all_proxy", "p"}, {"no_proxy", ".engine.test"}}, "directly", "directly"},
      {{{"all_proxy", "p"}, {"no_proxy", "a.test, api.engine.test"}}, "http://p", "directly"},
      {{{"all_proxy", "p"}, {"no_proxy", "ngine.test"}}, "http://p", "http://p"},
      {{{"all_proxy", "p"}, {"no_proxy", "engine.test:443"}}, "http://p", "directly"},
      {{{"all_proxy", "p"}, {"NO_PROXY", "*"}}, "directly", "directly"},
  };
  for (const Case& c : kCases) {
    const auto rules = Read(c.variables);
    ASSERT_TRUE(rules) << rules.error().detail;
    EXPECT_EQ(Way(*rules, plain), c.plain) << testing::PrintToString(c.variables);
    EXPECT_EQ(Way(*rules, tls), c.tls) << testing::PrintToString(c.variables);
  }
}

TEST(ProxyRules, KnowsAddressesAndRangesAndNeverProxiesLoopback) {
  const auto rules = Read({{"all_proxy", "p"}, {"no_proxy", "10.0.0.0/8,192.168.1.7,fd00::/8"}});
  ASSERT_TRUE(rules);
  EXPECT_EQ(Way(*rules, {false, "10.200.3.4", 80}), "directly");
  EXPECT_EQ(Way(*rules, {false, "11.0.0.1", 80}), "http://p");
  EXPECT_EQ(Way(*rules, {false, "192.168.1.7", 80}), "directly");
  EXPECT_EQ(Way(*rules, {false, "192.168.1.70", 80}), "http://p");
  EXPECT_EQ(Way(*rules, {false, "fd12::1", 80}), "directly");
  EXPECT_EQ(Way(*rules, {false, "fe80::1", 80}), "http://p");
  for (const char* host : {"localhost", "127.0.0.1", "127.9.9.9", "::1"}) {
    EXPECT_EQ(Way(*rules, {false, host, 80}), "directly") << host;
  }
}

TEST(ProxyRules, RefusesWhatItCantUseAndShowsNoPassword) {
  for (const char* value : {"socks5://u:secret@p:1080", "https://u:secret@p", "u:secret@p:99999",
                            "http://u:secret@p q"}) {
    const auto rules = Read({{"HTTPS_PROXY", value}});
    ASSERT_FALSE(rules) << value;
    EXPECT_THAT(rules.error().detail, HasSubstr("HTTPS_PROXY"));
    EXPECT_THAT(rules.error().detail, Not(HasSubstr("secret")));
  }
  EXPECT_EQ(
      Read({{"http_proxy", "http://user:a%40b@p"}})->For({false, "e.test", 80})->authorization,
      "Basic dXNlcjphQGI=");
}

// Sends one request for engine.test, through a proxy on this port.
class ProxyTest : public testing::Test {
 protected:
  ProxyTest() { loop_.Start("test-proxy"); }
  std::future<Result<HttpResponse>> Get(bool tls, uint16_t proxy_port) {
    HttpClientOptions options;
    options.tls.ca_file = certificate_.certificate_file;
    options.proxies = *Read({{"all_proxy", "u:p@127.0.0.1:" + std::to_string(proxy_port)}});
    client_ = *HttpClient::Make(loop_, std::move(options));
    HttpClientRequest request;
    request.origin = {tls, "engine.test", static_cast<uint16_t>(tls ? 443 : 80)};
    request.target = "/x?y";
    std::promise<Result<HttpResponse>> promise;
    auto response = promise.get_future();
    waiter_ =
        std::thread([this, request = std::move(request), promise = std::move(promise)]() mutable {
          promise.set_value(FetchAndWait(loop_, *client_, std::move(request), 1000));
        });
    return response;
  }
  // Its answer, when all that asked for it has gone.
  Result<HttpResponse> Finish(std::future<Result<HttpResponse>>& got) {
    Result<HttpResponse> response = got.get();
    waiter_.join();
    client_.reset();
    return response;
  }

  const TestCertificate certificate_;
  EventLoop loop_;
  std::unique_ptr<HttpClient> client_;
  std::thread waiter_;
};

TEST_F(ProxyTest, AsksForAPlainOriginByItsWholeName) {
  RawListener proxy;
  auto got = Get(/*tls=*/false, proxy.port());
  RawSocket socket = proxy.Accept();
  const std::string head = socket.ReadThrough("\r\n\r\n");
  EXPECT_THAT(head, StartsWith("GET http://engine.test/x?y HTTP/1.1\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nHost: engine.test\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nProxy-Authorization: Basic dTpw\r\n"));
  socket.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  const auto response = Finish(got);
  ASSERT_TRUE(response) << response.error().detail;
  EXPECT_EQ(response->body, "ok");
}

TEST_F(ProxyTest, SpeaksTlsWithTheOriginThroughATunnel) {
  EventLoop server_loop;
  server_loop.Start("test-origin");
  TestHandler handler;
  std::string authorization = "none";
  handler.on_request = [&](HttpRequest&& request, test::Writer response) {
    authorization = request.headers.Get("proxy-authorization").value_or("none");
    response->Send({200, {}, "through"});
  };
  HttpServerOptions options;
  options.tls = TlsServerOptions{certificate_.certificate_file, certificate_.key_file};
  auto server = *HttpServer::Start(server_loop, std::move(options), handler);
  RawListener proxy;
  auto got = Get(/*tls=*/true, proxy.port());
  RawSocket near = proxy.Accept();
  EXPECT_EQ(near.ReadThrough("\r\n\r\n"),
            "CONNECT engine.test:443 HTTP/1.1\r\nHost: engine.test:443\r\n"
            "Proxy-Authorization: Basic dTpw\r\n\r\n");
  RawSocket far = RawSocket::Connect(server->port());
  // In two pieces, and with a field that a body would have.
  near.Send("HTTP/1.1 200 Connection est");
  near.Send("ablished\r\nContent-Length: 0\r\n\r\n");
  const auto pump = [](RawSocket& from, RawSocket& to) {
    for (std::string bytes = from.ReadSome(); !bytes.empty(); bytes = from.ReadSome()) {
      to.Send(bytes);
    }
    to.ShutdownSend();
  };
  std::thread back([&] { pump(far, near); });
  std::thread forth([&] { pump(near, far); });
  const auto response = Finish(got);
  back.join();
  forth.join();
  ASSERT_TRUE(response) << response.error().detail;
  EXPECT_EQ(response->body, "through");
  EXPECT_EQ(authorization, "none") << "the origin has no business with the proxy's password";
}

TEST_F(ProxyTest, SaysWhyThereIsNoTunnel) {
  const std::pair<const char*, const char*> kCases[] = {
      {"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 3\r\n\r\nno!", "407"},
      {"HTTP/1.1 200 OK\r\n\r\nsurplus", "more than the head"},
      {"SSH-2.0-x\r\n\r\n", "makes no tunnel"},
      {"", "no answer to a CONNECT"},
  };
  for (const auto& [answer, why] : kCases) {
    RawListener proxy;
    auto got = Get(/*tls=*/true, proxy.port());
    RawSocket socket = proxy.Accept();
    socket.ReadThrough("\r\n\r\n");
    socket.Send(answer);
    socket.Close();
    const auto response = Finish(got);
    ASSERT_FALSE(response) << answer;
    EXPECT_EQ(response.error().code, Code::kUnavailable);
    EXPECT_THAT(response.error().detail, HasSubstr(why));
    EXPECT_THAT(response.error().detail, HasSubstr("proxy http://127.0.0.1:"));
  }
}

}  // namespace
}  // namespace fak::net
