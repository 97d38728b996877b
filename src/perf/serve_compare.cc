#include "perf/serve_compare.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <utility>

#include "base/strings.h"
#include "base/utf8.h"
#include "perf/model_bench.h"
#include "perf/serve_figures.h"

namespace fak::perf {
namespace {

constexpr std::array<std::string_view, 14> kShown = {
    "request_throughput", "output_throughput", "total_token_throughput",
    "request_goodput",    "mean_ttft_ms",      "p50_ttft_ms",
    "p99_ttft_ms",        "mean_tpot_ms",      "p50_tpot_ms",
    "p99_tpot_ms",        "p50_itl_ms",        "p99_itl_ms",
    "p50_e2el_ms",        "p99_e2el_ms"};
constexpr double kHundred = 100;

tl::unexpected<Error> NoDocument(const char* side) {
  return Fail(Code::kInvalidArgument,
              std::string(side) + " is no document of fak bench serve --json");
}

const Json* Array(const Json& object, std::string_view key) {
  const Json* found = object.Find(key);
  return found != nullptr && found->is_array() ? found : nullptr;
}

std::string Text(const Json& object, std::string_view key) {
  const Json* found = object.Find(key);
  return found == nullptr ? "" : found->is_string() ? found->string() : found->Dump();
}

std::string LoadOf(const Json& point) {
  const std::string rate = Text(point, "request_rate");
  return rate != "0" ? "rate " + rate : "open " + Text(point, "max_concurrency");
}

// The median over a target's runs; nullopt where no run has it.
std::optional<double> Median(const Json& target, std::string_view figure) {
  std::vector<double> values;
  if (const Json* runs = Array(target, "runs")) {
    for (const Json& run : runs->array()) {
      const Json* value = run.Find(figure);
      if (value != nullptr && value->is_number()) {
        values.push_back(value->number());
      }
    }
  }
  return values.empty() ? std::nullopt : std::optional(perf::Median(values));
}

const Json* Matching(const Json& targets, const Json& target, bool lone) {
  for (const Json& other : targets.array()) {
    if (lone || Text(other, "name") == Text(target, "name")) {
      return &other;
    }
  }
  return nullptr;
}

// Where what was asked of the servers differs.
std::set<std::string> Mismatches(const Json& a, const Json& b) {
  std::set<std::string> fields;
  static const Json kNothing = Json::Object{};
  const Json* asked_a = a.Find("load");
  const Json* asked_b = b.Find("load");
  for (const auto& [mine, theirs] : {std::pair(asked_a, asked_b), std::pair(asked_b, asked_a)}) {
    for (const auto& [key, value] :
         (mine != nullptr && mine->is_object() ? *mine : kNothing).object()) {
      const Json* other = theirs != nullptr ? theirs->Find(key) : nullptr;
      if (other == nullptr || !(*other == value)) {
        fields.insert(key);
      }
    }
  }
  return fields;
}

class Comparer {
 public:
  explicit Comparer(const std::vector<FailIf>& bounds)
      : bounds_(bounds), bounds_met_(bounds.size()) {}

  void Add(const std::string& load, const Json& a, const Json& b) {
    for (const std::string_view figure : kShown) {
      const auto one = Median(a, figure);
      const auto other = Median(b, figure);
      if (one && other && (*one > 0 || *other > 0)) {
        out_.figures.push_back({load, Text(b, "name"), std::string(figure), *one, *other});
      }
    }
    for (size_t i = 0; i < bounds_.size(); ++i) {
      const FailIf& bound = bounds_[i];
      const auto one = Median(a, bound.figure);
      const auto other = Median(b, bound.figure);
      if (one && other) {
        bounds_met_[i] = true;
        const auto change = ComparedFigure{load, "", bound.figure, *one, *other}.change();
        if (change && (bound.above ? *change > bound.change : *change < bound.change)) {
          char found[64];
          std::snprintf(found, sizeof found, "%+.1f%%", kHundred * *change);
          out_.broken.push_back(bound.text + ": " + found + " at " + load + " of " +
                                Text(b, "name"));
        }
      }
    }
  }

  Result<ServeComparison> Take() {
    if (out_.figures.empty()) {
      return Fail(Code::kInvalidArgument, "the two have no load and target in common");
    }
    for (size_t i = 0; i < bounds_.size(); ++i) {
      if (!bounds_met_[i]) {
        return Fail(Code::kInvalidArgument,
                    "--fail-if " + bounds_[i].text + ": neither has " + bounds_[i].figure,
                    "--fail-if");
      }
    }
    return std::move(out_);
  }

 private:
  const std::vector<FailIf>& bounds_;
  std::vector<bool> bounds_met_;
  ServeComparison out_;
};

}  // namespace

Result<FailIf> ParseFailIf(const std::string& text) {
  const size_t sign = text.find_first_of("<>");
  const std::string percent = sign == std::string::npos ? "" : text.substr(sign + 1);
  std::string_view number = percent;
  if (number.ends_with('%')) {
    number.remove_suffix(1);
  }
  if (number.starts_with('+')) {
    number.remove_prefix(1);
  }
  const std::optional<double> change = ParseFloat(number);
  if (sign == std::string::npos || sign == 0 || !percent.ends_with('%') || !change) {
    return Fail(Code::kInvalidArgument,
                "--fail-if " + text + ": must be FIGURE>+5% or FIGURE<-5%, as p99_ttft_ms>+5%",
                "--fail-if");
  }
  return FailIf{text, std::string(Trim(text.substr(0, sign))), text[sign] == '>',
                *change / kHundred};
}

std::optional<double> ComparedFigure::change() const {
  return a > 0 ? std::optional(b / a - 1) : std::nullopt;
}

Result<ServeComparison> CompareServe(const Json& a, const Json& b,
                                     const std::vector<std::string>& allow,
                                     const std::vector<FailIf>& bounds) {
  const Json* points_a = Array(a, "points");
  const Json* points_b = Array(b, "points");
  if (points_a == nullptr || points_b == nullptr) {
    return NoDocument(points_a == nullptr ? "the first" : "the second");
  }
  std::set<std::string> mismatches = Mismatches(a, b);
  Comparer comparer(bounds);
  for (const Json& point : points_a->array()) {
    for (const Json& other : points_b->array()) {
      const Json* targets_a = Array(point, "targets");
      const Json* targets_b = Array(other, "targets");
      if (LoadOf(point) != LoadOf(other) || targets_a == nullptr || targets_b == nullptr) {
        continue;
      }
      const bool lone = targets_a->array().size() == 1 && targets_b->array().size() == 1;
      for (const Json& target : targets_b->array()) {
        if (const Json* before = Matching(*targets_a, target, lone)) {
          if (Text(*before, "model") != Text(target, "model")) {
            mismatches.insert("model");
          }
          comparer.Add(LoadOf(point), *before, target);
        }
      }
    }
  }
  std::vector<std::string> allowed;
  for (const std::string& field : allow) {
    if (mismatches.erase(field) > 0) {
      allowed.push_back(field);
    }
  }
  if (!mismatches.empty()) {
    const std::vector<std::string> names(mismatches.begin(), mismatches.end());
    return Fail(Code::kInvalidArgument,
                "not comparable, they differ in " + Join(names, ", ") +
                    " (--allow mismatch=" + names[0] + " compares all the same)",
                "--allow");
  }
  TRY_ASSIGN(ServeComparison comparison, comparer.Take());
  comparison.allowed = std::move(allowed);
  return comparison;
}

std::string CompareText(const ServeComparison& comparison) {
  std::string out;
  std::vector<std::vector<std::string>> rows = {{"LOAD", "TARGET", "FIGURE", "A", "B", "CHANGE"}};
  for (const ComparedFigure& figure : comparison.figures) {
    char change[32] = "-";
    if (const auto by = figure.change()) {
      std::snprintf(change, sizeof change, "%+.1f%%", kHundred * *by);
    }
    rows.push_back({figure.load, figure.target, figure.figure, ShortNumber(figure.a),
                    ShortNumber(figure.b), change});
  }
  out += LinedUp(rows);
  if (!comparison.allowed.empty()) {
    out += "\nnot comparable: they differ in " + Join(comparison.allowed, ", ") + "\n";
  }
  for (const std::string& broken : comparison.broken) {
    out += "FAIL " + broken + "\n";
  }
  return out;
}

std::string CompareJson(const ServeComparison& comparison) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("figures").BeginArray();
  for (const ComparedFigure& figure : comparison.figures) {
    json.BeginObject().Key("load").String(figure.load);
    json.Key("target")
        .String(ReplaceInvalidUtf8(figure.target))
        .Key("figure")
        .String(figure.figure);
    json.Key("a").Double(figure.a).Key("b").Double(figure.b).Key("change");
    figure.change() ? json.Double(*figure.change()) : json.Null();
    json.EndObject();
  }
  const auto list = [&json](const char* name, const std::vector<std::string>& values) {
    json.Key(name).BeginArray();
    for (const std::string& value : values) {
      json.String(ReplaceInvalidUtf8(value));
    }
    json.EndArray();
  };
  json.EndArray();
  list("not_comparable", comparison.allowed);
  list("broken", comparison.broken);
  json.EndObject();
  return out;
}

}  // namespace fak::perf
