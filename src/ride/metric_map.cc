#include "ride/metric_map.h"

#include <string>

namespace fak::ride {
namespace {

using metrics::Row;

using Rules = std::vector<MetricRule>;

constexpr LabelTest Is(std::string_view label, std::string_view value) {
  return {label, value, true};
}
constexpr LabelTest IsNot(std::string_view label, std::string_view value) {
  return {label, value, false};
}

// tidy: table
Rules VllmRules() {
  constexpr std::string_view kReason = "finished_reason";
  return {
      {"vllm:time_to_first_token_seconds", Row::kTimeToFirstToken},
      {"vllm:inter_token_latency_seconds", Row::kInterToken},
      {"vllm:time_per_output_token_seconds", Row::kInterToken, 1},  // the old name, also of a gap
      {"vllm:request_time_per_output_token_seconds", Row::kTimePerOutputToken},
      {"vllm:e2e_request_latency_seconds", Row::kEndToEnd},
      {"vllm:request_queue_time_seconds", Row::kQueue},
      {"vllm:time_in_queue_requests", Row::kQueue, 1},
      {"vllm:request_prompt_tokens", Row::kRequestPromptTokens},
      {"vllm:request_generation_tokens", Row::kRequestGenerationTokens},
      {"vllm:num_requests_running", Row::kRunning},
      {"vllm:num_requests_waiting", Row::kWaiting},
      {"vllm:kv_cache_usage_perc", Row::kKvUsage},
      {"vllm:gpu_cache_usage_perc", Row::kKvUsage, 1},
      {"vllm:prompt_tokens_total", Row::kPromptTokens},
      {"vllm:generation_tokens_total", Row::kGenerationTokens},
      {"vllm:prefix_cache_queries_total", Row::kPrefixQueries},
      {"vllm:prefix_cache_hits_total", Row::kPrefixHits},
      // These counted blocks before they counted tokens, under the same name.
      {.family = "vllm:gpu_prefix_cache_queries_total",
       .row = Row::kPrefixQueries,
       .choice = 1,
       .help_has = "tokens"},
      {.family = "vllm:gpu_prefix_cache_hits_total",
       .row = Row::kPrefixHits,
       .choice = 1,
       .help_has = "tokens"},
      {"vllm:num_preemptions_total", Row::kPreemptions},
      {"vllm:spec_decode_num_draft_tokens_total", Row::kSpecDraftTokens},
      {"vllm:spec_decode_num_accepted_tokens_total", Row::kSpecAcceptedTokens},
      // "abort" was seen to stay 0 after aborts (0.32.0): wrong is worse than absent.
      {"vllm:request_success_total", Row::kRequests, 0, 0, 1, {Is(kReason, "stop")}, "ok"},
      {"vllm:request_success_total", Row::kRequests, 0, 0, 1, {Is(kReason, "length")}, "ok"},
      {"vllm:request_success_total", Row::kRequests, 0, 0, 1, {Is(kReason, "repetition")}, "ok"},
      {"vllm:request_success_total", Row::kRequests, 0, 0, 1, {Is(kReason, "error")}, "error"},
  };
}

// tidy: table
Rules SglangRules() {
  // With priorities, a series without one is the total of those that have one.
  constexpr LabelTest kTotal = Is("priority", "");
  return {
      {"sglang:time_to_first_token_seconds", Row::kTimeToFirstToken},
      {"sglang:inter_token_latency_seconds", Row::kInterToken},
      {"sglang:time_per_output_token_seconds", Row::kInterToken, 1},  // of a gap, not of a request
      {"sglang:e2e_request_latency_seconds", Row::kEndToEnd},
      {"sglang:queue_time_seconds", Row::kQueue},
      {"sglang:waiting_request_latency_seconds", Row::kQueue, 1},
      {"sglang:prompt_tokens_histogram", Row::kRequestPromptTokens},
      {"sglang:request_prompt_tokens", Row::kRequestPromptTokens, 1},
      {"sglang:generation_tokens_histogram", Row::kRequestGenerationTokens},
      {"sglang:request_generation_tokens", Row::kRequestGenerationTokens, 1},
      {"sglang:num_running_reqs", Row::kRunning, 0, 0, 1, {kTotal}},
      {"sglang:num_requests_running", Row::kRunning, 1},
      {"sglang:num_queue_reqs", Row::kWaiting, 0, 0, 1, {kTotal}},
      {"sglang:num_requests_waiting", Row::kWaiting, 1},
      {"sglang:token_usage", Row::kKvUsage},
      {"sglang:prompt_tokens_total", Row::kPromptTokens},
      {"sglang:generation_tokens_total", Row::kGenerationTokens},
      {"sglang:prompt_tokens_total", Row::kPrefixQueries},
      {"sglang:cached_tokens_total", Row::kPrefixHits, 0, 0, 1, {IsNot("cache_source", "total")}},
      {"sglang:cached_tokens_total", Row::kPrefixHits, 1, 0, 1, {Is("cache_source", "total")}},
      {"sglang:num_retracted_requests_total", Row::kPreemptions},
      {"sglang:num_requests_total", Row::kRequests, 0, 0, 1, {}, "ok"},
      {"sglang:num_aborted_requests_total", Row::kRequests, 0, 0, 1, {}, "cancelled"},
  };
}

Rules LlamaCppRules() {
  return {
      {"llamacpp:requests_processing", Row::kRunning},
      {"llamacpp:requests_deferred", Row::kWaiting},
      {"llamacpp:kv_cache_usage_ratio", Row::kKvUsage},
      // Its prompt tokens are those computed; with the cached ones they are ours.
      {"llamacpp:prompt_tokens_total", Row::kPromptTokens, 0, 0},
      {"llamacpp:prompt_tokens_cached_total", Row::kPromptTokens, 0, 1},
      {"llamacpp:prompt_tokens_total", Row::kPrefixQueries, 0, 0},
      {"llamacpp:prompt_tokens_cached_total", Row::kPrefixQueries, 0, 1},
      {"llamacpp:prompt_tokens_cached_total", Row::kPrefixHits},
      {"llamacpp:tokens_predicted_total", Row::kGenerationTokens},
      {"llamacpp:spec_decode_num_draft_tokens_total", Row::kSpecDraftTokens},
      {"llamacpp:spec_decode_num_accepted_tokens_total", Row::kSpecAcceptedTokens},
  };
}

// tidy: table
Rules DynamoRules() {
  constexpr LabelTest kGenerate = Is("dynamo_endpoint", "generate");
  return {
      // Frontend.
      {"dynamo_frontend_time_to_first_token_seconds", Row::kTimeToFirstToken},
      {"dynamo_frontend_inter_token_latency_seconds", Row::kInterToken},
      {"dynamo_frontend_request_duration_seconds", Row::kEndToEnd},
      {"dynamo_frontend_input_sequence_tokens", Row::kRequestPromptTokens},
      {"dynamo_frontend_output_sequence_tokens", Row::kRequestGenerationTokens},
      // Requests are queued until their first token; those in flight include them.
      {"dynamo_frontend_inflight_requests", Row::kRunning, 0, 0},
      {"dynamo_frontend_queued_requests", Row::kRunning, 0, 1, -1},
      {"dynamo_frontend_queued_requests", Row::kWaiting},
      {"dynamo_frontend_input_sequence_tokens_sum", Row::kPromptTokens},
      {"dynamo_frontend_output_tokens_total", Row::kGenerationTokens},
      {"dynamo_frontend_input_sequence_tokens_sum", Row::kPrefixQueries},
      {"dynamo_frontend_cached_tokens_sum", Row::kPrefixHits},
      {"dynamo_frontend_requests_total", Row::kRequests, 0, 0, 1, {Is("status", "success")}, "ok"},
      {"dynamo_frontend_requests_total",
       Row::kRequests,
       0,
       0,
       1,
       {Is("status", "error"), Is("error_type", "cancelled")},
       "cancelled"},
      {"dynamo_frontend_requests_total",
       Row::kRequests,
       0,
       0,
       1,
       {Is("status", "error"), IsNot("error_type", "cancelled")},
       "error"},
      // migration_total also counts where no migration is allowed; this knows how it went.
      {"dynamo_frontend_model_migration_duration_seconds_count",
       Row::kMigrations,
       0,
       0,
       1,
       {Is("outcome", "success")},
       "ok"},
      {"dynamo_frontend_model_migration_duration_seconds_count",
       Row::kMigrations,
       0,
       0,
       1,
       {Is("outcome", "failure")},
       "error"},
      // Worker: its system port.
      {"dynamo_component_inflight_requests", Row::kRunning, 1, 0, 1, {kGenerate}},
      {"dynamo_component_request_duration_seconds", Row::kEndToEnd, 1, 0, 1, {kGenerate}},
      {"dynamo_component_gpu_cache_usage_percent", Row::kKvUsage, 1},
      {"dynamo_component_kvstats_gpu_cache_usage_percent", Row::kKvUsage, 2},
      {"dynamo_component_errors_total", Row::kRequests, 1, 0, 1, {kGenerate}, "error"},
      {"dynamo_component_cancellation_total", Row::kRequests, 1, 0, 1, {kGenerate}, "cancelled"},
  };
}

// tidy: table
Rules LlmdRules() {
  constexpr LabelTest kStreamed = Is("streaming", "true");
  return {
      {"llm_d_epp_request_ttft_seconds", Row::kTimeToFirstToken, 0, 0, 1, {kStreamed}},
      {"llm_d_epp_request_streaming_itl_seconds", Row::kInterToken},
      {"llm_d_epp_request_streaming_tpot_seconds", Row::kTimePerOutputToken},
      {"llm_d_epp_request_duration_seconds", Row::kEndToEnd},
      {"llm_d_epp_request_input_tokens", Row::kRequestPromptTokens},
      {"llm_d_epp_request_output_tokens", Row::kRequestGenerationTokens},
      {"llm_d_epp_request_running", Row::kRunning},
      {"llm_d_epp_per_endpoint_queue_size", Row::kWaiting},
      {"llm_d_epp_average_kv_cache_utilization", Row::kKvUsage},
      {"llm_d_epp_request_input_tokens_sum", Row::kPromptTokens},
      {"llm_d_epp_request_output_tokens_sum", Row::kGenerationTokens},
      {"llm_d_epp_request_input_tokens_sum", Row::kPrefixQueries},
      {"llm_d_epp_request_cached_tokens_sum", Row::kPrefixHits},
      // request_total counts arrivals; the duration is observed at a good end.
      {"llm_d_epp_request_duration_seconds_count", Row::kRequests, 0, 0, 1, {}, "ok"},
      {"llm_d_epp_request_error_total", Row::kRequests, 0, 0, 1, {}, "error"},
      // Its names before the llm-d router, still written beside the new ones.
      {"inference_objective_request_duration_seconds", Row::kEndToEnd, 1},
      {"inference_objective_input_tokens", Row::kRequestPromptTokens, 1},
      {"inference_objective_output_tokens", Row::kRequestGenerationTokens, 1},
      {"inference_objective_running_requests", Row::kRunning, 1},
      {"inference_pool_per_pod_queue_size", Row::kWaiting, 1},
      {"inference_pool_average_kv_cache_utilization", Row::kKvUsage, 1},
      {"inference_objective_input_tokens_sum", Row::kPromptTokens, 1},
      {"inference_objective_output_tokens_sum", Row::kGenerationTokens, 1},
      {"inference_objective_request_duration_seconds_count", Row::kRequests, 1, 0, 1, {}, "ok"},
      {"inference_objective_request_error_total", Row::kRequests, 1, 0, 1, {}, "error"},
  };
}

// vllm-mlx; mlx-lm has no metrics, and answers so.
Rules MlxRules() {
  return {
      {"vllm_mlx_inference_ttft_seconds", Row::kTimeToFirstToken},
      {"vllm_mlx_inference_request_duration_seconds", Row::kEndToEnd},
      {"vllm_mlx_scheduler_running_requests", Row::kRunning},
      {"vllm_mlx_scheduler_waiting_requests", Row::kWaiting},
      {"vllm_mlx_cache_utilization_ratio", Row::kKvUsage},
      {"vllm_mlx_prompt_tokens_total", Row::kPromptTokens},
      {"vllm_mlx_completion_tokens_total", Row::kGenerationTokens},
      {"vllm_mlx_prompt_tokens_total", Row::kPrefixQueries},
      {.family = "vllm_mlx_cache_tokens_saved", .row = Row::kPrefixHits, .resets_alone = true},
      {"vllm_mlx_inference_requests_total",
       Row::kRequests,
       0,
       0,
       1,
       {Is("result", "success")},
       "ok"},
      {"vllm_mlx_inference_requests_total",
       Row::kRequests,
       0,
       0,
       1,
       {Is("result", "error")},
       "error"},
  };
}

// Our own rows: those of its engine where that is its own, else what it knows of others. They are
// never added over sources. engine_up is what we find out ourselves.
Rules FakRules() {
  Rules rules;
  for (size_t i = 0; i < metrics::kRows; ++i) {
    const Row row = static_cast<Row>(i);
    uint8_t choice = 0;
    for (const std::string_view source : {"native", "engine", "gateway"}) {
      if (row != Row::kEngineUp) {
        rules.push_back({.family = metrics::InfoOf(row).name,
                         .row = row,
                         .choice = choice++,
                         .tests = {Is("source", source)},
                         .label = metrics::InfoOf(row).label.empty() ? "" : "*"});
      }
    }
  }
  return rules;
}

// What stands in front of vLLM may show vLLM's own rows, too; its own words come first.
Rules WithVllm(Rules rules) {
  constexpr uint8_t kAfterAll = 8;
  for (MetricRule rule : VllmRules()) {
    rule.choice = static_cast<uint8_t>(rule.choice + kAfterAll);
    rules.push_back(rule);
  }
  return rules;
}

}  // namespace

MetricMap MetricMapOf(std::string_view engine) {
  constexpr std::string_view kBlocksFamily = "vllm:cache_config_info";
  constexpr std::string_view kBlocksLabel = "num_gpu_blocks";
  if (engine == "vllm") {
    return {VllmRules(), kBlocksFamily, kBlocksLabel, {}, {}};
  }
  if (engine == "dynamo") {
    return {.rules = WithVllm(DynamoRules()),
            .blocks_family = kBlocksFamily,
            .blocks_label = kBlocksLabel,
            .roles_family = "dynamo_frontend_worker_active_decode_blocks"};
  }
  if (engine == "llmd") {
    return {WithVllm(LlmdRules()), kBlocksFamily, kBlocksLabel, {}, {}};
  }
  if (engine == "sglang") {
    return {.rules = SglangRules(), .model_label = "name"};
  }
  if (engine == "llamacpp") {
    return {.rules = LlamaCppRules()};
  }
  if (engine == "mlx") {
    return {.rules = MlxRules()};
  }
  return {.rules = engine == "fak" ? FakRules() : Rules{}};
}

}  // namespace fak::ride
