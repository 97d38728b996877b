#include "text/hf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace fak::text {
namespace {

using testing::ElementsAre;

// A small tokenizer.json of each kind. Parts in <angle brackets> below are replaced by tests.
constexpr std::string_view kByteLevel = R"json({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 6, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 7, "content": "<tool>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]},
  "post_processor": {"type": "ByteLevel", "add_prefix_space": false},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
    "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
    "vocab": {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "\u0120ab": 4, "1": 5},
    "merges": ["a b", ["\u0120", "ab"]]}})json";

constexpr std::string_view kSpmLike = R"json({
  "added_tokens": [{"id": 0, "content": "<unk>", "special": true},
                   {"id": 1, "content": "<bos>", "special": true},
                   {"id": 2, "content": "\n\n", "special": false}],
  "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
  "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                    "invert": false},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}]},
  "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "fuse_unk": true,
    "vocab": {"<unk>": 0, "<bos>": 1, "\n\n": 2, "a": 3, "b": 4, "\u2581": 5, "ab": 6,
              "\u2581ab": 7},
    "merges": [["\u2581", "a"], ["a", "b"], ["\u2581", "ab"]]}})json";

// The document with one part of its text replaced. Every replacement has to hit.
Json Document(std::string_view document, std::string_view from = "", std::string_view to = "") {
  std::string text(document);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  Result<Json> json = ParseJson(text);
  EXPECT_TRUE(json) << (json ? "" : json.error().detail);
  return *std::move(json);
}

TEST(HuggingFace, ReadsByteLevelBpe) {
  const auto v = VocabularyFromHuggingFace(Document(kByteLevel), nullptr);
  ASSERT_TRUE(v) << v.error().detail;
  EXPECT_EQ(v->model, Vocabulary::Model::kBpe);
  EXPECT_EQ(v->pre_tokenizer, "qwen2");
  EXPECT_EQ(v->ignore_merges, false);
  EXPECT_EQ(v->tokens.size(), 8u);
  EXPECT_EQ(v->types[6], TokenType::kControl);
  EXPECT_EQ(v->types[7], TokenType::kUserDefined);
  EXPECT_FALSE(v->add_bos);
  const auto tokenizer = *Tokenizer::Create(*v);
  EXPECT_THAT(tokenizer->Encode("ab ab<tool>a1<|end|>", {.parse_special = true}),
              ElementsAre(3, 4, 7, 0, 5, 6));
}

TEST(HuggingFace, ReadsBpeOnTextWithByteFallback) {
  // All 256 byte tokens, from id 8 on; without merges that have no token of their own.
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    char name[32];
    std::snprintf(name, sizeof name, ", \"<0x%02X>\": %d", static_cast<unsigned>(byte), 8 + byte);
    bytes += name;
  }
  std::string text(kSpmLike);
  text.insert(text.find("ab\": 7") + 6, bytes);
  const auto v = VocabularyFromHuggingFace(Document(text, R"(["\u2581", "a"], )", ""), nullptr);
  ASSERT_TRUE(v) << v.error().detail;
  EXPECT_EQ(v->model, Vocabulary::Model::kSpm);
  EXPECT_TRUE(v->add_bos);
  EXPECT_EQ(v->bos, 1);
  EXPECT_EQ(v->unk, 0);
  EXPECT_EQ(v->types[8], TokenType::kByte);
  const auto tokenizer = *Tokenizer::Create(*v);
  EXPECT_THAT(tokenizer->Encode("ab ab\n\nz"), ElementsAre(1, 6, 7, 2, 8 + 'z'));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(" ab z")), " ab z");
}

TEST(HuggingFace, KnowsPreTokenizersByTheirExpressions) {
  constexpr std::string_view kSplit = R"({"type": "Split", "pattern": {"Regex": ")";
  constexpr std::string_view kByteLevelNoRegex =
      R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";
  struct Case {
    std::string steps;
    std::string name;
  };
  for (
      const Case& c : std::initializer_list<Case>{
          {R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})", "gpt-2"},
          {R"({"type": "ByteLevel", "add_prefix_space": false})", "gpt-2"},
          {R"({"type": "Digits", "individual_digits": true},
               {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})",
           "smollm"},
          {std::string(kSplit) +
               R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated"}, )" +
               std::string(kByteLevelNoRegex),
           "llama-bpe"}}) {
    Json document = Document(kByteLevel);
    document.Set("pre_tokenizer",
                 *ParseJson(R"({"type": "Sequence", "pretokenizers": [)" + c.steps + "]}"));
    const auto v = VocabularyFromHuggingFace(document, nullptr);
    ASSERT_TRUE(v) << v.error().detail;
    EXPECT_EQ(v->pre_tokenizer, c.name);
  }
}

TEST(HuggingFace, TakesNamesAndFlagsFromTheConfig) {
  const Json config = *ParseJson(
      R"({"bos_token": {"content": "<tool>"}, "eos_token": "<|end|>", "pad_token": null,
          "add_bos_token": true})");
  const auto v = VocabularyFromHuggingFace(Document(kByteLevel), &config);
  ASSERT_TRUE(v) << v.error().detail;
  EXPECT_EQ(v->bos, 7);
  EXPECT_EQ(v->eos, 6);
  EXPECT_EQ(v->pad, kNoToken);
  EXPECT_TRUE(v->add_bos);
  // A template in tokenizer.json has the last word.
  const Json contrary = *ParseJson(R"({"add_bos_token": false, "add_eos_token": true})");
  const auto spm = VocabularyFromHuggingFace(Document(kSpmLike), &contrary);
  ASSERT_TRUE(spm);
  EXPECT_TRUE(spm->add_bos);
  EXPECT_FALSE(spm->add_eos);
}

TEST(HuggingFace, LeavesHolesInTheIdsUnused) {
  const auto v =
      VocabularyFromHuggingFace(Document(kByteLevel, R"("id": 7)", R"("id": 9)"), nullptr);
  ASSERT_TRUE(v);
  const auto tokenizer = *Tokenizer::Create(*v);
  EXPECT_EQ(tokenizer->vocab_size(), 10);
  EXPECT_EQ(tokenizer->Type(8), TokenType::kUnused);
  EXPECT_EQ(tokenizer->TokenBytes(8), "");
}

struct Refused {
  std::string_view document, from, to, named;
  Code code = Code::kUnsupported;
};

class HuggingFaceRefusal : public testing::TestWithParam<Refused> {};

TEST_P(HuggingFaceRefusal, NamesWhatItWillNotGuess) {
  const auto v = VocabularyFromHuggingFace(
      Document(GetParam().document, GetParam().from, GetParam().to), nullptr);
  ASSERT_FALSE(v);
  EXPECT_EQ(v.error().code, GetParam().code) << v.error().detail;
  EXPECT_NE(v.error().detail.find(GetParam().named), std::string::npos) << v.error().detail;
}

INSTANTIATE_TEST_SUITE_P(
    All, HuggingFaceRefusal,
    testing::Values(
        Refused{kByteLevel, R"("type": "BPE")", R"("type": "WordPiece")", "model \"WordPiece\""},
        Refused{kByteLevel, R"("dropout": null)", R"("dropout": 0.1)", "dropout 0.1"},
        Refused{kByteLevel, R"("end_of_word_suffix": "")", R"("end_of_word_suffix": "</w>")",
                "end_of_word_suffix \"</w>\""},
        Refused{kByteLevel, R"("byte_fallback": false)", R"("byte_fallback": true)",
                "byte_fallback"},
        Refused{kByteLevel, R"("normalizer": null)", R"("normalizer": {"type": "Lowercase"})",
                "normalizer {\"type\":\"Lowercase\"}"},
        Refused{kByteLevel, R"(|\\p{N}|)", R"(|\\p{N}{1,2}|)", R"(|\\p{N}{1,2}|)"},
        Refused{kByteLevel, R"("Isolated")", R"("Removed")", "pre-tokenizer"},
        Refused{kByteLevel, R"("invert": false)", R"("invert": true)", "pre-tokenizer"},
        Refused{kByteLevel, R"("add_prefix_space": false, "trim)",
                R"("add_prefix_space": true, "trim)", "add_prefix_space"},
        Refused{kByteLevel, R"("type": "Split")", R"("type": "Whitespace")", "Whitespace"},
        Refused{kByteLevel, R"("pre_tokenizer")", R"("other")", "without a pre-tokenizer"},
        Refused{kByteLevel, R"("lstrip": false)", R"("lstrip": true)", "added token"},
        Refused{kByteLevel, R"("single_word": false)", R"("single_word": true)", "added token"},
        Refused{kByteLevel, R"("post_processor": {"type": "ByteLevel")",
                R"("post_processor": {"type": "BertProcessing")", "BertProcessing"},
        Refused{kSpmLike, R"({"type": "Split", "pattern": {"String": " "})",
                R"({"type": "Metaspace", "pattern": {"String": " "})", "Metaspace"},
        Refused{kSpmLike, R"("id": "<bos>")", R"("id": "<nowhere>")", "post-processor"},
        Refused{kByteLevel, R"("vocab")", R"("words")", "no model.vocab", Code::kDataCorrupt},
        Refused{kByteLevel, R"("merges")", R"("marriages")", "merges", Code::kDataCorrupt},
        Refused{kByteLevel, R"("a b")", R"("ab")", "merge 0 'ab'", Code::kDataCorrupt},
        Refused{kByteLevel, R"(["\u0120", "ab"])", R"(["ab"])", "merge 1", Code::kDataCorrupt},
        Refused{kByteLevel, R"("b": 1)", R"("b": -1)", "id -1", Code::kDataCorrupt},
        Refused{kByteLevel, R"("b": 1)", R"("b": 4000000000)", "id 4000000000", Code::kDataCorrupt},
        Refused{kByteLevel, R"("b": 1)", R"("b": "1")", "id \"1\"", Code::kDataCorrupt}));

}  // namespace
}  // namespace fak::text
