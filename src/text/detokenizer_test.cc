#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/utf8.h"
#include "text/sample_vocabulary.h"

namespace fak::text {
namespace {

TEST(Utf8Assembler, GivesTheSameTextHoweverItIsCut) {
  for (uint32_t seed = 1; seed <= 3000; ++seed) {
    const std::string bytes = SampleBytes(seed, 12);
    std::minstd_rand random(seed);
    Utf8Assembler assembler;
    std::string out;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = std::min<size_t>(1 + random() % 4, bytes.size() - at);
      assembler.Feed(std::string_view(bytes).substr(at, length), out);
      ASSERT_TRUE(IsValidUtf8(out));
      at += length;
    }
    assembler.Flush(out);
    ASSERT_EQ(out, ReplaceInvalidUtf8(bytes)) << seed;
  }
}

TEST(Utf8Assembler, HoldsOnlyWhatMayBecomeWhole) {
  struct Case {
    std::string_view fed, out, flushed;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"a", "a", "a"},
           {"a\xE4", "a", "a\xEF\xBF\xBD"},
           {"a\xE4\xB8", "a", "a\xEF\xBF\xBD"},
           {"a\xE4\xB8\xAD", "a\xE4\xB8\xAD", "a\xE4\xB8\xAD"},
           {"\xF0\x9F\x98", "", "\xEF\xBF\xBD"},
           {"\x80", "\xEF\xBF\xBD", "\xEF\xBF\xBD"},
           {"\xFF", "\xEF\xBF\xBD", "\xEF\xBF\xBD"},
           {"\xED\xA0", "\xEF\xBF\xBD\xEF\xBF\xBD", "\xEF\xBF\xBD\xEF\xBF\xBD"},  // surrogate
           {"\xE4z", "\xEF\xBF\xBDz", "\xEF\xBF\xBDz"}}) {
    Utf8Assembler assembler;
    std::string out;
    assembler.Feed(c.fed, out);
    EXPECT_EQ(out, c.out) << c.flushed;
    assembler.Flush(out);
    EXPECT_EQ(out, c.flushed);
    EXPECT_EQ(assembler.held_bytes(), 0u);
  }
}

TEST(Detokenizer, GivesTheTextOfDecodeTokenByToken) {
  const auto tokenizer = *Tokenizer::Create(SampleBpe("llama-bpe", 40));
  for (const bool skip_special : {true, false}) {
    for (uint32_t seed = 1; seed <= 300; ++seed) {
      const std::string text = SampleBytes(seed, 30);
      const auto ids = tokenizer->Encode(text, {.parse_special = true});
      Detokenizer detokenizer(*tokenizer, {.skip_special = skip_special});
      std::string out;
      for (const int32_t id : ids) {
        detokenizer.Feed(id, out);
      }
      detokenizer.Flush(out);
      ASSERT_EQ(out, ReplaceInvalidUtf8(tokenizer->Decode(ids, {.skip_special = skip_special})));
    }
  }
}

TEST(Detokenizer, IgnoresIdsOutsideTheVocabulary) {
  const auto tokenizer = *Tokenizer::Create(SampleBpe("gpt-2"));
  Detokenizer detokenizer(*tokenizer);
  std::string out;
  detokenizer.Feed(0xE4, out);
  detokenizer.Feed(1 << 30, out);
  detokenizer.Feed(-5, out);
  EXPECT_EQ(detokenizer.held_bytes(), 1u);
  detokenizer.Feed(0xB8, out);
  detokenizer.Feed(0xAD, out);
  EXPECT_EQ(out, "\xE4\xB8\xAD");
}

}  // namespace
}  // namespace fak::text
