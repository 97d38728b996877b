#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "text/pre_tokenizer.h"
#include "text/sample_vocabulary.h"

namespace fak::text {
namespace {

using testing::ElementsAre;
using Ids = std::vector<int32_t>;

std::unique_ptr<const Tokenizer> Make(Vocabulary vocabulary) {
  auto made = Tokenizer::Create(std::move(vocabulary));
  EXPECT_TRUE(made) << (made ? "" : made.error().detail);
  return *std::move(made);
}

// The definitions of both algorithms, as slow as they are short: of all neighbours that can merge,
// the first of the best does.
struct Piece {
  std::string text;
  int32_t id;
};
template <class RankOf>
std::vector<Piece> MergeSlowly(std::vector<Piece> pieces, const RankOf& rank_of) {
  while (true) {
    size_t best = pieces.size();
    for (size_t i = 0; i + 1 < pieces.size(); ++i) {
      if (rank_of(pieces[i], pieces[i + 1]) &&
          (best == pieces.size() ||
           *rank_of(pieces[i], pieces[i + 1]) < *rank_of(pieces[best], pieces[best + 1]))) {
        best = i;
      }
    }
    if (best == pieces.size()) {
      return pieces;
    }
    pieces[best].text += pieces[best + 1].text;
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

Ids SlowBpe(const Vocabulary& v, const Tokenizer& tokenizer, const std::string& text) {
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  for (size_t i = 0; i < v.merges.size(); i += 2) {
    ranks.emplace(std::pair(v.merges[i], v.merges[i + 1]), i);
  }
  const PreTokenizer pre_tokenizer = *PreTokenizer::Create(v.pre_tokenizer);
  Ids ids;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = pre_tokenizer.WordEnd(text, begin);
    std::vector<Piece> pieces;
    for (size_t i = begin; i < end; ++i) {
      Piece piece;
      AppendInAlphabet(piece.text, {&text[i], 1});
      pieces.push_back(piece);
    }
    const auto rank_of = [&](const Piece& a, const Piece& b) -> std::optional<size_t> {
      const auto at = ranks.find({a.text, b.text});
      return at == ranks.end() ? std::nullopt : std::optional(at->second);
    };
    for (const Piece& piece : MergeSlowly(std::move(pieces), rank_of)) {
      ids.push_back(tokenizer.Find(piece.text));
    }
    begin = end;
  }
  return ids;
}

Ids SlowSpm(const Vocabulary& v, std::string text) {
  for (size_t at = text.find(' '); at != std::string::npos; at = text.find(' ', at)) {
    text.replace(at, 1, "\xE2\x96\x81");
  }
  std::map<std::string, int32_t, std::less<>> ordinary;
  std::map<std::string, int32_t, std::less<>> bytes;
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    if (v.types[id] == TokenType::kNormal || v.types[id] == TokenType::kUserDefined) {
      ordinary.emplace(v.tokens[id], static_cast<int32_t>(id));
    } else if (v.types[id] == TokenType::kByte) {
      bytes.emplace(v.tokens[id], static_cast<int32_t>(id));
    }
  }
  std::vector<Piece> pieces;
  for (std::string_view rest = text; !rest.empty();) {
    char32_t c = 0;
    const size_t length = static_cast<size_t>(std::max(1, DecodeUtf8(rest, &c)));
    pieces.push_back({std::string(rest.substr(0, length)), 0});
    rest.remove_prefix(length);
  }
  const auto rank_of = [&](const Piece& a, const Piece& b) -> std::optional<float> {
    const auto at = ordinary.find(a.text + b.text);
    return at == ordinary.end() ? std::nullopt
                                : std::optional(-v.scores[static_cast<size_t>(at->second)]);
  };
  Ids ids;
  for (const Piece& piece : MergeSlowly(std::move(pieces), rank_of)) {
    if (const auto at = ordinary.find(piece.text); at != ordinary.end()) {
      ids.push_back(at->second);
      continue;
    }
    for (const char c : piece.text) {
      ids.push_back(3 + static_cast<uint8_t>(c));  // where SampleSpm() has its byte tokens
    }
  }
  return ids;
}

constexpr const char* kPreTokenizers[] = {"gpt-2", "smollm", "llama-bpe", "qwen2", "default"};

TEST(Tokenizer, MergesBytePairsByRank) {
  for (const char* name : kPreTokenizers) {
    Vocabulary v = SampleBpe(name);
    v.types.assign(v.tokens.size(), TokenType::kNormal);  // no special tokens in the way
    v.ignore_merges = false;
    const auto tokenizer = Make(v);
    for (uint32_t seed = 1; seed <= 400; ++seed) {
      const std::string bytes = SampleBytes(seed, seed % 60);
      ASSERT_EQ(tokenizer->Encode(bytes), SlowBpe(v, *tokenizer, bytes)) << name << ' ' << seed;
      const std::string words = SampleWords(seed, seed % 200);
      ASSERT_EQ(tokenizer->Encode(words), SlowBpe(v, *tokenizer, words)) << name << ' ' << seed;
    }
  }
}

TEST(Tokenizer, MergesSentencePiecesByScore) {
  Vocabulary v = SampleSpm();
  v.types.back() = TokenType::kNormal;  // no special tokens in the way
  const auto tokenizer = Make(v);
  for (uint32_t seed = 1; seed <= 800; ++seed) {
    const std::string bytes = SampleBytes(seed, seed % 60);
    ASSERT_EQ(tokenizer->Encode(bytes), SlowSpm(v, bytes)) << seed;
    const std::string words = SampleWords(seed, seed % 200);
    ASSERT_EQ(tokenizer->Encode(words), SlowSpm(v, words)) << seed;
  }
}

TEST(Tokenizer, TakesTheLeftmostOfEqualScores) {
  Vocabulary v;
  v.model = Vocabulary::Model::kSpm;
  for (const char* token : {"<unk>", "a", "b", "c", "ab", "bc"}) {
    v.tokens.Add(token);
  }
  v.types.assign(6, TokenType::kNormal);
  v.unk = 0;
  v.scores = {0, -5, -5, -5, -0.0f, 0.0f};  // equal, as numbers are
  EXPECT_THAT(Make(v)->Encode("abc"), ElementsAre(4, 3));
  v.scores.back() = 0.5f;
  EXPECT_THAT(Make(v)->Encode("abc"), ElementsAre(1, 5));
}

TEST(Tokenizer, TakesAWholeWordWhereMergesAreIgnored) {
  Vocabulary v;
  v.pre_tokenizer = "llama-bpe";
  for (const char* token : {"a", "b", "c", "ab", "abc"}) {
    v.tokens.Add(token);
  }
  ASSERT_TRUE(v.AddMerge("a b"));
  EXPECT_THAT(Make(v)->Encode("abc"), ElementsAre(4));
  v.ignore_merges = false;
  EXPECT_THAT(Make(v)->Encode("abc"), ElementsAre(3, 2));
  v.ignore_merges.reset();
  v.pre_tokenizer = "qwen2";
  EXPECT_THAT(Make(v)->Encode("abc"), ElementsAre(3, 2));
}

TEST(Tokenizer, BringsAnyBytesBack) {
  std::vector<std::unique_ptr<const Tokenizer>> tokenizers;
  for (const char* name : kPreTokenizers) {
    tokenizers.push_back(Make(SampleBpe(name)));
  }
  tokenizers.push_back(Make(SampleSpm()));
  Vocabulary prefixed = SampleSpm();
  prefixed.add_space_prefix = true;
  prefixed.types.back() = TokenType::kNormal;  // text after a special token gets a blank as well
  tokenizers.push_back(Make(std::move(prefixed)));
  for (const auto& tokenizer : tokenizers) {
    for (uint32_t seed = 1; seed <= 1000; ++seed) {
      const std::string bytes = SampleBytes(seed, seed % 60);
      ASSERT_EQ(tokenizer->Decode(tokenizer->Encode(bytes, {.parse_special = false})), bytes);
    }
  }
}

TEST(Tokenizer, DropsBytesThatNoTokenStandsFor) {
  Vocabulary v;
  v.pre_tokenizer = "smollm";
  v.tokens.Add("a");
  const auto tokenizer = Make(std::move(v));
  EXPECT_THAT(tokenizer->Encode("ab a"), ElementsAre(0, 0));
  EXPECT_EQ(tokenizer->TokensAtLeast("bbbbaab"), 2u);
}

TEST(Tokenizer, FallsBackToTheUnknownTokenWithoutByteTokens) {
  Vocabulary v;
  v.model = Vocabulary::Model::kSpm;
  v.tokens.Add("<unk>");
  v.tokens.Add("a");
  v.types = {TokenType::kUnknown, TokenType::kNormal};
  v.scores = {0, 0};
  v.unk = 0;
  EXPECT_THAT(Make(std::move(v))
                  ->Encode("a\xE4\xB8\xAD"
                           "a"),
              ElementsAre(1, 0, 1));
}

TEST(Tokenizer, EncodesADuplicateAsTheFirstAndDecodesAll) {
  Vocabulary v;
  v.pre_tokenizer = "gpt-2";
  for (const char* token : {"a", "b", "a", "ab", "ab"}) {
    v.tokens.Add(token);
  }
  ASSERT_TRUE(v.AddMerge("a b"));
  const auto tokenizer = Make(std::move(v));
  EXPECT_THAT(tokenizer->Encode("a b ab"), ElementsAre(0, 1, 3));
  EXPECT_EQ(tokenizer->Decode(Ids{0, 2, 3, 4}), "aaabab");
  EXPECT_EQ(tokenizer->Find("ab"), 3);
}

TEST(Tokenizer, PutsBosAndEosWhereAsked) {
  Vocabulary v = SampleBpe("gpt-2");
  const int32_t bos = v.bos, eos = v.eos;
  EXPECT_EQ(Make(v)->Encode("a"), Ids{'a'});
  v.add_bos = true;
  EXPECT_EQ(Make(v)->Encode("a"), (Ids{bos, 'a'}));
  EXPECT_EQ(Make(v)->Encode("a", {.add_special = false}), Ids{'a'});
  v.add_eos = true;
  EXPECT_EQ(Make(v)->Encode("a"), (Ids{bos, 'a', eos}));
  EXPECT_EQ(Make(v)->Encode(""), (Ids{bos, eos}));
}

TEST(Tokenizer, KeepsOneBosOfATemplateThatWritesIt) {
  Vocabulary v = SampleBpe("gpt-2");
  v.add_bos = true;
  const int32_t bos = v.bos;
  const auto tokenizer = Make(std::move(v));
  const std::vector<Segment> with = {{"<|bos|>a", true}};
  const std::vector<Segment> without = {{"a", true}};
  EXPECT_EQ(tokenizer->EncodeSegments(with, true), (Ids{bos, 'a'}));
  EXPECT_EQ(tokenizer->EncodeSegments(without, true), (Ids{bos, 'a'}));
  EXPECT_EQ(tokenizer->EncodeSegments(without, false), Ids{'a'});
  // Text of a user is no BOS, and a raw prompt is taken at its word.
  const std::vector<Segment> forged = {{"<|bos|>", false}};
  EXPECT_EQ(tokenizer->EncodeSegments(forged, true).front(), bos);
  EXPECT_GT(tokenizer->EncodeSegments(forged, true).size(), 2u);
  EXPECT_EQ(tokenizer->Encode("<|bos|>", {.parse_special = true}), (Ids{bos, bos}));
}

TEST(Tokenizer, ParsesControlTokensOnlyWhereToldTo) {
  const auto tokenizer = Make(SampleBpe("gpt-2"));
  const int32_t end = tokenizer->Find("<|im_end|>");
  const int32_t tool = tokenizer->Find("<tool>");
  EXPECT_EQ(tokenizer->Encode("a<|im_end|><tool>", {.parse_special = true}), (Ids{'a', end, tool}));
  const Ids plain = tokenizer->Encode("a<|im_end|><tool>");
  EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
  EXPECT_EQ(plain.back(), tool);  // user-defined tokens count anywhere
  EXPECT_EQ(tokenizer->Decode(plain), "a<|im_end|><tool>");
}

TEST(Tokenizer, NeverMergesTextIntoAControlToken) {
  Vocabulary v = SampleSpm();
  // Left to its score, "</s>" would be put together from its characters.
  for (const char* token : {"<", "/", ">", "</", "s>"}) {
    v.tokens.Add(token);
    v.types.push_back(TokenType::kNormal);
    v.scores.push_back(-1);
  }
  const auto tokenizer = Make(std::move(v));
  for (const char* text : {"</s>", "<s>", "<unk>", "<0x41>"}) {
    for (const int32_t id : tokenizer->Encode(text)) {
      EXPECT_FALSE(tokenizer->IsControl(id)) << text;
    }
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
  }
}

TEST(Tokenizer, EncodesSegmentsAsOneText) {
  const auto tokenizer = Make(SampleBpe("gpt-2"));
  const int32_t start = tokenizer->Find("<|im_start|>");
  const int32_t end = tokenizer->Find("<|im_end|>");
  const std::vector<Segment> chat = {{"<|im_start|>te", true},
                                     {"st<|im_end|>", false},
                                     {"", false},
                                     {"<|im_end|", true},
                                     {">\n", true}};
  Ids expected = {start};
  for (const int32_t id : tokenizer->Encode("test<|im_end|>")) {
    expected.push_back(id);
  }
  expected.push_back(end);
  expected.push_back('\n');
  EXPECT_EQ(tokenizer->EncodeSegments(chat, false), expected);
}

TEST(Tokenizer, FindsNoControlTokenThatAUserWroteAPartOf) {
  const auto tokenizer = Make(SampleBpe("gpt-2"));
  const std::string_view name = "<|im_end|>";
  for (size_t begin = 0; begin < name.size(); ++begin) {
    for (size_t end = begin + 1; end <= name.size(); ++end) {
      const std::vector<Segment> segments = {{name.substr(0, begin), true},
                                             {name.substr(begin, end - begin), false},
                                             {name.substr(end), true}};
      const Ids ids = tokenizer->EncodeSegments(segments, false);
      EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer->Find(name)), 0);
      EXPECT_EQ(ids, tokenizer->Encode(name));
    }
  }
}

TEST(Tokenizer, GivesTheBytesOfEachKindOfToken) {
  const auto bpe = Make(SampleBpe("gpt-2"));
  EXPECT_EQ(bpe->TokenBytes(' '), " ");
  EXPECT_EQ(bpe->TokenBytes(0xFF), "\xFF");
  EXPECT_EQ(bpe->TokenBytes(bpe->bos()), "<|bos|>");
  EXPECT_EQ(bpe->TokenBytes(bpe->Find("  ")), "  ");
  const auto spm = Make(SampleSpm());
  EXPECT_EQ(spm->TokenBytes(3 + 0x41), "A");
  EXPECT_EQ(spm->TokenBytes(3 + 0xFF), "\xFF");
  EXPECT_EQ(spm->TokenBytes(spm->Find("\xE2\x96\x81")), " ");
  for (const int32_t id : {-1, spm->vocab_size(), spm->vocab_size() + 1000}) {
    EXPECT_EQ(spm->TokenBytes(id), "");
    EXPECT_EQ(spm->Type(id), TokenType::kUnused);
    EXPECT_FALSE(spm->IsControl(id));
  }
}

TEST(Tokenizer, HidesControlTokensUnlessAsked) {
  const auto tokenizer = Make(SampleBpe("gpt-2"));
  const Ids ids = {tokenizer->bos(), 'a', tokenizer->Find("<tool>"), tokenizer->eos()};
  EXPECT_EQ(tokenizer->Decode(ids), "a<tool>");
  EXPECT_EQ(tokenizer->Decode(ids, {.skip_special = false}), "<|bos|>a<tool><|eos|>");
}

TEST(Tokenizer, TakesTheBlankAwayThatItPutBeforeTheText) {
  Vocabulary v = SampleSpm();
  v.add_space_prefix = true;
  v.add_bos = true;
  const auto tokenizer = Make(std::move(v));
  const Ids ids = tokenizer->Encode("a");
  EXPECT_EQ(ids.front(), tokenizer->bos());
  std::string bytes;
  for (const int32_t id : ids) {
    bytes += tokenizer->IsControl(id) ? "" : tokenizer->TokenBytes(id);
  }
  EXPECT_EQ(bytes, " a");
  EXPECT_EQ(tokenizer->Decode(ids), "a");
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("  a")), "  a");
  EXPECT_EQ(tokenizer->Encode(""), Ids{tokenizer->bos()});
}

TEST(Tokenizer, StopsAtEveryTokenThatEndsATurn) {
  Vocabulary v = SampleBpe("gpt-2");
  const auto add = [&v](std::string_view name, TokenType type) {
    v.tokens.Add(name);
    v.types.push_back(type);
    return static_cast<int32_t>(v.tokens.size()) - 1;
  };
  const int32_t mistyped = add("<|eot_id|>", TokenType::kNormal);
  const int32_t html = add("</s>", TokenType::kUserDefined);
  const int32_t eom = add("a token", TokenType::kControl);
  v.eom = eom;
  v.end_of_generation = {'z'};
  const int32_t eos = v.eos;
  const auto tokenizer = Make(std::move(v));
  for (const int32_t id : {eos, tokenizer->Find("<|im_end|>"), mistyped, eom, int32_t{'z'}}) {
    EXPECT_TRUE(tokenizer->IsEndOfGeneration(id)) << id;
  }
  EXPECT_EQ(tokenizer->end_of_generation_ids().size(), 5u);
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(html));
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(kNoToken));
  EXPECT_TRUE(tokenizer->IsControl(mistyped)) << "a name that is nothing else is made control";
}

TEST(Tokenizer, GoesOnAfterAMessageWhereAnotherTokenEndsTheTurn) {
  const auto end_stops = [](std::vector<const char*> names) {
    Vocabulary v = SampleBpe("gpt-2");
    names.push_back("<|end|>");
    for (const char* name : names) {
      v.tokens.Add(name);
      v.types.push_back(TokenType::kControl);
    }
    const auto tokenizer = Make(std::move(v));
    return tokenizer->IsEndOfGeneration(tokenizer->Find("<|end|>"));
  };
  EXPECT_TRUE(end_stops({}));
  EXPECT_TRUE(end_stops({"<|return|>"}));
  EXPECT_FALSE(end_stops({"<|return|>", "<|call|>"}));
  EXPECT_FALSE(end_stops({"<|calls|>", "<|flush|>"}));
}

TEST(Tokenizer, ListsSpecialTokens) {
  const auto tokenizer = Make(SampleBpe("gpt-2"));
  const auto ids = tokenizer->special_ids();
  EXPECT_EQ(ids.size(), 6u);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(ids.front(), tokenizer->bos());
}

TEST(Tokenizer, ComposesTextForVocabulariesThatWantIt) {
  Vocabulary v = SampleBpe("qwen2");
  const auto plain = Make(v);
  v.normalizer = Vocabulary::Normalizer::kNfc;
  const auto composing = Make(v);
  const std::string decomposed = "e\xCC\x81";
  EXPECT_EQ(plain->Decode(plain->Encode(decomposed)), decomposed);
  EXPECT_EQ(composing->Decode(composing->Encode(decomposed)), "\xC3\xA9");
  const std::string broken = "e\xCC\x81\xFF";  // no text, so nothing to compose
  EXPECT_EQ(composing->Decode(composing->Encode(broken)), broken);
}

TEST(Tokenizer, BoundsTheNumberOfTokensFromBelow) {
  Vocabulary nfc = SampleBpe("qwen2");
  nfc.normalizer = Vocabulary::Normalizer::kNfc;
  for (const auto& tokenizer : {Make(SampleBpe("llama-bpe")), Make(SampleSpm()), Make(nfc)}) {
    for (uint32_t seed = 1; seed <= 300; ++seed) {
      const std::string text = SampleBytes(seed, seed);
      ASSERT_LE(tokenizer->TokensAtLeast(text), tokenizer->Encode(text).size());
    }
    EXPECT_GT(tokenizer->TokensAtLeast(std::string(1000, 'a')), 0u);
  }
  // Three jamo of three bytes become a syllable of three tokens of one byte.
  Vocabulary bytes_only;
  bytes_only.pre_tokenizer = "qwen2";
  bytes_only.normalizer = Vocabulary::Normalizer::kNfc;
  for (int32_t id = 0; id < 256; ++id) {
    bytes_only.tokens.Add(nfc.tokens[static_cast<size_t>(id)]);
  }
  const auto tokenizer = Make(std::move(bytes_only));
  const std::string jamo = "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB";
  EXPECT_EQ(tokenizer->Encode(jamo).size(), 3u);
  EXPECT_EQ(tokenizer->TokensAtLeast(jamo), 2u);
}

// Quadratic time would show as a test that doesn't end, deep recursion as a crash.
TEST(Tokenizer, EncodesLongRunsOfAnything) {
  constexpr size_t kBytes = 256 * 1024;
  const char* const kUnits[] = {"a", " ",    "\n",           "1",  "!",
                                "'", "\xFF", "\xE4\xB8\xAD", "a ", "<|im_"};
  for (const char* name : kPreTokenizers) {
    const auto tokenizer = Make(SampleBpe(name));
    for (const char* unit : kUnits) {
      std::string text;
      while (text.size() < kBytes) {
        text += unit;
      }
      ASSERT_EQ(tokenizer->Decode(tokenizer->Encode(text, {.parse_special = true})), text);
    }
  }
  const auto spm = Make(SampleSpm());
  for (const char* unit : kUnits) {
    std::string text;
    while (text.size() < kBytes) {
      text += unit;
    }
    ASSERT_EQ(spm->Decode(spm->Encode(text)), text);
  }
}

}  // namespace
}  // namespace fak::text
