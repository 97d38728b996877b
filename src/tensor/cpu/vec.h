#pragma once

// The vectors that CPU kernels are written with. A kernel source (*.inl) is included by one
// translation unit an ISA, inside that ISA's namespace, after its header: vec_scalar.h, vec_avx2.h,
// vec_avx512.h or vec_neon.h. Each offers the names below; every operation is one IEEE operation a
// lane, or exact on integers, so that one source gives one result everywhere.
//
//   kLanes          lanes of the native vectors: 4, 8, 16, 4
//   F32, I32        native vectors of float and int32_t
//   F32x16, I32x16  16 lanes (rule 3 sums in 16): the width to write norms, attention and
//                   activations in
//
// For T any of the four, where it makes sense:
//   T::Zero()  T::Splat(x)  T::Load(p)  v.Store(p)       no alignment asked for
//   Add Sub Mul (a, b)                                   float and integer
//   Max(a, b) = a > b ? a : b                            float and integer
//   Div(a, b)  Sqrt(a)  Fma(a, b, c) = a * b + c         float
//   SelectLess(a, b, t, f) = a < b ? t : f               float; f where unordered
//   And Or Xor (a, b)                                    integer
//   ShiftLeft<n>(a)  ShiftRight<n>(a)  ShiftRightSigned<n>(a)
//   Bits(float) -> integer, Float(integer) -> float      the same bits
//   ToFloat(integer) -> float                            nearest even
//   T::LoadF16(p)  T::LoadBf16(p)                        exact
//   v.StoreF16(p)  v.StoreBf16(p)                        nearest even, denormals kept, NaN to NaN
//   v.StoreLowBytes(p)                                   the low byte of each integer lane
// For 16 lanes:
//   LoadPartial(p, n)  StorePartial(v, p, n)             first n lanes; the others load as 0
//   Tree16(v)                                            rule 3
//   ReduceMax(v)  ReduceAdd(v)                           of integers
// And Prefetch(p).
//
// Code that is compiled with an ISA's flags must never be merged by the linker with code that
// isn't. What is here is in the ISA's own namespace; translation units with such flags call no
// inline function or template of any other header, the standard library's included (a test reads
// their weak symbols).
#define FAK_VEC inline __attribute__((always_inline))

// Before a loop whose count is a constant: its bodies one after the other.
#if defined(__clang__)
#define FAK_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FAK_UNROLL _Pragma("GCC unroll 64")
#endif
