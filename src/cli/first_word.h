#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fak::cli {

// What a first word that may name a model or begin a prompt is taken for.
struct FirstWord {
  enum class Kind { kModel, kNoModel, kPrompt };
  Kind kind = Kind::kPrompt;
  // Why it is no model, where it looks like one; of a prompt, for a person to know.
  std::string note = {};
};

// A model: a path to a GGUF file, an alias, hf:, pypi:, https:, or the name of a pulled one;
// with blanks in it only a file that there is.
// No model: of two `words` the first, where it could be a name or a path and is none; alone, a path
// that leads nowhere, what is near a model's name, or of the form name:tag; before several others,
// what is near such a name and no word of a language ("smollm3", "gemma3:1b").
FirstWord ReadFirstWord(std::string_view word, size_t words);

}  // namespace fak::cli
