#include "perf/model_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"

namespace fak::perf {
namespace {

// Ends are all that is needed of the events.
class EndSink final : public driver::EventSink {
 public:
  void OnEvent(wire::Event&& event) noexcept override {
    if (const auto* failed = std::get_if<wire::Failed>(&event)) {
      error_ = failed->error;
      ended_ = true;
    } else if (std::holds_alternative<wire::Done>(event)) {
      ended_ = true;
    }
  }
  bool ended() const { return ended_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  bool ended_ = false;
  std::optional<Error> error_;
};

// splitmix64: the same tokens in every run of the same test.
uint64_t Next(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::vector<int32_t> Tokens(uint64_t seed, uint32_t count, int32_t vocabulary) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(Next(seed) % static_cast<uint64_t>(vocabulary));
  }
  return tokens;
}

Result<std::shared_ptr<EndSink>> Admit(driver::EngineDriver& driver, const std::string& id,
                                       std::vector<int32_t> prompt, int32_t max_tokens) {
  auto turn = std::make_shared<wire::Turn>();
  turn->surface = wire::Surface::kCompletion;
  turn->sampling.temperature = 0.0f;
  turn->sampling.ignore_eos = true;
  turn->sampling.max_tokens = max_tokens;
  auto prepared = std::make_shared<driver::Prepared>();
  prepared->request_id = id;
  prepared->turn = turn;
  prepared->prompts.push_back({"", std::move(prompt), {}});
  prepared->arrival_ns = Clock::Real().NowNs();
  auto sink = std::make_shared<EndSink>();
  TRY(driver.Admit(prepared, sink));
  return sink;
}

Status StepToEnd(driver::EngineDriver& driver, const EndSink& sink) {
  while (!sink.ended()) {
    driver.Step();
  }
  return sink.error() ? Status(Fail(*sink.error())) : Status();
}

// Time of `n_prompt` tokens behind `n_depth` that are cached.
Result<uint64_t> RunPrompt(driver::EngineDriver& driver, const ModelTest& test, int32_t vocabulary,
                           uint64_t run) {
  std::vector<int32_t> tokens = Tokens(run, test.n_depth + test.n_prompt, vocabulary);
  const std::string id = "pp-" + std::to_string(run);
  if (test.n_depth > 0) {
    const std::vector<int32_t> head(tokens.begin(), tokens.begin() + test.n_depth);
    TRY_ASSIGN(const auto warm, Admit(driver, id + "-depth", head, 0));
    TRY(StepToEnd(driver, *warm));
  }
  const int64_t started_ns = Clock::Real().NowNs();
  TRY_ASSIGN(const auto sink, Admit(driver, id, std::move(tokens), 0));
  TRY(StepToEnd(driver, *sink));
  return static_cast<uint64_t>(Clock::Real().NowNs() - started_ns);
}

// Time of n_gen steps in which `parallel` sequences generate.
Result<uint64_t> RunGeneration(driver::EngineDriver& driver, const ModelTest& test,
                               int32_t vocabulary, uint64_t run) {
  std::vector<std::shared_ptr<EndSink>> sinks;
  for (uint32_t i = 0; i < test.parallel; ++i) {
    const uint64_t seed = run * 1000 + i;
    TRY_ASSIGN(auto sink, Admit(driver, "tg-" + std::to_string(seed),
                                Tokens(seed, std::max(1u, test.n_depth), vocabulary),
                                static_cast<int32_t>(test.n_gen) + 1));
    sinks.push_back(std::move(sink));
  }
  // Prompts first. When none is left every sequence has its first token.
  do {
    driver.Step();
  } while (driver.Load().backlog_tokens.value_or(0) > static_cast<int64_t>(test.parallel));
  const int64_t started_ns = Clock::Real().NowNs();
  for (uint32_t i = 0; i < test.n_gen; ++i) {
    driver.Step();
  }
  const int64_t ns = Clock::Real().NowNs() - started_ns;
  for (const auto& sink : sinks) {
    TRY(StepToEnd(driver, *sink));
  }
  return static_cast<uint64_t>(ns);
}

Result<uint64_t> NumberAt(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  if (value == nullptr || !value->is_number()) {
    return Fail(Code::kDataCorrupt, "the peer's output has no " + std::string(key));
  }
  return static_cast<uint64_t>(value->number());
}

Result<uint64_t> RunBatchedPeer(const Peer& peer, const ModelTest& test,
                                const std::string& model_path, uint32_t threads) {
  const std::string n_prompt = std::to_string(std::max(1u, test.n_depth));
  const uint32_t context = (std::max(1u, test.n_depth) + test.n_gen) * test.parallel + 64;
  TRY_ASSIGN(const std::string output,
             RunProgram({peer.folder + "/llama-batched-bench", "-m", model_path, "-t",
                         std::to_string(threads), "-c", std::to_string(context), "-npp", n_prompt,
                         "-ntg", std::to_string(test.n_gen), "-npl", std::to_string(test.parallel),
                         "--output-format", "jsonl"}));
  for (const std::string_view line : Split(output, '\n')) {
    if (!line.starts_with("{")) {
      continue;
    }
    TRY_ASSIGN(const Json row, ParseJson(line));
    const Json* seconds = row.Find("t_tg");
    if (seconds != nullptr && seconds->is_number()) {
      return static_cast<uint64_t>(seconds->number() * 1e9);
    }
  }
  return Fail(Code::kDataCorrupt, peer.name + ": llama-batched-bench printed no row");
}

}  // namespace

std::string ModelTest::Name() const {
  std::string name = n_prompt > 0 ? "pp" + std::to_string(n_prompt) : "tg" + std::to_string(n_gen);
  if (n_depth > 0) {
    name += " @ d" + std::to_string(n_depth);
  }
  return parallel > 1 ? name + " x " + std::to_string(parallel) : name;
}

std::vector<double> TestResult::SamplesTs() const {
  std::vector<double> rates;
  for (const uint64_t ns : samples_ns) {
    rates.push_back(1e9 * static_cast<double>(test.tokens()) / static_cast<double>(ns));
  }
  return rates;
}

double Median(std::vector<double> values) {
  if (values.empty()) {
    return 0.0;
  }
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

double Mean(const std::vector<double>& values) {
  return values.empty() ? 0.0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

double Deviation(const std::vector<double>& values) {
  if (values.size() < 2) {
    return 0.0;
  }
  const double mean = Mean(values);
  double squares = 0.0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::string CpuName() {
  constexpr size_t kBytesMax = 4 << 20;
  const Result<std::string> cpus = ReadFile("/proc/cpuinfo", kBytesMax);
  if (!cpus) {
    return "";
  }
  for (const std::string_view line : Split(*cpus, '\n')) {
    if (const auto parts = Cut(line, ": "); parts && parts->first.starts_with("model name")) {
      return std::string(parts->second);
    }
  }
  return "";
}

double TestResult::MedianTs() const {
  return Median(SamplesTs());
}

Result<uint64_t> RunOnce(driver::EngineDriver& driver, const ModelTest& test, int32_t vocabulary,
                         uint64_t run) {
  return test.n_prompt > 0 ? RunPrompt(driver, test, vocabulary, run)
                           : RunGeneration(driver, test, vocabulary, run);
}

Result<uint64_t> RunPeerOnce(const Peer& peer, const ModelTest& test, const std::string& model_path,
                             uint32_t threads) {
  if (test.parallel > 1) {
    return RunBatchedPeer(peer, test, model_path, threads);
  }
  TRY_ASSIGN(const std::string output,
             RunProgram({peer.folder + "/llama-bench", "-m", model_path, "-p",
                         std::to_string(test.n_prompt), "-n", std::to_string(test.n_gen), "-d",
                         std::to_string(test.n_depth), "-t", std::to_string(threads), "-r", "1",
                         "-o", "json"}));
  TRY_ASSIGN(const Json rows, ParseJson(output));
  if (!rows.is_array() || rows.array().empty()) {
    return Fail(Code::kDataCorrupt, peer.name + ": llama-bench printed no row");
  }
  return NumberAt(rows.array().front(), "avg_ns");
}

}  // namespace fak::perf
