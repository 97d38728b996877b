#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace fak::text {

StopMatcher::StopMatcher(std::span<const std::string> stops, bool include_stop)
    : include_stop_(include_stop) {
  for (size_t index = 0; index < stops.size(); ++index) {
    if (stops[index].empty()) {
      continue;
    }
    Stop stop{.text = stops[index], .index = index, .fallback = {0}};
    uint32_t border = 0;
    for (size_t i = 1; i < stop.text.size(); ++i) {
      while (border > 0 && stop.text[i] != stop.text[border]) {
        border = stop.fallback[border - 1];
      }
      border += stop.text[i] == stop.text[border] ? 1 : 0;
      stop.fallback.push_back(border);
    }
    stops_.push_back(std::move(stop));
  }
  // Of stop strings that end at the same byte, the longest is met first; of equals, the first.
  std::sort(stops_.begin(), stops_.end(), [](const Stop& a, const Stop& b) {
    return a.text.size() != b.text.size() ? a.text.size() > b.text.size() : a.index < b.index;
  });
}

std::optional<size_t> StopMatcher::Feed(std::string_view text, std::string& out) {
  if (found_) {
    return found_;
  }
  for (const char c : text) {
    held_ += c;
    for (Stop& stop : stops_) {
      while (stop.matched > 0 && c != stop.text[stop.matched]) {
        stop.matched = stop.fallback[stop.matched - 1];
      }
      stop.matched += c == stop.text[stop.matched] ? 1 : 0;
      if (stop.matched == stop.text.size()) {
        out.append(held_, 0, held_.size() - (include_stop_ ? 0 : stop.text.size()));
        held_.clear();
        found_ = stop.index;
        return found_;
      }
    }
  }
  size_t hold = 0;
  for (const Stop& stop : stops_) {
    hold = std::max<size_t>(hold, stop.matched);
  }
  out.append(held_, 0, held_.size() - hold);
  held_.erase(0, held_.size() - hold);
  return std::nullopt;
}

void StopMatcher::Flush(std::string& out) {
  out += held_;
  held_.clear();
}

}  // namespace fak::text
