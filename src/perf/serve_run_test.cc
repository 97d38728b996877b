#include "perf/serve_run.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/json.h"
#include "net/http_server.h"
#include "net/test_support.h"

namespace fak::perf {
namespace {

using net::test::TestHandler;
using net::test::Writer;
using ::testing::HasSubstr;

constexpr const char* kAnswer =
    "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"text\":\"b\",\"finish_reason\":\"length\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n"
    "data: [DONE]\n\n";

void Answer(const Writer& response, const std::string& events) {
  response->StartStream(200, {{"Content-Type", "text/event-stream"}});
  response->End(events);
}

// A server whose answers a test writes.
struct Server {
  Server() {
    loop.Start("server");
    handler.on_request = [this](net::HttpRequest&& request, Writer response) {
      bodies.push_back(request.body);
      on_request(request, std::move(response));
    };
    server = *net::HttpServer::Start(loop, {}, handler);
  }
  ~Server() {
    server.reset();
    loop.Stop();
  }
  ServeTarget target(const std::string& base = "") const {
    auto made = ParseServeTarget("it=http://127.0.0.1:" + std::to_string(server->port()) + base);
    made->model = "m";
    return *made;
  }

  net::EventLoop loop;
  TestHandler handler;
  std::vector<std::string> bodies;  // loop
  std::function<void(const net::HttpRequest&, Writer)> on_request =
      [](const net::HttpRequest&, Writer response) { Answer(response, kAnswer); };
  std::unique_ptr<net::HttpServer> server;
};

std::vector<ServeRequest> Requests(uint32_t count, int64_t gap_ns = 0) {
  std::vector<ServeRequest> requests(count);
  for (uint32_t i = 0; i < count; ++i) {
    requests[i] = {i * gap_ns, " word" + std::to_string(i), 2};
  }
  return requests;
}

constexpr int64_t kPatienceNs = net::test::kPatienceS * kNsPerSecond;

ServeRun LoadIt(const Server& server, const std::vector<ServeRequest>& workload,
                ServeOptions options) {
  options.timeout_ns = options.timeout_ns == 0 ? kPatienceNs : options.timeout_ns;
  const std::atomic<bool> stop = false;
  auto run = RunServe(server.target(), workload, options, nullptr, stop);
  EXPECT_TRUE(run) << run.error().detail;
  return std::move(*run);
}

TEST(RunServe, KeepsSoManyOpenInAClosedLoop) {
  Server server;
  std::vector<Writer> open;
  size_t most = 0;
  server.on_request = [&](const net::HttpRequest&, Writer response) {
    open.push_back(std::move(response));
    most = std::max(most, open.size());
    if (open.size() == 3) {  // no fourth comes while three are open
      for (const Writer& writer : std::exchange(open, {})) {
        Answer(writer, kAnswer);
      }
    }
  };
  const ServeRun run = LoadIt(server, Requests(9), {.concurrency = 3, .closed_loop = true});
  ASSERT_EQ(run.records.size(), 9u);
  EXPECT_EQ(most, 3u);
  for (const ServeRecord& record : run.records) {
    EXPECT_EQ(record.fault, ServeFault::kNone) << record.why;
    EXPECT_EQ(record.planned_ns, record.sent_ns);
    EXPECT_EQ(record.tokens(), 2);
    EXPECT_LE(record.sent_ns, record.chunks_ns.front());
  }
}

TEST(RunServe, SendsWhenDueWhateverTheAnswersDo) {
  Server server;
  std::vector<Writer> open;
  server.on_request = [&](const net::HttpRequest&, Writer response) {
    open.push_back(std::move(response));
    if (open.size() == 5) {  // a closed loop would wait here for ever
      for (const Writer& writer : std::exchange(open, {})) {
        Answer(writer, kAnswer);
      }
    }
  };
  const ServeRun run = LoadIt(server, Requests(5, 2 * kNsPerMs), {});
  for (const ServeRecord& record : run.records) {
    EXPECT_EQ(record.fault, ServeFault::kNone) << record.why;
    EXPECT_EQ(record.planned_ns, record.index * 2 * kNsPerMs);
    EXPECT_GE(record.sent_ns, record.planned_ns);
  }
}

TEST(RunServe, SaysWhatTheServerIsAsked) {
  Server server;
  LoadIt(server, Requests(1), {.closed_loop = true});
  LoadIt(server, Requests(1), {.closed_loop = true, .chat = true, .ignore_eos = false});
  ASSERT_EQ(server.bodies.size(), 2u);
  EXPECT_EQ(server.bodies[0],
            "{\"model\":\"m\",\"prompt\":\" word0\",\"max_tokens\":2,\"temperature\":0,"
            "\"ignore_eos\":true,\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
  EXPECT_THAT(server.bodies[1],
              HasSubstr("\"messages\":[{\"role\":\"user\",\"content\":\" word0\"}]"));
  EXPECT_THAT(server.bodies[1], ::testing::Not(HasSubstr("ignore_eos")));
}

// No sample is dropped: each ends in one kind.
TEST(RunServe, EveryFailureHasItsKind) {
  Server server;
  int request = 0;
  server.on_request = [&request](const net::HttpRequest&, Writer response) {
    switch (request++) {
      case 0: return response->Send({503, {}, R"({"error":{"message":"full"}})"});
      case 1: return Answer(response, "data: {\"error\":{\"message\":\"boom\"}}\n\n");
      case 2: return response->Send({200, {}, "hello"});
      case 3:
        response->StartStream(200, {});
        response->Write("data: {\"choices\":[{\"text\":\"a\"}]}\n\n");
        return response->Abort();
      default: return Answer(response, kAnswer);
    }
  };
  const ServeRun run = LoadIt(server, Requests(5), {.concurrency = 1, .closed_loop = true});
  EXPECT_EQ(run.records[0].fault, ServeFault::kStatus);
  EXPECT_EQ(run.records[0].why, "503: full");
  EXPECT_EQ(run.records[1].fault, ServeFault::kErrorFrame);
  EXPECT_EQ(run.records[2].fault, ServeFault::kCutShort);
  EXPECT_EQ(run.records[3].fault, ServeFault::kCutShort);
  EXPECT_EQ(run.records[3].chunks_ns.size(), 1u);
  EXPECT_EQ(run.records[4].fault, ServeFault::kNone);
}

TEST(RunServe, GivesUpOnASilentServer) {
  Server server;
  std::vector<Writer> open;
  server.on_request = [&open](const net::HttpRequest&, Writer response) {
    open.push_back(std::move(response));
  };
  const ServeRun run =
      LoadIt(server, Requests(1), {.closed_loop = true, .timeout_ns = 50 * kNsPerMs});
  EXPECT_EQ(run.records[0].fault, ServeFault::kTimeout);
}

TEST(RunServe, NobodyThere) {
  Server server;
  const ServeTarget target = server.target();
  server.server.reset();
  const std::atomic<bool> stop = false;
  const auto run = RunServe(target, Requests(2), {.closed_loop = true, .timeout_ns = kPatienceNs},
                            nullptr, stop);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->records[0].fault, ServeFault::kConnect);
  EXPECT_EQ(run->records[1].fault, ServeFault::kConnect);
}

TEST(RunServe, AnInterruptionKeepsWhatThereWas) {
  Server server;
  std::atomic<bool> stop = false;
  std::vector<Writer> open;
  server.on_request = [&](const net::HttpRequest&, Writer response) {
    if (open.empty()) {
      Answer(response, kAnswer);
    }
    stop = !open.empty();
    open.push_back(std::move(response));
  };
  const auto run =
      RunServe(server.target(), Requests(9),
               {.concurrency = 1, .closed_loop = true, .timeout_ns = kPatienceNs}, nullptr, stop);
  ASSERT_TRUE(run);
  EXPECT_TRUE(run->interrupted);
  ASSERT_EQ(run->records.size(), 2u);
  EXPECT_EQ(run->records[0].fault, ServeFault::kNone);
  EXPECT_EQ(run->records[1].fault, ServeFault::kCancelled);
}

TEST(AskModels, ReadsTheListOrSaysWhyNot) {
  Server server;
  server.on_request = [](const net::HttpRequest& request, Writer response) {
    EXPECT_EQ(request.target, "/deep/v1/models");
    response->Send({200, {}, R"({"data":[{"id":"one"},{"id":"two"}]})"});
  };
  const auto models = AskModels(server.target("/deep/v1/"), "");
  ASSERT_TRUE(models) << models.error().detail;
  EXPECT_EQ(*models, (std::vector<std::string>{"one", "two"}));
  server.on_request = [](const net::HttpRequest&, Writer response) {
    response->Send({401, {}, R"({"error":{"message":"who are you"}})"});
  };
  const auto refused = AskModels(server.target("/deep"), "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().detail, "it: GET /v1/models answered 401: who are you");
}

TEST(ParseServeTarget, TakesNamesAndPaths) {
  const auto named = ParseServeTarget("a=http://h:81/v1");
  ASSERT_TRUE(named);
  EXPECT_EQ(named->name, "a");
  EXPECT_EQ(named->base, "");
  const auto plain = ParseServeTarget("https://h/x/v1/");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->name, "h:443");
  EXPECT_EQ(plain->base, "/x");
  EXPECT_FALSE(ParseServeTarget("=http://h"));
  EXPECT_FALSE(ParseServeTarget("a=h"));
  EXPECT_FALSE(ParseServeTarget("http://h/?a=b"));
}

}  // namespace
}  // namespace fak::perf
