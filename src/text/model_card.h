#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fak::text {

class ChatTemplate;
class Tokenizer;

// The sampling defaults that a model file recommends (general.sampling.*); absent = not said.
struct SamplingDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int32_t> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
};

// What the gateway and the bench know of a model without its weights: how its text becomes
// tokens and back, and its limits. Immutable and shared; any thread.
struct ModelCard {
  std::string name;            // general.name, or the file's stem
  std::string architecture;    // "llama"; empty when it came from a tokenizer.json alone
  std::string quantisation;    // as the file calls its mixture, else its main type; may be empty
  uint64_t parameters = 0;     // 0: not known
  int32_t context_length = 0;  // trained; 0: not known
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> maybe_chat_template;  // null: completes text only
  std::string bos_token;                                    // text, for templates; empty when none
  std::string eos_token;
  SamplingDefaults sampling;
  std::vector<std::string> notes;  // one line each, for a person: what the file leaves open
};

// Makes cards. Room `model` implements it (GGUF, tokenizer.json); cli hands it to gateway and perf.
class ModelCardLoader {
 public:
  virtual ~ModelCardLoader() = default;
  // path: a .gguf file or a tokenizer.json. A chat template given here replaces the file's.
  [[nodiscard]] virtual Result<std::shared_ptr<const ModelCard>> Load(
      const std::string& path, std::optional<std::string> chat_template_source = {}) = 0;
};

}  // namespace fak::text
