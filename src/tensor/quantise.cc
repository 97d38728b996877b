#include "tensor/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/result.h"
#include "tensor/blocks.h"
#include "tensor/pack_blocks.h"
#include "tensor/spec/convert.h"
#include "tensor/spec/unpack.h"

namespace fak::tensor {
namespace {

// How far a tried scale is from the obvious one.
constexpr std::array<float, 9> kStretches = {0.8f,  0.85f, 0.9f,  0.95f, 1.0f,
                                             1.05f, 1.1f,  1.15f, 1.2f};

// What elements are stored as: the integers from lowest to highest, or the code book of IQ4.
class Codes {
 public:
  Codes(int lowest, int highest) : lowest_(lowest), highest_(highest) {}
  static Codes Iq4() {
    Codes codes(spec::Iq4Code(0), spec::Iq4Code(15));
    codes.book_ = true;
    for (int i = 0; i < 15; ++i) {
      codes.borders_[static_cast<size_t>(i)] =
          0.5f * static_cast<float>(spec::Iq4Code(i) + spec::Iq4Code(i + 1));
    }
    return codes;
  }

  int lowest() const { return lowest_; }
  int highest() const { return highest_; }

  int Nearest(float value) const {
    const float inside =
        std::clamp(value, static_cast<float>(lowest_), static_cast<float>(highest_));
    if (!book_) {
      return static_cast<int>(std::lrintf(inside));
    }
    int index = 0;
    for (const float border : borders_) {
      index += border < inside ? 1 : 0;
    }
    return spec::Iq4Code(index);
  }

 private:
  int lowest_;
  int highest_;
  bool book_ = false;
  std::array<float, 15> borders_ = {};  // of the code book: between code i and code i + 1
};

// x divided by a scale that may be 0.
float Over(float x, float scale) {
  return scale == 0.0f ? 0.0f : x / scale;
}

float RoundToF16(float x) {
  constexpr float kLargest = 65504.0f;
  return spec::F16ToF32(spec::F32ToF16(std::clamp(x, -kLargest, kLargest)));
}

float OfLargestMagnitude(std::span<const float> x) {
  float largest = 0.0f;
  float magnitude = 0.0f;
  for (const float v : x) {
    // Not `fabs(v) > fabs(largest) ? v : largest`: clang 19 with -mavx2 gets that wrong.
    if (std::fabs(v) > magnitude) {
      magnitude = std::fabs(v);
      largest = v;
    }
  }
  return largest;
}

// The scale d with the least sum of (x - d·code)².
float FitScale(std::span<const float> x, const Codes& codes) {
  const float extreme = OfLargestMagnitude(x);
  float best = 0.0f;
  double best_gain = 0.0;  // how much of the sum of x² the codes explain
  for (const int outermost : {codes.lowest(), codes.highest()}) {
    for (const float stretch : kStretches) {
      const float scale = extreme / (stretch * static_cast<float>(outermost));
      double xc = 0.0;
      double cc = 0.0;
      for (const float v : x) {
        const double code = codes.Nearest(Over(v, scale));
        xc += double{v} * code;
        cc += code * code;
      }
      if (cc > 0.0 && xc * xc / cc > best_gain) {
        best_gain = xc * xc / cc;
        best = static_cast<float>(xc / cc);
      }
    }
  }
  return best;
}

struct Affine {
  float scale = 0.0f;
  float offset = 0.0f;
};

// Least squares for x = scale·code + offset, given the codes that `start` leads to.
Affine SolveAffine(std::span<const float> x, const Codes& codes, Affine start,
                   bool offset_below_zero) {
  double c = 0.0;
  double cc = 0.0;
  double sum = 0.0;
  double xc = 0.0;
  for (const float v : x) {
    const double code = codes.Nearest(Over(v - start.offset, start.scale));
    c += code;
    cc += code * code;
    sum += double{v};
    xc += double{v} * code;
  }
  const auto n = static_cast<double>(x.size());
  const double determinant = n * cc - c * c;
  if (determinant <= 0.0) {
    return start;
  }
  const double offset = (cc * sum - c * xc) / determinant;
  if (offset_below_zero && offset > 0.0) {
    return {static_cast<float>(xc / cc), 0.0f};
  }
  return {static_cast<float>((n * xc - c * sum) / determinant), static_cast<float>(offset)};
}

double SquareError(std::span<const float> x, const Codes& codes, Affine fit) {
  double error = 0.0;
  for (const float v : x) {
    const auto code = static_cast<float>(codes.Nearest(Over(v - fit.offset, fit.scale)));
    const double miss = double{v} - double{fit.scale} * double{code} - double{fit.offset};
    error += miss * miss;
  }
  return error;
}

// With offset_below_zero the offset isn't above 0.
Affine FitAffine(std::span<const float> x, const Codes& codes, bool offset_below_zero) {
  const auto [low_at, high_at] = std::minmax_element(x.begin(), x.end());
  const float low = offset_below_zero ? std::min(*low_at, 0.0f) : *low_at;
  const float scale = (*high_at - low) / static_cast<float>(codes.highest());
  Affine best = {.scale = std::max(scale, 0.0f), .offset = low};
  double best_error = SquareError(x, codes, best);
  for (const float stretch : kStretches) {
    const Affine start = {.scale = best.scale == 0.0f ? 0.0f : scale / stretch, .offset = low};
    const Affine fit = SolveAffine(x, codes, start, offset_below_zero);
    const double error = SquareError(x, codes, fit);
    if (error < best_error) {
      best_error = error;
      best = fit;
    }
  }
  return best;
}

// ---- blocks of 32

template <class Block>
void QuantiseScaled32(std::span<const float> x, const Codes& codes, Block& out) {
  spec::Weights32 w = {};
  w.d = RoundToF16(FitScale(x, codes));
  for (size_t i = 0; i < x.size(); ++i) {
    w.w[i] = static_cast<int8_t>(codes.Nearest(Over(x[i], w.d)));
  }
  Pack(w, out);
}

template <class Block>
void QuantiseAffine32(std::span<const float> x, const Codes& codes, Block& out) {
  const Affine fit = FitAffine(x, codes, false);
  spec::Weights32 w = {};
  w.d = RoundToF16(fit.scale);
  w.m = RoundToF16(fit.offset);
  for (size_t i = 0; i < x.size(); ++i) {
    w.w[i] = static_cast<int8_t>(codes.Nearest(Over(x[i] - w.m, w.d)));
  }
  Pack(w, out);
}

void QuantiseBlock(std::span<const float> x, BlockQ4_0& out) {
  QuantiseScaled32(x, {-8, 7}, out);
}
void QuantiseBlock(std::span<const float> x, BlockQ4_1& out) {
  QuantiseAffine32(x, {0, 15}, out);
}
void QuantiseBlock(std::span<const float> x, BlockQ5_0& out) {
  QuantiseScaled32(x, {-16, 15}, out);
}
void QuantiseBlock(std::span<const float> x, BlockQ5_1& out) {
  QuantiseAffine32(x, {0, 31}, out);
}
void QuantiseBlock(std::span<const float> x, BlockQ8_0& out) {
  QuantiseScaled32(x, {-127, 127}, out);
}
void QuantiseBlock(std::span<const float> x, BlockIq4Nl& out) {
  QuantiseScaled32(x, Codes::Iq4(), out);
}

// ---- blocks of 256, in sub-blocks of `width` elements

template <class Block>
void QuantiseScaled256(std::span<const float> x, size_t width, const Codes& codes,
                       const Codes& scale_codes, Block& out) {
  std::array<float, 16> scales = {};
  const size_t count = x.size() / width;
  for (size_t j = 0; j < count; ++j) {
    scales[j] = FitScale(x.subspan(j * width, width), codes);
  }
  spec::Weights256 w = {};
  w.d = RoundToF16(OfLargestMagnitude(scales) / static_cast<float>(scale_codes.lowest()));
  for (size_t i = 0; i < x.size(); ++i) {
    const int scale = scale_codes.Nearest(Over(scales[i / width], w.d));
    w.scale[i / 16] = static_cast<int16_t>(scale);
    w.w[i] = static_cast<int8_t>(codes.Nearest(Over(x[i], w.d * static_cast<float>(scale))));
  }
  Pack(w, out);
}

template <class Block>
void QuantiseAffine256(std::span<const float> x, size_t width, const Codes& codes,
                       const Codes& scale_codes, Block& out) {
  std::array<Affine, 16> fits = {};
  Affine largest;
  const size_t count = x.size() / width;
  for (size_t j = 0; j < count; ++j) {
    fits[j] = FitAffine(x.subspan(j * width, width), codes, true);
    largest = {std::max(largest.scale, fits[j].scale), std::min(largest.offset, fits[j].offset)};
  }
  spec::Weights256 w = {};
  w.d = RoundToF16(largest.scale / static_cast<float>(scale_codes.highest()));
  w.dmin = RoundToF16(-largest.offset / static_cast<float>(scale_codes.highest()));
  for (size_t i = 0; i < x.size(); ++i) {
    const int scale = scale_codes.Nearest(Over(fits[i / width].scale, w.d));
    const int min = scale_codes.Nearest(Over(-fits[i / width].offset, w.dmin));
    w.scale[i / 16] = static_cast<int16_t>(scale);
    w.min[i / 16] = static_cast<int16_t>(min);
    const float above = x[i] + w.dmin * static_cast<float>(min);
    w.w[i] = static_cast<int8_t>(codes.Nearest(Over(above, w.d * static_cast<float>(scale))));
  }
  Pack(w, out);
}

void QuantiseBlock(std::span<const float> x, BlockQ2K& out) {
  QuantiseAffine256(x, 16, {0, 3}, {0, 15}, out);
}
void QuantiseBlock(std::span<const float> x, BlockQ3K& out) {
  QuantiseScaled256(x, 16, {-4, 3}, {-32, 31}, out);
}
void QuantiseBlock(std::span<const float> x, BlockQ4K& out) {
  QuantiseAffine256(x, 32, {0, 15}, {0, 63}, out);
}
void QuantiseBlock(std::span<const float> x, BlockQ5K& out) {
  QuantiseAffine256(x, 32, {0, 31}, {0, 63}, out);
}
void QuantiseBlock(std::span<const float> x, BlockQ6K& out) {
  QuantiseScaled256(x, 16, {-32, 31}, {-128, 127}, out);
}
void QuantiseBlock(std::span<const float> x, BlockIq4Xs& out) {
  QuantiseScaled256(x, 32, Codes::Iq4(), {-32, 31}, out);
}

// ---- rows

template <class Block>
void QuantiseBlocks(std::span<const float> row, std::span<std::byte> out) {
  const size_t elements = InfoOf(Block::kType).block_elements;
  for (size_t i = 0; i < row.size() / elements; ++i) {
    Block block;
    QuantiseBlock(row.subspan(i * elements, elements), block);
    std::memcpy(out.data() + i * sizeof block, &block, sizeof block);
  }
}

template <class Convert>
void ConvertTo16(std::span<const float> row, std::span<std::byte> out, Convert convert) {
  for (size_t i = 0; i < row.size(); ++i) {
    const uint16_t bits = convert(row[i]);
    std::memcpy(out.data() + i * sizeof bits, &bits, sizeof bits);
  }
}

}  // namespace

void QuantiseRow(DType type, std::span<const float> row, std::span<std::byte> out) {
  CHECK(IsComputed(type) && row.size() % InfoOf(type).block_elements == 0 &&
        out.size() == static_cast<size_t>(RowBytes(type, static_cast<int64_t>(row.size()))))
      << row.size() << " elements as " << DTypeName(type) << " in " << out.size() << " bytes";
  switch (type) {
    case DType::kF32: std::memcpy(out.data(), row.data(), out.size()); break;
    case DType::kF16: ConvertTo16(row, out, spec::F32ToF16); break;
    case DType::kBf16: ConvertTo16(row, out, spec::F32ToBf16); break;
    case DType::kQ4_0: QuantiseBlocks<BlockQ4_0>(row, out); break;
    case DType::kQ4_1: QuantiseBlocks<BlockQ4_1>(row, out); break;
    case DType::kQ5_0: QuantiseBlocks<BlockQ5_0>(row, out); break;
    case DType::kQ5_1: QuantiseBlocks<BlockQ5_1>(row, out); break;
    case DType::kQ8_0: QuantiseBlocks<BlockQ8_0>(row, out); break;
    case DType::kQ2K: QuantiseBlocks<BlockQ2K>(row, out); break;
    case DType::kQ3K: QuantiseBlocks<BlockQ3K>(row, out); break;
    case DType::kQ4K: QuantiseBlocks<BlockQ4K>(row, out); break;
    case DType::kQ5K: QuantiseBlocks<BlockQ5K>(row, out); break;
    case DType::kQ6K: QuantiseBlocks<BlockQ6K>(row, out); break;
    case DType::kIq4Nl: QuantiseBlocks<BlockIq4Nl>(row, out); break;
    case DType::kIq4Xs: QuantiseBlocks<BlockIq4Xs>(row, out); break;
  }
}

}  // namespace fak::tensor
