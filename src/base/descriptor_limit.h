#pragma once

#include <cstdint>

// How many descriptors the program may have open, and who gets them.
namespace fak {

namespace limits {
// What a server keeps free of clients, for upstreams, probes and files: a quarter of the limit, at
// least and at most as many, and never more than half.
inline constexpr int kDescriptorsKeptMin = 16;
inline constexpr int kDescriptorsKeptMax = 256;
}  // namespace limits

// Most systems start programs with a soft limit of 1,024 and let them ask for more: asks for
// `wanted`, or for as many as there are to be had. The limit then; 0 where it isn't known.
uint64_t RaiseDescriptorLimit(uint64_t wanted);

// A descriptor of this number, or of a higher one, is no client's. The system gives the lowest that
// is free, so that the number tells how many are open at least.
int DescriptorsForClients(uint64_t limit);

}  // namespace fak
