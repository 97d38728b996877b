#pragma once

#include <string>

#include "cases_model.h"
#include "cases_product.h"
#include "cases_scalar.h"
#include "tensor/dtype.h"

// The list of all cases, in the order of the golden file.
namespace fak::vectors {

// Names of the quantised and float types in the golden file.
inline const char* TypeName(DType type) {
  switch (type) {
    case DType::kF32: return "F32";
    case DType::kF16: return "F16";
    case DType::kBf16: return "BF16";
    case DType::kQ4_0: return "Q4_0";
    case DType::kQ4_1: return "Q4_1";
    case DType::kQ5_0: return "Q5_0";
    case DType::kQ5_1: return "Q5_1";
    case DType::kQ8_0: return "Q8_0";
    case DType::kQ2K: return "Q2_K";
    case DType::kQ3K: return "Q3_K";
    case DType::kQ4K: return "Q4_K";
    case DType::kQ5K: return "Q5_K";
    case DType::kQ6K: return "Q6_K";
    case DType::kIq4Nl: return "IQ4_NL";
    case DType::kIq4Xs: return "IQ4_XS";
  }
  return "";
}

template <class Case>
std::string NameOf() {
  if constexpr (requires { Case::kType; }) {
    return std::string(Case::kName) + TypeName(Case::kType);
  } else {
    return Case::kName;
  }
}

template <class... Cases, class Visit>
void VisitCases(Visit& visit) {
  (visit.template Do<Cases>(), ...);
}

template <template <class> class Case, class Visit>
void VisitQuantised(Visit& visit) {
  VisitCases<Case<BlockQ4_0>, Case<BlockQ4_1>, Case<BlockQ5_0>, Case<BlockQ5_1>, Case<BlockQ8_0>,
             Case<BlockIq4Nl>, Case<BlockQ2K>, Case<BlockQ3K>, Case<BlockQ4K>, Case<BlockQ5K>,
             Case<BlockQ6K>, Case<BlockIq4Xs>>(visit);
}

// Calls visit.Do<Case>() for each.
template <class Visit>
void VisitAll(Visit& visit) {
  VisitCases<F16ToF32Case, Bf16ToF32Case, F32ToF16Case, F32ToBf16Case, StoreKvCase, ConvertCase,
             NonFiniteCase, TreeCase, LaneSumCase, RmsNormCase, QuantiseCase<32>, QuantiseCase<256>,
             QuantiseTiesCase>(visit);
  VisitQuantised<ProductCase>(visit);
  VisitCases<FloatProductCase<DType::kF32>, FloatProductCase<DType::kF16>,
             FloatProductCase<DType::kBf16>>(visit);
  VisitCases<FunctionCase<Exp2Function>, FunctionCase<ExpFunction>, FunctionCase<SiluFunction>,
             FunctionCase<GeluFunction>, FunctionCase<TanhFunction>, FunctionCase<SoftCapFunction>,
             EdgesCase, Functions64Case, RopeTableCase, RotateCase, AttentionCase>(visit);
  VisitQuantised<EmbeddingCase>(visit);
  VisitCases<RouterCase, RandomCase, SamplingCase, ModelCase>(visit);
}

}  // namespace fak::vectors
