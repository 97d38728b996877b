#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "perf/model_bench.h"
#include "perf/model_work.h"
#include "tensor/cpu_peaks.h"

// What this machine gives, measured, and the share of it that a model reaches in the same minutes
// (`fak bench roofline`, docs/bench.md).
namespace fak::perf {

// One bound.
struct Ceiling {
  tensor::Isa isa = tensor::Isa::kScalar;
  uint32_t threads = 1;
  tensor::Peak peak = tensor::Peak::kRead;
  tensor::ReadPattern pattern;  // the one that read most, where memory is read
  std::vector<double> samples;  // bytes or operations a second, one a round
};

// The series with the largest median; the first of equals. Not of none.
size_t BestOf(const std::vector<std::vector<double>>& series);

// The median of speed / bound over the rounds, so that both sides of a ratio saw the same weather.
double ShareOf(const std::vector<double>& speeds, const std::vector<double>& bounds);

// Owns threads and memory of the loops. Not thread-safe.
class Roofline {
 public:
  struct Options {
    std::vector<tensor::Isa> isas;
    std::vector<uint32_t> threads;
    uint64_t bytes = 0;
  };
  // Errors as CpuPeaks::Make().
  [[nodiscard]] static Result<Roofline> Make(const Options& options);

  size_t loops() const { return series_.size(); }  // of a round
  uint64_t bytes() const { return peaks_->bytes(); }
  uint64_t huge_page_bytes() const { return peaks_->huge_page_bytes(); }

  // Every loop once. on_loop: before each, with what it is.
  void Round(const std::function<void(const std::string& what)>& on_loop);
  // After the last round, in order of threads, then ISA.
  std::vector<Ceiling> Ceilings() const;

 private:
  struct Series {
    tensor::PeakLoop loop;
    std::vector<double> samples;
  };
  std::unique_ptr<tensor::CpuPeaks> peaks_;
  std::vector<Series> series_;
};

// A model beside the bounds of the ISA and the threads that it ran with.
struct ModelShare {
  std::string model;  // as a person calls it
  ModelWork work;
  TestResult decode;   // generation of one sequence
  TestResult prefill;  // a prompt
  Ceiling read;
  Ceiling product;  // of bytes or floats, by work.of_bytes

  std::vector<double> DecodeBytes() const;  // a second, one a round
  std::vector<double> PrefillOps() const;
};
// The bounds of that ISA and so many threads, out of `ceilings`, which must have them.
void TakeBounds(const std::vector<Ceiling>& ceilings, tensor::Isa isa, uint32_t threads,
                ModelShare& share);

std::string CeilingsText(const std::vector<Ceiling>& ceilings);
std::string ShareText(const ModelShare& share);
void WriteJson(const std::vector<Ceiling>& ceilings, JsonWriter& json);  // an array
void WriteJson(const ModelShare& share, JsonWriter& json);               // an object

}  // namespace fak::perf
