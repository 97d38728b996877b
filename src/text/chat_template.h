#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace fak::text {

namespace jinja {
struct Template;
}  // namespace jinja

// What a chat template is rendered from. Values are what the Python renderers of Hugging Face and
// vLLM pass, so that a template sees the same types.
struct ChatInput {
  // The OpenAI messages, oldest first: [{"role": ..., "content": ..., "tool_calls": ...}]. Passed
  // as they are: flattening content parts, or parsing `arguments` that came as a string where the
  // template wants an object (ChatTemplateTraits::object_arguments), is the caller's business.
  Json messages;
  // OpenAI tool objects, or null. An empty array counts as null: templates test `if tools`, but
  // some test `is not none`, and vLLM gives them None.
  Json tools;
  Json documents;
  bool add_generation_prompt = true;
  // chat_template_kwargs: an object whose members become variables (enable_thinking ...), or null.
  // They win over the variables above, except `messages`.
  Json extra;
  // Undefined in the template when absent, as with tokenizers that lack the token.
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  // What strftime_now() shows: this instant, moved by the offset of the wanted time zone.
  std::chrono::sys_seconds now{};
  std::chrono::seconds utc_offset{};
};

// Rendered text that knows which bytes a user wrote.
//
// Every string of `messages`, `tools`, `documents` and `extra`, keys included, is user content, and
// so is each piece of it that slicing, trimming, splitting, replacing, case mapping, formatting,
// joining, tojson, macros or blocks carry into the output. What the template's author wrote, and
// bos/eos, is scaffolding, and so are the role names (`messages[i].role`) as long as they are plain
// words (ASCII letters, digits, '_' and '-'): templates build special tokens from them, as in
// '<|' + role + '|>'. Numbers, booleans and null are scaffolding: they can't spell a token.
//
// A user who types "<|im_end|>" then can't forge a turn: Tokenizer::EncodeSegments() finds special
// tokens in scaffolding only, and still encodes the text between them as a whole.
struct RenderedPrompt {
  struct Range {
    size_t begin = 0;  // byte offsets into text, end exclusive
    size_t end = 0;

    friend bool operator==(const Range&, const Range&) = default;
  };
  std::string text;
  std::vector<Range> user_content;  // in order, disjoint, not touching, none empty

  // Views into text that cover it in order, none empty; parse_special says it is scaffolding.
  std::vector<Segment> Segments() const;
};

// How a model writes that it calls a tool.
enum class ToolDialect : uint8_t {
  kNone,    // in no way that is read here
  kHermes,  // <tool_call> {"name": ..., "arguments": {...}} </tool_call>: Hermes 2, Qwen 2.5 and 3
};

// What a template was seen to do with small probe conversations; a conversation that needs more
// may still be refused by the template itself.
struct ChatTemplateTraits {
  bool tools = false;         // the tools given show up in the prompt
  bool tool_calls = false;    // an assistant's tool call shows up
  bool tool_results = false;  // a message of role tool shows up
  bool system_role = false;   // a system message shows up
  // `arguments` of a tool call must be an object (a string would come out quoted twice, or raise).
  bool object_arguments = false;
  // As the template shows an assistant's call, so the model will write its own.
  ToolDialect tool_dialect = ToolDialect::kNone;
};

// A chat template: the subset of Jinja that model families use, rendered as Python's jinja2 does in
// Hugging Face's environment (trim_blocks, lstrip_blocks, loop controls, immutable sandbox). The
// one wilful difference: methods that change a list or dict (append, pop, update ...) work here,
// and are refused there. Immutable after Parse; any thread may render, many at once. Copies share
// the tree.
//
// Source of the semantics: jinja2 3.1 and CPython 3.11, observed; tests/golden/chat_template.
class ChatTemplate {
 public:
  // kInvalidArgument: a syntax error, with its line. kUnsupported: a statement, filter or test we
  // don't have, by name and line (one inside an `if` fails when it is reached, as in jinja2).
  // kPayloadTooLarge: over kTemplateBytesMax or kTemplateDepthMax.
  [[nodiscard]] static Result<ChatTemplate> Parse(std::string_view source);

  // For a model whose own template Parse() refused: whatever needs none goes on, and Render() is
  // kUnsupported and says why.
  static ChatTemplate Unreadable(std::string_view source, const Error& why);
  bool readable() const { return maybe_why_not_ == nullptr; }

  // kInvalidArgument: raise_exception() of the template, its message verbatim; or a value of the
  // wrong type, named with its line. kUnsupported: a function, method or filter we don't have.
  // kPayloadTooLarge: over kTemplateOutputBytesMax, kTemplateStepsMax, kTemplateValueDepthMax or
  // kTemplateEvalDepthMax.
  // Cost: about 0.2 us a step, and strings are copied where Python would; up to 1 MiB of stack
  // where the template nests as deep as it may.
  [[nodiscard]] Result<RenderedPrompt> Render(const ChatInput& input) const;

  // Found out by rendering a few probes, once: by the first who asks, and others wait.
  const ChatTemplateTraits& traits() const;

  const std::string& source() const;

 private:
  struct Probed;

  explicit ChatTemplate(std::shared_ptr<const jinja::Template> parsed);
  ChatTemplateTraits Probe() const;

  std::shared_ptr<const jinja::Template> parsed_;
  std::shared_ptr<Probed> probed_;
  std::shared_ptr<const Error> maybe_why_not_;
};

}  // namespace fak::text
