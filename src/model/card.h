#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tensor/gguf.h"
#include "text/model_card.h"
#include "text/vocabulary.h"

namespace fak::model {

// The vocabulary of a GGUF file. kUnsupported names a tokenizer model that isn't served here.
[[nodiscard]] Result<text::Vocabulary> ReadVocabulary(const tensor::GgufFile& file);

// The card of an open model file. chat_template_source replaces the file's own template.
[[nodiscard]] Result<std::shared_ptr<const text::ModelCard>> MakeCard(
    const tensor::GgufFile& file, std::optional<std::string> chat_template_source);

// GGUF files and tokenizer.json files. Any thread; holds nothing.
class CardLoader final : public text::ModelCardLoader {
 public:
  Result<std::shared_ptr<const text::ModelCard>> Load(
      const std::string& path, std::optional<std::string> chat_template_source) override;
};

}  // namespace fak::model
