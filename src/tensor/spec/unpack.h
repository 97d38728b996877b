#pragma once

#include <cstdint>

#include "tensor/blocks.h"
#include "tensor/spec/convert.h"

// The blocks of quantised weights as integers and scales: one function a format.
namespace fak::tensor::spec {

// A block of 32: element i is d · w[i] + m.
struct Weights32 {
  float d;
  float m;  // 0 where the format has none
  int8_t w[32];
};

// A block of 256: element i is d · scale[j] · w[i] − dmin · min[j], j = i / 16. Formats with 32
// elements a scale repeat each twice.
struct Weights256 {
  float d;
  float dmin;  // 0 where the format has none, and min[] with it
  int16_t scale[16];
  int16_t min[16];
  int8_t w[256];
};

FAK_HD inline int8_t Iq4Code(int index) {
  constexpr int8_t kCodes[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};
  return kCodes[index];
}

// 4 bits of element i of a block of 32: i < 16 low halves, then high halves.
FAK_HD inline int Nibble32(const uint8_t* qs, int i) {
  return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

FAK_HD inline int FifthBit32(const uint8_t* qh, int i) {
  return (qh[i / 8] >> (i % 8)) & 1;
}

FAK_HD inline void Unpack(const BlockQ4_0& block, Weights32& out) {
  out.d = F16ToF32(block.d);
  out.m = 0.0f;
  for (int i = 0; i < 32; ++i) {
    out.w[i] = static_cast<int8_t>(Nibble32(block.qs, i) - 8);
  }
}

FAK_HD inline void Unpack(const BlockQ4_1& block, Weights32& out) {
  out.d = F16ToF32(block.d);
  out.m = F16ToF32(block.m);
  for (int i = 0; i < 32; ++i) {
    out.w[i] = static_cast<int8_t>(Nibble32(block.qs, i));
  }
}

FAK_HD inline void Unpack(const BlockQ5_0& block, Weights32& out) {
  out.d = F16ToF32(block.d);
  out.m = 0.0f;
  for (int i = 0; i < 32; ++i) {
    out.w[i] = static_cast<int8_t>(Nibble32(block.qs, i) + 16 * FifthBit32(block.qh, i) - 16);
  }
}

FAK_HD inline void Unpack(const BlockQ5_1& block, Weights32& out) {
  out.d = F16ToF32(block.d);
  out.m = F16ToF32(block.m);
  for (int i = 0; i < 32; ++i) {
    out.w[i] = static_cast<int8_t>(Nibble32(block.qs, i) + 16 * FifthBit32(block.qh, i));
  }
}

FAK_HD inline void Unpack(const BlockQ8_0& block, Weights32& out) {
  out.d = F16ToF32(block.d);
  out.m = 0.0f;
  for (int i = 0; i < 32; ++i) {
    out.w[i] = block.qs[i];
  }
}

FAK_HD inline void Unpack(const BlockIq4Nl& block, Weights32& out) {
  out.d = F16ToF32(block.d);
  out.m = 0.0f;
  for (int i = 0; i < 32; ++i) {
    out.w[i] = Iq4Code(Nibble32(block.qs, i));
  }
}

FAK_HD inline void ClearMinima(Weights256& out) {
  out.dmin = 0.0f;
  for (int j = 0; j < 16; ++j) {
    out.min[j] = 0;
  }
}

FAK_HD inline void Unpack(const BlockQ2K& block, Weights256& out) {
  out.d = F16ToF32(block.d);
  out.dmin = F16ToF32(block.dmin);
  for (int j = 0; j < 16; ++j) {
    out.scale[j] = static_cast<int16_t>(block.scales[j] & 15);
    out.min[j] = static_cast<int16_t>(block.scales[j] >> 4);
  }
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    out.w[i] = static_cast<int8_t>((block.qs[32 * half + i % 32] >> (2 * quarter)) & 3);
  }
}

FAK_HD inline void Unpack(const BlockQ3K& block, Weights256& out) {
  out.d = F16ToF32(block.d);
  ClearMinima(out);
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? block.scales[j] & 15 : block.scales[j - 8] >> 4;
    const int high = (block.scales[8 + j % 4] >> (2 * (j / 4))) & 3;
    out.scale[j] = static_cast<int16_t>((low | (high << 4)) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    const int low = (block.qs[32 * half + i % 32] >> (2 * quarter)) & 3;
    const int high = (block.hmask[i % 32] >> (4 * half + quarter)) & 1;
    out.w[i] = static_cast<int8_t>(low + 4 * high - 4);
  }
}

// The 6-bit scales and minima that Q4_K and Q5_K share: pair j of 8.
FAK_HD inline void UnpackScales(const uint8_t* s, Weights256& out) {
  for (int j = 0; j < 8; ++j) {
    const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4);
    const int min = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | ((s[j] >> 6) << 4);
    out.scale[2 * j] = out.scale[2 * j + 1] = static_cast<int16_t>(scale);
    out.min[2 * j] = out.min[2 * j + 1] = static_cast<int16_t>(min);
  }
}

// 4 bits of element i of a block of 256 whose 32 bytes each hold 64 elements: 32 low, 32 high.
FAK_HD inline int Nibble256(const uint8_t* qs, int i) {
  const int byte = qs[32 * (i / 64) + i % 32];
  return i % 64 < 32 ? byte & 15 : byte >> 4;
}

FAK_HD inline void Unpack(const BlockQ4K& block, Weights256& out) {
  out.d = F16ToF32(block.d);
  out.dmin = F16ToF32(block.dmin);
  UnpackScales(block.scales, out);
  for (int i = 0; i < 256; ++i) {
    out.w[i] = static_cast<int8_t>(Nibble256(block.qs, i));
  }
}

FAK_HD inline void Unpack(const BlockQ5K& block, Weights256& out) {
  out.d = F16ToF32(block.d);
  out.dmin = F16ToF32(block.dmin);
  UnpackScales(block.scales, out);
  for (int i = 0; i < 256; ++i) {
    const int fifth = (block.qh[i % 32] >> (i / 32)) & 1;
    out.w[i] = static_cast<int8_t>(Nibble256(block.qs, i) + 16 * fifth);
  }
}

FAK_HD inline void Unpack(const BlockQ6K& block, Weights256& out) {
  out.d = F16ToF32(block.d);
  ClearMinima(out);
  for (int j = 0; j < 16; ++j) {
    out.scale[j] = block.scales[j];
  }
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    const int byte = block.ql[64 * half + i % 64];
    const int low = quarter < 2 ? byte & 15 : byte >> 4;
    const int high = (block.qh[32 * half + i % 32] >> (2 * quarter)) & 3;
    out.w[i] = static_cast<int8_t>((low | (high << 4)) - 32);
  }
}

FAK_HD inline void Unpack(const BlockIq4Xs& block, Weights256& out) {
  out.d = F16ToF32(block.d);
  ClearMinima(out);
  for (int j = 0; j < 8; ++j) {
    const int low = (block.scales_l[j / 2] >> (4 * (j % 2))) & 15;
    const int high = (block.scales_h >> (2 * j)) & 3;
    out.scale[2 * j] = out.scale[2 * j + 1] = static_cast<int16_t>((low | (high << 4)) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int byte = block.qs[16 * (i / 32) + i % 16];
    out.w[i] = Iq4Code(i % 32 < 16 ? byte & 15 : byte >> 4);
  }
}

}  // namespace fak::tensor::spec
