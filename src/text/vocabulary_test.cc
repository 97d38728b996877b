#include "text/vocabulary.h"

#include <gtest/gtest.h>

#include "text/sample_vocabulary.h"
#include "text/tokenizer.h"

namespace fak::text {
namespace {

TEST(StringList, KeepsStringsApart) {
  StringList list;
  list.Add("one");
  list.Add("");
  list.Add(std::string_view("\0x", 2));
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0], "one");
  EXPECT_EQ(list[1], "");
  EXPECT_EQ(list[2], std::string_view("\0x", 2));
}

TEST(Vocabulary, SplitsAMergeAtTheFirstBlankAfterTheFirstByte) {
  Vocabulary v;
  ASSERT_TRUE(v.AddMerge("a b"));
  ASSERT_TRUE(v.AddMerge("  b"));  // a left part that is a blank
  ASSERT_TRUE(v.AddMerge("a  "));
  ASSERT_EQ(v.merges.size(), 6u);
  EXPECT_EQ(v.merges[2], " ");
  EXPECT_EQ(v.merges[3], "b");
  EXPECT_EQ(v.merges[4], "a");
  EXPECT_EQ(v.merges[5], " ");
  for (const char* broken : {"", " ", "ab", " b"}) {
    EXPECT_EQ(v.AddMerge(broken).error().code, Code::kDataCorrupt) << broken;
  }
}

TEST(Vocabulary, RefusesOtherModelsByName) {
  EXPECT_EQ(*VocabularyModel("gpt2"), Vocabulary::Model::kBpe);
  EXPECT_EQ(*VocabularyModel("llama"), Vocabulary::Model::kSpm);
  const auto refused = VocabularyModel("bert");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_NE(refused.error().detail.find("'bert'"), std::string::npos);
}

TEST(Vocabulary, RefusesPreTokenizersItDoesNotKnowByName) {
  for (const char* name : {"", "qwen35", "tekken", "Smollm"}) {
    const auto refused = Tokenizer::Create(SampleBpe(name));
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Code::kUnsupported);
    EXPECT_NE(refused.error().detail.find("'" + std::string(name) + "'"), std::string::npos);
  }
}

struct Damage {
  const char* named;  // what the error says
  void (*apply)(Vocabulary&);
};

class VocabularyDamage : public testing::TestWithParam<Damage> {};

TEST_P(VocabularyDamage, IsNamed) {
  Vocabulary v = SampleSpm();
  GetParam().apply(v);
  const auto made = Tokenizer::Create(std::move(v));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kDataCorrupt);
  EXPECT_NE(made.error().detail.find(GetParam().named), std::string::npos) << made.error().detail;
}

INSTANTIATE_TEST_SUITE_P(
    All, VocabularyDamage,
    testing::Values(
        Damage{"0 tokens", [](Vocabulary& v) { v = {}; }},
        Damage{"token types", [](Vocabulary& v) { v.types.pop_back(); }},
        Damage{"has type 7", [](Vocabulary& v) { v.types[3] = static_cast<TokenType>(7); }},
        Damage{"has type 0", [](Vocabulary& v) { v.types[3] = static_cast<TokenType>(0); }},
        Damage{"one part", [](Vocabulary& v) { v.merges.Add("a"); }},
        Damage{"eos token is 1000000", [](Vocabulary& v) { v.eos = 1000000; }},
        Damage{"bos token is -2", [](Vocabulary& v) { v.bos = -2; }},
        Damage{"end-of-generation token is -1",
               [](Vocabulary& v) { v.end_of_generation = {kNoToken}; }},
        Damage{"BOS or EOS",
               [](Vocabulary& v) {
                 v.bos = kNoToken;
                 v.add_bos = true;
               }},
        Damage{"scores for", [](Vocabulary& v) { v.scores.pop_back(); }},
        Damage{"score of token 5 is NaN", [](Vocabulary& v) { v.scores[5] = std::stof("nan"); }},
        Damage{"merge 0: 'nowhere'",
               [](Vocabulary& v) {
                 v.merges.Add("a");
                 v.merges.Add("nowhere");
               }},
        Damage{"neither all 256 byte tokens nor an unknown token", [](Vocabulary& v) {
                 v.unk = kNoToken;
                 StringList tokens;
                 for (size_t id = 0; id < v.tokens.size(); ++id) {
                   tokens.Add(id == 100 ? "no byte" : v.tokens[id]);
                 }
                 v.tokens = tokens;
               }}));

}  // namespace
}  // namespace fak::text
