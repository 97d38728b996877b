#include <algorithm>
#include <utility>

#include "base/hex.h"
#include "base/limits.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "base/version.h"
#include "gateway/gateway.h"
#include "gateway/openapi.h"
#include "text/tokenizer.h"
#include "wire/fields.h"
#include "wire/openai_decode.h"

// The routes that don't generate.
namespace fak::gateway {
namespace {

// Clients write "org%2Fmodel" for a name with a slash.
std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low < 0) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

void WriteModel(JsonWriter& json, const std::string& id, int64_t created,
                const text::ModelCard* maybe_card, int32_t context) {
  json.BeginObject().Key("id").String(id).Key("object").String("model");
  json.Key("created").Int(created).Key("owned_by").String("fak");
  if (context > 0) {
    json.Key("max_model_len").Int(context);
  }
  if (maybe_card != nullptr) {
    json.Key("name").String(maybe_card->name);
    json.Key("architecture").String(maybe_card->architecture);
    json.Key("quantisation").String(maybe_card->quantisation);
  }
  json.EndObject();
}

Result<std::vector<int32_t>> TokensOf(const Json& document, int32_t vocabulary) {
  const Json* tokens = document.Find("tokens");
  auto ids = tokens == nullptr ? std::nullopt : wire::TokenIdsOf(*tokens);
  if (!ids || std::any_of(ids->begin(), ids->end(), [&](int32_t id) { return id >= vocabulary; })) {
    return Fail(Code::kInvalidArgument,
                "tokens: must be a list of token ids below " + std::to_string(vocabulary),
                "tokens");
  }
  return *std::move(ids);
}

Result<std::vector<int32_t>> TokenizeDocument(const Json& document, const text::ModelCard& card,
                                              int64_t wall_ns) {
  TRY_ASSIGN(const wire::TokenizeRequest request, wire::DecodeTokenizeRequest(document));
  if (request.chat) {
    TRY_ASSIGN(driver::PreparedPrompt prompt, PrepareChat(*request.chat, card, 0, wall_ns));
    return std::move(prompt.tokens);
  }
  return card.tokenizer->Encode(
      request.text, {.add_special = request.add_special, .parse_special = request.parse_special});
}

// Into an object that the caller ends.
void WriteTokens(JsonWriter& json, const std::vector<int32_t>& tokens, int32_t context) {
  json.BeginObject().Key("count").Uint(tokens.size());
  json.Key("max_model_len").Int(context);
  json.Key("tokens").BeginArray();
  for (const int32_t id : tokens) {
    json.Int(id);
  }
  json.EndArray();
}

}  // namespace

void Gateway::Models(std::shared_ptr<Call> call) {
  constexpr std::string_view kList = "/v1/models";
  const auto capabilities = driver_.capabilities();
  const std::vector<std::string> names = ModelNames();
  const std::string_view path = call->request.path();
  const size_t last = path.rfind(kList);
  std::string body;
  JsonWriter json(body);
  if (last != std::string_view::npos && path.size() > last + kList.size() + 1) {
    const std::string id = PercentDecoded(path.substr(last + kList.size() + 1));
    if (std::find(names.begin(), names.end(), id) == names.end()) {
      Refuse(*call, {Code::kNotFound,
                     "the model \"" + ReplaceInvalidUtf8(id) +
                         "\" does not exist here; served: " + Join(names, ", "),
                     "model"});
      return;
    }
    WriteModel(json, id, started_s_, options_.maybe_card.get(), capabilities->context_length);
    Answer(*call, 200, std::move(body));
    return;
  }
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  for (const std::string& name : names) {
    WriteModel(json, name, started_s_, options_.maybe_card.get(), capabilities->context_length);
  }
  json.EndArray().EndObject();
  Answer(*call, 200, std::move(body));
}

// The body, if it names no model or one of ours.
Result<Json> Gateway::DocumentOf(const Call& call) const {
  if (call.request.body.size() > limits::kTokenizeBytesMax) {
    return Fail(Code::kPayloadTooLarge,
                "the body has more than " + std::to_string(limits::kTokenizeBytesMax) + " bytes");
  }
  TRY_ASSIGN(Json document, ParseJson(call.request.body));
  const Json* model = document.Find("model");
  if (model != nullptr && model->is_string()) {
    TRY(CheckModel(model->string()));
  }
  return document;
}

void Gateway::Tokenize(std::shared_ptr<Call> call) {
  const Result<Json> document = DocumentOf(*call);
  if (!document) {
    Refuse(*call, document.error());
    return;
  }
  if (options_.maybe_card == nullptr) {
    TokenizeRemotely(std::move(call), *document);
    return;
  }
  const auto tokens = TokenizeDocument(*document, *options_.maybe_card, call->context.wall_ns);
  if (!tokens) {
    Refuse(*call, tokens.error());
    return;
  }
  const auto wants = [&document](const char* name) {
    const Json* value = document->Find(name);
    return value != nullptr && value->is_bool() && value->boolean();
  };
  std::string body;
  JsonWriter json(body);
  WriteTokens(json, *tokens, driver_.capabilities()->context_length);
  json.Key("token_strs");
  if (wants("return_token_strs") || wants("with_pieces")) {
    json.BeginArray();
    for (const int32_t id : *tokens) {
      json.String(ReplaceInvalidUtf8(options_.maybe_card->tokenizer->TokenBytes(id)));
    }
    json.EndArray();
  } else {
    json.Null();
  }
  json.EndObject();
  Answer(*call, 200, std::move(body));
}

// The engine's own tokenizer, where it has one: text only, its template is not ours to render.
void Gateway::TokenizeRemotely(std::shared_ptr<Call> call, const Json& document) {
  driver::RemoteTokenizer* tokenizer = driver_.maybe_tokenizer();
  if (tokenizer == nullptr) {
    Refuse(*call, {Code::kUnsupported, "no tokenizer is known for this model"});
    return;
  }
  const Json* text = document.Find("prompt");
  text = text == nullptr ? document.Find("content") : text;
  if (text == nullptr || !text->is_string()) {
    Refuse(*call, {Code::kUnsupported,
                   "prompt: must be a string; messages aren't tokenized by the engine behind this "
                   "server",
                   "prompt"});
    return;
  }
  const Json* named = document.Find("model");
  const std::string model =
      ShownModel(named != nullptr && named->is_string() ? named->string() : "");
  if (const Status known = CheckModel(model); !known) {
    Refuse(*call, known.error());
    return;
  }
  tokenizer->Tokenize(model, text->string(), [this, call](Result<std::vector<int32_t>> tokens) {
    if (!tokens) {
      Refuse(*call, tokens.error());
      return;
    }
    std::string body;
    JsonWriter json(body);
    WriteTokens(json, *tokens, driver_.capabilities()->context_length);
    json.Key("token_strs").Null().EndObject();
    Answer(*call, 200, std::move(body));
  });
}

void Gateway::Detokenize(std::shared_ptr<Call> call) {
  if (options_.maybe_card == nullptr) {
    Refuse(*call, {Code::kUnsupported, "no tokenizer is known for this model"});
    return;
  }
  const Result<Json> document = DocumentOf(*call);
  if (!document) {
    Refuse(*call, document.error());
    return;
  }
  const auto tokens = TokensOf(*document, options_.maybe_card->tokenizer->vocab_size());
  if (!tokens) {
    Refuse(*call, tokens.error());
    return;
  }
  const std::string text =
      ReplaceInvalidUtf8(options_.maybe_card->tokenizer->Decode(*tokens, {.skip_special = false}));
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("prompt").String(text).EndObject();
  Answer(*call, 200, std::move(body));
}

void Gateway::Health(std::shared_ptr<Call> call) {
  Answer(*call, 200, R"({"status":"ok"})");
}

void Gateway::Ready(std::shared_ptr<Call> call) {
  const driver::LoadReport load = driver_.Load();
  const bool ready = load.ready && !draining_.load();
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("ready").Bool(ready);
  if (!ready) {
    json.Key("why").String(draining_.load() ? "draining" : load.why_not);
  }
  json.EndObject();
  Answer(*call, ready ? 200 : 503, std::move(body));
}

void Gateway::Version(std::shared_ptr<Call> call) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("version").String(kVersion).Key("engine").String("fak");
  const auto capabilities = driver_.capabilities();
  if (capabilities->native && !capabilities->artifact.empty()) {
    json.Key("artifact").String(capabilities->artifact);
  }
  json.EndObject();
  Answer(*call, 200, std::move(body));
}

void Gateway::Metrics(std::shared_ptr<Call> call) {
  Answer(*call, 200, metrics_.Exposition(), "text/plain; version=0.0.4; charset=utf-8");
}

void Gateway::OpenApi(std::shared_ptr<Call> call) {
  Answer(*call, 200, std::string(kOpenApi));
}

namespace {

// Into an object that the caller begins and ends.
void WriteLoad(JsonWriter& json, const driver::LoadReport& load) {
  json.Key("ready").Bool(load.ready);
  if (!load.ready) {
    json.Key("why_not").String(load.why_not);
  }
  const auto number = [&json](const char* key, const auto& value) {
    if (value) {
      json.Key(key).Double(static_cast<double>(*value));
    }
  };
  number("in_flight", load.in_flight);
  number("running", load.running);
  number("waiting", load.waiting);
  number("backlog_tokens", load.backlog_tokens);
  number("kv_usage", load.kv_usage);
  number("kv_blocks_total", load.kv_blocks_total);
  number("kv_blocks_free", load.kv_blocks_free);
  number("prefill_tokens_per_s", load.prefill_tokens_per_s);
  number("decode_tokens_per_s", load.decode_tokens_per_s);
}

}  // namespace

void Gateway::Load(std::shared_ptr<Call> call) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject();
  WriteLoad(json, driver_.Load());
  if (const std::vector<driver::WorkerLoad> rows = driver_.WorkerLoads(); !rows.empty()) {
    json.Key("workers").BeginArray();
    for (const driver::WorkerLoad& row : rows) {
      json.BeginObject().Key("worker").String(row.worker);
      if (!row.engine.empty()) {
        json.Key("engine").String(row.engine);
      }
      WriteLoad(json, row.load);
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
  Answer(*call, 200, std::move(body));
}

// As vLLM answers it: where the KV events are, by data-parallel rank.
void Gateway::KvEventSources(std::shared_ptr<Call> call) {
  if (options_.kv_event_sources.empty()) {
    Refuse(*call, {Code::kNotFound, "no KV events are published: --kv-events-config"});
    return;
  }
  Answer(*call, 200, options_.kv_event_sources);
}

}  // namespace fak::gateway
