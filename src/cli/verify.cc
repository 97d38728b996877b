#include "engine/verify.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/json.h"
#include "base/printable.h"
#include "base/strings.h"
#include "cli/device.h"
#include "cli/engine_flags.h"
#include "cli/interruptible.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "tensor/cuda_backend.h"

namespace fak::cli {
namespace {

struct VerifyFlags {
  std::string model;
  bool quick = false;
  bool full = false;
  bool json = false;
  std::string device = "auto";
};

// What cells run on: an instruction set of the CPU, or "sm_90" in place of one.
std::string MachineOf(const engine::VerifyCell& cell, const std::string& gpu) {
  return gpu.empty() ? std::string(tensor::IsaName(cell.isa)) : gpu;
}

std::string Chunk(uint32_t chunk) {
  return chunk == 0 ? "whole" : std::to_string(chunk);
}

// The table, a row as soon as its cell is done. Kernels are long lists and few: rows carry a
// letter, and the letters are spelled out below.
class Table {
 public:
  explicit Table(std::string gpu) : gpu_(std::move(gpu)) {}

  void Row(const engine::CellResult& result) {
    if (letters_.empty()) {
      std::printf("%-4s %-7s %7s %6s %6s  %-14s %6s  %-7s %12s %14s %8s\n", "KV", "ISA", "threads",
                  "batch", "chunk", "path", "prompt", "kernels", "KV differs", "logits differ",
                  "time");
    }
    const engine::VerifyCell& cell = result.cell;
    std::printf("%-4s %-7s %7u %6u %6s  %-14s %6u  %-7s %12llu %14llu %6.1f s\n",
                std::string(engine::KvTypeName(cell.kv)).c_str(), MachineOf(cell, gpu_).c_str(),
                cell.threads, cell.batch, Chunk(cell.chunk).c_str(),
                std::string(engine::KvPathName(cell.path)).c_str(), result.prompt_tokens,
                Letter(result.kernels).c_str(),
                static_cast<unsigned long long>(result.comparison.kv_differing),
                static_cast<unsigned long long>(result.comparison.logits_differing),
                result.seconds);
    if (!result.failure.empty()) {
      std::printf("     FAILED: %s\n", Printable(result.failure).c_str());
    }
    if (!result.comparison.first.empty()) {
      std::printf("     first: %s\n", result.comparison.first.c_str());
    }
    std::fflush(stdout);
  }

  void End(const engine::VerifyReport& report, const std::string& model) const {
    std::printf("\n");
    for (size_t i = 0; i < letters_.size(); ++i) {
      std::printf("kernels %s  %s\n", Name(i).c_str(), Join(letters_[i], "; ").c_str());
    }
    std::printf("\n%-24s %12s %14s\n", "control (must differ)", "KV differs", "logits differ");
    for (const engine::ControlResult& control : report.controls) {
      std::printf("%-24s %12llu %14llu  %s\n", control.name.c_str(),
                  static_cast<unsigned long long>(control.comparison.kv_differing),
                  static_cast<unsigned long long>(control.comparison.logits_differing),
                  control.noticed ? "noticed" : "NOT NOTICED");
    }
    uint64_t compared = 0;
    uint64_t differing = 0;
    size_t exact = 0;
    for (const engine::CellResult& cell : report.cells) {
      compared += cell.comparison.kv_values + cell.comparison.logit_values;
      differing += cell.comparison.differing();
      exact += cell.exact() ? 1 : 0;
    }
    std::printf("\n%s: %s, %zu of %zu cells exact, %llu of %llu values differ (numerics %s)\n",
                Printable(model).c_str(), report.exact() ? "exact" : "NOT EXACT", exact,
                report.cells.size(), static_cast<unsigned long long>(differing),
                static_cast<unsigned long long>(compared), report.numerics.c_str());
  }

 private:
  static std::string Name(size_t i) {
    return i < 26 ? std::string(1, static_cast<char>('A' + i)) : std::to_string(i);
  }
  std::string Letter(const std::vector<std::string>& kernels) {
    const auto found = std::find(letters_.begin(), letters_.end(), kernels);
    const auto at = static_cast<size_t>(found - letters_.begin());
    if (found == letters_.end()) {
      letters_.push_back(kernels);
    }
    return Name(at);
  }

  const std::string gpu_;
  std::vector<std::vector<std::string>> letters_;
};

void Write(const engine::Comparison& comparison, JsonWriter& json) {
  json.Key("kv_values").Uint(comparison.kv_values);
  json.Key("kv_differing").Uint(comparison.kv_differing);
  json.Key("logit_values").Uint(comparison.logit_values);
  json.Key("logits_differing").Uint(comparison.logits_differing);
  if (!comparison.first.empty()) {
    json.Key("first_difference").String(comparison.first);
  }
}

void Write(const engine::CellResult& result, const std::string& gpu, JsonWriter& json) {
  const engine::VerifyCell& cell = result.cell;
  json.BeginObject().Key("kv").String(engine::KvTypeName(cell.kv));
  json.Key("isa").String(MachineOf(cell, gpu)).Key("threads").Uint(cell.threads);
  json.Key("batch").Uint(cell.batch).Key("chunk").String(Chunk(cell.chunk));
  json.Key("path").String(engine::KvPathName(cell.path));
  json.Key("prompt_tokens").Uint(result.prompt_tokens);
  json.Key("kernels").BeginArray();
  for (const std::string& kernel : result.kernels) {
    json.String(kernel);
  }
  json.EndArray();
  Write(result.comparison, json);
  if (!result.failure.empty()) {
    json.Key("failure").String(result.failure);
  }
  json.Key("seconds").Double(result.seconds).EndObject();
}

void PrintJson(const engine::VerifyReport& report, const std::string& model,
               engine::VerifyCover cover, const std::string& gpu) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("model").String(model).Key("exact").Bool(report.exact());
  json.Key("numerics").String(report.numerics);
  json.Key("covers").String(engine::VerifyCoverName(cover));
  json.Key("cells").BeginArray();
  for (const engine::CellResult& result : report.cells) {
    Write(result, gpu, json);
  }
  json.EndArray().Key("controls").BeginArray();
  for (const engine::ControlResult& control : report.controls) {
    json.BeginObject().Key("name").String(control.name).Key("noticed").Bool(control.noticed);
    Write(control.comparison, json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  std::printf("%s\n", out.c_str());
}

// Cells on the GPU ("cuda:1"), references and what must be summed wrong on the CPU.
void UseGpu(const std::string& name, engine::VerifyOptions& options) {
  const int device = std::atoi(name.substr(name.find(':') + 1).c_str());
  options.isas = {tensor::Isa::kScalar};
  options.make_backend = [device](const tensor::CpuOptions& cpu) {
    return cpu.threads == 0 || cpu.wrong_order ? tensor::CreateCpuBackend(cpu)
                                               : tensor::LoadCudaBackend(device);
  };
}

Result<bool> Run(const VerifyFlags& flags) {
  const Interruptible interruptible;
  TRY_ASSIGN(const ResolvedModel model, ResolveModel(flags.model));
  engine::VerifyOptions options;
  options.cover = flags.quick  ? engine::VerifyCover::kValues
                  : flags.full ? engine::VerifyCover::kProduct
                               : engine::VerifyCover::kPairs;
  TRY_ASSIGN(const std::unique_ptr<tensor::Backend> gpu,
             OpenGpu(flags.device, /*cpu_asked=*/false));
  const std::string chip = gpu == nullptr ? "" : gpu->info().isa;
  if (gpu != nullptr) {
    UseGpu(gpu->info().name, options);
  }
  ProgressBar bar;
  Table table(chip);
  options.on_progress = [&bar](std::string_view next, uint32_t done, uint32_t all) {
    bar.ShowCount("verifying " + std::string(next), done, all);
  };
  if (!flags.json) {
    options.on_cell = [&](const engine::CellResult& result) {
      bar.Finish();
      table.Row(result);
    };
  }
  TRY_ASSIGN(const engine::VerifyReport report, engine::Verify(model.path, options));
  bar.Finish();
  if (flags.json) {
    PrintJson(report, model.name, options.cover, chip);
  } else {
    table.End(report, model.name);
  }
  return report.exact();
}

}  // namespace

std::function<ExitStatus()> AddVerify(Program& program) {
  CLI::App* verb = program.app.add_subcommand(
      "verify", "Whether a model gives the same bits here, whatever the path");
  const auto flags = std::make_shared<VerifyFlags>();
  AddModel(*verb, flags->model);
  AddDevice(*verb, flags->device);
  CLI::Option* quick = verb->add_flag("--quick", flags->quick, "Every value of every axis once");
  verb->add_flag("--full", flags->full, "Every combination (default: every pair of values)")
      ->excludes(quick);
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->footer(
      "Runs the model through the real scheduler in batches of 1 to 16, prompts in chunks of 1 "
      "row\n"
      "to all, from cold, from the prefix cache, after eviction and after preemption, on 1 to 3\n"
      "threads, on every instruction set of this machine, with f16 and f32 KV, and compares the\n"
      "bits of KV and logits. On a GPU: with those of the CPU. Exit status 1 when one differs, or "
      "when a control that must differ\n"
      "does not.\n"
      "Example:\n  fak verify smollm2 --quick");
  return [flags]() -> ExitStatus {
    const Result<bool> exact = Run(*flags);
    return !exact ? PrintError(exact.error()) : *exact ? 0 : 1;
  };
}

}  // namespace fak::cli
