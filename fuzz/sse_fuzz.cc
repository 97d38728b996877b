// fuzz: links fak_wire
// The splitter gives at any cut what a plain reading of the standard gives for the whole stream,
// and takes apart what the joiner has put together.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/sse.h"

namespace {

using fak::wire::SseEvent;
using fak::wire::SseSplitter;

struct Event {
  std::string type;
  std::string data;
  std::string id;
  friend bool operator==(const Event&, const Event&) = default;
};

std::vector<Event> Split(std::string_view stream, size_t step) {
  SseSplitter splitter;
  std::vector<Event> events;
  const auto on_event = [&events](const SseEvent& event) {
    events.push_back({std::string(event.type), std::string(event.data), std::string(event.id)});
  };
  for (; !stream.empty(); stream.remove_prefix(std::min(step, stream.size()))) {
    CHECK(splitter.Feed(std::string(stream.substr(0, step)), on_event).has_value());
  }
  splitter.Finish(on_event);
  return events;
}

// WHATWG HTML 9.2.6, word by word, on the whole stream.
std::vector<Event> SplitPlainly(std::string_view stream) {
  std::string text(stream);
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.erase(0, 3);
  }
  for (size_t at = 0; (at = text.find("\r\n", at)) != std::string::npos; ++at) {
    text.replace(at, 2, "\n");
  }
  std::replace(text.begin(), text.end(), '\r', '\n');
  text += "\n\n";  // Finish() hands the last event out
  std::vector<Event> events;
  Event event;
  bool has_data = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const size_t colon = line.find(':');
    const std::string name = line.substr(0, colon);
    std::string value = colon == std::string::npos ? "" : line.substr(colon + 1);
    if (value.starts_with(' ')) {
      value.erase(0, 1);
    }
    if (line.empty()) {
      if (has_data) {
        event.data.pop_back();
        events.push_back(event);
      }
      event = {};
      has_data = false;
    } else if (name == "data") {
      event.data += value + "\n";
      has_data = true;
    } else if (name == "event") {
      event.type = value;
    } else if (name == "id" && value.find('\0') == std::string::npos) {
      event.id = value;
    }
  }
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view stream(reinterpret_cast<const char*>(data), size);
  const std::vector<Event> expected = SplitPlainly(stream);
  for (const size_t step : {size_t{1}, size_t{3}, std::max<size_t>(1, size)}) {
    CHECK(Split(stream, step) == expected) << "other events in steps of " << step;
  }
  std::string joined;
  for (const Event& event : expected) {
    fak::wire::AppendSseEvent(joined, event.type, event.data);
  }
  const std::vector<Event> again = Split(joined, 2);
  CHECK(again.size() == expected.size());
  for (size_t i = 0; i < again.size(); ++i) {
    CHECK(again[i].type == expected[i].type && again[i].data == expected[i].data);
  }
  return 0;
}
