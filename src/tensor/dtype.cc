#include "tensor/dtype.h"

#include <algorithm>
#include <array>

#include "base/result.h"

namespace fak::tensor {
namespace {

constexpr DTypeSupport kComputed = DTypeSupport::kComputed;
constexpr DTypeSupport kSized = DTypeSupport::kSized;
constexpr DTypeSupport kRetired = DTypeSupport::kRetired;

constexpr DTypeInfo Row(uint8_t id, std::string_view name, uint16_t elements, uint16_t bytes,
                        DTypeSupport support) {
  return {.type = static_cast<DType>(id),
          .name = name,
          .block_elements = elements,
          .block_bytes = bytes,
          .support = support};
}

// The index is the id.
constexpr auto kTypes = std::to_array<DTypeInfo>({
    Row(0, "F32", 1, 4, kComputed),        Row(1, "F16", 1, 2, kComputed),
    Row(2, "Q4_0", 32, 18, kComputed),     Row(3, "Q4_1", 32, 20, kComputed),
    Row(4, "Q4_2", 1, 0, kRetired),        Row(5, "Q4_3", 1, 0, kRetired),
    Row(6, "Q5_0", 32, 22, kComputed),     Row(7, "Q5_1", 32, 24, kComputed),
    Row(8, "Q8_0", 32, 34, kComputed),     Row(9, "Q8_1", 32, 36, kSized),
    Row(10, "Q2_K", 256, 84, kComputed),   Row(11, "Q3_K", 256, 110, kComputed),
    Row(12, "Q4_K", 256, 144, kComputed),  Row(13, "Q5_K", 256, 176, kComputed),
    Row(14, "Q6_K", 256, 210, kComputed),  Row(15, "Q8_K", 256, 292, kSized),
    Row(16, "IQ2_XXS", 256, 66, kSized),   Row(17, "IQ2_XS", 256, 74, kSized),
    Row(18, "IQ3_XXS", 256, 98, kSized),   Row(19, "IQ1_S", 256, 50, kSized),
    Row(20, "IQ4_NL", 32, 18, kComputed),  Row(21, "IQ3_S", 256, 110, kSized),
    Row(22, "IQ2_S", 256, 82, kSized),     Row(23, "IQ4_XS", 256, 136, kComputed),
    Row(24, "I8", 1, 1, kSized),           Row(25, "I16", 1, 2, kSized),
    Row(26, "I32", 1, 4, kSized),          Row(27, "I64", 1, 8, kSized),
    Row(28, "F64", 1, 8, kSized),          Row(29, "IQ1_M", 256, 56, kSized),
    Row(30, "BF16", 1, 2, kComputed),      Row(31, "Q4_0_4_4", 1, 0, kRetired),
    Row(32, "Q4_0_4_8", 1, 0, kRetired),   Row(33, "Q4_0_8_8", 1, 0, kRetired),
    Row(34, "TQ1_0", 256, 54, kSized),     Row(35, "TQ2_0", 256, 66, kSized),
    Row(36, "IQ4_NL_4_4", 1, 0, kRetired), Row(37, "IQ4_NL_4_8", 1, 0, kRetired),
    Row(38, "IQ4_NL_8_8", 1, 0, kRetired), Row(39, "MXFP4", 32, 17, kSized),
    Row(40, "NVFP4", 64, 36, kSized),      Row(41, "Q1_0", 128, 18, kSized),
    Row(42, "Q2_0", 64, 18, kSized),
});

constexpr bool IndexIsId() {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<size_t>(kTypes[i].type) != i) {
      return false;
    }
  }
  return true;
}
static_assert(IndexIsId());

char Upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

bool SameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Upper(x) == Upper(y); });
}

}  // namespace

std::span<const DTypeInfo> AllDTypes() {
  return kTypes;
}

const DTypeInfo* FindDType(uint32_t id) {
  return id < kTypes.size() ? &kTypes[id] : nullptr;
}

const DTypeInfo* FindDType(std::string_view name) {
  for (const DTypeInfo& info : kTypes) {
    if (SameName(info.name, name)) {
      return &info;
    }
  }
  return nullptr;
}

const DTypeInfo& InfoOf(DType type) {
  const DTypeInfo* info = FindDType(static_cast<uint32_t>(type));
  CHECK(info != nullptr) << "no data type has id " << static_cast<int>(type);
  return *info;
}

}  // namespace fak::tensor
