#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/utf8.h"

namespace fak::text {

std::string_view ComposeNfc(std::string_view text, std::string& storage) {
  // Nothing below U+0300, which is CC 80, changes or composes with its like.
  const bool may_change =
      std::any_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) >= 0xCC; });
  if (!may_change || !IsValidUtf8(text)) {
    return text;
  }
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &composed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (length < 0) {
    return text;
  }
  storage.assign(reinterpret_cast<const char*>(composed), static_cast<size_t>(length));
  std::free(composed);  // NOLINT: utf8proc allocates with malloc
  return storage;
}

}  // namespace fak::text
