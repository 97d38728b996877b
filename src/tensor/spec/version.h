#pragma once

namespace fak::tensor {

// Raised by every change that moves a bit of any result of docs/formats/numerics.md. Part of every
// cache identity: what one version wrote, another never reads.
inline constexpr int kNumericsVersion = 1;

}  // namespace fak::tensor
