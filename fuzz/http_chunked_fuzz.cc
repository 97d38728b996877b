// fuzz: links fak_wire
// A chunked body means the same at any cut of its bytes, and its content survives being framed
// again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/http_body.h"

namespace {

using fak::wire::HttpBodyDecoder;
using fak::wire::HttpFraming;

struct Outcome {
  std::string content;
  size_t used = 0;
  bool done = false;
  bool failed = false;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Feeds pieces of 1 to `step` bytes. What a failed decoder has handed out so far depends on the
// cut, so it doesn't count.
Outcome Decode(std::string_view bytes, size_t step) {
  constexpr uint64_t kBytesMax = 1 << 20;
  HttpBodyDecoder decoder(HttpFraming::kChunked, 0, kBytesMax);
  Outcome outcome;
  for (size_t round = 0; outcome.used < bytes.size() && !decoder.done(); ++round) {
    const std::string_view piece = bytes.substr(outcome.used, 1 + round % step);
    const auto used =
        decoder.Feed(piece, [&outcome](std::string_view part) { outcome.content += part; });
    if (!used) {
      Outcome failed;
      failed.failed = true;
      return failed;
    }
    outcome.used += *used;
    CHECK(*used == piece.size() || decoder.done());
  }
  outcome.done = decoder.done();
  CHECK(outcome.content.size() == decoder.content_bytes());
  CHECK(outcome.content.size() <= kBytesMax);
  CHECK(decoder.Finish().has_value() == outcome.done);
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = Decode(bytes, std::max<size_t>(1, size));
  for (const size_t step : {1, 2, 7}) {
    CHECK(Decode(bytes, step) == whole) << "another outcome in steps of " << step;
  }
  if (whole.done) {
    std::string again;
    fak::wire::AppendHttpChunk(again, whole.content);
    again += fak::wire::kHttpLastChunk;
    CHECK(Decode(again, 5).content == whole.content);
  }
  return 0;
}
