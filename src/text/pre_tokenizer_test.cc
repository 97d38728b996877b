#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>
#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "text/sample_vocabulary.h"

namespace fak::text {
namespace {

using Words = std::vector<std::string>;

// One published expression, run by PCRE2. Its own \s has U+180E, which is no White_Space since
// Unicode 6.3, so \s and \S are spelled out.
class Expression {
 public:
  explicit Expression(std::string pattern) {
    constexpr std::string_view kBlanks =
        R"(\x{09}-\x{0d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
    std::string spelled;
    bool in_class = false;
    for (size_t i = 0; i < pattern.size(); ++i) {
      const std::string_view two = std::string_view(pattern).substr(i, 2);
      if (two == "\\s" || two == "\\S") {
        spelled += in_class ? std::string(kBlanks)
                            : std::string(two == "\\S" ? "[^" : "[") + std::string(kBlanks) + "]";
        ++i;
      } else if (pattern[i] == '\\') {
        spelled += two;
        ++i;
      } else {
        in_class = pattern[i] == '[' || (in_class && pattern[i] != ']');
        spelled += pattern[i];
      }
    }
    int error = 0;
    size_t offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    EXPECT_NE(code_, nullptr) << spelled << " at " << offset;
    data_.reset(pcre2_match_data_create(1, nullptr));
  }

  bool Matches(const std::string& text) const {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                       data_.get(), nullptr) > 0;
  }

  // The matches of the text, and what lies between them, in order.
  Words Split(const std::string& text) const {
    Words words;
    size_t at = 0;
    const auto take_until = [&](size_t end) {
      if (end > at) {
        words.push_back(text.substr(at, end - at));
        at = end;
      }
    };
    while (at < text.size() && pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                           text.size(), at, 0, data_.get(), nullptr) > 0) {
      const size_t* bounds = pcre2_get_ovector_pointer(data_.get());
      take_until(bounds[0]);
      take_until(bounds[1]);
    }
    take_until(text.size());
    return words;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> data_;
};

Words Reference(const std::vector<Expression>& expressions, const std::string& text) {
  Words words = {text};
  for (const Expression& expression : expressions) {
    Words split;
    for (const std::string& word : words) {
      for (std::string& part : expression.Split(word)) {
        split.push_back(std::move(part));
      }
    }
    words = std::move(split);
  }
  return words;
}

Words Ours(const PreTokenizer& pre_tokenizer, std::string_view text) {
  Words words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = pre_tokenizer.WordEnd(text, begin);
    if (end <= begin || end > text.size()) {
      ADD_FAILURE() << "a word from " << begin << " to " << end << " of " << text.size();
      break;
    }
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Published {
  const char* name;
  std::vector<const char*> expressions;  // each splits what the one before left
};

class PreTokenizers : public testing::TestWithParam<Published> {};

TEST_P(PreTokenizers, SplitAsTheirExpressionsDo) {
  const auto pre_tokenizer = PreTokenizer::Create(GetParam().name);
  ASSERT_TRUE(pre_tokenizer);
  const std::vector<Expression> expressions(GetParam().expressions.begin(),
                                            GetParam().expressions.end());
  for (uint32_t seed = 1; seed <= 4000; ++seed) {
    const std::string text = SampleText(seed, 1 + seed % 40);
    ASSERT_EQ(Ours(*pre_tokenizer, text), Reference(expressions, text)) << "seed " << seed;
  }
}

// Every character that both libraries know (they follow different versions of Unicode).
TEST_P(PreTokenizers, SplitAnyCharacterAsTheirExpressionsDo) {
  const auto pre_tokenizer = PreTokenizer::Create(GetParam().name);
  ASSERT_TRUE(pre_tokenizer);
  const std::vector<Expression> expressions(GetParam().expressions.begin(),
                                            GetParam().expressions.end());
  const Expression unassigned(R"(\p{Cn})");
  for (char32_t c = 1; c < 0x20000; ++c) {
    if (c >= 0x3400 && c < 0xD7A4 && c % 97 != 0) {
      continue;  // scripts of thousands of letters
    }
    std::string character;
    AppendUtf8(character, c);
    if (utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_CN ||
        unassigned.Matches(character)) {
      continue;
    }
    const std::string text =
        "a" + character + "1 " + character + "!" + character + "\n" + character + " '" + character;
    ASSERT_EQ(Ours(*pre_tokenizer, text), Reference(expressions, text))
        << "U+" << std::hex << static_cast<uint32_t>(c);
  }
}

TEST_P(PreTokenizers, CoverAnyBytesWithWords) {
  const auto pre_tokenizer = PreTokenizer::Create(GetParam().name);
  ASSERT_TRUE(pre_tokenizer);
  for (uint32_t seed = 1; seed <= 1000; ++seed) {
    const std::string bytes = SampleBytes(seed, 30);
    std::string joined;
    for (const std::string& word : Ours(*pre_tokenizer, bytes)) {
      joined += word;
    }
    ASSERT_EQ(joined, bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PreTokenizers,
                         testing::Values(Published{"gpt-2", {kGpt2}},
                                         Published{"smollm", {R"(\p{N})", kGpt2}},
                                         Published{"llama-bpe", {kLlama3}},
                                         Published{"qwen2", {kQwen2}},
                                         Published{"default",
                                                   {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)",
                                                    R"([0-9][0-9][0-9])"}}),
                         [](const auto& published) {
                           std::string name = published.param.name;
                           name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
                           return name;
                         });

TEST(PreTokenizer, CutsNumbersAsEachFamilyDoes) {
  struct Case {
    const char* name;
    Words words;
  };
  for (const Case& c : std::vector<Case>{{"gpt-2", {"a", " 12345"}},
                                         {"smollm", {"a", " ", "1", "2", "3", "4", "5"}},
                                         {"llama-bpe", {"a", " ", "123", "45"}},
                                         {"qwen2", {"a", " ", "1", "2", "3", "4", "5"}},
                                         {"default", {"a", " ", "123", "45"}}}) {
    EXPECT_EQ(Ours(*PreTokenizer::Create(c.name), "a 12345"), c.words) << c.name;
  }
}

TEST(PreTokenizer, TakesABrokenByteForASymbol) {
  EXPECT_EQ(Ours(*PreTokenizer::Create("gpt-2"), "a \xFF\xC3 \xE4\xB8z"),
            (Words{"a", " \xFF\xC3", " \xE4\xB8", "z"}));
}

}  // namespace
}  // namespace fak::text
