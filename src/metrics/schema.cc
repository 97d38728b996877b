#include "metrics/schema.h"

namespace fak::metrics {

const std::array<RowInfo, kRows>& Schema() {
  using enum RowType;
  static constexpr std::array<RowInfo, kRows> kSchema = {{
      {"fak_serving_time_to_first_token_seconds", "From arrival to the first token.", kHistogram},
      {"fak_serving_time_per_output_token_seconds",
       "Mean time between tokens of a request, without its first.", kHistogram},
      {"fak_serving_inter_token_latency_seconds", "Time between one token and the next.",
       kHistogram},
      {"fak_serving_e2e_request_latency_seconds", "From arrival to the end of the answer.",
       kHistogram},
      {"fak_serving_request_queue_time_seconds", "From arrival to the first step.", kHistogram},
      {"fak_serving_request_prompt_tokens", "Prompt tokens of a request.", kHistogram},
      {"fak_serving_request_generation_tokens", "Generated tokens of a request.", kHistogram},
      {"fak_serving_num_requests_running", "Sequences in the running batch.", kGauge},
      {"fak_serving_num_requests_waiting", "Sequences waiting for it.", kGauge},
      {"fak_serving_kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", kGauge},
      {"fak_serving_engine_up", "1 when the engine would answer now.", kGauge},
      {"fak_serving_prompt_tokens_total", "Prompt tokens computed or found in the cache."},
      {"fak_serving_generation_tokens_total", "Tokens generated."},
      {"fak_serving_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache."},
      {"fak_serving_prefix_cache_hits_total", "Prompt tokens found in the prefix cache."},
      {"fak_serving_preemptions_total", "Sequences that lost their blocks and ran again."},
      {"fak_serving_unknown_request_fields_total", "Request fields that nobody here knows."},
      {"fak_serving_spec_decode_draft_tokens_total", "Tokens proposed by speculation."},
      {"fak_serving_spec_decode_accepted_tokens_total", "Proposed tokens that were kept."},
      {"fak_serving_kv_event_batches_total", "Batches of KV events read."},
      {"fak_serving_kv_event_blocks_stored_total", "Blocks that KV events said were stored."},
      {"fak_serving_kv_event_blocks_removed_total", "Blocks that KV events said were removed."},
      {"fak_serving_kv_event_resets_total", "Times that all known of a cache became void."},
      {"fak_serving_kv_event_gaps_total", "Gaps in the numbers of KV events."},
      {"fak_serving_kv_event_replays_total", "Replays of KV events asked for."},
      {"fak_serving_kv_event_replays_failed_total", "Replays of KV events that failed."},
      {"fak_serving_kv_event_dropped_total", "Messages of KV events that could not be used."},
      {"fak_serving_generation_probes_total", "Times that it was asked for a token of our own."},
      {"fak_serving_generation_probes_failed_total", "Such times that no token came."},
      {"fak_serving_requests_total", "Requests by how they ended.", kCounter, "outcome"},
      {"fak_serving_request_errors_total", "Requests that ended with an error.", kCounter, "kind"},
      {"fak_serving_goodput_requests_total", "Requests that met a service level objective.",
       kCounter, "slo"},
      {"fak_serving_migrations_total",
       "Requests that lost their worker, by whether another took over.", kCounter, "outcome"},
      {"fak_serving_limit_refusals_total", "Requests over a limit of their key.", kCounter,
       "limit"},
  }};
  return kSchema;
}

}  // namespace fak::metrics
