#include "ride/probe.h"

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::ride {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Recorded {
  const char* asked;  // "GET /version"
  int status;
  const char* body;
  const char* server = "";
};

Replies Make(std::initializer_list<Recorded> all) {
  Replies replies;
  for (const Recorded& each : all) {
    const std::string asked(each.asked);
    const size_t blank = asked.find(' ');
    Reply reply{each.status, {{"server", each.server}}, each.body, {}};
    if (Result<Json> document = ParseJson(reply.body)) {
      reply.document = *std::move(document);
    }
    replies.Add({asked.substr(0, blank), asked.substr(blank + 1)}, std::move(reply));
  }
  return replies;
}

// What the real servers were seen to answer (shortened), but for SGLang, vllm-mlx and the hosted
// APIs: those are by their sources or documents.
Replies Vllm() {
  return Make({
      {"GET /v1/models", 200,
       R"({"object":"list","data":[{"id":"smollm2","object":"model","owned_by":"vllm",)"
       R"("root":"/m","parent":null,"max_model_len":2048}]})",
       "uvicorn"},
      {"GET /version", 200, R"({"version":"0.32.0"})"},
      {"GET /health", 200, ""},
      {"GET /metrics", 200,
       "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n"},
      {"GET /kv_event_sources", 200,
       R"({"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:18010"}})"},
      {"GET /reset_prefix_cache", 404, R"({"detail":"Not Found"})"},
      {"POST /tokenize", 200, R"({"count":2,"max_model_len":2048,"tokens":[19556,905]})"},
      {"POST /v1/messages", 400, R"({"error":{"message":"x","type":"Bad Request","code":400}})"},
      {"POST /v1/responses", 400, R"({"error":{"message":"x","type":"Bad Request","code":400}})"},
      {"POST /v1/embeddings", 404, R"({"detail":"Not Found"})"},
  });
}

Replies LlamaCpp() {
  return Make({
      {"GET /v1/models", 200,
       R"({"models":[{"name":"m"}],"object":"list","data":[{"id":"/m.gguf","object":"model",)"
       R"("owned_by":"llamacpp","meta":{"n_ctx":2048,"n_ctx_train":8192}}]})"},
      {"GET /version", 404, R"({"error":{"code":404,"message":"File Not Found"}})"},
      {"GET /health", 200, R"({"status":"ok"})"},
      {"GET /metrics", 200, "# TYPE x counter\nllamacpp:prompt_tokens_total 0\n"},
      {"GET /props", 200,
       R"({"default_generation_settings":{"n_ctx":2048},"total_slots":4,)"
       R"("build_info":"b11434-sdist"})"},
      {"POST /slots/0?action=none", 400, R"({"error":{"code":400,"message":"Invalid action"}})"},
      {"POST /tokenize", 200, R"({"tokens":[1,2]})"},
      {"POST /apply-template", 200, R"({"prompt":"<|im_start|>user\nfak<|im_end|>\n"})"},
      {"POST /v1/messages", 500, R"({"error":{"code":500,"message":"x","type":"server_error"}})"},
      {"POST /v1/responses", 400, R"({"error":{"code":400,"message":"x"}})"},
      {"POST /v1/embeddings", 501,
       R"({"error":{"code":501,"message":"This server does not support embeddings.",)"
       R"("type":"not_supported_error"}})"},
  });
}

Replies Dynamo() {
  return Make({
      {"GET /v1/models", 200,
       R"({"object":"list","data":[{"id":"smollm2","object":"model","owned_by":"nvidia",)"
       R"("context_window":8192}]})"},
      {"GET /health", 200, R"({"status":"healthy","endpoints":[],"instances":[]})"},
      {"GET /metrics", 200, "dynamo_frontend_inflight_requests 0\n"},
      {"GET /openapi.json", 200, R"({"openapi":"3.1.0","info":{"version":"1.6.1"},"paths":{}})"},
      {"POST /v1/messages", 404, ""},
      {"POST /v1/responses", 400, R"({"message":"x","type":"Bad Request","code":400})"},
      {"POST /v1/embeddings", 400, R"({"message":"x","type":"Bad Request","code":400})"},
  });
}

Replies Mlx() {
  return Make({
      {"GET /v1/models", 200, ""},  // as without a hub's cache folder
      {"GET /health", 200, R"({"status": "ok"})", "BaseHTTP/0.6 Python/3.11.7"},
      {"GET /metrics", 404, "Not Found"},
      {"POST /v1/messages", 404, "Not Found"},
      {"POST /v1/responses", 404, "Not Found"},
      {"POST /v1/embeddings", 404, "Not Found"},
      {"GET /v1/cache/stats", 404, "Not Found"},
  });
}

Replies Sglang() {
  return Make({
      {"GET /v1/models", 200,
       R"({"object":"list","data":[{"id":"m","owned_by":"sglang","max_model_len":4096}]})"},
      {"GET /model_info", 200, R"({"model_path":"m","is_generation":true})"},
      {"GET /server_info", 200, R"({"version":"0.5.9","kv_events_config":null})"},
      {"POST /abort_request", 200, ""},
      {"POST /v1/tokenize", 200, R"({"tokens":[5,6],"count":2,"max_model_len":4096})"},
  });
}

Replies Fak() {
  return Make({
      {"GET /v1/models", 200,
       R"({"object":"list","data":[{"id":"smollm2","owned_by":"fak","max_model_len":8192}]})"},
      {"GET /version", 200, R"({"version":"0.1.0","engine":"fak"})"},
      {"GET /kv_event_sources", 200, R"({"sources":[{"enable_kv_cache_events":true}]})"},
      {"POST /v1/fak/cache/evict", 400, R"({"error":{"message":"scope: must be all or prefix"}})"},
      {"POST /tokenize", 200, R"({"count":1,"tokens":[7]})"},
      {"POST /v1/messages", 404, R"({"error":{"message":"isn't served"}})"},
  });
}

Endpoint Probed(const Replies& replies) {
  const auto engine = Identify(replies);
  EXPECT_TRUE(engine);
  return engine ? Conclude(*engine, replies) : Endpoint{};
}

TEST(Identify, TellsEnginesApartAndSaysWhy) {
  const std::tuple<Replies, const Adapter*, const char*> kCases[] = {
      {Vllm(), &kVllm, "owned_by vllm"},
      {LlamaCpp(), &kLlamaCpp, "build_info b11434-sdist"},
      {Dynamo(), &kDynamo, "endpoints and instances"},
      {Mlx(), &kMlx, "BaseHTTP"},
      {Sglang(), &kSglang, "owned_by sglang"},
      {Fak(), &kFak, "engine fak"},
      {Make({{"GET /metrics", 200, "vllm_mlx_cache_hits 0\n"}}), &kMlx, "vllm_mlx_"},
      {Make({{"GET /v1/models", 200, R"({"data":[{"id":"gpt"}]})"}}), &kOpenAi, "nothing says"},
      {Make({{"GET /v1/models", 200, R"({"data":[{"type":"model","id":"claude"}]})"}}), &kAnthropic,
       "Anthropic"},
      {Make({{"GET /v1/models", 401,
              R"({"type":"error","error":{"type":"authentication_error","message":"x"}})"}}),
       &kAnthropic, "Anthropic"},
  };
  for (const auto& [replies, adapter, why] : kCases) {
    const auto engine = Identify(replies);
    ASSERT_TRUE(engine) << why;
    EXPECT_EQ(engine->adapter->engine, adapter->engine);
    EXPECT_THAT(engine->why, HasSubstr(why));
  }
}

TEST(Identify, DoesNotGuess) {
  const auto nobody = Identify(Make({{"GET /v1/models", 0, "connection refused"}}));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, Code::kUnavailable);
  EXPECT_EQ(nobody.error().field, "");
  Replies unreached;
  unreached.Add({"GET", "/v1/models"}, {.body = "no way there", .unreached = true});
  EXPECT_EQ(Identify(unreached).error().field, net::kUnreachedField);
  const auto web = Identify(Make({{"GET /v1/models", 404, "<html>"}, {"GET /health", 200, "ok"}}));
  ASSERT_FALSE(web);
  EXPECT_EQ(web.error().code, Code::kUpstreamError);
  EXPECT_THAT(web.error().detail, HasSubstr("ENGINE+URL"));
}

TEST(Conclude, SaysWhatIsThereAndWhatIsNot) {
  const Endpoint vllm = Probed(Vllm());
  EXPECT_EQ(vllm.version, "0.32.0");
  EXPECT_THAT(vllm.models, ElementsAre("smollm2"));
  EXPECT_EQ(vllm.context_length, 2048);
  for (const Signal has : {Signal::kMetrics, Signal::kKvEvents, Signal::kTokenizer, Signal::kAbort,
                           Signal::kMessages, Signal::kResponses}) {
    EXPECT_TRUE(vllm.Has(has)) << SignalName(has);
  }
  EXPECT_FALSE(vllm.Has(Signal::kCacheReset));
  EXPECT_FALSE(vllm.Has(Signal::kEmbeddings));

  const Endpoint llama = Probed(LlamaCpp());
  EXPECT_EQ(llama.version, "b11434-sdist");
  EXPECT_EQ(llama.slots, 4);
  EXPECT_EQ(llama.context_length, 2048);
  EXPECT_TRUE(llama.Has(Signal::kCacheReset));
  EXPECT_TRUE(llama.Has(Signal::kSlots));
  EXPECT_TRUE(llama.Has(Signal::kTemplate));
  EXPECT_FALSE(llama.Has(Signal::kAbort));
  EXPECT_TRUE(llama.Has(Signal::kMessages));
  EXPECT_FALSE(llama.Has(Signal::kEmbeddings));
  EXPECT_FALSE(llama.Has(Signal::kKvEvents));

  const Endpoint dynamo = Probed(Dynamo());
  EXPECT_EQ(dynamo.version, "1.6.1");
  EXPECT_EQ(dynamo.context_length, 8192);
  EXPECT_FALSE(dynamo.Has(Signal::kMessages));
  EXPECT_FALSE(dynamo.Has(Signal::kCacheReset));
  const auto embeddings = std::find_if(
      dynamo.findings.begin(), dynamo.findings.end(),
      [](const Endpoint::Finding& finding) { return finding.signal == Signal::kEmbeddings; });
  EXPECT_TRUE(embeddings->has);
  EXPECT_FALSE(embeddings->told);

  const Endpoint mlx = Probed(Mlx());
  EXPECT_TRUE(mlx.models.empty());
  for (const Endpoint::Finding& finding : mlx.findings) {
    EXPECT_FALSE(finding.has) << SignalName(finding.signal);
  }
  EXPECT_EQ(Probed(Sglang()).version, "0.5.9");
  EXPECT_TRUE(Probed(Fak()).Has(Signal::kCacheReset));
  EXPECT_TRUE(Probed(Fak()).Has(Signal::kKvEvents));
  EXPECT_FALSE(Probed(Fak()).Has(Signal::kMessages));
}

TEST(Conclude, KnowsNothingOfWhatAsksForAKey) {
  const char* refusal = R"({"error":{"message":"no such key"}})";
  const Replies locked = Make({
      {"GET /v1/models", 401, refusal},
      {"GET /version", 200, R"({"version":"0.1.0","engine":"fak"})"},
      {"GET /metrics", 200, ""},
      {"GET /kv_event_sources", 403, refusal},
      {"POST /v1/fak/cache/evict", 401, refusal},
      {"POST /tokenize", 401, refusal},
      {"POST /v1/messages", 401, refusal},
      {"POST /v1/responses", 403, refusal},
      {"POST /v1/embeddings", 404, refusal},
  });
  const Endpoint endpoint = Probed(locked);
  EXPECT_EQ(endpoint.why_no_models,
            "GET /v1/models answered 401: give --upstream-api-key or --upstream-api-key-file");
  std::vector<std::string> told;
  for (const Endpoint::Finding& finding : endpoint.findings) {
    if (finding.told) {
      told.emplace_back(SignalName(finding.signal));
      continue;
    }
    EXPECT_THAT(finding.seen, HasSubstr(": no such key"));
    EXPECT_EQ(finding.means, "it asks for a key");
  }
  EXPECT_THAT(told,
              ElementsAre("metrics", "sleep", "abort", "embeddings", "slots", "apply_template"));
  const Endpoint other = Conclude({&kFak, "said"}, locked, "wrong");
  EXPECT_THAT(other.why_no_models, HasSubstr("doesn't take the key of --upstream-api-key"));
  EXPECT_EQ(Probed(Mlx()).why_no_models, "");
  // Nor which engine it is.
  const auto unknown = Identify(Make({{"GET /v1/models", 403, refusal}}));
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().detail, HasSubstr("answered 403: give --upstream-api-key"));
}

TEST(Conclude, CutsALongRefusalAndSaysSo) {
  const std::string body = R"({"error":{"message":")" + std::string(600, 'x') + R"("}})";
  const Endpoint endpoint =
      Conclude({&kOpenAi, "said"}, Make({{"POST /v1/embeddings", 404, body.c_str()}}));
  EXPECT_TRUE(std::any_of(
      endpoint.findings.begin(), endpoint.findings.end(),
      [](const Endpoint::Finding& finding) { return finding.seen.ends_with("xxx..."); }));
}

TEST(Conclude, NamesTheRequestThatShowedEachFact) {
  const std::tuple<Replies, const char*, const char*, const char*> kCases[] = {
      {Vllm(), "GET /version", "GET /v1/models", "GET /v1/models"},
      {LlamaCpp(), "GET /props", "GET /v1/models", "GET /props"},
      {Dynamo(), "GET /openapi.json", "GET /v1/models", "GET /v1/models"},
      {Sglang(), "GET /server_info", "GET /v1/models", "GET /v1/models"},
      {Fak(), "GET /version", "GET /v1/models", "GET /v1/models"},
      {Mlx(), "", "", ""},
  };
  for (const auto& [replies, version, models, context] : kCases) {
    const Endpoint endpoint = Probed(replies);
    EXPECT_EQ(endpoint.version_asked, version) << endpoint.adapter->engine;
    EXPECT_EQ(endpoint.models_asked, models) << endpoint.adapter->engine;
    EXPECT_EQ(endpoint.context_asked, context) << endpoint.adapter->engine;
  }
}

TEST(Conclude, TellsWhatWasMeasuredFromWhatDocumentsSay) {
  const auto abort_of = [](const Adapter& adapter, const Replies& replies) {
    for (const Endpoint::Finding& finding : Conclude({&adapter, "said"}, replies).findings) {
      if (finding.signal == Signal::kAbort) {
        return finding.seen;
      }
    }
    return std::string();
  };
  for (const Adapter* adapter : {&kVllm, &kLlamaCpp, &kDynamo, &kMlx, &kFak}) {
    EXPECT_EQ(abort_of(*adapter, {}), "as measured") << adapter->engine;
  }
  for (const Adapter* adapter : {&kLlmd, &kOpenAi, &kAnthropic}) {
    EXPECT_EQ(abort_of(*adapter, {}), "by its documents") << adapter->engine;
  }
  EXPECT_EQ(abort_of(kMlx, Make({{"GET /metrics", 200, "vllm_mlx_cache_hits 0\n"}})),
            "by its documents");
}

TEST(Conclude, ShowsARowForEverySignalOfEveryEngine) {
  for (const Adapter* adapter : Adapters()) {
    const Endpoint endpoint = Conclude({adapter, "said"}, Replies());
    EXPECT_EQ(endpoint.findings.size(), kSignals) << adapter->engine;
    for (const Endpoint::Finding& finding : endpoint.findings) {
      EXPECT_FALSE(finding.asked.empty() || finding.seen.empty() || finding.means.empty())
          << adapter->engine << SignalName(finding.signal);
    }
  }
}

TEST(CallsOf, AsksNothingTwice) {
  for (const Adapter* adapter : Adapters()) {
    std::set<std::string> asked;
    for (const Call& call : CallsOf(*adapter)) {
      EXPECT_TRUE(asked.insert(call.method + " " + call.path).second)
          << adapter->engine << " " << call.path;
    }
  }
}

TEST(Adapters, ReachNothingButTheSurfacesOfClients) {
  for (const Adapter* adapter : Adapters()) {
    EXPECT_EQ(FindAdapter(adapter->engine), adapter);
    for (const Route& route : adapter->routes) {
      EXPECT_TRUE(route.path.starts_with("/v1/") || route.path == "/generate" ||
                  route.path == "/apply-template")
          << adapter->engine;
      EXPECT_EQ(route.path.find("fak"), std::string_view::npos);
    }
  }
  EXPECT_EQ(FindAdapter("auto"), nullptr);
  EXPECT_EQ(AdapterNames(), "anthropic, dynamo, fak, llamacpp, llmd, mlx, openai, sglang, vllm");
}

TEST(UpstreamTarget, PutsTheKeyWhereTheEngineLooks) {
  const UpstreamTarget target = *UpstreamTarget::Parse("https://h/base/v1/", "k");
  const auto openai = target.Request(kOpenAi, {"GET", "/v1/models"});
  EXPECT_EQ(openai.target, "/base/v1/models");
  EXPECT_EQ(openai.headers.Get("authorization"), "Bearer k");
  const auto anthropic = target.Request(kAnthropic, {"GET", "/v1/models"});
  EXPECT_EQ(anthropic.headers.Get("x-api-key"), "k");
  EXPECT_FALSE(anthropic.headers.Has("authorization"));
  EXPECT_EQ(anthropic.headers.Get("anthropic-version"), "2023-06-01");
}

}  // namespace
}  // namespace fak::ride
