#include "metrics/text_format.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "base/limits.h"
#include "base/strings.h"

namespace fak::metrics {
namespace {

bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
}
bool IsNamePart(char c) {
  return IsNameStart(c) || (c >= '0' && c <= '9');
}
bool IsBlank(char c) {
  return c == ' ' || c == '\t';
}

// One line, read from its front.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) {}

  void SkipBlanks() {
    while (!rest_.empty() && IsBlank(rest_.front())) {
      rest_.remove_prefix(1);
    }
  }
  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  bool Take(char c) {
    if (rest_.empty() || rest_.front() != c) {
      return false;
    }
    rest_.remove_prefix(1);
    return true;
  }
  // Empty when no name stands here.
  std::string_view TakeName() {
    size_t length = 0;
    if (!rest_.empty() && IsNameStart(rest_.front())) {
      while (length < rest_.size() && IsNamePart(rest_[length])) {
        ++length;
      }
    }
    return TakeBytes(length);
  }
  std::string_view TakeWord() {
    size_t length = 0;
    while (length < rest_.size() && !IsBlank(rest_[length])) {
      ++length;
    }
    return TakeBytes(length);
  }
  std::string_view TakeBytes(size_t length) {
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }

 private:
  std::string_view rest_;
};

std::optional<double> ValueOf(std::string_view word) {
  const bool negative = word.starts_with('-');
  if (negative || word.starts_with('+')) {
    word.remove_prefix(1);
  }
  if (EqualsIgnoringCase(word, "nan")) {  // C's streams write "-nan"
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (EqualsIgnoringCase(word, "inf")) {
    const double infinity = std::numeric_limits<double>::infinity();
    return negative ? -infinity : infinity;
  }
  const std::optional<double> value = word.starts_with('-') ? std::nullopt : ParseFloat(word);
  return value && negative ? -*value : value;
}

class Parser {
 public:
  Parser(FunctionRef<void(const TextSample&)> on_sample,
         FunctionRef<void(std::string_view, std::string_view)> on_help)
      : on_sample_(on_sample), on_help_(on_help) {}

  TextCounts Parse(std::string_view text) {
    TextCounts counts;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) {
        line.remove_suffix(1);
      }
      Line cursor(line);
      cursor.SkipBlanks();
      if (cursor.empty()) {
        continue;
      }
      if (cursor.Take('#')) {
        TakeComment(cursor);
      } else if (TakeSample(cursor)) {
        ++counts.samples;
      } else {
        ++counts.refused_lines;
      }
    }
    return counts;
  }

 private:
  void TakeComment(Line line) {
    line.SkipBlanks();
    if (line.TakeWord() != "HELP") {
      return;
    }
    line.SkipBlanks();
    const std::string_view name = line.TakeName();
    line.SkipBlanks();
    if (!name.empty()) {
      on_help_(name, line.rest());
    }
  }

  bool TakeSample(Line line) {
    TextSample sample;
    sample.name = line.TakeName();
    if (sample.name.empty()) {
      return false;
    }
    line.SkipBlanks();
    labels_ = 0;
    if (line.Take('{') && !TakeLabels(line)) {
      return false;
    }
    line.SkipBlanks();
    const std::optional<double> value = ValueOf(line.TakeWord());
    line.SkipBlanks();
    const bool timed = !line.empty();
    if (!value || (timed && !ParseInt(line.TakeWord()))) {
      return false;
    }
    line.SkipBlanks();
    if (!line.empty()) {
      return false;
    }
    sample.value = *value;
    sample.labels = std::span(label_space_).first(labels_);
    on_sample_(sample);
    return true;
  }

  bool TakeLabels(Line& line) {
    while (true) {
      line.SkipBlanks();
      if (line.Take('}')) {
        return true;
      }
      const std::string_view name = line.TakeName();
      line.SkipBlanks();
      if (name.empty() || labels_ == label_space_.size() || !line.Take('=')) {
        return false;
      }
      line.SkipBlanks();
      if (!TakeLabelValue(line, name)) {
        return false;
      }
      line.SkipBlanks();
      if (!line.Take(',') && !line.rest().starts_with('}')) {
        return false;
      }
    }
  }

  bool TakeLabelValue(Line& line, std::string_view name) {
    if (!line.Take('"')) {
      return false;
    }
    const std::string_view text = line.rest();
    bool escaped = false;
    size_t end = 0;
    for (; end < text.size() && text[end] != '"'; ++end) {
      if (text[end] == '\\') {
        escaped = true;
        ++end;
      }
    }
    if (end >= text.size()) {
      return false;
    }
    line.TakeBytes(end + 1);
    label_space_[labels_] = {name, text.substr(0, end)};
    if (escaped) {
      unescaped_[labels_] = Unescape(text.substr(0, end));
      label_space_[labels_].value = unescaped_[labels_];
    }
    ++labels_;
    return true;
  }

  static std::string Unescape(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool known = text[i] == '\\' && i + 1 < text.size() &&
                         (text[i + 1] == '\\' || text[i + 1] == '"' || text[i + 1] == 'n');
      out += !known ? text[i] : text[++i] == 'n' ? '\n' : text[i];
    }
    return out;
  }

  FunctionRef<void(const TextSample&)> on_sample_;
  FunctionRef<void(std::string_view, std::string_view)> on_help_;
  size_t labels_ = 0;  // of the sample at hand
  std::array<TextLabel, limits::kExpositionLabelsMax> label_space_;
  std::array<std::string, limits::kExpositionLabelsMax> unescaped_;
};

}  // namespace

std::string_view TextSample::Label(std::string_view wanted) const {
  for (const TextLabel& label : labels) {
    if (label.name == wanted) {
      return label.value;
    }
  }
  return {};
}

Result<TextCounts> ParseText(std::string_view text, FunctionRef<void(const TextSample&)> on_sample,
                             FunctionRef<void(std::string_view, std::string_view)> on_help) {
  if (text.size() > limits::kExpositionBytesMax) {
    return Fail(Code::kPayloadTooLarge, "the metrics are " + std::to_string(text.size()) +
                                            " bytes, more than " +
                                            std::to_string(limits::kExpositionBytesMax));
  }
  return Parser(on_sample, on_help).Parse(text);
}

}  // namespace fak::metrics
