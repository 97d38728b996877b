#pragma once

#include <string>
#include <string_view>

namespace fak::cli {

// What a first word that may name a model or begin a prompt is taken for.
struct FirstWord {
  enum class Kind { kModel, kMistypedModel, kPrompt };
  Kind kind = Kind::kPrompt;
  // Why it is no model, where it looks like one; of a prompt, for a person to know.
  std::string note = {};
};

// A model: a path to a GGUF file, an alias, hf:, pypi:, https:, or the name of a pulled one;
// with blanks in it only a file that there is.
// Mistyped: near such a name, and no word of a language ("smollm3", "gemma3:1b") or `alone`; or
// alone in the form name:tag.
FirstWord ReadFirstWord(std::string_view word, bool alone);

}  // namespace fak::cli
