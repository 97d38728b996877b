#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/engine_driver.h"

// Speed of an engine in this process: prompt processing and generation, alone and in batches, at a
// depth; the tests, their names and the JSON fields are llama-bench's and llama-batched-bench's, so
// that figures can be laid side by side.
namespace fak::perf {

// One row: either prompt (n_prompt > 0), or generation (n_gen > 0) with `parallel` sequences.
struct ModelTest {
  uint32_t n_prompt = 0;
  uint32_t n_gen = 0;
  uint32_t n_depth = 0;   // tokens that are in the KV before the clock starts
  uint32_t parallel = 1;  // sequences that generate together

  std::string Name() const;  // "pp512", "tg128 @ d4096", "tg32 x 8"
  uint64_t tokens() const { return n_prompt > 0 ? n_prompt : uint64_t{n_gen} * parallel; }
};

struct TestResult {
  ModelTest test;
  std::vector<uint64_t> samples_ns;
  std::vector<double> SamplesTs() const;  // tokens a second
  double MedianTs() const;
};

// A driver that was not started, with prefix caching on, made by the caller. Runs the test once.
// vocabulary: tokens are drawn from it by a fixed generator, so that every run has the same work.
// kContextTooLong when it doesn't fit the driver's context.
[[nodiscard]] Result<uint64_t> RunOnce(driver::EngineDriver& driver, const ModelTest& test,
                                       int32_t vocabulary, uint64_t run);

// The same test by a llama.cpp build: DIR holds llama-bench and llama-batched-bench.
struct Peer {
  std::string name;
  std::string folder;
};
[[nodiscard]] Result<uint64_t> RunPeerOnce(const Peer& peer, const ModelTest& test,
                                           const std::string& model_path, uint32_t threads);

double Median(std::vector<double> values);  // 0 of none
double Mean(const std::vector<double>& values);
double Deviation(const std::vector<double>& values);  // of a sample; 0 of fewer than two

// What the system calls its processor; empty where it doesn't say.
std::string CpuName();

}  // namespace fak::perf
