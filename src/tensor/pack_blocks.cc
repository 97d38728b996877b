#include "tensor/pack_blocks.h"

#include <cstring>

#include "base/result.h"
#include "tensor/spec/convert.h"

namespace fak::tensor {
namespace {

// ORs `bits` into a byte, from bit `shift` on.
void Put(uint8_t& byte, int bits, int shift) {
  byte = static_cast<uint8_t>(byte | (bits << shift));
}

// 4 bits a code: the first half of each run of 2·half codes in the low halves of `half` bytes, the
// second in their high halves.
template <class CodeOf>
void PutNibbles(uint8_t* qs, int count, int half, CodeOf code_of) {
  for (int i = 0; i < count; ++i) {
    const int run = i / (2 * half);
    const int place = i % (2 * half);
    Put(qs[run * half + place % half], code_of(i) & 15, place < half ? 0 : 4);
  }
}

int Iq4Index(int code) {
  for (int index = 0; index < 16; ++index) {
    if (spec::Iq4Code(index) == code) {
      return index;
    }
  }
  CHECK(false) << code << " isn't in the code book";
  return 0;
}

void PutFifthBits32(uint8_t* qh, const spec::Weights32& in, int offset) {
  for (int i = 0; i < 32; ++i) {
    Put(qh[i / 8], (in.w[i] + offset) >> 4, i % 8);
  }
}

// 2 bits a code: four quarters of 32 codes in each 32 bytes.
template <class CodeOf>
void PutPairs(uint8_t* qs, CodeOf code_of) {
  for (int i = 0; i < 256; ++i) {
    Put(qs[32 * (i / 128) + i % 32], code_of(i) & 3, 2 * (i % 128 / 32));
  }
}

// The scales and minima of Q4_K and Q5_K: 8 pairs of 6 bits in 12 bytes.
void PutScales(uint8_t* s, const spec::Weights256& in) {
  for (int j = 0; j < 4; ++j) {
    const int scale = in.scale[2 * j];
    const int min = in.min[2 * j];
    const int scale_above = in.scale[2 * (j + 4)];
    const int min_above = in.min[2 * (j + 4)];
    Put(s[j], scale, 0);
    Put(s[j], scale_above >> 4, 6);
    Put(s[j + 4], min, 0);
    Put(s[j + 4], min_above >> 4, 6);
    Put(s[j + 8], scale_above & 15, 0);
    Put(s[j + 8], min_above & 15, 4);
  }
}

}  // namespace

void Pack(const spec::Weights32& in, BlockQ4_0& out) {
  out = {};
  out.d = spec::F32ToF16(in.d);
  PutNibbles(out.qs, 32, 16, [&](int i) { return in.w[i] + 8; });
}

void Pack(const spec::Weights32& in, BlockQ4_1& out) {
  out = {};
  out.d = spec::F32ToF16(in.d);
  out.m = spec::F32ToF16(in.m);
  PutNibbles(out.qs, 32, 16, [&](int i) { return int{in.w[i]}; });
}

void Pack(const spec::Weights32& in, BlockQ5_0& out) {
  out = {};
  out.d = spec::F32ToF16(in.d);
  PutNibbles(out.qs, 32, 16, [&](int i) { return in.w[i] + 16; });
  PutFifthBits32(out.qh, in, 16);
}

void Pack(const spec::Weights32& in, BlockQ5_1& out) {
  out = {};
  out.d = spec::F32ToF16(in.d);
  out.m = spec::F32ToF16(in.m);
  PutNibbles(out.qs, 32, 16, [&](int i) { return int{in.w[i]}; });
  PutFifthBits32(out.qh, in, 0);
}

void Pack(const spec::Weights32& in, BlockQ8_0& out) {
  out.d = spec::F32ToF16(in.d);
  std::memcpy(out.qs, in.w, sizeof out.qs);
}

void Pack(const spec::Weights32& in, BlockIq4Nl& out) {
  out = {};
  out.d = spec::F32ToF16(in.d);
  PutNibbles(out.qs, 32, 16, [&](int i) { return Iq4Index(in.w[i]); });
}

void Pack(const spec::Weights256& in, BlockQ2K& out) {
  out = {};
  out.d = spec::F32ToF16(in.d);
  out.dmin = spec::F32ToF16(in.dmin);
  for (int j = 0; j < 16; ++j) {
    Put(out.scales[j], in.scale[j], 0);
    Put(out.scales[j], in.min[j], 4);
  }
  PutPairs(out.qs, [&](int i) { return int{in.w[i]}; });
}

void Pack(const spec::Weights256& in, BlockQ3K& out) {
  out = {};
  out.d = spec::F32ToF16(in.d);
  for (int j = 0; j < 16; ++j) {
    const int scale = in.scale[j] + 32;
    Put(out.scales[j % 8], scale & 15, j < 8 ? 0 : 4);
    Put(out.scales[8 + j % 4], scale >> 4, 2 * (j / 4));
  }
  PutPairs(out.qs, [&](int i) { return in.w[i] + 4; });
  for (int i = 0; i < 256; ++i) {
    Put(out.hmask[i % 32], (in.w[i] + 4) >> 2, i / 32);
  }
}

void Pack(const spec::Weights256& in, BlockQ4K& out) {
  out = {};
  out.d = spec::F32ToF16(in.d);
  out.dmin = spec::F32ToF16(in.dmin);
  PutScales(out.scales, in);
  PutNibbles(out.qs, 256, 32, [&](int i) { return int{in.w[i]}; });
}

void Pack(const spec::Weights256& in, BlockQ5K& out) {
  out = {};
  out.d = spec::F32ToF16(in.d);
  out.dmin = spec::F32ToF16(in.dmin);
  PutScales(out.scales, in);
  PutNibbles(out.qs, 256, 32, [&](int i) { return int{in.w[i]}; });
  for (int i = 0; i < 256; ++i) {
    Put(out.qh[i % 32], in.w[i] >> 4, i / 32);
  }
}

void Pack(const spec::Weights256& in, BlockQ6K& out) {
  out = {};
  out.d = spec::F32ToF16(in.d);
  for (int j = 0; j < 16; ++j) {
    out.scales[j] = static_cast<int8_t>(in.scale[j]);
  }
  PutNibbles(out.ql, 256, 64, [&](int i) { return in.w[i] + 32; });
  PutPairs(out.qh, [&](int i) { return (in.w[i] + 32) >> 4; });
}

void Pack(const spec::Weights256& in, BlockIq4Xs& out) {
  out = {};
  out.d = spec::F32ToF16(in.d);
  int high = 0;
  for (int j = 0; j < 8; ++j) {
    const int scale = in.scale[2 * j] + 32;
    Put(out.scales_l[j / 2], scale & 15, 4 * (j % 2));
    high |= (scale >> 4) << (2 * j);
  }
  out.scales_h = static_cast<uint16_t>(high);
  PutNibbles(out.qs, 256, 16, [&](int i) { return Iq4Index(in.w[i]); });
}

}  // namespace fak::tensor
