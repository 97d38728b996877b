// fuzz: links fak_text fak_base
// A tokenizer.json from anywhere gives a tokenizer that works, or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "text/hf_tokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = fak::ParseJson(text);
  if (!json) {
    return 0;
  }
  auto vocabulary = fak::text::VocabularyFromHuggingFace(*json, &*json);
  if (!vocabulary) {
    return 0;
  }
  const auto tokenizer = fak::text::Tokenizer::Create(*std::move(vocabulary));
  if (tokenizer) {
    const auto ids = (*tokenizer)->Encode(text, {.parse_special = true});
    (*tokenizer)->Decode(ids, {.skip_special = false});
  }
  return 0;
}
