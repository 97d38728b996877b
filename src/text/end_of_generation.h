#pragma once

#include <cstdint>
#include <vector>

#include "text/token_index.h"
#include "text/vocabulary.h"

namespace fak::text {

// Chat models are often published with an EOS that is not what their chats end with, so tokens that
// are known to end a turn are recognised by name, as llama.cpp does. Some files give such a token
// the type of plain text: where its name can be nothing else it is made a control token here, so
// that it is parsed and hidden like one.
void RetypeEndTokens(const TokenIndex& index, std::vector<TokenType>& types);

// Every id that ends a generation, ascending: the vocabulary's own and those known by name.
std::vector<int32_t> EndOfGenerationIds(const Vocabulary& vocabulary, const TokenIndex& index,
                                        const std::vector<TokenType>& types);

}  // namespace fak::text
