#include "wire/openai_decode.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/limits.h"
#include "base/sampling_ranges.h"
#include "base/strings.h"
#include "wire/fields.h"
#include "wire/unserved_fields.h"

namespace fak::wire {
namespace {

constexpr int32_t kInt32Min = std::numeric_limits<int32_t>::min();
constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int64_t kInt53Max = (int64_t{1} << 53) - 1;  // what every reader of JSON keeps whole

std::string At(std::string_view list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

void ReadStop(Fields& fields, SamplingParams& sampling) {
  const Json* stop = fields.Take("stop");
  if (stop == nullptr) {
    return;
  }
  Json::Array one;
  if (stop->is_string()) {
    one.push_back(*stop);
  } else if (!stop->is_array()) {
    fields.Fail("stop", "must be a string or a list of strings");
    return;
  }
  const Json::Array& stops = stop->is_array() ? stop->array() : one;
  if (stops.size() > limits::kStopStringsMax) {
    fields.Fail("stop", "at most " + std::to_string(limits::kStopStringsMax) + " strings");
    return;
  }
  for (size_t i = 0; i < stops.size(); ++i) {
    if (!stops[i].is_string() || stops[i].string().size() > limits::kStopStringBytesMax) {
      fields.Fail(At("stop", i), "must be a string of at most " +
                                     std::to_string(limits::kStopStringBytesMax) + " bytes");
      return;
    }
    if (!stops[i].string().empty()) {
      sampling.stop.push_back(stops[i].string());
    }
  }
}

void ReadStopTokens(Fields& fields, SamplingParams& sampling) {
  const Json* stops = fields.Take("stop_token_ids");
  if (stops == nullptr) {
    return;
  }
  std::optional<std::vector<int32_t>> ids = TokenIdsOf(*stops);
  if (!ids || ids->size() > limits::kStopTokensMax) {
    fields.Fail("stop_token_ids", "must be a list of at most " +
                                      std::to_string(limits::kStopTokensMax) + " token ids");
    return;
  }
  sampling.stop_token_ids = *std::move(ids);
}

void ReadLogitBias(Fields& fields, SamplingParams& sampling) {
  const Json* bias = fields.Take("logit_bias");
  if (bias == nullptr) {
    return;
  }
  if (!bias->is_object() || bias->object().size() > limits::kLogitBiasMax) {
    fields.Fail("logit_bias", "must be an object of at most " +
                                  std::to_string(limits::kLogitBiasMax) + " members");
    return;
  }
  for (const auto& [key, value] : bias->object()) {
    const std::optional<int64_t> number = ParseInt(key);
    const std::optional<int32_t> token = number ? TokenIdOf(*number) : std::nullopt;
    if (!token || !value.is_number()) {
      fields.Fail("logit_bias", "must map token ids to numbers");
      return;
    }
    if (std::abs(value.number()) > sampling_ranges::kFloatMax) {
      fields.Fail("logit_bias", "must map token ids to numbers that a float has, not " +
                                    std::string(value.number_text()));
      return;
    }
    const double clamped = std::clamp(value.number(), -100.0, 100.0);
    const auto same = [&token](const auto& entry) { return entry.first == *token; };
    std::erase_if(sampling.logit_bias, same);  // of duplicate keys the last counts
    sampling.logit_bias.emplace_back(*token, static_cast<float>(clamped));
  }
}

template <class To, class From>
void Assign(To& to, const std::optional<From>& from) {
  if (from) {
    if constexpr (std::is_same_v<To, std::optional<From>>) {
      to = from;
    } else {
      to = static_cast<To>(*from);
    }
  }
}

void ReadSampling(Fields& fields, SamplingParams& sampling) {
  sampling.temperature = fields.Float("temperature", sampling_ranges::kTemperature);
  sampling.top_p = fields.Float("top_p", sampling_ranges::kTopP);
  sampling.top_k = fields.Int("top_k", sampling_ranges::kTopK);
  sampling.min_p = fields.Float("min_p", sampling_ranges::kMinP);
  sampling.typical_p = fields.Float("typical_p", sampling_ranges::kTypicalP);
  const auto typ_p = fields.Float("typ_p", sampling_ranges::kTypicalP);  // llama.cpp's flag
  sampling.typical_p = sampling.typical_p ? sampling.typical_p : typ_p;
  sampling.presence_penalty = fields.Float("presence_penalty", sampling_ranges::kPresencePenalty);
  sampling.frequency_penalty =
      fields.Float("frequency_penalty", sampling_ranges::kFrequencyPenalty);
  sampling.repetition_penalty =
      fields.Float("repetition_penalty", sampling_ranges::kRepetitionPenalty);
  if (const auto seed =
          fields.Int("seed", sampling_ranges::kSeedLeast, sampling_ranges::kSeedMost)) {
    sampling.seed = sampling_ranges::SeedOf(*seed);
  }
  ReadStop(fields, sampling);
  ReadStopTokens(fields, sampling);
  ReadLogitBias(fields, sampling);
  Assign(sampling.include_stop_str_in_output, fields.Bool("include_stop_str_in_output"));
  Assign(sampling.ignore_eos, fields.Bool("ignore_eos"));
  Assign(sampling.skip_special_tokens, fields.Bool("skip_special_tokens"));
  Assign(sampling.min_tokens, fields.Int("min_tokens", 0, kInt32Max));
  Assign(sampling.prompt_logprobs, fields.Int("prompt_logprobs", 0, limits::kTopLogprobsMax));
}

void ReadStreaming(Fields& fields, Turn& turn) {
  Assign(turn.stream, fields.Bool("stream"));
  const Json* options = fields.Take("stream_options");
  if (options == nullptr) {
    return;
  }
  if (!options->is_object()) {
    fields.Fail("stream_options", "must be an object");
    return;
  }
  Fields inner(*options);
  Assign(turn.stream_include_usage, inner.Bool("include_usage"));
  Assign(turn.continuous_usage_stats, inner.Bool("continuous_usage_stats"));
  if (!inner.ok()) {
    fields.Fail("stream_options", inner.status().error().detail);
  }
}

// A grammar under each of the names that clients know.
void ReadGrammar(Fields& fields, Turn& turn) {
  if (const Json* format = fields.Take("response_format")) {
    const Json* type = format->Find("type");
    if (type == nullptr || !type->is_string()) {
      fields.Fail("response_format", "must be an object with a type");
      return;
    }
    if (type->string() == "json_object") {
      turn.grammar = Turn::GrammarText{"json_object", Json(), "response_format"};
    } else if (type->string() == "json_schema") {
      const Json* schema = format->Find("json_schema");
      const Json* inner = schema == nullptr ? nullptr : schema->Find("schema");
      if (inner == nullptr) {
        fields.Fail("response_format.json_schema.schema", "is missing");
        return;
      }
      turn.grammar = Turn::GrammarText{"json_schema", *inner, "response_format"};
    } else if (type->string() != "text") {
      turn.grammar = Turn::GrammarText{type->string(), *format, "response_format"};
    }
  }
  const std::pair<const char*, const char*> kNames[] = {
      {"structured_outputs", "structured_outputs"},
      {"guided_json", "json_schema"},
      {"guided_regex", "regex"},
      {"guided_choice", "choice"},
      {"guided_grammar", "grammar"},
      {"grammar", "grammar"},
      {"json_schema", "json_schema"},
  };
  for (const auto& [name, kind] : kNames) {
    if (const Json* source = fields.Take(name)) {
      turn.grammar = Turn::GrammarText{kind, *source, name};
    }
  }
}

// Known to OpenAI's clients, and without effect on what is generated here.
void IgnoreCommon(Fields& fields) {
  for (const char* name : {"service_tier", "metadata", "request_id", "prompt_cache_key",
                           "safety_identifier", "user"}) {
    fields.Take(name);
  }
}

bool Penalises(const SamplingParams& sampling) {
  return sampling.presence_penalty.value_or(0) != 0 ||
         sampling.frequency_penalty.value_or(0) != 0 ||
         sampling.repetition_penalty.value_or(1) != 1;
}

void ReadUnserved(Fields& fields, Turn& turn) {
  turn.unserved_field = TakeUnservedFields(fields);
  // llama.cpp's window of the penalties; ours look at everything, its -1.
  const auto window = fields.Int("repeat_last_n", kInt32Min, kInt32Max);
  if (window && *window != -1 && Penalises(turn.sampling) && turn.unserved_field.empty()) {
    turn.unserved_field = "repeat_last_n";
  }
}

// llama.cpp's name, which wins there over the others; negative: as many as fit.
void ReadPredict(Fields& fields, SamplingParams& sampling) {
  const auto count = fields.IntOrMost("n_predict", kInt32Min);
  if (count) {
    sampling.max_tokens = *count < 0 ? std::nullopt : count;
  }
}

void ReadCommon(Fields& fields, Turn& turn) {
  turn.model = fields.String("model").value_or("");
  ReadSampling(fields, turn.sampling);
  ReadStreaming(fields, turn);
  ReadGrammar(fields, turn);
  Assign(turn.n, fields.Int("n", 1, limits::kChoicesMax));
  Assign(turn.priority, fields.Int("priority", -kInt32Max, kInt32Max));
  turn.cache_salt = fields.String("cache_salt").value_or("");
  if (turn.cache_salt.size() > limits::kCacheSaltBytesMax) {
    fields.Fail("cache_salt",
                "at most " + std::to_string(limits::kCacheSaltBytesMax) + " bytes are taken");
  }
  Assign(turn.return_token_ids, fields.Bool("return_token_ids"));
  if (const auto best_of = fields.Int("best_of", 1, limits::kChoicesMax);
      best_of && *best_of != turn.n) {
    fields.Fail("best_of", "must equal n");
  }
  turn.add_special_tokens = fields.Bool("add_special_tokens");
  Assign(turn.parallel_tool_calls, fields.Bool("parallel_tool_calls"));
  ReadUnserved(fields, turn);
  IgnoreCommon(fields);
}

// fak's own: an answer that was begun elsewhere.
void ReadAnswerSoFar(Fields& fields, Turn& turn) {
  constexpr char kField[] = "continue_answer";
  const Json* given = fields.Take(kField);
  if (given == nullptr) {
    return;
  }
  if (!given->is_object()) {
    fields.Fail(kField, "must be an object");
    return;
  }
  Fields inner(*given);
  AnswerSoFar& so_far = turn.answer_so_far.emplace();
  const Json* tokens = inner.Take("token_ids");
  std::optional<std::vector<int32_t>> ids = tokens == nullptr ? std::nullopt : TokenIdsOf(*tokens);
  if (!ids || ids->empty()) {
    fields.Fail("continue_answer.token_ids", "must be a list of at least one token id");
    return;
  }
  so_far.tokens = *std::move(ids);
  Assign(so_far.created_s, inner.Int("created", 0, kInt53Max));
  so_far.artifact = inner.String("artifact").value_or("");
  Status read = inner.status();
  read = read ? inner.RefuseUnknown() : std::move(read);
  if (!read) {
    fields.Fail(kField, read.error().detail);
  } else if (turn.n != 1 || turn.prompts.size() > 1) {
    fields.Fail(kField, "takes one prompt and n = 1");
  } else if (turn.echo || turn.sampling.prompt_logprobs >= 0) {
    fields.Fail(kField, "can't be had with echo or prompt_logprobs");
  }
}

// Text parts become one string, as templates want it; anything else stays and is named.
Json FlattenContent(Fields& fields, const Json& content, const std::string& where, Turn& turn) {
  if (!content.is_array()) {
    return content;
  }
  std::string text;
  bool first = true;
  for (size_t i = 0; i < content.array().size(); ++i) {
    const Json& part = content.array()[i];
    const Json* type = part.Find("type");
    const Json* piece = part.Find("text");
    if (part.is_string()) {
      piece = &part;
    } else if (type == nullptr || !type->is_string()) {
      fields.Fail(At(where, i), "must be an object with a type");
      return content;
    } else if (type->string() != "text" && type->string() != "input_text" &&
               type->string() != "output_text" && type->string() != "refusal") {
      turn.image_field = turn.image_field.empty() ? At(where, i) : turn.image_field;
      continue;
    }
    if (piece == nullptr || !piece->is_string()) {
      fields.Fail(At(where, i) + ".text", "must be a string");
      return content;
    }
    text += (first ? "" : "\n") + piece->string();
    first = false;
  }
  return turn.image_field.empty() ? Json(std::move(text)) : content;
}

void ReadMessages(Fields& fields, Turn& turn) {
  const Json* messages = fields.Take("messages");
  if (messages == nullptr || !messages->is_array() || messages->array().empty()) {
    fields.Fail("messages", "must be a list of at least one message");
    return;
  }
  if (messages->array().size() > limits::kMessagesMax) {
    fields.Fail("messages",
                "at most " + std::to_string(limits::kMessagesMax) + " messages are taken");
    return;
  }
  Json::Array out;
  for (size_t i = 0; i < messages->array().size(); ++i) {
    const Json& message = messages->array()[i];
    const std::string where = At("messages", i);
    if (!message.is_object()) {
      fields.Fail(where, "must be an object");
      return;
    }
    const Json* role = message.Find("role");
    if (role == nullptr || !role->is_string() || role->string().empty()) {
      fields.Fail(where + ".role", "must be a string");
      return;
    }
    Json copy = message;
    if (role->string() == "developer") {
      copy.Set("role", "system");
    }
    const Json* content = message.Find("content");
    if (content != nullptr && !content->is_string() && !content->is_null() &&
        !content->is_array()) {
      fields.Fail(where + ".content", "must be a string, a list of parts or null");
      return;
    }
    if (content == nullptr && message.Find("tool_calls") == nullptr) {
      fields.Fail(where + ".content", "is missing");
      return;
    }
    // Templates put texts together; a turn of tool calls alone has none.
    const bool none = content == nullptr || content->is_null();
    copy.Set("content",
             none ? Json("") : FlattenContent(fields, *content, where + ".content", turn));
    out.push_back(std::move(copy));
  }
  turn.messages = Json(std::move(out));
}

Json TakeKind(Fields& fields, std::string_view name, Json::Kind kind, std::string_view wanted) {
  const Json* value = fields.Take(name);
  if (value == nullptr) {
    return {};
  }
  if (value->kind() != kind) {
    fields.Fail(name, "must be " + std::string(wanted));
    return {};
  }
  return *value;
}

void ReadChatLogprobs(Fields& fields, SamplingParams& sampling) {
  const bool wanted = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Int("top_logprobs", 0, limits::kTopLogprobsMax);
  if (top && !wanted && *top > 0) {
    fields.Fail("top_logprobs", "needs logprobs to be true");
  }
  if (wanted) {
    sampling.logprobs = static_cast<int32_t>(top.value_or(0));
  }
}

constexpr char kPromptsWanted[] = "must be a string, a list of token ids, or a list of either";

// Any integers: the engine knows which of them are tokens, and how many it has.
void ReadTokenPrompt(Fields& fields, const Json& ids, PromptInput& prompt) {
  if (!ids.is_array()) {
    fields.Fail("prompt", kPromptsWanted);
    return;
  }
  prompt.is_tokens = true;
  prompt.tokens.reserve(ids.array().size());
  for (const Json& id : ids.array()) {
    const std::optional<int64_t> number = id.is_number() ? id.AsInt() : std::nullopt;
    if (!number) {
      fields.Fail("prompt", kPromptsWanted);
      return;
    }
    if (*number < kInt32Min || *number > kInt32Max) {
      fields.Fail("prompt", "token " + std::to_string(*number) + " is outside every vocabulary");
      return;
    }
    prompt.tokens.push_back(static_cast<int32_t>(*number));
  }
}

void ReadPrompts(Fields& fields, Turn& turn) {
  const Json* prompt = fields.Take("prompt");
  if (prompt == nullptr) {
    fields.Fail("prompt", "is missing");
    return;
  }
  if (prompt->is_string()) {
    turn.prompts.push_back({prompt->string(), {}, false});
    return;
  }
  if (!prompt->is_array() || prompt->array().empty()) {
    fields.Fail("prompt", kPromptsWanted);
    return;
  }
  if (prompt->array().front().is_number()) {
    ReadTokenPrompt(fields, *prompt, turn.prompts.emplace_back());
    return;
  }
  if (prompt->array().size() > limits::kPromptsMax) {
    fields.Fail("prompt", "at most " + std::to_string(limits::kPromptsMax) + " prompts");
    return;
  }
  for (const Json& one : prompt->array()) {
    PromptInput& input = turn.prompts.emplace_back();
    if (one.is_string()) {
      input.text = one.string();
    } else {
      ReadTokenPrompt(fields, one, input);
    }
  }
}

}  // namespace

Result<Turn> DecodeChatRequest(const Json& document) {
  if (!document.is_object()) {
    return Fail(Code::kInvalidArgument, "the body must be a JSON object");
  }
  Fields fields(document);
  Turn turn;
  turn.surface = Surface::kChat;
  ReadMessages(fields, turn);
  ReadCommon(fields, turn);
  ReadChatLogprobs(fields, turn.sampling);
  auto max_tokens = fields.IntOrMost("max_completion_tokens", 1);
  const auto old_name = fields.IntOrMost("max_tokens", 1);
  Assign(turn.sampling.max_tokens, max_tokens ? max_tokens : old_name);
  ReadPredict(fields, turn.sampling);
  turn.tools = TakeKind(fields, "tools", Json::Kind::kArray, "a list");
  if (const Json* choice = fields.Take("tool_choice")) {
    turn.tool_choice = *choice;
  }
  if (Json functions = TakeKind(fields, "functions", Json::Kind::kArray, "a list");
      functions.is_array() && !turn.tools.is_array()) {
    turn.tools = std::move(functions);
    turn.tools_field = "functions";
  }
  turn.chat_template_kwargs =
      TakeKind(fields, "chat_template_kwargs", Json::Kind::kObject, "an object");
  turn.chat_template = fields.String("chat_template");
  turn.reasoning_effort = fields.String("reasoning_effort");
  Assign(turn.add_generation_prompt, fields.Bool("add_generation_prompt"));
  Assign(turn.continue_final_message, fields.Bool("continue_final_message"));
  Assign(turn.echo, fields.Bool("echo"));
  if (turn.continue_final_message && turn.add_generation_prompt &&
      document.Find("add_generation_prompt") != nullptr) {
    fields.Fail("continue_final_message", "can't be had with add_generation_prompt");
  }
  ReadAnswerSoFar(fields, turn);
  TRY(fields.status());
  turn.unknown_fields = fields.Unknown();
  return turn;
}

Result<Turn> DecodeCompletionRequest(const Json& document) {
  if (!document.is_object()) {
    return Fail(Code::kInvalidArgument, "the body must be a JSON object");
  }
  Fields fields(document);
  Turn turn;
  turn.surface = Surface::kCompletion;
  ReadPrompts(fields, turn);
  ReadCommon(fields, turn);
  constexpr int32_t kMaxTokensDefault = 16;
  turn.sampling.max_tokens = kMaxTokensDefault;
  Assign(turn.sampling.max_tokens, fields.IntOrMost("max_tokens", 0));
  ReadPredict(fields, turn.sampling);
  Assign(turn.sampling.logprobs, fields.Int("logprobs", 0, limits::kTopLogprobsMax));
  Assign(turn.echo, fields.Bool("echo"));
  turn.suffix = fields.String("suffix");
  ReadAnswerSoFar(fields, turn);
  TRY(fields.status());
  turn.unknown_fields = fields.Unknown();
  return turn;
}

Result<TokenizeRequest> DecodeTokenizeRequest(const Json& document) {
  if (!document.is_object()) {
    return Fail(Code::kInvalidArgument, "the body must be a JSON object");
  }
  TokenizeRequest request;
  if (document.Find("messages") != nullptr) {
    TRY_ASSIGN(request.chat, DecodeChatRequest(document));
    return request;
  }
  Fields fields(document);
  const bool llamacpp = document.Find("content") != nullptr;
  const auto text = fields.String(llamacpp ? "content" : "prompt");
  request.add_special = llamacpp ? fields.Bool("add_special").value_or(false)
                                 : fields.Bool("add_special_tokens").value_or(true);
  request.parse_special = fields.Bool("parse_special").value_or(true);
  TRY(fields.status());
  if (!text) {
    return Fail(Code::kInvalidArgument, "prompt: is missing", "prompt");
  }
  request.text = *text;
  return request;
}

}  // namespace fak::wire
