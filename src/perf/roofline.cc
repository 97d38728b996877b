#include "perf/roofline.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

namespace fak::perf {
namespace {

using tensor::Peak;

// The unit in which figures of a bound are read: GB/s, or 10^9 operations a second.
constexpr double kGiga = 1e9;

std::string PatternText(const tensor::ReadPattern& pattern) {
  std::string text =
      std::to_string(pattern.streams) + (pattern.streams == 1 ? " stream" : " streams");
  return text + (pattern.bytes_ahead == 0
                     ? ", no prefetch"
                     : ", prefetch " + std::to_string(pattern.bytes_ahead) + " bytes ahead");
}

std::string Label(Peak peak) {
  return std::string(tensor::PeakName(peak)) + (peak == Peak::kRead ? ", GB/s" : ", Gop/s");
}

double Least(const std::vector<double>& samples) {
  return *std::min_element(samples.begin(), samples.end());
}
double Most(const std::vector<double>& samples) {
  return *std::max_element(samples.begin(), samples.end());
}

std::vector<double> Scaled(const TestResult& result, double work_a_token) {
  std::vector<double> rates = result.SamplesTs();
  for (double& rate : rates) {
    rate *= work_a_token;
  }
  return rates;
}

void WriteSamples(const std::vector<double>& samples, JsonWriter& json) {
  json.Key("samples").BeginArray();
  for (const double sample : samples) {
    json.Double(sample);
  }
  json.EndArray();
}

void WriteTest(const TestResult& result, JsonWriter& json) {
  json.Key("test").String(result.test.Name()).Key("median_ts").Double(result.MedianTs());
  json.Key("samples_ts").BeginArray();
  for (const double rate : result.SamplesTs()) {
    json.Double(rate);
  }
  json.EndArray();
}

std::string ShareRow(const TestResult& result, const std::vector<double>& reached,
                     const Ceiling& bound, const std::string& what) {
  char text[256];
  std::snprintf(text, sizeof text, "%-8s %12.2f %12.2f %12.2f %7.1f %%  of %s\n",
                result.test.Name().c_str(), result.MedianTs(), Median(reached) / kGiga,
                Median(bound.samples) / kGiga, 100.0 * ShareOf(reached, bound.samples),
                what.c_str());
  return text;
}

}  // namespace

size_t BestOf(const std::vector<std::vector<double>>& series) {
  size_t best = 0;
  for (size_t i = 1; i < series.size(); ++i) {
    best = Median(series[i]) > Median(series[best]) ? i : best;
  }
  return best;
}

double ShareOf(const std::vector<double>& speeds, const std::vector<double>& bounds) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(speeds.size(), bounds.size()); ++i) {
    ratios.push_back(speeds[i] / bounds[i]);
  }
  return Median(std::move(ratios));
}

Result<Roofline> Roofline::Make(const Options& options) {
  Roofline roofline;
  TRY_ASSIGN(roofline.peaks_, tensor::CpuPeaks::Make(options.threads, options.bytes));
  for (const uint32_t threads : options.threads) {
    for (const tensor::Isa isa : options.isas) {
      for (size_t pattern = 0; pattern < std::size(tensor::kReadPatterns); ++pattern) {
        roofline.series_.push_back({{isa, threads, Peak::kRead, pattern}, {}});
      }
      roofline.series_.push_back({{isa, threads, Peak::kInt8Dot, 0}, {}});
      roofline.series_.push_back({{isa, threads, Peak::kF32Fma, 0}, {}});
    }
  }
  return roofline;
}

void Roofline::Round(const std::function<void(const std::string& what)>& on_loop) {
  for (Series& series : series_) {
    on_loop(std::string(tensor::PeakName(series.loop.peak)) + ", " +
            std::string(tensor::IsaName(series.loop.isa)) + ", " +
            std::to_string(series.loop.threads) +
            (series.loop.threads == 1 ? " thread" : " threads"));
    series.samples.push_back(peaks_->Measure(series.loop));
  }
}

std::vector<Ceiling> Roofline::Ceilings() const {
  std::vector<Ceiling> ceilings;
  for (size_t i = 0; i < series_.size(); ++i) {
    const tensor::PeakLoop& loop = series_[i].loop;
    size_t best = i;
    if (loop.peak == Peak::kRead) {  // all patterns stand together
      std::vector<std::vector<double>> patterns;
      for (size_t pattern = 0; pattern < std::size(tensor::kReadPatterns); ++pattern) {
        patterns.push_back(series_[i + pattern].samples);
      }
      best = i + BestOf(patterns);
      i += patterns.size() - 1;
    }
    ceilings.push_back({loop.isa, loop.threads, loop.peak,
                        tensor::kReadPatterns[series_[best].loop.pattern], series_[best].samples});
  }
  return ceilings;
}

std::vector<double> ModelShare::DecodeBytes() const {
  return Scaled(decode, static_cast<double>(work.token_bytes));
}

std::vector<double> ModelShare::PrefillOps() const {
  const uint32_t tokens = prefill.test.n_prompt;
  return Scaled(prefill, static_cast<double>(work.PromptOps(tokens)) / tokens);
}

void TakeBounds(const std::vector<Ceiling>& ceilings, tensor::Isa isa, uint32_t threads,
                ModelShare& share) {
  const Peak product = share.work.of_bytes ? Peak::kInt8Dot : Peak::kF32Fma;
  for (const Ceiling& ceiling : ceilings) {
    if (ceiling.isa == isa && ceiling.threads == threads) {
      if (ceiling.peak == Peak::kRead) {
        share.read = ceiling;
      } else if (ceiling.peak == product) {
        share.product = ceiling;
      }
    }
  }
  CHECK(!share.read.samples.empty() && !share.product.samples.empty());
}

std::string CeilingsText(const std::vector<Ceiling>& ceilings) {
  char text[256];
  std::snprintf(text, sizeof text, "%-15s %7s  %-7s %10s %10s %10s\n", "", "threads", "ISA",
                "median", "least", "most");
  std::string out = text;
  for (const Peak peak : {Peak::kRead, Peak::kInt8Dot, Peak::kF32Fma}) {
    for (const Ceiling& ceiling : ceilings) {
      if (ceiling.peak != peak) {
        continue;
      }
      std::snprintf(text, sizeof text, "%-15s %7u  %-7s %10.2f %10.2f %10.2f", Label(peak).c_str(),
                    ceiling.threads, std::string(tensor::IsaName(ceiling.isa)).c_str(),
                    Median(ceiling.samples) / kGiga, Least(ceiling.samples) / kGiga,
                    Most(ceiling.samples) / kGiga);
      out += text;
      out += peak == Peak::kRead ? "  " + PatternText(ceiling.pattern) + "\n" : "\n";
    }
  }
  return out;
}

std::string ShareText(const ModelShare& share) {
  char text[128];
  std::snprintf(text, sizeof text, "%-8s %12s %12s %12s %9s\n", "", "tokens/s", "reached", "bound",
                "share");
  return text + ShareRow(share.decode, share.DecodeBytes(), share.read, "reading memory, GB/s") +
         ShareRow(share.prefill, share.PrefillOps(), share.product,
                  std::string(tensor::PeakName(share.product.peak)) + ", Gop/s");
}

void WriteJson(const std::vector<Ceiling>& ceilings, JsonWriter& json) {
  json.BeginArray();
  for (const Ceiling& ceiling : ceilings) {
    json.BeginObject().Key("what").String(tensor::PeakName(ceiling.peak));
    json.Key("unit").String(ceiling.peak == Peak::kRead ? "B/s" : "op/s");
    json.Key("isa").String(tensor::IsaName(ceiling.isa)).Key("threads").Uint(ceiling.threads);
    if (ceiling.peak == Peak::kRead) {
      json.Key("streams").Uint(ceiling.pattern.streams);
      json.Key("bytes_ahead").Uint(ceiling.pattern.bytes_ahead);
    }
    json.Key("median").Double(Median(ceiling.samples));
    json.Key("least").Double(Least(ceiling.samples)).Key("most").Double(Most(ceiling.samples));
    WriteSamples(ceiling.samples, json);
    json.EndObject();
  }
  json.EndArray();
}

void WriteJson(const ModelShare& share, JsonWriter& json) {
  json.BeginObject().Key("name").String(share.model);
  json.Key("isa").String(tensor::IsaName(share.read.isa)).Key("threads").Uint(share.read.threads);
  json.Key("decode").BeginObject();
  WriteTest(share.decode, json);
  json.Key("token_bytes").Uint(share.work.token_bytes);
  json.Key("share_of_read").Double(ShareOf(share.DecodeBytes(), share.read.samples)).EndObject();
  json.Key("prefill").BeginObject();
  WriteTest(share.prefill, json);
  json.Key("prompt_ops").Uint(share.work.PromptOps(share.prefill.test.n_prompt));
  json.Key("bound").String(tensor::PeakName(share.product.peak));
  json.Key("share_of_bound").Double(ShareOf(share.PrefillOps(), share.product.samples));
  json.EndObject().EndObject();
}

}  // namespace fak::perf
