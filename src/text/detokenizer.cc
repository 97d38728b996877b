#include "text/detokenizer.h"

#include "base/utf8.h"

namespace fak::text {

void Utf8Assembler::Feed(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined.swap(held_);
    joined += bytes;
    bytes = joined;
  }
  // Only the last three bytes can be the beginning of something: find the shortest end of the text
  // that might be, and repair what is before it.
  size_t hold = 0;
  for (size_t length = 1; length <= 3 && length <= bytes.size(); ++length) {
    if (IsIncompleteUtf8(bytes.substr(bytes.size() - length))) {
      hold = length;
    }
  }
  const std::string_view whole = bytes.substr(0, bytes.size() - hold);
  if (IsValidUtf8(whole)) {
    out += whole;
  } else {
    out += ReplaceInvalidUtf8(whole);
  }
  held_.assign(bytes.substr(whole.size()));
}

void Utf8Assembler::Flush(std::string& out) {
  if (!held_.empty()) {
    out += kUtf8Replacement;
    held_.clear();
  }
}

void Detokenizer::Feed(int32_t token, std::string& out) {
  if (options_.skip_special && tokenizer_.IsControl(token)) {
    return;
  }
  utf8_.Feed(tokenizer_.TokenBytes(token), out);
}

}  // namespace fak::text
