#pragma once

#include "tensor/blocks.h"
#include "tensor/spec/unpack.h"

// The inverse of spec/unpack.h: integers and scales into the blocks of files. For quantisers and
// tests. Values must be ones that the format can hold: d, m and dmin exact in f16, codes and scales
// in range, the scales and minima of formats with 32 elements a scale repeated twice; a code of
// IQ4_NL and IQ4_XS is a value of the code book. Thread-safe.
namespace fak::tensor {

void Pack(const spec::Weights32& in, BlockQ4_0& out);
void Pack(const spec::Weights32& in, BlockQ4_1& out);
void Pack(const spec::Weights32& in, BlockQ5_0& out);
void Pack(const spec::Weights32& in, BlockQ5_1& out);
void Pack(const spec::Weights32& in, BlockQ8_0& out);
void Pack(const spec::Weights32& in, BlockIq4Nl& out);
void Pack(const spec::Weights256& in, BlockQ2K& out);
void Pack(const spec::Weights256& in, BlockQ3K& out);
void Pack(const spec::Weights256& in, BlockQ4K& out);
void Pack(const spec::Weights256& in, BlockQ5K& out);
void Pack(const spec::Weights256& in, BlockQ6K& out);
void Pack(const spec::Weights256& in, BlockIq4Xs& out);

}  // namespace fak::tensor
