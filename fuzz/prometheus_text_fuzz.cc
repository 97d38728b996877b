// fuzz: links fak_metrics
// Every sample that is read, written again by the rules of the format, is read as the same sample;
// and no line is both read and refused.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "metrics/text_format.h"

namespace {

struct Sample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;

  bool operator==(const Sample& other) const {
    const bool same_value = value == other.value || (std::isnan(value) && std::isnan(other.value));
    return name == other.name && labels == other.labels && same_value;
  }
};

std::vector<Sample> Parse(std::string_view text, fak::metrics::TextCounts* counts) {
  std::vector<Sample> samples;
  const auto parsed = fak::metrics::ParseText(
      text,
      [&](const fak::metrics::TextSample& sample) {
        Sample copy{std::string(sample.name), {}, sample.value};
        for (const auto& label : sample.labels) {
          copy.labels.emplace_back(label.name, label.value);
        }
        samples.push_back(std::move(copy));
      },
      [](std::string_view name, std::string_view) { CHECK(!name.empty()); });
  CHECK(parsed.has_value());
  *counts = *parsed;
  return samples;
}

std::string Write(const Sample& sample) {
  std::string out = sample.name + "{";
  for (const auto& [name, value] : sample.labels) {
    out += name + "=\"";
    for (const char c : value) {
      out += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
    }
    out += "\",";
  }
  char number[40];
  std::snprintf(number, sizeof number, "} %.17g\n", sample.value);
  return out + number;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fak::metrics::TextCounts counts;
  const std::vector<Sample> samples = Parse(text, &counts);
  CHECK(samples.size() == counts.samples);
  size_t lines = 1;
  for (const char c : text) {
    lines += c == '\n' ? 1 : 0;
  }
  CHECK(counts.samples + counts.refused_lines <= lines);
  std::string again;
  for (const Sample& sample : samples) {
    again += Write(sample);
  }
  CHECK(Parse(again, &counts) == samples) << again;
  CHECK(counts.refused_lines == 0) << again;
  return 0;
}
