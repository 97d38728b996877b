// Hot path: bench/micro/sample_bench.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tensor/cpu/kernels.h"
#include "tensor/sampling.h"

namespace fak::tensor::cpu {

// The largest of a row's logits, the first of equal ones, and whether all are finite. Parts of the
// row may be added and joined in any order.
struct LogitPeak {
  bool finite = true;
  float max = -std::numeric_limits<float>::infinity();
  uint32_t token = 0;

  // `part` starts at token `first` and is not empty.
  void Add(const Kernels& kernels, std::span<const float> part, uint32_t first);
  void Join(const LogitPeak& other);
};

// Draws from one row of logits, as docs/formats/numerics.md "Sampling" says; the steps, in order:
//   log probabilities of the raw logits, where asked for
//   + bias; tokens not allowed become -inf; penalties
//   temperature < 1e-5: the largest, lowest id on ties; done
//   / temperature; weights floor(exp(l - max) · 2^40); tokens of weight 0 are dropped
//   min_p, top_k, typical_p, top_p, each over what the one before left; at least one token stays
//   the draw: ids ascending, running sum of weights
// Sums are integers, so any order of work gives the same token. The vocabulary is never sorted: the
// maxima of groups of tokens bound what a cut can leave, and groups below that are passed by.
//
// One Sampler a thread: it holds scratch of a few bytes a token that grows on first use.
class Sampler {
 public:
  explicit Sampler(const Kernels& kernels) : kernels_(kernels) {}

  // `peak` is that of all logits. A row with a non-finite value gives token -1, as does one that
  // leaves nothing to draw.
  void Sample(std::span<const float> logits, const LogitPeak& peak, const SampleSpec& spec,
              SampleResult& result);

 private:
  // A token that may still be drawn. Cuts keep those with the least key, ties by lowest id.
  struct Candidate {
    double key = 0.0;  // minus the tempered logit, or the atypicality
    uint64_t weight = 0;
    int32_t token = 0;
    float tempered = 0.0f;
  };

  void ReportLogprobs(std::span<const float> logits, float max, int32_t token,
                      const SampleSpec& spec, SampleResult& result);
  void FillTop(std::span<const float> logits, uint32_t n, double log_sum_exp, SampleResult& result);
  std::span<const float> Adjust(std::span<const float> logits, const SampleSpec& spec);
  // What a token must have at least to be a candidate.
  struct Floor {
    uint64_t weight = 1;
    float logit = 0.0f;
  };

  std::span<const float> Temper(std::span<const float> adjusted, float temperature);
  int32_t Draw(std::span<const float> tempered, float max, const SampleSpec& spec);
  int32_t DrawFromAll(std::span<const float> tempered, float max, uint64_t bits);
  int32_t DrawFromCandidates(uint64_t bits) const;
  void NoteGroups(std::span<const float> tempered);
  static Floor FloorOf(float min_p, float max);
  float ReachedBy(uint32_t k);
  void Gather(std::span<const float> tempered, float max, const Floor& floor);
  void GatherTop(std::span<const float> tempered, float max, const Floor& floor, uint32_t k);
  void GatherMass(std::span<const float> tempered, float max, const Floor& floor, float top_p);
  void KeepTopK(uint32_t k);
  void KeepMass(uint64_t target);
  void KeepTypical(float typical_p, float max);
  uint64_t CandidateWeight() const;

  const Kernels& kernels_;
  std::vector<float> adjusted_;
  std::vector<uint64_t> chunk_sums_;
  std::vector<float> group_maxima_;
  std::vector<float> group_order_;     // scratch
  std::vector<Candidate> candidates_;  // ids ascending
  std::vector<Candidate> order_;       // scratch of the cuts
  std::vector<TokenLogprob> heap_;
};

}  // namespace fak::tensor::cpu
