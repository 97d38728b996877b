#include "model/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/sampling_ranges.h"
#include "base/utf8.h"
#include "model/shape.h"
#include "text/chat_template.h"
#include "text/hf_tokenizer.h"
#include "text/tokenizer.h"

namespace fak::model {
namespace {

using tensor::GgufFile;
using text::Vocabulary;

Status ReadTokens(const GgufFile& file, Vocabulary& vocabulary) {
  TRY_ASSIGN(const tensor::GgufStrings tokens, file.GetStrings("tokenizer.ggml.tokens"));
  vocabulary.tokens.Reserve(tokens.size(), tokens.size() * 8);
  for (const std::string_view token : tokens) {
    vocabulary.tokens.Add(token);
  }
  if (file.Has("tokenizer.ggml.token_type")) {
    TRY_ASSIGN(const auto types, file.GetI32Array("tokenizer.ggml.token_type"));
    if (types.size() != tokens.size()) {
      return Fail(Code::kDataCorrupt, "tokenizer.ggml.token_type has " +
                                          std::to_string(types.size()) + " entries for " +
                                          std::to_string(tokens.size()) + " tokens");
    }
    vocabulary.types.reserve(types.size());
    for (const int32_t type : types) {
      if (type < 1 || type > 6) {
        return Fail(Code::kDataCorrupt, "tokenizer.ggml.token_type holds " + std::to_string(type));
      }
      vocabulary.types.push_back(static_cast<text::TokenType>(type));
    }
  }
  if (vocabulary.model == Vocabulary::Model::kSpm) {
    TRY_ASSIGN(vocabulary.scores, file.GetF32Array("tokenizer.ggml.scores"));
    return {};
  }
  TRY_ASSIGN(const tensor::GgufStrings merges, file.GetStrings("tokenizer.ggml.merges"));
  vocabulary.merges.Reserve(2 * merges.size(), merges.size() * 12);
  for (const std::string_view merge : merges) {
    TRY(vocabulary.AddMerge(merge));
  }
  return {};
}

Status ReadTokenId(const GgufFile& file, std::string_view name, size_t tokens, int32_t& id) {
  const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
  if (!file.Has(key)) {
    return {};
  }
  TRY_ASSIGN(const uint32_t value, file.GetU32(key));
  if (value >= tokens) {
    return Fail(Code::kDataCorrupt,
                key + " is " + std::to_string(value) + " of " + std::to_string(tokens) + " tokens");
  }
  id = static_cast<int32_t>(value);
  return {};
}

// A recommendation that no request could make is a mistake in the file.
Status ReadSampling(const GgufFile& file, text::SamplingDefaults& sampling) {
  const auto check = [](const char* key, double value, const NumberRange& range) -> Status {
    if (!range.Has(value)) {
      return Fail(Code::kDataCorrupt,
                  fmt::format("{} must be {}, not {:g}", key, range.Text(), value));
    }
    return {};
  };
  const auto read = [&](const char* key, const NumberRange& range,
                        std::optional<float>& out) -> Status {
    if (file.Has(key)) {
      TRY_ASSIGN(out, file.GetF32(key));
      TRY(check(key, *out, range));
    }
    return {};
  };
  TRY(read("general.sampling.temp", sampling_ranges::kTemperature, sampling.temperature));
  TRY(read("general.sampling.top_p", sampling_ranges::kTopP, sampling.top_p));
  TRY(read("general.sampling.min_p", sampling_ranges::kMinP, sampling.min_p));
  TRY(read("general.sampling.penalty_repeat", sampling_ranges::kRepetitionPenalty,
           sampling.repetition_penalty));
  constexpr char kTopK[] = "general.sampling.top_k";
  if (file.Has(kTopK)) {
    TRY_ASSIGN(sampling.top_k, file.GetI32(kTopK));
    TRY(check(kTopK, *sampling.top_k, sampling_ranges::kTopK));
  }
  return {};
}

// How a mixture of types is called by general.file_type; empty: not said, or not by a name.
std::string FileTypeName(const GgufFile& file) {
  struct Named {
    uint32_t number;
    const char* name;
  };
  constexpr Named kNames[] = {{0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},
                              {7, "Q8_0"},    {8, "Q5_0"},    {9, "Q5_1"},    {10, "Q2_K"},
                              {11, "Q3_K_S"}, {12, "Q3_K_M"}, {13, "Q3_K_L"}, {14, "Q4_K_S"},
                              {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"}, {18, "Q6_K"},
                              {21, "Q2_K_S"}, {25, "IQ4_NL"}, {30, "IQ4_XS"}, {32, "BF16"}};
  const auto number = file.GetU32("general.file_type");
  for (const Named& named : kNames) {
    if (number && named.number == *number) {
      return named.name;
    }
  }
  return "";
}

// The type that most of the weights' bytes have.
std::string MainType(const GgufFile& file) {
  std::vector<std::pair<tensor::DType, uint64_t>> bytes;
  for (const tensor::GgufTensor& tensor : file.tensors()) {
    auto at = std::find_if(bytes.begin(), bytes.end(),
                           [&tensor](const auto& entry) { return entry.first == tensor.type; });
    if (at == bytes.end()) {
      at = bytes.insert(bytes.end(), {tensor.type, 0});
    }
    at->second += tensor.bytes;
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : std::string(tensor::DTypeName(most->first));
}

std::string TextOf(const text::Tokenizer& tokenizer, int32_t id) {
  return id == text::kNoToken ? "" : std::string(tokenizer.TokenText(id));
}

// given: by whoever starts us, in place of the file's own template.
Status FinishCard(Vocabulary vocabulary, std::string_view own_template,
                  const std::optional<std::string>& given, text::ModelCard& card) {
  TRY_ASSIGN(card.tokenizer, text::Tokenizer::Create(std::move(vocabulary)));
  card.bos_token = TextOf(*card.tokenizer, card.tokenizer->bos());
  card.eos_token = TextOf(*card.tokenizer, card.tokenizer->eos());
  const std::string_view source = given ? std::string_view(*given) : own_template;
  if (source.empty()) {
    return {};
  }
  Result<text::ChatTemplate> parsed = text::ChatTemplate::Parse(source);
  if (!parsed && given) {
    return Fail(std::move(parsed).error());
  }
  if (!parsed) {
    card.notes.push_back("chats can't be served, for want of another --chat-template: " +
                         parsed.error().detail);
    parsed = text::ChatTemplate::Unreadable(source, parsed.error());
  }
  card.maybe_chat_template = std::make_shared<const text::ChatTemplate>(*std::move(parsed));
  return {};
}

std::string Stem(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(0, dot);
}

Result<std::shared_ptr<const text::ModelCard>> CardFromJson(
    const std::string& path, std::optional<std::string> chat_template_source) {
  TRY_ASSIGN(const std::string source, ReadFile(path, limits::kTokenizerJsonBytesMax));
  Result<Json> tokenizer = ParseJson(source);
  if (!tokenizer) {
    return Fail(Within(path, std::move(tokenizer).error()));
  }
  const size_t slash = path.rfind('/');
  const std::string config_path =
      (slash == std::string::npos ? "" : path.substr(0, slash + 1)) + "tokenizer_config.json";
  Json config;
  if (Result<std::string> text = ReadFile(config_path, limits::kTokenizerJsonBytesMax)) {
    TRY_ASSIGN(config, ParseJson(*text));
  } else if (text.error().code != Code::kNotFound) {
    return Fail(std::move(text).error());
  }
  TRY_ASSIGN(Vocabulary vocabulary,
             text::VocabularyFromHuggingFace(*tokenizer, config.is_null() ? nullptr : &config));
  std::string chat_template;
  if (const Json* own = config.Find("chat_template"); own != nullptr && own->is_string()) {
    chat_template = own->string();
  }
  auto card = std::make_shared<text::ModelCard>();
  card->name = ReplaceInvalidUtf8(Stem(path));
  if (const Json* length = config.Find("model_max_length");
      length != nullptr && length->is_integer() && *length->AsInt() <= limits::kContextMax) {
    card->context_length = static_cast<int32_t>(*length->AsInt());
  }
  TRY(FinishCard(std::move(vocabulary), chat_template, chat_template_source, *card));
  return card;
}

}  // namespace

Result<Vocabulary> ReadVocabulary(const GgufFile& file) {
  TRY_ASSIGN(const std::string_view model, file.GetString("tokenizer.ggml.model"));
  Vocabulary vocabulary;
  TRY_ASSIGN(vocabulary.model, text::VocabularyModel(model));
  const bool spm = vocabulary.model == Vocabulary::Model::kSpm;
  TRY_ASSIGN(const std::string_view pre, file.GetString("tokenizer.ggml.pre", "default"));
  vocabulary.pre_tokenizer = std::string(pre);
  TRY(ReadTokens(file, vocabulary));
  const size_t tokens = vocabulary.tokens.size();
  TRY(ReadTokenId(file, "bos", tokens, vocabulary.bos));
  TRY(ReadTokenId(file, "eos", tokens, vocabulary.eos));
  TRY(ReadTokenId(file, "eot", tokens, vocabulary.eot));
  TRY(ReadTokenId(file, "eom", tokens, vocabulary.eom));
  TRY(ReadTokenId(file, "unknown", tokens, vocabulary.unk));
  TRY(ReadTokenId(file, "padding", tokens, vocabulary.pad));
  // Llama 3's converters leave add_bos_token out and mean true.
  const bool add_bos_default = spm || pre == "llama-bpe";
  TRY_ASSIGN(vocabulary.add_bos, file.GetBool("tokenizer.ggml.add_bos_token", add_bos_default));
  TRY_ASSIGN(vocabulary.add_eos, file.GetBool("tokenizer.ggml.add_eos_token", false));
  TRY_ASSIGN(vocabulary.add_space_prefix, file.GetBool("tokenizer.ggml.add_space_prefix", spm));
  return vocabulary;
}

namespace {

Result<std::shared_ptr<const text::ModelCard>> ReadCard(
    const GgufFile& file, std::optional<std::string> chat_template_source) {
  auto card = std::make_shared<text::ModelCard>();
  TRY_ASSIGN(const std::string_view name, file.GetString("general.name", ""));
  card->name = ReplaceInvalidUtf8(name.empty() ? Stem(file.part_path(0)) : name);
  TRY_ASSIGN(const std::string_view architecture, file.GetString("general.architecture"));
  card->architecture = std::string(architecture);
  card->quantisation = FileTypeName(file);
  if (card->quantisation.empty()) {
    card->quantisation = MainType(file);
  }
  for (const tensor::GgufTensor& tensor : file.tensors()) {
    card->parameters += static_cast<uint64_t>(tensor.elements());
  }
  TRY_ASSIGN(const uint32_t context, file.GetU32(card->architecture + ".context_length"));
  card->context_length = static_cast<int32_t>(std::min(context, limits::kContextMax));
  TRY(ReadSampling(file, card->sampling));
  TRY_ASSIGN(Vocabulary vocabulary, ReadVocabulary(file));
  if (vocabulary.model == Vocabulary::Model::kBpe && !file.Has("tokenizer.ggml.pre")) {
    card->notes.push_back(
        "the file doesn't say how its tokenizer cuts words (tokenizer.ggml.pre): they are cut by "
        "llama.cpp's default, and the model may be worse for it");
  }
  TRY_ASSIGN(const std::string_view own, file.GetString("tokenizer.chat_template", ""));
  TRY(FinishCard(std::move(vocabulary), own, chat_template_source, *card));
  return card;
}

}  // namespace

Result<std::shared_ptr<const text::ModelCard>> MakeCard(
    const GgufFile& file, std::optional<std::string> chat_template_source) {
  auto card = ReadCard(file, std::move(chat_template_source));
  return card ? std::move(card) : Fail(InFile(file, std::move(card).error()));
}

Result<std::shared_ptr<const text::ModelCard>> CardLoader::Load(
    const std::string& path, std::optional<std::string> chat_template_source) {
  if (path.ends_with(".json")) {
    return CardFromJson(path, std::move(chat_template_source));
  }
  TRY_ASSIGN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  return MakeCard(*file, std::move(chat_template_source));
}

}  // namespace fak::model
