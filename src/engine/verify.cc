#include "engine/verify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "engine/verify_run.h"
#include "model/model.h"

namespace fak::engine {
namespace {

using tensor::KvType;

// One a core, for references: scalar kernels are slow. Cells of one thread are compared with it.
constexpr uint32_t kAllThreads = 0;

std::vector<int32_t> Prefix(const std::vector<int32_t>& tokens, uint32_t count) {
  return {tokens.begin(), tokens.begin() + count};
}

std::string NameOf(const VerifyCell& cell) {
  return std::string(tensor::IsaName(cell.isa)) + ", " + std::to_string(cell.threads) +
         (cell.threads == 1 ? " thread, " : " threads, ") + std::string(KvTypeName(cell.kv)) +
         " KV";
}

class Verifier {
 public:
  Verifier(std::string path, const VerifyOptions& options)
      : path_(std::move(path)),
        options_(options),
        isas_(options.isas.empty() ? tensor::CpuIsas() : options.isas) {}

  Result<VerifyReport> Run();

 private:
  using ReferenceKey = std::pair<KvType, uint32_t>;  // and the prompt's length

  void Progress(std::string_view next) {
    if (options_.on_progress) {
      options_.on_progress(next, done_, all_);
    }
  }
  uint32_t PromptTokens(const VerifyCell& cell) const {
    return VerifyPromptTokens(options_.cover, cell);
  }
  // Leaves the engine alone if it is of that kind already.
  Status Load(const VerifyCell& cell, bool wrong_order = false);
  std::vector<ReferenceKey> NeededReferences() const;
  Status MakeReferences(KvType kv);
  Status RunCells(KvType kv);
  Status RunControls();
  void RunControl(std::string name, const CellRun& run, bool logits_must_differ);

  const std::string path_;
  const VerifyOptions& options_;
  const std::vector<tensor::Isa> isas_;
  std::vector<VerifyCell> cells_;
  VerifyCell control_;
  std::optional<LoadedEngine> engine_;
  VerifyCell loaded_;  // engine_ is of its KV type, instruction set and threads
  bool loaded_wrong_ = false;
  VerifyTexts texts_;
  std::map<ReferenceKey, Trace> references_;
  VerifyReport report_;
  uint32_t done_ = 0;
  uint32_t all_ = 0;
};

Status Verifier::Load(const VerifyCell& cell, bool wrong_order) {
  if (engine_ && loaded_.kv == cell.kv && loaded_.isa == cell.isa &&
      loaded_.threads == cell.threads && loaded_wrong_ == wrong_order) {
    return {};
  }
  engine_.reset();  // before the next one: memory holds one
  const tensor::CpuOptions cpu{
      .isa = cell.isa, .threads = cell.threads, .wrong_order = wrong_order};
  TRY_ASSIGN(std::unique_ptr<tensor::Backend> backend,
             options_.make_backend ? options_.make_backend(cpu) : tensor::CreateCpuBackend(cpu));
  TRY_ASSIGN(engine_, LoadEngine(path_, std::move(backend), VerifyEngineOptions(cell)));
  loaded_ = cell;
  loaded_wrong_ = wrong_order;
  if (texts_.target.empty()) {
    TRY_ASSIGN(texts_, MakeVerifyTexts(*engine_->card->tokenizer));
    report_.numerics = engine_->backend->info().numerics;
  }
  return {};
}

std::vector<Verifier::ReferenceKey> Verifier::NeededReferences() const {
  std::vector<ReferenceKey> keys = {{control_.kv, PromptTokens(control_)}};
  for (const VerifyCell& cell : cells_) {
    keys.emplace_back(cell.kv, PromptTokens(cell));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

Status Verifier::MakeReferences(KvType kv) {
  for (const auto& [type, length] : NeededReferences()) {
    if (type != kv) {
      continue;
    }
    const VerifyCell cell{.threads = kAllThreads, .kv = kv};
    Progress("reference of " + std::to_string(length) + " tokens, " + std::string(KvTypeName(kv)) +
             " KV");
    TRY(Load(cell));
    CellOutcome outcome =
        RunCell(*engine_, {.cell = cell, .prompt = Prefix(texts_.target, length)}, texts_);
    if (!outcome.failure.empty()) {
      return Fail(Code::kInternal, "the reference run went wrong: " + outcome.failure);
    }
    references_.emplace(std::pair(kv, length), std::move(outcome.trace));
    ++done_;
  }
  return {};
}

Status Verifier::RunCells(KvType kv) {
  for (const VerifyCell& cell : cells_) {
    if (cell.kv != kv) {
      continue;
    }
    Progress(NameOf(cell));
    TRY(Load(cell));
    const uint32_t length = PromptTokens(cell);
    const int64_t started_ns = Clock::Real().NowNs();
    const CellOutcome outcome =
        RunCell(*engine_, {.cell = cell, .prompt = Prefix(texts_.target, length)}, texts_);
    CellResult& result = report_.cells.emplace_back();
    result.cell = cell;
    result.prompt_tokens = length;
    result.kernels = engine_->executable->Kernels();
    result.comparison = Compare(references_.at({kv, length}), outcome.trace);
    result.failure = outcome.failure;
    result.seconds = static_cast<double>(Clock::Real().NowNs() - started_ns) / kNsPerSecond;
    ++done_;
    if (options_.on_cell) {
      options_.on_cell(result);
    }
  }
  return {};
}

void Verifier::RunControl(std::string name, const CellRun& run, bool logits_must_differ) {
  Progress("control: " + name);
  const CellOutcome outcome = RunCell(*engine_, run, texts_);
  ControlResult& control = report_.controls.emplace_back();
  control.name = std::move(name);
  control.comparison =
      Compare(references_.at({run.cell.kv, PromptTokens(run.cell)}), outcome.trace);
  control.noticed = outcome.failure.empty() && control.comparison.kv_differing > 0 &&
                    (!logits_must_differ || control.comparison.logits_differing > 0);
  ++done_;
}

Status Verifier::RunControls() {
  const uint32_t length = PromptTokens(control_);
  const std::vector<int32_t> prompt = Prefix(texts_.target, length);
  TRY(Load(control_));
  RunControl("another prompt", {.cell = control_, .prompt = Prefix(texts_.others, length)}, true);
  // Rounding may swallow one bit, or another order of one product, on the way to the logits.
  RunControl("a flipped bit of KV", {.cell = control_, .prompt = prompt, .flips_bit = true}, false);
  TRY(Load(control_, /*wrong_order=*/true));
  RunControl("sums in another order", {.cell = control_, .prompt = prompt}, false);
  return {};
}

Result<VerifyReport> Verifier::Run() {
  TRY_ASSIGN(const std::unique_ptr<model::ModelFile> file, model::ModelFile::Open(path_));
  if (file->shape().context < kVerifyContext) {
    return Fail(Code::kUnsupported,
                "verifying takes a context of " + std::to_string(kVerifyContext) +
                    " tokens; this model's is " + std::to_string(file->shape().context));
  }
  cells_ = VerifyCells(options_.cover, isas_);
  // On the fastest kernels; long where there is no instruction set but the scalar one.
  control_ = {.isa = isas_.back()};
  all_ = static_cast<uint32_t>(cells_.size() + NeededReferences().size()) + 3;
  for (const KvType kv : {KvType::kF16, KvType::kF32}) {
    TRY(MakeReferences(kv));
    TRY(RunCells(kv));
  }
  TRY(RunControls());
  Progress("done");
  return std::move(report_);
}

}  // namespace

bool VerifyReport::exact() const {
  return !cells.empty() && !controls.empty() &&
         std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return cell.exact(); }) &&
         std::all_of(controls.begin(), controls.end(),
                     [](const auto& control) { return control.noticed; });
}

Result<VerifyReport> Verify(const std::string& path, const VerifyOptions& options) {
  return Verifier(path, options).Run();
}

}  // namespace fak::engine
