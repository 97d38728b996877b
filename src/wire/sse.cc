#include "wire/sse.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace fak::wire {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Walks the line ends of a text, CR and LF alike, in one sweep over each kind (memchr, which the C
// library does with vectors), however many there are.
class LineEnds {
 public:
  explicit LineEnds(std::string_view text) : text_(text), cr_(Find('\r', 0)), lf_(Find('\n', 0)) {}

  // The first at or behind `from`, text.size() when there is none. `from` must not decrease.
  size_t Next(size_t from) {
    if (cr_ < from) {
      cr_ = Find('\r', from);
    }
    if (lf_ < from) {
      lf_ = Find('\n', from);
    }
    return std::min(cr_, lf_);
  }

 private:
  size_t Find(char c, size_t from) const { return std::min(text_.find(c, from), text_.size()); }

  std::string_view text_;
  size_t cr_;
  size_t lf_;
};

void AppendField(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  out += value;
  out += '\n';
}

}  // namespace

Status SseSplitter::Feed(std::string_view bytes, FunctionRef<void(const SseEvent&)> on_event) {
  LineEnds ends(bytes);
  size_t at = 0;
  while (at < bytes.size()) {
    if (std::exchange(after_cr_, false) && bytes[at] == '\n') {
      ++at;
      continue;
    }
    const size_t end = ends.Next(at);
    const std::string_view part = bytes.substr(at, end - at);
    if (end == bytes.size()) {
      line_ += part;
      break;
    }
    after_cr_ = bytes[end] == '\r';
    at = end + 1;
    if (line_.empty()) {
      TakeLine(part, on_event);
    } else {
      line_ += part;
      const std::string line = std::exchange(line_, {});
      TakeLine(line, on_event);
      KeepData();  // `line` dies here
    }
  }
  KeepData();
  if (line_.size() + data_.size() + type_.size() + id_.size() > limits::kSseEventBytesMax) {
    return Fail(Code::kPayloadTooLarge, "server-sent event: more than " +
                                            std::to_string(limits::kSseEventBytesMax) + " bytes");
  }
  return {};
}

void SseSplitter::Finish(FunctionRef<void(const SseEvent&)> on_event) {
  if (!line_.empty()) {
    const std::string line = std::exchange(line_, {});
    TakeLine(line, on_event);
    KeepData();
  }
  Dispatch(on_event);
  *this = SseSplitter();
}

void SseSplitter::TakeLine(std::string_view line, FunctionRef<void(const SseEvent&)> on_event) {
  if (at_start_) {
    at_start_ = false;
    if (line.starts_with(kByteOrderMark)) {
      line.remove_prefix(kByteOrderMark.size());
    }
  }
  if (line.empty()) {
    Dispatch(on_event);
    return;
  }
  const size_t colon = line.find(':');
  if (colon == 0) {
    return;  // a comment
  }
  if (colon == std::string_view::npos) {
    TakeField(line, {});
    return;
  }
  std::string_view value = line.substr(colon + 1);
  if (value.starts_with(' ')) {
    value.remove_prefix(1);
  }
  TakeField(line.substr(0, colon), value);
}

void SseSplitter::TakeField(std::string_view name, std::string_view value) {
  if (name == "data") {
    KeepData();
    if (data_lines_ == 0) {
      whole_data_ = value;
    } else {
      data_ += '\n';
      data_ += value;
    }
    ++data_lines_;
  } else if (name == "event") {
    type_ = value;
  } else if (name == "id" && value.find('\0') == std::string_view::npos) {
    id_ = value;
  }
}

// Copies a data line out of bytes that won't be there for long.
void SseSplitter::KeepData() {
  if (!whole_data_.empty()) {
    data_ = whole_data_;
    whole_data_ = {};
  }
}

void SseSplitter::Dispatch(FunctionRef<void(const SseEvent&)> on_event) {
  const std::string_view data = whole_data_.empty() ? std::string_view(data_) : whole_data_;
  if (data_lines_ > 0) {
    on_event({type_, data, id_});
  }
  data_lines_ = 0;
  whole_data_ = {};
  data_.clear();
  type_.clear();
  id_.clear();
}

void AppendSseEvent(std::string& out, std::string_view type, std::string_view data) {
  if (!type.empty()) {
    AppendField(out, "event", type);
  }
  LineEnds ends(data);
  size_t at = 0;
  while (true) {
    const size_t end = ends.Next(at);
    AppendField(out, "data", data.substr(at, end - at));
    if (end == data.size()) {
      break;
    }
    at = end + (data.substr(end).starts_with("\r\n") ? 2 : 1);
  }
  out += '\n';
}

void AppendSseComment(std::string& out, std::string_view text) {
  out += ": ";
  out += text.substr(0, LineEnds(text).Next(0));
  out += "\n\n";
}

}  // namespace fak::wire
