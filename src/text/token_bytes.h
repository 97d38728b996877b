#pragma once

#include <string>
#include <string_view>

#include "text/vocabulary.h"

namespace fak::text {

// "<0x0A>" -> 10; -1 for any other name.
int ByteOfName(std::string_view name);

// Appends the bytes that a token of this type stands for: its name if it is a control or unknown
// token, its text if user-defined. U+2581 is a blank in SentencePiece vocabularies.
void AppendTokenBytes(std::string& out, Vocabulary::Model model, TokenType type,
                      std::string_view token);

}  // namespace fak::text
