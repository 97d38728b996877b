// Hot path: bench/micro/relay_bench.cc.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/hot_lines.h"

namespace fak::ride {

// What the chunks of one streamed answer have in common: all bytes but those of the text that each
// brings. A chunk that has the shape of one that was read before says what that one said, with its
// own text, and needs no parsing. Owned by one answer; not thread-safe; keeps one chunk.
class ChunkShape {
 public:
  // `raw`, a valid JSON document, said one thing: this text. Taken as the shape where no doubt is
  // left which of its bytes are the text; and no more from a stream whose chunks always differ.
  void Learn(std::string_view raw, std::string_view text);
  // The text of a chunk of that shape; nullopt where it has another, or may have. A view of `raw`.
  std::optional<std::string_view> TextOf(std::string_view raw);
  // What TextOf() touches.
  void ListHot(HotLines& lines) const {
    lines.AddObject(*this);
    lines.AddBuffer(raw_);
  }

 private:
  std::string raw_;
  size_t text_at_ = 0;
  size_t text_size_ = 0;
  int spare_ = 8;  // times that it may be learned again, one more for each time that it served
};

}  // namespace fak::ride
