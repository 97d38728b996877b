#include "ride/request_edit.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::ride {
namespace {

using wire::Surface;

driver::Prepared Make(const std::string& body, Surface surface = Surface::kChat) {
  driver::Prepared prepared;
  prepared.request_id = "req-1";
  prepared.maybe_body = std::make_shared<const std::string>(body);
  prepared.document = std::make_shared<const Json>(*ParseJson(body));
  auto turn = std::make_shared<wire::Turn>();
  turn->surface = surface;
  const Json* stream = prepared.document->Find("stream");
  turn->stream = stream != nullptr && stream->boolean();
  prepared.turn = std::move(turn);
  return prepared;
}

std::string Edit(const Adapter& adapter, const std::string& body, UpstreamPolicy policy = {},
                 Surface surface = Surface::kChat) {
  return EditRequest(adapter, policy, Make(body, surface), "fak-1").body;
}

TEST(EditRequest, LeavesADocumentThatNeedsNothingByteForByte) {
  const std::string body = "{ \"zeta\" : 1.0, \"m\\u0065ssages\":[],\n\"zeta\":1e2, \"nvex\":{} }";
  for (const Adapter* adapter : {&kVllm, &kLlamaCpp, &kFak, &kOpenAi, &kLlmd, &kDynamo}) {
    EXPECT_EQ(Edit(*adapter, body), body) << adapter->engine;
  }
  EXPECT_EQ(Edit(kAnthropic, body, {}, Surface::kMessages), body);
  const std::string streamed = "{\"stream\":true,\"messages\":[],\"system\":[{\"x\": 1}]}";
  EXPECT_EQ(Edit(kAnthropic, streamed, {}, Surface::kMessages), streamed);
  EXPECT_EQ(Edit(kVllm, streamed, {}, Surface::kResponses), streamed);
}

driver::Prepared Resumable(const std::string& body, Surface surface) {
  driver::Prepared prepared = Make(body, surface);
  prepared.for_resumption = true;
  return prepared;
}

void SetSaid(driver::Prepared& prepared) {
  driver::Continuation said;
  said.artifact = "abc";
  said.prompt_tokens = {7, 8};
  said.tokens = {1, 2, 3};
  said.created_s = 99;
  said.seed = 42;
  prepared.maybe_continuation = std::make_shared<const driver::Continuation>(std::move(said));
}

TEST(EditRequest, AsksForTokenIdsOfWhatMayBeResumed) {
  const std::string body = R"({"prompt":"p"})";
  const std::string with = R"({"prompt":"p","return_token_ids":true})";
  for (const Adapter* adapter : {&kVllm, &kFak}) {
    EXPECT_EQ(EditRequest(*adapter, {}, Resumable(body, Surface::kCompletion), "").body, with);
  }
  EXPECT_EQ(EditRequest(kFak, {}, Resumable(body, Surface::kChat), "").body, with);
  EXPECT_EQ(EditRequest(kVllm, {}, Resumable(body, Surface::kChat), "").body, body);
  EXPECT_EQ(EditRequest(kLlamaCpp, {}, Resumable(body, Surface::kCompletion), "").body, body);
}

TEST(EditRequest, GoesOnWithAnAnswerOfFak) {
  driver::Prepared prepared = Resumable(R"({"messages":[]})", Surface::kChat);
  SetSaid(prepared);
  EXPECT_EQ(EditRequest(kFak, {}, prepared, "").body,
            R"({"messages":[],"return_token_ids":true,"continue_answer":)"
            R"({"artifact":"abc","created":99,"token_ids":[1,2,3]},"seed":42})");
}

TEST(EditRequest, GoesOnWithACompletionOfVllm) {
  const auto edited = [](const std::string& body) {
    driver::Prepared prepared = Resumable(body, Surface::kCompletion);
    SetSaid(prepared);
    return EditRequest(kVllm, {}, prepared, "").body;
  };
  EXPECT_EQ(edited(R"({"prompt":"p","max_tokens":10})"),
            R"({"prompt":[7,8,1,2,3],"max_tokens":7,"return_token_ids":true})");
  EXPECT_EQ(edited(R"({"prompt":"p"})"),
            R"({"prompt":[7,8,1,2,3],"return_token_ids":true,"max_tokens":13})");
  // It has all its tokens.
  EXPECT_EQ(edited(R"({"prompt":"p","max_tokens":3})"), R"({"prompt":"p","max_tokens":3})");
}

// What would be lost or change with that.
TEST(EditRequest, ResumesOfVllmWhatItTellsExactlyAlone) {
  const auto may = [](const std::function<void(wire::Turn&)>& change) {
    driver::Prepared prepared = Resumable(R"({"prompt":"p"})", Surface::kCompletion);
    auto turn = std::make_shared<wire::Turn>(*prepared.turn);
    change(*turn);
    prepared.turn = std::move(turn);
    return kVllm.continues(prepared);
  };
  EXPECT_TRUE(may([](wire::Turn&) {}));
  EXPECT_FALSE(may([](wire::Turn& turn) { turn.sampling.stop = {"x"}; }));
  EXPECT_FALSE(may([](wire::Turn& turn) { turn.sampling.presence_penalty = 1; }));
  EXPECT_FALSE(may([](wire::Turn& turn) { turn.sampling.frequency_penalty = 1; }));
  EXPECT_FALSE(may([](wire::Turn& turn) { turn.sampling.logprobs = 0; }));
  EXPECT_FALSE(may([](wire::Turn& turn) { turn.return_token_ids = true; }));
  EXPECT_FALSE(may([](wire::Turn& turn) { turn.unserved_field = "bad_words"; }));
  EXPECT_FALSE(may([](wire::Turn& turn) { turn.unknown_fields = {"x"}; }));
}

TEST(EditRequest, RemovesWhatWouldSteerTheEngine) {
  struct Case {
    const Adapter* adapter;
    const char* field;
  };
  const Case kCases[] = {
      {&kVllm, "kv_transfer_params"},
      {&kVllm, "ec_transfer_params"},
      {&kVllm, "request_id"},
      {&kLlmd, "kv_transfer_params"},
      {&kSglang, "bootstrap_host"},
      {&kSglang, "bootstrap_port"},
      {&kSglang, "bootstrap_room"},
      {&kSglang, "data_parallel_rank"},
      {&kSglang, "routed_dp_rank"},
      {&kSglang, "custom_logit_processor"},
      {&kDynamo, "nvext"},
      {&kLlamaCpp, "id_slot"},
      {&kMlx, "adapters"},
      {&kMlx, "draft_model"},
  };
  for (const auto& [adapter, field] : kCases) {
    const std::string name(field);
    const std::string body = R"({")" + name + R"(":{"a":1},"keep":2})";
    const Json edited = *ParseJson(Edit(*adapter, body));
    EXPECT_EQ(edited.Find(name), nullptr) << adapter->engine << " " << name;
    EXPECT_NE(edited.Find("keep"), nullptr);
    const Json allowed = *ParseJson(Edit(*adapter, body, {.allowed_fields = {name}}));
    EXPECT_NE(allowed.Find(name), nullptr) << adapter->engine << " " << name;
  }
  EXPECT_EQ(Edit(kVllm, R"({"kv\u005ftransfer_params":{}})"), "{}");
}

TEST(EditRequest, KeepsOfAnObjectWhatTheOperatorAllows) {
  EXPECT_EQ(Edit(kDynamo, R"({"nvext":{"token_data":[1],"extra_fields":["timing"]},"a":1})",
                 {.allowed_fields = {"nvext.extra_fields"}}),
            R"({"nvext":{"extra_fields":["timing"]},"a":1})");
}

TEST(EditRequest, AsksForTheModelThatTheEngineKnows) {
  EXPECT_EQ(Edit(kVllm, R"({"model":"ours"})", {.model = "theirs"}), R"({"model":"theirs"})");
  EXPECT_EQ(Edit(kMlx, R"({"model":"org/anything"})"), R"({"model":"default_model"})");
  EXPECT_EQ(Edit(kMlx, R"({})"), R"({"model":"default_model"})");
  EXPECT_EQ(Edit(kMlx, R"({"model":"x"})", {.model = "/m"}), R"({"model":"/m"})");
}

TEST(EditRequest, ChoosesTheIdThatAnAbortNames) {
  EXPECT_EQ(Edit(kSglang, R"({"rid":"","a":1})"), R"({"rid":"fak-1","a":1})");
  EXPECT_EQ(Edit(kSglang, R"({"rid":"x"})", {.allowed_fields = {"rid"}}), R"({"rid":"fak-1"})");
}

TEST(EditRequest, AsksForUsageAndWithholdsItOnlyWhereNobodyElseDid) {
  const driver::Prepared streamed = Make(R"({"stream":true,"stream_options":{"x":1}})");
  const EditedRequest edited = EditRequest(kVllm, {}, streamed, "");
  EXPECT_EQ(edited.body, R"({"stream":true,"stream_options":{"x":1,"include_usage":true}})");
  EXPECT_TRUE(edited.withhold_usage);
  EXPECT_FALSE(EditRequest(kVllm, {}, Make(R"({"stream":false})"), "").withhold_usage);
  EXPECT_FALSE(
      EditRequest(kVllm, {}, Make(R"({"stream":true})", Surface::kMessages), "").withhold_usage);
}

TEST(EditRequest, PutsTheTenantIntoTheSaltWhereSaltsAreHonoured) {
  driver::Prepared prepared = Make(R"({"cache_salt":"s","a":1})");
  prepared.tenant = "alice";
  prepared.cache_salt = "5:alices";
  EXPECT_EQ(EditRequest(kVllm, {}, prepared, "").body, R"({"cache_salt":"5:alices","a":1})");
  EXPECT_EQ(EditRequest(kLlamaCpp, {}, prepared, "").body, R"({"cache_salt":"s","a":1})");
  EXPECT_EQ(EditRequest(kOpenAi, {}, prepared, "").body, R"({"cache_salt":"s","a":1})");
  for (const wire::Surface surface :
       {wire::Surface::kResponses, wire::Surface::kMessages, wire::Surface::kEmbedding}) {
    auto turn = std::make_shared<wire::Turn>();
    turn->surface = surface;
    prepared.turn = turn;
    EXPECT_EQ(EditRequest(kVllm, {}, prepared, "").body, R"({"cache_salt":"5:alices","a":1})");
  }
}

TEST(EditRequest, OfSglangsOwnLeavesNothingThatSteers) {
  driver::Prepared prepared = Make(
      R"({"text":"a","rid":"x","bootstrap_host":"evil","http_worker_ipc":"i","session_params":{},)"
      R"("routing_key":"k","lora_path":"l","extra_key":"s","model":"m"})",
      Surface::kGenerate);
  EXPECT_EQ(EditRequest(kSglang, {.model = "theirs"}, prepared, "fak-1").body,
            R"({"text":"a","rid":"fak-1","lora_path":"l","extra_key":"s","model":"m"})");
  // Its salts have another name there.
  prepared.tenant = "alice";
  prepared.cache_salt = "5:alices";
  EXPECT_EQ(EditRequest(kSglang, {}, prepared, "fak-1").body,
            R"({"text":"a","rid":"fak-1","lora_path":"l","extra_key":"5:alices","model":"m"})");
  // Of several answers each would have to have an id of its own.
  auto several = std::make_shared<wire::Turn>(*prepared.turn);
  several->n = 2;
  driver::Prepared two = Make(R"({"text":"a","rid":"x"})", Surface::kGenerate);
  two.turn = several;
  EXPECT_EQ(EditRequest(kSglang, {}, two, "fak-1").body, R"({"text":"a"})");
}

TEST(EditHeaders, PassesNoHeaderThatRoutes) {
  driver::Prepared prepared = Make("{}");
  prepared.shown_id = "mine";
  prepared.client_headers = {{"x-data-parallel-rank", "1"},
                             {"x-dynamo-worker-instance-id", "7"},
                             {"x-prefiller-host-port", "evil:1"},
                             {"x-gateway-destination-endpoint", "evil:1"},
                             {"anthropic-beta", "b"},
                             {"anthropic-version", "2024-01-01"},
                             {"x-request-id", "other"}};
  for (const Adapter* adapter : Adapters()) {
    const wire::HttpHeaders headers = EditHeaders(*adapter, {}, prepared);
    EXPECT_FALSE(headers.Has("x-data-parallel-rank")) << adapter->engine;
    EXPECT_FALSE(headers.Has("x-dynamo-worker-instance-id")) << adapter->engine;
    EXPECT_FALSE(headers.Has("x-prefiller-host-port")) << adapter->engine;
    EXPECT_FALSE(headers.Has("x-gateway-destination-endpoint")) << adapter->engine;
    EXPECT_EQ(headers.Get("x-request-id"), "mine-req-1") << adapter->engine;
  }
  EXPECT_EQ(EditHeaders(kAnthropic, {}, prepared).Get("anthropic-beta"), "b");
  EXPECT_EQ(EditHeaders(kAnthropic, {}, prepared).Get("anthropic-version"), "2024-01-01");
  EXPECT_EQ(EditHeaders(kAnthropic, {}, Make("{}")).Get("anthropic-version"), "2023-06-01");
  EXPECT_EQ(EditHeaders(kVllm, {.allowed_headers = {"X-Prefiller-Host-Port"}}, prepared)
                .Get("x-prefiller-host-port"),
            "evil:1");
  EXPECT_EQ(EditHeaders(kVllm, {.rank = 3}, prepared).Get("x-data-parallel-rank"), "3");
  EXPECT_FALSE(EditHeaders(kSglang, {.rank = 3}, prepared).Has("x-data-parallel-rank"));
}

}  // namespace
}  // namespace fak::ride
