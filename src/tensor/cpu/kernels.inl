// Hot path: bench/micro/attention_bench.cc, bench/micro/sample_bench.cc. The functions of kernels.h
// for one ISA: the whole source of kernels_avx2.cc ..., included inside the ISA's namespace.
#include "tensor/cpu/functions.inl"
#include "tensor/cpu/rows.inl"

#include "tensor/cpu/attention.inl"
#include "tensor/cpu/logits.inl"

constexpr Kernels MakeKernels(Isa isa) {
  Kernels out;
  out.isa = isa;
  out.rms_norm = RmsNorm;
  out.rotate = Rotate;
  out.gate = Gate;
  out.add = AddRow;
  out.scale = ScaleRow;
  out.add_scaled = AddScaledRow;
  out.all_finite = AllFinite;
  out.store = StoreKv;
  out.attend = Attend;
  out.combine = Combine;
  out.max_of = MaxOf;
  out.arg_max = ArgMax;
  out.divide = DivideRow;
  out.weights = Weights;
  out.weight_sum = WeightSum;
  out.count_above = CountAbove;
  return out;
}
