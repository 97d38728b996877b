#include "cli/bench_compare.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/printable.h"
#include "perf/serve_compare.h"

namespace fak::cli {
namespace {

struct CompareFlags {
  std::string a;
  std::string b;
  std::vector<std::string> bounds;
  std::vector<std::string> allow;
  bool json = false;
};

Result<Json> Read(const std::string& path) {
  TRY_ASSIGN(const std::string text, ReadFile(path, limits::kTextInputBytesMax));
  auto document = ParseJson(text);
  if (!document) {
    return Fail(Within(path, std::move(document.error())));
  }
  return document;
}

// Whether a bound is broken.
Result<bool> BenchCompare(const CompareFlags& flags) {
  std::vector<perf::FailIf> bounds;
  for (const std::string& text : flags.bounds) {
    TRY_ASSIGN(bounds.emplace_back(), perf::ParseFailIf(text));
  }
  std::vector<std::string> allow;
  for (const std::string& text : flags.allow) {
    constexpr std::string_view kMismatch = "mismatch=";
    if (!text.starts_with(kMismatch)) {
      return Fail(Code::kInvalidArgument, "--allow " + text + ": must be mismatch=FIELD",
                  "--allow");
    }
    allow.push_back(text.substr(kMismatch.size()));
  }
  TRY_ASSIGN(const Json a, Read(flags.a));
  TRY_ASSIGN(const Json b, Read(flags.b));
  TRY_ASSIGN(const perf::ServeComparison compared, perf::CompareServe(a, b, allow, bounds));
  const std::string out =
      flags.json ? perf::CompareJson(compared) + "\n" : PrintableLines(perf::CompareText(compared));
  std::fputs(out.c_str(), stdout);
  return !compared.broken.empty();
}

}  // namespace

std::function<ExitStatus()> AddBenchCompare(CLI::App& bench) {
  CLI::App* verb = bench.add_subcommand(
      "compare", "Two documents of fak bench serve, before and after a change");
  const auto flags = std::make_shared<CompareFlags>();
  verb->add_option("A", flags->a, "What --json or --output wrote before")->required();
  verb->add_option("B", flags->b, "And after")->required();
  verb->add_option(
          "--fail-if", flags->bounds,
          "FIGURE>+5% or FIGURE<-5%, a figure's name in the JSON: exit status 1 where B is "
          "that much worse; repeatable")
      ->allow_extra_args(false);
  verb->add_option("--allow", flags->allow,
                   "mismatch=FIELD: compare although that differs, and say so; repeatable")
      ->allow_extra_args(false);
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->footer(
      "Example, with a server on each side of the change:\n"
      "  fak bench serve --target http://127.0.0.1:8000 -n 40 --output-len 32 -o before.json\n"
      "  fak bench serve --target http://127.0.0.1:8000 -n 40 --output-len 32 -o after.json\n"
      "  fak bench compare before.json after.json --fail-if 'p99_ttft_ms>+5%' "
      "--fail-if 'output_throughput<-3%'");
  return [flags]() -> ExitStatus {
    const Result<bool> broken = BenchCompare(*flags);
    return !broken ? PrintError(broken.error()) : *broken ? kFailed : 0;
  };
}

}  // namespace fak::cli
