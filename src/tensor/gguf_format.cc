#include "tensor/gguf_format.h"

#include <array>
#include <bit>

#include "base/result.h"

namespace fak::tensor {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are read as they lie in the file");

struct TypeRow {
  std::string_view name;
  size_t bytes;
};

// The index is the number of the type.
constexpr std::array<TypeRow, kGgufTypes> kTypes = {{{"u8", 1},
                                                     {"i8", 1},
                                                     {"u16", 2},
                                                     {"i16", 2},
                                                     {"u32", 4},
                                                     {"i32", 4},
                                                     {"f32", 4},
                                                     {"bool", 1},
                                                     {"string", 0},
                                                     {"array", 0},
                                                     {"u64", 8},
                                                     {"i64", 8},
                                                     {"f64", 8}}};

const TypeRow& RowOf(GgufType type) {
  const auto index = static_cast<size_t>(type);
  CHECK(index < kTypes.size()) << "no metadata type has number " << index;
  return kTypes[index];
}

}  // namespace

std::string_view GgufTypeName(GgufType type) {
  return RowOf(type).name;
}
size_t GgufTypeBytes(GgufType type) {
  return RowOf(type).bytes;
}

}  // namespace fak::tensor
