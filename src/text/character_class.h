#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fak::text {

// What pre-tokenizers ask of a character. A character has exactly one of the first five.
enum CharacterClass : uint8_t {
  kLetter = 1,       // \p{L}
  kNumber = 2,       // \p{N}
  kBlank = 4,        // \s: White_Space of Unicode, as Hugging Face's engine and llama.cpp have it
  kPunctuation = 8,  // \p{P}, and the ASCII symbols $ + < = > ^ | ~
  kOther = 16,       // the rest; also a byte that is no part of valid UTF-8, alone
  kLineEnd = 32,     // with kBlank: CR and LF
};

struct Character {
  uint8_t classes;  // CharacterClass bits
  uint8_t length;   // bytes, 1 to 4
};

// The character that begins at text[at]. Precondition: at < text.size(). Categories are utf8proc's,
// so characters newer than its Unicode version are kOther. Any thread.
Character CharacterAt(std::string_view text, size_t at);

}  // namespace fak::text
