// fuzz: links fak_ride fak_wire fak_base
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "ride/answer_reader.h"
#include "ride/chunk_shape.h"

namespace {

using fak::ride::AnswerDocument;

// The text, where a reader that knows `before` finds that and nothing else in `raw`.
std::optional<std::string> OnlyTextOf(std::string_view before, std::string_view raw) {
  const auto reader = fak::ride::MakeChatReader(true);
  fak::JsonReader json;
  std::optional<std::string> text;
  int events = 0;
  for (const std::string_view each : {before, raw}) {
    events = 0;
    text.reset();
    const auto document = json.Read(each);
    if (!document || !document->is_object()) {
      return std::nullopt;
    }
    const auto take = [&](fak::wire::Event&& event) {
      ++events;
      if (auto* delta = std::get_if<fak::wire::TextDelta>(&event);
          delta != nullptr && delta->tokens.empty()) {
        text = std::move(delta->text);
      }
    };
    if (!reader->Take(AnswerDocument(*document), take)) {
      return std::nullopt;
    }
  }
  return events == 1 ? text : std::nullopt;
}

}  // namespace

// Two chunks, a line each: where the second has the first's shape, a parser finds the same text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view lines(reinterpret_cast<const char*>(data), size);
  const std::string_view first = lines.substr(0, lines.find('\n'));
  const std::string_view second = lines.substr(std::min(size, first.size() + 1));
  const std::optional<std::string> known = OnlyTextOf(first, first);
  if (!known) {
    return 0;
  }
  fak::ride::ChunkShape shape;
  shape.Learn(first, *known);
  const std::optional<std::string_view> text = shape.TextOf(second);
  if (text && OnlyTextOf(first, second) != std::string(*text)) {
    std::abort();
  }
  return 0;
}
