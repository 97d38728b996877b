// fuzz: links fak_text fak_base
// Any bytes, cut anywhere, through both kinds of tokenizer and back: the text returns, no control
// token comes out of what a user wrote, and what is shown is UTF-8.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/sample_vocabulary.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace fak::text {
namespace {

const std::vector<std::unique_ptr<const Tokenizer>>& Tokenizers() {
  static const auto tokenizers = [] {
    std::vector<std::unique_ptr<const Tokenizer>> made;
    for (const char* name : {"gpt-2", "smollm", "llama-bpe", "qwen2", "default"}) {
      made.push_back(*Tokenizer::Create(SampleBpe(name)));
    }
    made.push_back(*Tokenizer::Create(SampleSpm()));
    return made;
  }();
  return tokenizers;
}

// SentencePiece can't tell U+2581 from a blank.
std::string AsRead(const Tokenizer& tokenizer, std::string text) {
  constexpr std::string_view kMark = "\xE2\x96\x81";
  if (tokenizer.Find(kMark) != kNoToken) {
    for (size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at + 1)) {
      text.replace(at, kMark.size(), " ");
    }
  }
  return text;
}

void CheckUserText(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.Encode(text, {.add_special = false});
  CHECK(tokenizer.Decode(ids, {.skip_special = false}) == AsRead(tokenizer, text));
  CHECK(std::none_of(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.IsControl(id); }));
  CHECK(tokenizer.TokensAtLeast(text) <= ids.size());
}

void CheckSegments(const Tokenizer& tokenizer, std::string_view text, size_t cut) {
  const std::vector<Segment> segments = {{text.substr(0, cut), true}, {text.substr(cut), false}};
  const std::vector<int32_t> ids = tokenizer.EncodeSegments(segments, false);
  const std::string decoded = tokenizer.Decode(ids, {.skip_special = false});
  CHECK(decoded == AsRead(tokenizer, std::string(text)));
  Detokenizer detokenizer(tokenizer, {.skip_special = false});
  std::string shown, piece;
  for (const int32_t id : ids) {
    piece.clear();
    detokenizer.Feed(id, piece);
    CHECK(IsValidUtf8(piece));
    shown += piece;
  }
  detokenizer.Flush(shown);
  CHECK(shown == ReplaceInvalidUtf8(decoded));
}

void CheckStops(std::string_view text, size_t cut) {
  const std::vector<std::string> stops = {std::string(text.substr(0, cut % 8)), "a", "\n\n"};
  StopMatcher whole(stops);
  StopMatcher pieces(stops);
  std::string whole_out, pieces_out;
  const auto whole_stop = whole.Feed(text, whole_out);
  pieces.Feed(text.substr(0, cut), pieces_out);
  const auto pieces_stop = pieces.Feed(text.substr(cut), pieces_out);
  CHECK(whole_stop == pieces_stop && whole_out == pieces_out);
}

}  // namespace
}  // namespace fak::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  // The first byte picks the tokenizer, the second says where the rest is cut.
  const auto& tokenizers = fak::text::Tokenizers();
  const auto& tokenizer = *tokenizers[data[0] % tokenizers.size()];
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t cut = data[1] % (text.size() + 1);
  fak::text::CheckUserText(tokenizer, text);
  fak::text::CheckSegments(tokenizer, text, cut);
  fak::text::CheckStops(text, cut);
  return 0;
}
