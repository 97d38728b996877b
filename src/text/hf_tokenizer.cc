#include "text/hf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "text/token_bytes.h"

namespace fak::text {
namespace {

constexpr std::string_view kBlankMark = "\xE2\x96\x81";  // U+2581

// Access to members that may be absent: Hugging Face writes null and nothing alike.
const Json* Member(const Json& object, std::string_view key) {
  const Json* member = object.Find(key);
  return member == nullptr || member->is_null() ? nullptr : member;
}

std::string_view Text(const Json& object, std::string_view key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_string() ? std::string_view(member->string())
                                                  : std::string_view();
}

bool Flag(const Json& object, std::string_view key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_bool() && member->boolean();
}

tl::unexpected<Error> Unsupported(std::string_view what, const Json& value) {
  constexpr size_t kShownBytes = 300;
  std::string shown = value.Dump();
  if (shown.size() > kShownBytes) {
    shown.resize(kShownBytes);
    shown += "...";
  }
  return Fail(Code::kUnsupported, fmt::format("tokenizer.json: {} {}", what, shown));
}

tl::unexpected<Error> Corrupt(std::string_view what) {
  return Fail(Code::kDataCorrupt, fmt::format("tokenizer.json: {}", what));
}

// The steps of a normalizer, pre-tokenizer or post-processor: itself, or what a Sequence lists.
std::vector<const Json*> Steps(const Json* maybe_step, std::string_view list_key) {
  std::vector<const Json*> steps;
  if (maybe_step == nullptr) {
    return steps;
  }
  const Json* list =
      Text(*maybe_step, "type") == "Sequence" ? Member(*maybe_step, list_key) : nullptr;
  if (list == nullptr || !list->is_array()) {
    return {maybe_step};
  }
  for (const Json& step : list->array()) {
    steps.push_back(&step);
  }
  return steps;
}

// Byte-level vocabularies have no normalizer or NFC; SentencePiece-like ones turn blanks into
// U+2581, and may put one in front.
Status ReadNormalizer(const Json* maybe_normalizer, Vocabulary& vocabulary) {
  for (const Json* step : Steps(maybe_normalizer, "normalizers")) {
    const std::string_view type = Text(*step, "type");
    const Json* pattern = Member(*step, "pattern");
    if (type == "NFC" && vocabulary.model == Vocabulary::Model::kBpe) {
      vocabulary.normalizer = Vocabulary::Normalizer::kNfc;
    } else if (type == "Prepend" && Text(*step, "prepend") == kBlankMark) {
      vocabulary.add_space_prefix = true;
    } else if (type == "Replace" && pattern != nullptr && Text(*pattern, "String") == " " &&
               Text(*step, "content") == kBlankMark) {
      vocabulary.model = Vocabulary::Model::kSpm;
    } else {
      return Unsupported("normalizer", *step);
    }
  }
  if (vocabulary.model == Vocabulary::Model::kSpm &&
      vocabulary.normalizer != Vocabulary::Normalizer::kNone) {
    return Unsupported("normalizer", *maybe_normalizer);
  }
  return {};
}

// The pre-tokenizers that we know, by the expressions that their files carry.
std::string_view PreTokenizerOfExpression(std::string_view expression) {
  struct Known {
    std::string_view expression;
    std::string_view name;
  };
  static constexpr std::array<Known, 4> kKnown = {{
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       "llama-bpe"},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       "qwen2"},
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", "gpt-2"},
      {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", "gpt-2"},
  }};
  for (const Known& known : kKnown) {
    if (known.expression == expression) {
      return known.name;
    }
  }
  return {};
}

// What an isolating Split by an expression amounts to; empty if it is anything else.
std::string_view PreTokenizerOfSplit(const Json& step) {
  const Json* pattern = Member(step, "pattern");
  if (Text(step, "type") != "Split" || pattern == nullptr || Text(step, "behavior") != "Isolated" ||
      Flag(step, "invert")) {
    return {};
  }
  return PreTokenizerOfExpression(Text(*pattern, "Regex"));
}

Status ReadBytePreTokenizer(const Json* maybe_pre_tokenizer, Vocabulary& vocabulary) {
  const std::vector<const Json*> steps = Steps(maybe_pre_tokenizer, "pretokenizers");
  if (steps.empty()) {
    return Fail(Code::kUnsupported, "tokenizer.json: byte-pair encoding without a pre-tokenizer");
  }
  const Json& last = *steps.back();
  if (Text(last, "type") != "ByteLevel" || Flag(last, "add_prefix_space")) {
    return Unsupported("pre-tokenizer", *maybe_pre_tokenizer);
  }
  const Json* use_regex = Member(last, "use_regex");  // absent in old files: true
  const bool splits = use_regex == nullptr || Flag(last, "use_regex");
  if (steps.size() == 1 && splits) {
    vocabulary.pre_tokenizer = "gpt-2";
  } else if (steps.size() == 2 && splits && Text(*steps[0], "type") == "Digits" &&
             Flag(*steps[0], "individual_digits")) {
    vocabulary.pre_tokenizer = "smollm";
  } else if (steps.size() == 2 && !splits) {
    vocabulary.pre_tokenizer = PreTokenizerOfSplit(*steps[0]);
  }
  if (vocabulary.pre_tokenizer.empty()) {
    return Unsupported("pre-tokenizer", *maybe_pre_tokenizer);
  }
  return {};
}

// Where blanks are U+2581 already, a Split by a blank does nothing.
Status ReadSpmPreTokenizer(const Json* maybe_pre_tokenizer) {
  for (const Json* step : Steps(maybe_pre_tokenizer, "pretokenizers")) {
    const Json* pattern = Member(*step, "pattern");
    if (Text(*step, "type") != "Split" || pattern == nullptr || Text(*pattern, "String") != " ") {
      return Unsupported("pre-tokenizer", *step);
    }
  }
  return {};
}

// Token texts by id, gathered from the model's vocabulary and from the added tokens.
class TokenCollector {
 public:
  Status AddVocabulary(const Json& vocab) {
    entries_.reserve(vocab.object().size());
    for (const auto& [text, id] : vocab.object()) {
      TRY(Add(text, id, TokenType::kNormal));
    }
    return {};
  }
  Status AddAdded(const Json& added, Vocabulary::Normalizer normalizer) {
    const Json* id = Member(added, "id");
    const Json* content = Member(added, "content");
    if (id == nullptr || content == nullptr || !content->is_string()) {
      return Corrupt("an added token without id or content");
    }
    const bool normalized =
        Flag(added, "normalized") && normalizer != Vocabulary::Normalizer::kNone;
    if (Flag(added, "single_word") || Flag(added, "lstrip") || Flag(added, "rstrip") ||
        normalized) {
      return Unsupported("added token", added);
    }
    return Add(content->string(), *id,
               Flag(added, "special") ? TokenType::kControl : TokenType::kUserDefined);
  }

  // Ids without a text (some files leave holes) become unused tokens.
  void Fill(Vocabulary& vocabulary) const {
    vocabulary.types.assign(entries_.size(), TokenType::kUnused);
    size_t bytes = 0;
    for (const Entry& entry : entries_) {
      bytes += entry.text.size();
    }
    vocabulary.tokens.Reserve(entries_.size(), bytes);
    for (size_t id = 0; id < entries_.size(); ++id) {
      vocabulary.tokens.Add(entries_[id].text);
      vocabulary.types[id] = entries_[id].type;
    }
  }

  // kNoToken if there is none. Linear: for a handful of names.
  int32_t Find(std::string_view text) const {
    const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.type != TokenType::kUnused && entry.text == text;
    });
    return at == entries_.end() ? kNoToken : static_cast<int32_t>(at - entries_.begin());
  }
  void MarkByteTokens() {
    for (Entry& entry : entries_) {
      entry.type = ByteOfName(entry.text) >= 0 ? TokenType::kByte : entry.type;
    }
  }

 private:
  struct Entry {
    std::string_view text;  // in the document
    TokenType type = TokenType::kUnused;
  };
  Status Add(std::string_view text, const Json& id, TokenType type) {
    const auto value = id.AsInt();
    if (!value || *value < 0 || *value >= int64_t{limits::kVocabularyMax}) {
      return Corrupt(fmt::format("token '{}' has the id {}", text, id.Dump()));
    }
    const size_t index = static_cast<size_t>(*value);
    if (index >= entries_.size()) {
      entries_.resize(index + 1);
    }
    entries_[index] = {.text = text, .type = type};
    return {};
  }

  std::vector<Entry> entries_;
};

Status ReadMerges(const Json& model, Vocabulary& vocabulary) {
  const Json* merges = Member(model, "merges");
  if (merges == nullptr || !merges->is_array()) {
    return Corrupt("model.merges is missing");
  }
  for (const Json& merge : merges->array()) {
    if (merge.is_string()) {
      TRY(vocabulary.AddMerge(merge.string()));
    } else if (merge.is_array() && merge.array().size() == 2 && merge.array()[0].is_string() &&
               merge.array()[1].is_string()) {
      vocabulary.merges.Add(merge.array()[0].string());
      vocabulary.merges.Add(merge.array()[1].string());
    } else {
      return Corrupt(fmt::format("merge {} is no pair", vocabulary.merges.size() / 2));
    }
  }
  return {};
}

// Everything about the model that isn't its lists.
Status CheckModel(const Json& model, const Vocabulary& vocabulary) {
  if (Text(model, "type") != "BPE") {
    const Json* type = model.Find("type");
    return Unsupported("model", type != nullptr ? *type : Json("without a type"));
  }
  const Json* dropout = Member(model, "dropout");
  if (dropout != nullptr && !(dropout->is_number() && dropout->number() == 0)) {
    return Unsupported("model.dropout", *dropout);
  }
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!Text(model, affix).empty()) {
      return Unsupported(fmt::format("model.{}", affix), *model.Find(affix));
    }
  }
  if (Flag(model, "byte_fallback") != (vocabulary.model == Vocabulary::Model::kSpm)) {
    return Unsupported("model.byte_fallback with this normalizer:",
                       Json(Flag(model, "byte_fallback")));
  }
  return {};
}

// A template that puts single tokens before and after the text. ByteLevel moves offsets only.
Status ReadPostProcessor(const Json* maybe_processor, const TokenCollector& tokens,
                         Vocabulary& vocabulary) {
  for (const Json* step : Steps(maybe_processor, "processors")) {
    const std::string_view type = Text(*step, "type");
    if (type == "ByteLevel") {
      continue;
    }
    const Json* single = Member(*step, "single");
    if (type != "TemplateProcessing" || single == nullptr || !single->is_array()) {
      return Unsupported("post-processor", *step);
    }
    bool after_text = false;
    for (const Json& piece : single->array()) {
      if (Member(piece, "Sequence") != nullptr) {
        after_text = true;
        continue;
      }
      const Json* special = Member(piece, "SpecialToken");
      const int32_t id = special == nullptr ? kNoToken : tokens.Find(Text(*special, "id"));
      bool& add = after_text ? vocabulary.add_eos : vocabulary.add_bos;
      if (id == kNoToken || add) {
        return Unsupported("post-processor", *step);
      }
      add = true;
      (after_text ? vocabulary.eos : vocabulary.bos) = id;
    }
  }
  return {};
}

// "<s>" or {"content": "<s>", ...}.
std::string_view TokenName(const Json& config, std::string_view key) {
  const Json* member = Member(config, key);
  return member != nullptr && member->is_object() ? Text(*member, "content") : Text(config, key);
}

// The post-processor of tokenizer.json has the last word on what is put around a text.
void ReadConfig(const Json& config, bool has_template, const TokenCollector& tokens,
                Vocabulary& vocabulary) {
  const std::array<std::pair<std::string_view, int32_t*>, 4> named = {{
      {"bos_token", &vocabulary.bos},
      {"eos_token", &vocabulary.eos},
      {"unk_token", &vocabulary.unk},
      {"pad_token", &vocabulary.pad},
  }};
  for (const auto& [key, id] : named) {
    if (*id == kNoToken && !TokenName(config, key).empty()) {
      *id = tokens.Find(TokenName(config, key));
    }
  }
  if (!has_template) {
    vocabulary.add_bos = Flag(config, "add_bos_token") && vocabulary.bos != kNoToken;
    vocabulary.add_eos = Flag(config, "add_eos_token") && vocabulary.eos != kNoToken;
  }
}

}  // namespace

Result<Vocabulary> VocabularyFromHuggingFace(const Json& tokenizer, const Json* maybe_config) {
  Vocabulary vocabulary;
  const Json* model = Member(tokenizer, "model");
  const Json* vocab = model == nullptr ? nullptr : Member(*model, "vocab");
  if (model == nullptr || vocab == nullptr) {
    return Corrupt("no model.vocab");
  }
  TRY(ReadNormalizer(Member(tokenizer, "normalizer"), vocabulary));
  TRY(CheckModel(*model, vocabulary));
  if (!vocab->is_object()) {
    return Corrupt("model.vocab is no object");
  }
  TokenCollector tokens;
  TRY(tokens.AddVocabulary(*vocab));
  if (vocabulary.model == Vocabulary::Model::kBpe) {
    TRY(ReadBytePreTokenizer(Member(tokenizer, "pre_tokenizer"), vocabulary));
    vocabulary.ignore_merges = Flag(*model, "ignore_merges");
  } else {
    TRY(ReadSpmPreTokenizer(Member(tokenizer, "pre_tokenizer")));
    tokens.MarkByteTokens();
  }
  if (const Json* added = Member(tokenizer, "added_tokens");
      added != nullptr && added->is_array()) {
    for (const Json& token : added->array()) {
      TRY(tokens.AddAdded(token, vocabulary.normalizer));
    }
  }
  TRY(ReadMerges(*model, vocabulary));
  if (const std::string_view unk = Text(*model, "unk_token"); !unk.empty()) {
    vocabulary.unk = tokens.Find(unk);
  }
  const Json* processor = Member(tokenizer, "post_processor");
  TRY(ReadPostProcessor(processor, tokens, vocabulary));
  if (maybe_config != nullptr) {
    const bool has_template = vocabulary.add_bos || vocabulary.add_eos;
    ReadConfig(*maybe_config, has_template, tokens, vocabulary);
  }
  tokens.Fill(vocabulary);
  return vocabulary;
}

}  // namespace fak::text
