#include "gateway/prepare.h"

#include <chrono>
#include <utility>

#include "base/hash.h"
#include "base/limits.h"
#include "gateway/chat_tools.h"
#include "kv/unit_keys.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace fak::gateway {
namespace {

using driver::Prepared;
using driver::PreparedPrompt;

void FillUnitKeys(std::string_view salt, PreparedPrompt& prompt) {
  prompt.unit_keys = prompt.tokens.empty()
                         ? kv::UnitKeys(salt, std::string_view(prompt.text))
                         : kv::UnitKeys(salt, std::span<const int32_t>(prompt.tokens));
}

// One thread encodes for everybody: 64 MiB of text would make all others wait for seconds.
Status CheckMayFit(std::string_view text, const text::Tokenizer& tokenizer,
                   int32_t context_length) {
  const size_t least = tokenizer.TokensAtLeast(text);
  if (context_length > 0 && least >= static_cast<size_t>(context_length)) {
    return Fail(driver::PromptTooLong(static_cast<uint32_t>(context_length),
                                      "at least " + std::to_string(least)));
  }
  return {};
}

Result<PreparedPrompt> PrepareText(const wire::PromptInput& input, bool add_special,
                                   const text::ModelCard* maybe_card, int32_t context_length) {
  PreparedPrompt prompt;
  if (input.is_tokens) {
    prompt.tokens = input.tokens;
    if (maybe_card != nullptr) {
      prompt.text = maybe_card->tokenizer->Decode(input.tokens, {.skip_special = false});
    }
    return prompt;
  }
  prompt.text = input.text;
  if (maybe_card != nullptr) {
    TRY(CheckMayFit(input.text, *maybe_card->tokenizer, context_length));
    prompt.tokens = maybe_card->tokenizer->Encode(input.text, {.add_special = add_special});
  }
  return prompt;
}

// With continue_final_message the prompt ends inside the last message: with the last text that a
// user wrote. The template's own text may hold the same words.
Status CutAfterFinalMessage(const wire::Turn& turn, text::RenderedPrompt& rendered) {
  const Json* content = turn.messages.array().back().Find("content");
  const std::string last =
      content != nullptr && content->is_string() ? content->string() : std::string();
  const size_t end = rendered.user_content.empty() ? 0 : rendered.user_content.back().end;
  const size_t begin = rendered.user_content.empty() ? 0 : rendered.user_content.back().begin;
  if (last.empty() || !std::string_view(rendered.text).substr(begin, end - begin).ends_with(last)) {
    return Fail(
        Code::kInvalidArgument,
        "the chat template doesn't show the last message as it is, so it can't be continued",
        "continue_final_message");
  }
  rendered.text.resize(end);
  return {};
}

// The variables that templates read an effort from, as vLLM gives them. False: this one reads none.
bool TellEffort(const wire::Turn& turn, const text::ChatTemplate& chat_template, Json& extra) {
  const std::string& effort = *turn.reasoning_effort;
  extra = extra.is_object() ? std::move(extra) : Json(Json::Object());
  extra.Set("reasoning_effort", effort);
  if (extra.Find("enable_thinking") == nullptr) {
    extra.Set("enable_thinking", effort != "none");
  }
  const std::string_view source = chat_template.source();
  return source.find("reasoning_effort") != std::string_view::npos ||
         source.find("enable_thinking") != std::string_view::npos;
}

}  // namespace

std::string TenantSalt(const std::string& tenant) {
  return std::to_string(tenant.size()) + ":" + tenant;
}

std::string FoldSalt(const std::string& tenant, const std::string& salt) {
  if (tenant.empty()) {
    return salt;
  }
  const std::string own = TenantSalt(tenant);
  // What an engine behind takes is bounded as ours is. A tenant that sends the hash itself as a
  // salt meets nobody's cache but its own.
  static_assert(limits::kTenantNameBytesMax + 80 <= limits::kCacheSaltBytesMax);
  return own.size() + salt.size() <= limits::kCacheSaltBytesMax ? own + salt
                                                                : own + "h:" + Sha256::HexOf(salt);
}

Result<PreparedPrompt> PrepareChat(const wire::Turn& turn, const text::ModelCard& card,
                                   int32_t context_length, int64_t wall_ns) {
  if (!turn.image_field.empty()) {  // a template would only say that it can't join it
    return Fail(Code::kUnsupported, turn.image_field + ": this model takes text only",
                turn.image_field);
  }
  if (card.maybe_chat_template == nullptr) {
    return Fail(Code::kUnsupported,
                "this model has no chat template: use /v1/completions, or start the server with "
                "--chat-template FILE",
                "messages");
  }
  text::ChatInput input;
  TRY_ASSIGN(input.messages, MessagesFor(turn, *card.maybe_chat_template));
  input.tools = turn.tools;
  input.add_generation_prompt = turn.add_generation_prompt && !turn.continue_final_message;
  input.extra = turn.chat_template_kwargs;
  PreparedPrompt prompt;
  if (HasTools(turn)) {
    if (!card.maybe_chat_template->traits().tools) {
      prompt.unserved_field = turn.tools_field;
    } else if (turn.tools_field == "tools") {  // an engine refuses tools under another name
      TRY(ToolNames(turn));
    }
  }
  if (turn.reasoning_effort && !TellEffort(turn, *card.maybe_chat_template, input.extra) &&
      *turn.reasoning_effort != "none") {
    prompt.unserved_field = "reasoning_effort";
  }
  if (!card.bos_token.empty()) {
    input.bos_token = card.bos_token;
  }
  if (!card.eos_token.empty()) {
    input.eos_token = card.eos_token;
  }
  input.now = std::chrono::sys_seconds(std::chrono::seconds(wall_ns / 1'000'000'000));
  TRY_ASSIGN(text::RenderedPrompt rendered, card.maybe_chat_template->Render(input));
  if (turn.continue_final_message) {
    TRY(CutAfterFinalMessage(turn, rendered));
  }
  TRY(CheckMayFit(rendered.text, *card.tokenizer, context_length));
  prompt.tokens =
      card.tokenizer->EncodeSegments(rendered.Segments(), turn.add_special_tokens.value_or(true));
  prompt.text = std::move(rendered.text);
  return prompt;
}

Result<std::shared_ptr<const Prepared>> Prepare(std::shared_ptr<const wire::Turn> turn,
                                                std::shared_ptr<const Json> document,
                                                const text::ModelCard* maybe_card,
                                                int32_t context_length,
                                                const RequestContext& context) {
  auto prepared = std::make_shared<Prepared>();
  prepared->request_id = context.request_id;
  prepared->shown_id = context.shown_id;
  prepared->tenant = context.tenant.name;
  prepared->tenant_weight = context.tenant.weight;
  prepared->cache_salt = FoldSalt(context.tenant.name, turn->cache_salt);
  prepared->priority = turn->priority;
  prepared->arrival_ns = context.arrival_ns;
  prepared->deadline_ns = context.deadline_ns;
  prepared->traceparent = context.traceparent;
  if (!turn->prompts.empty()) {
    for (const wire::PromptInput& input : turn->prompts) {
      TRY_ASSIGN(PreparedPrompt prompt, PrepareText(input, turn->add_special_tokens.value_or(true),
                                                    maybe_card, context_length));
      prepared->prompts.push_back(std::move(prompt));
    }
  } else if (maybe_card != nullptr) {
    TRY_ASSIGN(PreparedPrompt prompt,
               PrepareChat(*turn, *maybe_card, context_length, context.wall_ns));
    prepared->prompts.push_back(std::move(prompt));
  } else {
    prepared->prompts.push_back({turn->messages.Dump(), {}, {}});
  }
  for (PreparedPrompt& prompt : prepared->prompts) {
    FillUnitKeys(prepared->cache_salt, prompt);
  }
  prepared->turn = std::move(turn);
  prepared->document = std::move(document);
  prepared->maybe_body = context.maybe_body;
  prepared->client_headers = context.client_headers;
  return prepared;
}

}  // namespace fak::gateway
