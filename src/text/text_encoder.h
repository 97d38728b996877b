#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace fak::text {

// Encodes text in which no special token is to be found. Immutable; any thread.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  virtual void Encode(std::string_view text, std::vector<int32_t>& out) const = 0;
  // How many bytes of the text no token can stand for.
  virtual size_t LostBytes(std::string_view text) const = 0;
};

}  // namespace fak::text
