#include "text/chat_template.h"

#include <algorithm>
#include <cctype>
#include <mutex>

#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace fak::text {

namespace {

using jinja::Value;

// Whether a role may count as the template's own words (see RenderedPrompt).
bool IsPlainWord(std::string_view role) {
  return std::all_of(role.begin(), role.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  });
}

// The messages as values, with the roles as scaffolding.
Value MessagesValue(const Json& messages) {
  Value value = jinja::FromJson(messages, true);
  if (!value.is_list()) {
    return value;
  }
  for (const Value& message : value.list()->items) {
    const Value* role = message.is_dict() ? message.dict()->Find("role") : nullptr;
    if (role != nullptr && role->is_string() && IsPlainWord(role->text().bytes)) {
      message.dict()->Set(Value::String("role"), Value::String(role->text().bytes));
    }
  }
  return value;
}

void DefineVariables(const ChatInput& input, jinja::Evaluator& evaluator) {
  const auto define = [&](std::string_view name, const Json& json) {
    if (evaluator.Mentions(name)) {
      evaluator.Define(name, jinja::FromJson(json, true));
    }
  };
  const bool has_tools = !input.tools.is_array() || !input.tools.array().empty();
  define("tools", has_tools ? input.tools : Json());
  define("documents", input.documents);
  evaluator.Define("add_generation_prompt", Value(input.add_generation_prompt));
  if (input.bos_token) {
    evaluator.Define("bos_token", Value::String(*input.bos_token));
  }
  if (input.eos_token) {
    evaluator.Define("eos_token", Value::String(*input.eos_token));
  }
  if (input.extra.is_object()) {
    for (const Json::Member& member : input.extra.object()) {
      define(member.first, member.second);
    }
  }
  if (evaluator.Mentions("messages")) {
    evaluator.Define("messages", MessagesValue(input.messages));
  }
}

}  // namespace

std::vector<Segment> RenderedPrompt::Segments() const {
  std::vector<Segment> segments;
  const std::string_view all = text;
  size_t at = 0;
  for (const Range& range : user_content) {
    if (range.begin > at) {
      segments.push_back({all.substr(at, range.begin - at), true});
    }
    segments.push_back({all.substr(range.begin, range.end - range.begin), false});
    at = range.end;
  }
  if (at < all.size()) {
    segments.push_back({all.substr(at), true});
  }
  return segments;
}

struct ChatTemplate::Probed {
  std::once_flag once;
  ChatTemplateTraits traits;
};

ChatTemplate::ChatTemplate(std::shared_ptr<const jinja::Template> parsed)
    : parsed_(std::move(parsed)), probed_(std::make_shared<Probed>()) {}

const ChatTemplateTraits& ChatTemplate::traits() const {
  std::call_once(probed_->once, [this] { probed_->traits = Probe(); });
  return probed_->traits;
}

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source) {
  auto parsed = jinja::ParseTemplate(source);
  if (!parsed) {
    return Fail(Within("chat template", std::move(parsed).error()));
  }
  return ChatTemplate(std::move(*parsed));
}

ChatTemplate ChatTemplate::Unreadable(std::string_view source, const Error& why) {
  auto empty = std::make_shared<jinja::Template>();
  empty->source = source;
  ChatTemplate unreadable(std::move(empty));
  unreadable.maybe_why_not_ = std::make_shared<const Error>(
      Error{Code::kUnsupported, "this model's own template can't be used: " + why.detail});
  return unreadable;
}

const std::string& ChatTemplate::source() const {
  return parsed_->source;
}

Result<RenderedPrompt> ChatTemplate::Render(const ChatInput& input) const {
  if (!readable()) {
    return Fail(*maybe_why_not_);
  }
  jinja::Evaluator evaluator(*parsed_, input.now + input.utc_offset);
  DefineVariables(input, evaluator);
  TRY_ASSIGN(jinja::Text text, evaluator.Run());
  RenderedPrompt prompt;
  prompt.text = std::move(text.bytes);
  for (const jinja::ByteRange& range : text.user) {
    prompt.user_content.push_back({range.begin, range.end});
  }
  return prompt;
}

}  // namespace fak::text
