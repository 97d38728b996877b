#pragma once

#include "base/json.h"
#include "base/result.h"
#include "text/vocabulary.h"

namespace fak::text {

// Builds a vocabulary from a Hugging Face tokenizer.json and, where there is one, the
// tokenizer_config.json beside it (null: none), which names BOS, EOS and the like.
// Read are byte-level BPE, its pre-tokenizer recognised by its regular expressions, and BPE on text
// with U+2581 for blanks and byte fallback (Gemma). Anything else in the file that would change a
// token is kUnsupported and named; what breaks the format is kDataCorrupt.
[[nodiscard]] Result<Vocabulary> VocabularyFromHuggingFace(const Json& tokenizer,
                                                           const Json* maybe_config);

}  // namespace fak::text
