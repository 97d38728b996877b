#include "perf/route_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/hex.h"
#include "base/json.h"
#include "base/strings.h"

namespace fak::perf {
namespace {

// Where two policies take the same time to within this, neither beats the other.
constexpr double kSame = 1.001;

bool Beats(double theirs, double ours) {
  return theirs * kSame < ours;
}

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

using Rows = std::vector<std::vector<std::string>>;

std::string Table(std::span<const RouteCell> cells, double RouteResult::* figure) {
  Rows rows = {{"replicas", "load", "gateways"}};
  for (const RouteResult& result : cells.front().results) {
    rows.front().push_back(result.policy + " ");
  }
  for (const RouteCell& cell : cells) {
    std::vector<std::string> row = {std::to_string(cell.replicas), Fixed(cell.load, 2),
                                    std::to_string(cell.gateways)};
    const double ours = cell.results.front().*figure;
    for (const RouteResult& result : cell.results) {
      row.push_back(Fixed(result.*figure, 0) + (Beats(result.*figure, ours) ? "*" : " "));
    }
    rows.push_back(std::move(row));
  }
  return LinedUp(rows, Align::kRight);
}

std::string Bars(std::span<const RouteRatio> ratios) {
  constexpr double kBarOfOne = 16;
  constexpr double kBarMax = 60;
  size_t width = 0;
  for (const RouteRatio& ratio : ratios) {
    width = std::max(width, ratio.policy.size());
  }
  std::string out;
  for (const RouteRatio& ratio : ratios) {
    const double length = std::min(kBarMax, std::round(kBarOfOne * ratio.mean));
    out += ratio.policy + std::string(width - ratio.policy.size() + 2, ' ') + Fixed(ratio.mean, 2) +
           "x  " + std::string(static_cast<size_t>(length), '#') +
           (length == kBarMax ? "..." : "") + "\n";
  }
  return out;
}

}  // namespace

const RouteResult* RouteCell::maybe_of(std::string_view policy) const {
  const auto at = std::find_if(results.begin(), results.end(),
                               [&](const RouteResult& result) { return result.policy == policy; });
  return at == results.end() ? nullptr : &*at;
}

Result<std::vector<RouteCell>> RunGrid(const RouteTrace& trace, const RouteSim& given,
                                       const RouteGrid& grid) {
  std::vector<RouteCell> cells;
  RouteSim sim = given;
  for (const size_t replicas : grid.replicas) {
    for (const double load : grid.loads) {
      for (const size_t gateways : grid.gateways) {
        sim.replicas = replicas;
        sim.load = load;
        sim.gateways = gateways;
        RouteCell cell{.replicas = replicas, .load = load, .gateways = gateways, .results = {}};
        for (const std::string& policy : grid.policies) {
          TRY_ASSIGN(RouteResult result, SimulateRouting(trace, sim, policy));
          cell.results.push_back(std::move(result));
        }
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

std::vector<RouteRatio> Ratios(std::span<const RouteCell> cells) {
  std::vector<RouteRatio> ratios;
  for (size_t i = 0; i < cells.front().results.size(); ++i) {
    RouteRatio ratio{.policy = cells.front().results[i].policy};
    double mean = 0;
    double p99 = 0;
    for (const RouteCell& cell : cells) {
      const RouteResult& ours = cell.results.front();
      const RouteResult& theirs = cell.results[i];
      mean += std::log(theirs.ttft_mean_ms / ours.ttft_mean_ms);
      p99 += std::log(theirs.ttft_p99_ms / ours.ttft_p99_ms);
      const bool faster = Beats(theirs.ttft_mean_ms, ours.ttft_mean_ms) ||
                          Beats(theirs.ttft_p99_ms, ours.ttft_p99_ms);
      ratio.faster += faster ? 1 : 0;
    }
    ratio.mean = std::exp(mean / static_cast<double>(cells.size()));
    ratio.p99 = std::exp(p99 / static_cast<double>(cells.size()));
    ratios.push_back(std::move(ratio));
  }
  return ratios;
}

std::string RouteText(std::span<const RouteCell> cells) {
  const std::string ours = cells.front().results.front().policy;
  const std::vector<RouteRatio> ratios = Ratios(cells);
  std::string out = "Mean time to the first token, ms\n\n";
  out += Table(cells, &RouteResult::ttft_mean_ms);
  out += "\n99th percentile of it, ms\n\n";
  out += Table(cells, &RouteResult::ttft_p99_ms);
  out += "\n* beats " + ours + " in this cell\n\n";
  out += "Times as long as " + ours + ": geometric mean over the cells of the mean\n\n";
  out += Bars(ratios);
  out += "\n";
  Rows rows = {{"policy", "mean", "p99", "beats " + ours, "cached", "busy", "most/mean"}};
  for (size_t i = 0; i < ratios.size(); ++i) {
    RouteResult sum;
    for (const RouteCell& cell : cells) {
      sum.hit_rate += cell.results[i].hit_rate / static_cast<double>(cells.size());
      sum.busy += cell.results[i].busy / static_cast<double>(cells.size());
      sum.spread += cell.results[i].spread / static_cast<double>(cells.size());
    }
    rows.push_back({ratios[i].policy, Fixed(ratios[i].mean, 2) + "x", Fixed(ratios[i].p99, 2) + "x",
                    std::to_string(ratios[i].faster) + " of " + std::to_string(cells.size()),
                    Fixed(100 * sum.hit_rate, 1) + " %", Fixed(100 * sum.busy, 0) + " %",
                    Fixed(sum.spread, 2)});
  }
  return out + LinedUp(rows, Align::kRight);
}

std::string RouteJson(std::span<const RouteCell> cells) {
  std::string out;
  JsonWriter json(out);
  json.BeginArray();
  for (const RouteCell& cell : cells) {
    for (const RouteResult& result : cell.results) {
      json.BeginObject();
      json.Key("replicas").Uint(cell.replicas).Key("load").Double(cell.load);
      json.Key("gateways").Uint(cell.gateways).Key("policy").String(result.policy);
      json.Key("requests").Int(result.requests);
      json.Key("ttft_mean_ms").Double(result.ttft_mean_ms);
      json.Key("ttft_p50_ms").Double(result.ttft_p50_ms);
      json.Key("ttft_p99_ms").Double(result.ttft_p99_ms);
      json.Key("hit_rate").Double(result.hit_rate).Key("busy").Double(result.busy);
      json.Key("most_over_mean").Double(result.spread);
      json.Key("expected_cached_off_by").Double(result.predicted);
      json.Key("digest").String(ToHex(result.digest)).EndObject();
    }
  }
  json.EndArray();
  return out;
}

}  // namespace fak::perf
