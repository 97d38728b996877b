#pragma once

namespace fak {

// Of this program; CMakeLists.txt has the same.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace fak
