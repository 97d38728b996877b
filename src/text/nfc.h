#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fak::text {

// The text in normalisation form C, a view of it or of the storage. Text that is not UTF-8 stays as
// it is. Versions of Unicode: utf8proc's.
std::string_view ComposeNfc(std::string_view text, std::string& storage);

// NFC makes no text shorter than its length over this: three bytes of at most nine (a Hangul
// syllable of three jamo), one to spare.
inline constexpr size_t kNfcShrinkMax = 4;

}  // namespace fak::text
