#include "text/tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/bpe_encoder.h"
#include "text/end_of_generation.h"
#include "text/nfc.h"
#include "text/special_matcher.h"
#include "text/spm_encoder.h"
#include "text/token_bytes.h"
#include "text/token_index.h"

namespace fak::text {

class Tokenizer::Impl {
 public:
  explicit Impl(Vocabulary v) : vocabulary(std::move(v)), types(std::move(vocabulary.types)) {
    types.resize(vocabulary.tokens.size(), TokenType::kNormal);
  }
  Status Build();
  void Encode(std::string_view text, std::span<const SpecialMatcher::Range> parsed,
              std::vector<int32_t>& out) const;
  bool Has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < vocabulary.tokens.size();
  }
  bool IsControl(int32_t id) const {
    return Has(id) && (types[static_cast<size_t>(id)] == TokenType::kControl ||
                       types[static_cast<size_t>(id)] == TokenType::kUnknown);
  }

  Vocabulary vocabulary;  // types moved out; merges and scores dropped once built
  std::vector<TokenType> types;
  StringList bytes;  // what each token stands for
  size_t token_bytes_max = 1;
  std::optional<TokenIndex> index;
  std::optional<SpecialMatcher> specials;
  std::unique_ptr<const TextEncoder> encoder;
  std::vector<int32_t> special_ids;
  std::vector<int32_t> end_ids;

 private:
  void EncodeFragment(std::string_view text, std::vector<int32_t>& out) const;
};

Status Tokenizer::Impl::Build() {
  index.emplace(vocabulary.tokens, types);
  RetypeEndTokens(*index, types);
  end_ids = EndOfGenerationIds(vocabulary, *index, types);
  specials.emplace(vocabulary.tokens, types);
  if (vocabulary.model == Vocabulary::Model::kBpe) {
    TRY_ASSIGN(encoder, BpeEncoder::Create(vocabulary, *index));
  } else {
    TRY_ASSIGN(encoder, SpmEncoder::Create(vocabulary, types, *index));
  }
  std::string token_bytes;
  bytes.Reserve(vocabulary.tokens.size(), vocabulary.tokens.bytes());
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    token_bytes.clear();
    AppendTokenBytes(token_bytes, vocabulary.model, types[id], vocabulary.tokens[id]);
    bytes.Add(token_bytes);
    token_bytes_max = std::max(token_bytes_max, token_bytes.size());
    if (types[id] == TokenType::kControl || types[id] == TokenType::kUnknown ||
        types[id] == TokenType::kUserDefined) {
      special_ids.push_back(static_cast<int32_t>(id));
    }
  }
  vocabulary.merges = {};
  vocabulary.scores = {};
  return {};
}

void Tokenizer::Impl::Encode(std::string_view text, std::span<const SpecialMatcher::Range> parsed,
                             std::vector<int32_t>& out) const {
  size_t begin = 0;
  while (const auto match = specials->Next(text, begin, parsed)) {
    EncodeFragment(text.substr(begin, match->begin - begin), out);
    out.push_back(match->id);
    begin = match->end;
  }
  EncodeFragment(text.substr(begin), out);
}

void Tokenizer::Impl::EncodeFragment(std::string_view text, std::vector<int32_t>& out) const {
  if (text.empty()) {
    return;
  }
  if (vocabulary.normalizer == Vocabulary::Normalizer::kNfc) {
    std::string composed;
    encoder->Encode(ComposeNfc(text, composed), out);
  } else {
    encoder->Encode(text, out);
  }
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<const Tokenizer>> Tokenizer::Create(Vocabulary vocabulary) {
  TRY(vocabulary.Check());
  auto impl = std::make_unique<Impl>(std::move(vocabulary));
  TRY(impl->Build());
  return std::unique_ptr<const Tokenizer>(new Tokenizer(std::move(impl)));
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 2);
  if (options.add_special && add_bos()) {
    ids.push_back(bos());
  }
  const SpecialMatcher::Range whole{.begin = 0, .end = text.size()};
  impl_->Encode(text, {&whole, options.parse_special ? 1u : 0u}, ids);
  if (options.add_special && add_eos()) {
    ids.push_back(eos());
  }
  return ids;
}

std::vector<int32_t> Tokenizer::EncodeSegments(std::span<const Segment> segments,
                                               bool add_special) const {
  std::string text;
  std::vector<SpecialMatcher::Range> parsed;
  for (const Segment& segment : segments) {
    const size_t begin = text.size();
    text += segment.text;
    if (!segment.parse_special || segment.text.empty()) {
      continue;
    }
    if (!parsed.empty() && parsed.back().end == begin) {
      parsed.back().end = text.size();
    } else {
      parsed.push_back({.begin = begin, .end = text.size()});
    }
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 2);
  if (add_special && add_bos()) {
    ids.push_back(bos());
  }
  impl_->Encode(text, parsed, ids);
  if (add_special && add_bos() && ids.size() > 1 && ids[1] == bos()) {
    ids.erase(ids.begin());
  }
  if (add_special && add_eos()) {
    ids.push_back(eos());
  }
  return ids;
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  return impl_->Has(id) ? impl_->bytes[static_cast<size_t>(id)] : std::string_view();
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::string out;
  out.reserve(ids.size() * 4);
  bool at_start = impl_->vocabulary.add_space_prefix;
  for (const int32_t id : ids) {
    std::string_view bytes = TokenBytes(id);
    if (IsControl(id)) {
      out += options.skip_special ? std::string_view() : bytes;
      continue;
    }
    if (at_start && Type(id) == TokenType::kNormal && bytes.starts_with(' ')) {
      bytes.remove_prefix(1);
    }
    at_start = false;
    out += bytes;
  }
  return out;
}

int32_t Tokenizer::Find(std::string_view token_text) const {
  return impl_->index->Find(token_text);
}

std::string_view Tokenizer::TokenText(int32_t id) const {
  return impl_->vocabulary.tokens[static_cast<size_t>(id)];
}

TokenType Tokenizer::Type(int32_t id) const {
  return impl_->Has(id) ? impl_->types[static_cast<size_t>(id)] : TokenType::kUnused;
}

bool Tokenizer::IsControl(int32_t id) const {
  return impl_->IsControl(id);
}

bool Tokenizer::IsEndOfGeneration(int32_t id) const {
  return std::binary_search(impl_->end_ids.begin(), impl_->end_ids.end(), id);
}

int32_t Tokenizer::vocab_size() const {
  return static_cast<int32_t>(impl_->vocabulary.tokens.size());
}
int32_t Tokenizer::bos() const {
  return impl_->vocabulary.bos;
}
int32_t Tokenizer::eos() const {
  return impl_->vocabulary.eos;
}
int32_t Tokenizer::eot() const {
  return impl_->vocabulary.eot;
}
int32_t Tokenizer::eom() const {
  return impl_->vocabulary.eom;
}
int32_t Tokenizer::unk() const {
  return impl_->vocabulary.unk;
}
int32_t Tokenizer::pad() const {
  return impl_->vocabulary.pad;
}
bool Tokenizer::add_bos() const {
  return impl_->vocabulary.add_bos;
}
bool Tokenizer::add_eos() const {
  return impl_->vocabulary.add_eos;
}

std::span<const int32_t> Tokenizer::end_of_generation_ids() const {
  return impl_->end_ids;
}
std::span<const int32_t> Tokenizer::special_ids() const {
  return impl_->special_ids;
}

size_t Tokenizer::TokensAtLeast(std::string_view text) const {
  size_t per_token = impl_->token_bytes_max;
  if (impl_->vocabulary.normalizer == Vocabulary::Normalizer::kNfc) {
    per_token *= kNfcShrinkMax;
  }
  return (text.size() - LostBytes(text)) / per_token;
}

size_t Tokenizer::LostBytes(std::string_view text) const {
  return impl_->encoder->LostBytes(text);
}

}  // namespace fak::text
