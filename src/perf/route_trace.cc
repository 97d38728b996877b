#include "perf/route_trace.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/json_view.h"
#include "base/limits.h"
#include "base/strings.h"

namespace fak::perf {
namespace {

constexpr std::string_view kAzureHead = "TIMESTAMP,ContextTokens,GeneratedTokens";

int64_t BlocksOf(int64_t tokens) {
  return (tokens + kTraceBlockTokens - 1) / kTraceBlockTokens;
}

uint64_t KeyAfter(uint64_t before, uint64_t id) {
  return Xxh3(BytesOf(std::span<const uint64_t>(&id, 1)), before);
}

Error Bad(std::string what) {
  return {Code::kInvalidArgument, std::move(what)};
}

Status CheckLengths(const TraceRequest& request) {
  constexpr int64_t kMost = limits::kContextMax;
  if (request.prompt_tokens < 1 || request.prompt_tokens > kMost || request.output_tokens < 0 ||
      request.output_tokens > kMost) {
    return Fail(Bad("a prompt has 1 to " + std::to_string(kMost) + " tokens, an answer 0 to " +
                    std::to_string(kMost)));
  }
  return {};
}

Result<int64_t> IntAt(const JsonView& object, std::string_view key) {
  const auto value = object.Find(key).AsInt();
  if (!value) {
    return Fail(Bad("needs " + std::string(key) + ", an integer"));
  }
  return *value;
}

Result<TraceRequest> ReadMooncake(JsonReader& reader, std::string_view line) {
  TRY_ASSIGN(const JsonView object, reader.Read(line));
  TraceRequest request;
  TRY_ASSIGN(const int64_t at_ms, IntAt(object, "timestamp"));
  TRY_ASSIGN(request.prompt_tokens, IntAt(object, "input_length"));
  TRY_ASSIGN(request.output_tokens, IntAt(object, "output_length"));
  TRY(CheckLengths(request));
  constexpr int64_t kDayMs = 86'400'000;
  if (at_ms < 0 || at_ms > 10'000 * kDayMs) {
    return Fail(Bad("timestamp is in milliseconds from 0 on"));
  }
  request.at_us = at_ms * 1000;
  uint64_t before = 0;
  for (const JsonView id : object.Find("hash_ids")) {
    if (!id.AsInt()) {
      return Fail(Bad("hash_ids must be integers"));
    }
    before = KeyAfter(before, static_cast<uint64_t>(*id.AsInt()));
    request.keys.push_back(before);
  }
  if (static_cast<int64_t>(request.keys.size()) != BlocksOf(request.prompt_tokens)) {
    return Fail(Bad("hash_ids has " + std::to_string(request.keys.size()) + " blocks, but " +
                    std::to_string(request.prompt_tokens) + " tokens are " +
                    std::to_string(BlocksOf(request.prompt_tokens)) + " of " +
                    std::to_string(kTraceBlockTokens)));
  }
  return request;
}

// "2023-11-16 18:15:46.6805900" since 1970, in microseconds.
std::optional<int64_t> ParseTime(std::string_view text) {
  // Where each number stands, and what it may be.
  struct Part {
    size_t at, size;
    int64_t least, most;
  };
  constexpr Part kParts[] = {{0, 4, 1970, 9999}, {5, 2, 1, 12},  {8, 2, 1, 31},
                             {11, 2, 0, 23},     {14, 2, 0, 59}, {17, 2, 0, 60}};
  constexpr std::string_view kForm = "....-..-.. ..:..:..";
  if (text.size() < kForm.size()) {
    return std::nullopt;
  }
  for (size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] != '.' && text[i] != kForm[i] && !(kForm[i] == ' ' && text[i] == 'T')) {
      return std::nullopt;
    }
  }
  std::array<int64_t, 6> values{};
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = ParseUint(text.substr(kParts[i].at, kParts[i].size));
    if (!value || static_cast<int64_t>(*value) < kParts[i].least ||
        static_cast<int64_t>(*value) > kParts[i].most) {
      return std::nullopt;
    }
    values[i] = static_cast<int64_t>(*value);
  }
  int64_t us = 0;
  if (std::string_view rest = text.substr(kForm.size()); rest.starts_with('.')) {
    std::string digits(rest.substr(1, 6));
    digits.resize(6, '0');
    const auto value = ParseUint(digits);
    if (!value) {
      return std::nullopt;
    }
    us = static_cast<int64_t>(*value);
  }
  const std::chrono::year_month_day day(std::chrono::year(static_cast<int>(values[0])),
                                        std::chrono::month(static_cast<unsigned>(values[1])),
                                        std::chrono::day(static_cast<unsigned>(values[2])));
  if (!day.ok()) {
    return std::nullopt;
  }
  const int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
  return ((days * 24 + values[3]) * 60 + values[4]) * 60'000'000 + values[5] * 1'000'000 + us;
}

Result<TraceRequest> ReadAzure(std::string_view line, size_t number) {
  const auto cells = Split(line, ',');
  if (cells.size() != 3) {
    return Fail(Bad("must be " + std::string(kAzureHead)));
  }
  TraceRequest request;
  const auto at_us = ParseTime(cells[0]);
  const auto prompt = ParseInt(cells[1]);
  const auto output = ParseInt(cells[2]);
  if (!at_us || !prompt || !output) {
    return Fail(Bad(!at_us ? "the time must be like 2023-11-16 18:15:46.68"
                           : "the numbers of tokens must be integers"));
  }
  request.at_us = *at_us;
  request.prompt_tokens = *prompt;
  request.output_tokens = *output;
  TRY(CheckLengths(request));
  uint64_t key = KeyAfter(0, number);
  for (int64_t i = BlocksOf(request.prompt_tokens); i > 0; --i) {
    request.keys.push_back(key);
    key = KeyAfter(key, 0);
  }
  return request;
}

void FindSessions(RouteTrace& trace) {
  std::unordered_map<uint64_t, uint64_t> last;  // the session that last had a block
  uint64_t sessions = 0;
  for (TraceRequest& request : trace.requests) {
    size_t shared = 0;
    while (shared < request.keys.size() && last.contains(request.keys[shared])) {
      ++shared;
    }
    request.session =
        2 * shared > request.keys.size() ? last.at(request.keys[shared - 1]) : ++sessions;
    for (const uint64_t key : request.keys) {
      last[key] = request.session;
    }
  }
}

Error AtLine(const std::string& name, size_t number, Error error) {
  return Within(name + ":" + std::to_string(number), std::move(error));
}

}  // namespace

Result<RouteTrace> ParseRouteTrace(std::string_view text, const std::string& name) {
  RouteTrace trace;
  JsonReader reader;
  bool azure = false;
  size_t number = 0;
  size_t blocks = 0;
  for (std::string_view line : Split(text, '\n')) {
    ++number;
    line = Trim(line);
    if (line.empty()) {
      continue;
    }
    if (!azure && trace.requests.empty()) {
      azure = line == kAzureHead;
      if (azure) {
        continue;
      }
      if (!line.starts_with('{')) {
        return Fail(AtLine(name, number,
                           Bad("is neither a Mooncake trace, a JSON object a line, nor an Azure "
                               "one, which begins with " +
                               std::string(kAzureHead))));
      }
    }
    Result<TraceRequest> request = azure ? ReadAzure(line, number) : ReadMooncake(reader, line);
    if (!request) {
      return Fail(AtLine(name, number, std::move(request).error()));
    }
    request->output_tokens = std::max<int64_t>(1, request->output_tokens);
    blocks += request->keys.size();
    if (blocks > limits::kTraceBlocksMax) {
      return Fail(AtLine(name, number,
                         {Code::kPayloadTooLarge,
                          "more than " + std::to_string(limits::kTraceBlocksMax) + " blocks"}));
    }
    trace.requests.push_back(*std::move(request));
  }
  if (trace.requests.empty()) {
    return Fail(Code::kInvalidArgument, name + ": has no request");
  }
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const auto& a, const auto& b) { return a.at_us < b.at_us; });
  const int64_t first_us = trace.requests.front().at_us;
  for (TraceRequest& request : trace.requests) {
    request.at_us -= first_us;
  }
  FindSessions(trace);
  return trace;
}

Result<RouteTrace> ReadRouteTrace(const std::string& path) {
  TRY_ASSIGN(const std::string text, ReadFile(path, limits::kTextInputBytesMax));
  return ParseRouteTrace(text, path);
}

int64_t RouteTrace::prompt_tokens() const {
  int64_t tokens = 0;
  for (const TraceRequest& request : requests) {
    tokens += request.prompt_tokens;
  }
  return tokens;
}

int64_t RouteTrace::new_tokens() const {
  std::unordered_set<uint64_t> seen;
  int64_t tokens = 0;
  for (const TraceRequest& request : requests) {
    size_t cached = 0;
    while (cached < request.keys.size() && seen.contains(request.keys[cached])) {
      ++cached;
    }
    // The last token is always computed: the answer follows from it.
    tokens += std::max<int64_t>(
        1, request.prompt_tokens - static_cast<int64_t>(cached) * kTraceBlockTokens);
    seen.insert(request.keys.begin(), request.keys.end());
  }
  return tokens;
}

int64_t RouteTrace::duration_us() const {
  return std::max<int64_t>(1, requests.back().at_us);
}

}  // namespace fak::perf
