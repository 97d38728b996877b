#include "engine/verify_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "engine/native_driver.h"

namespace fak::engine {
namespace {

constexpr uint32_t kBlock = 16;
constexpr uint32_t kGenerated = 4;
constexpr uint32_t kBatchMax = 16;
// Of the others: prompts of 3 to 24 tokens, answers of 8 to 40. So at most 4 blocks each, and one
// more that admission wants to see free.
constexpr uint32_t kOtherBlocks = 6;
constexpr uint32_t kOtherPromptMax = 24;
constexpr uint32_t kPoolBlocks = kVerifyContext / kBlock + 2 + (kBatchMax - 1) * kOtherBlocks;

constexpr std::string_view kTarget = "target";

uint32_t BlocksFor(size_t tokens) {
  return static_cast<uint32_t>((tokens + kBlock - 1) / kBlock);
}

std::string Counted(uint64_t n, std::string_view what) {
  return std::to_string(n) + " " + std::string(what);
}

// Keeps what one request was told.
class Listener final : public driver::EventSink {
 public:
  void OnEvent(wire::Event&& event) noexcept override {
    if (const auto* text = std::get_if<wire::TextDelta>(&event)) {
      tokens_.insert(tokens_.end(), text->tokens.begin(), text->tokens.end());
    } else if (auto* failed = std::get_if<wire::Failed>(&event)) {
      error_ = std::move(failed->error);
      ended_ = true;
    } else if (std::holds_alternative<wire::Done>(event)) {
      ended_ = true;
    }
  }
  bool ended() const { return ended_; }
  const std::optional<Error>& error() const { return error_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  std::vector<int32_t> tokens_;
  std::optional<Error> error_;
  bool ended_ = false;
};

struct Ask {
  std::string id;
  std::string salt;
  std::vector<int32_t> prompt;
  uint32_t answer = 0;       // tokens
  float temperature = 0.0f;  // the others draw
  int32_t priority = 0;
};

std::shared_ptr<const driver::Prepared> Prepare(const Ask& ask) {
  auto turn = std::make_shared<wire::Turn>();
  turn->surface = wire::Surface::kCompletion;
  turn->sampling.temperature = ask.temperature;
  turn->sampling.seed = 1;
  turn->sampling.max_tokens = static_cast<int32_t>(ask.answer);
  turn->sampling.ignore_eos = true;
  auto prepared = std::make_shared<driver::Prepared>();
  prepared->request_id = ask.id;
  prepared->turn = std::move(turn);
  prepared->prompts.push_back({{}, ask.prompt, {}});
  prepared->cache_salt = ask.salt;
  prepared->priority = ask.priority;
  return prepared;
}

// All bits set: not a number in any KV type. Whatever reads KV that its sequence did not write, or
// copy, gives logits that are not finite.
void Poison(tensor::Backend& backend) {
  const tensor::KvSpec& spec = backend.kv();
  for (uint32_t layer = 0; layer < spec.layers.size(); ++layer) {
    const tensor::KvLayerShape& shape = spec.layers[layer];
    const std::vector<std::byte> rows(
        size_t{spec.block_size} * shape.kv_heads * shape.head_dim * tensor::KvTypeBytes(spec.type),
        std::byte{0xff});
    for (uint32_t block = 0; block < spec.blocks; ++block) {
      for (const tensor::KvPart part : {tensor::KvPart::kKey, tensor::KvPart::kValue}) {
        backend.WriteKv(tensor::BlockId{block}, layer, part, 0, spec.block_size, rows);
      }
    }
  }
}

class Runner final : public StepObserver {
 public:
  Runner(LoadedEngine& engine, const CellRun& run, const VerifyTexts& texts)
      : engine_(engine),
        cell_(run.cell),
        run_(run),
        texts_(texts),
        driver_(WithChunk(std::move(engine), run.cell.chunk),
                {.served_names = {}, .sequences_max = kBatchMax + 1, .maybe_observer = this},
                clock_, random_, nullptr) {}
  ~Runner() override { engine_ = driver_.TakeEngine(); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  CellOutcome Run();
  void OnStep(std::span<const StepSlice> slices) noexcept override;

 private:
  static LoadedEngine WithChunk(LoadedEngine engine, uint32_t chunk) {
    engine.options.scheduler.long_prefill_token_threshold = chunk;
    return engine;
  }

  // One row a step, twice over, and some steps for the others.
  size_t StepsMax() const { return 2 * run_.prompt.size() + 100; }
  std::shared_ptr<Listener> Admit(const Ask& ask);
  Status RunAlone(const Ask& ask);
  Status Seed();
  Status SeedAndEvict();
  void AddOther();
  void ReplaceOthers();
  void RunTarget();
  void TakeBlocks(uint32_t blocks);
  void GiveBlocks(uint32_t blocks);
  void MaybePreempt();
  void FlipBit();
  void CheckPath();
  void Want(bool holds, std::string what) {
    if (!holds && outcome_.failure.empty()) {
      outcome_.failure = std::move(what);
    }
  }

  LoadedEngine& engine_;
  const VerifyCell& cell_;
  const CellRun& run_;
  const VerifyTexts& texts_;
  FakeClock clock_;
  FakeRandom random_;
  NativeDriver driver_;

  CellOutcome outcome_;
  std::shared_ptr<Listener> target_;
  std::vector<std::shared_ptr<Listener>> others_;
  uint32_t others_made_ = 0;
  std::vector<tensor::BlockId> taken_;  // out of the pool, so that it is short of blocks

  uint32_t expected_cached_ = 0;
  tensor::BlockId seeded_block_ = tensor::kNoBlock;  // the cached one that the hit ends in
  // Of the target, as its steps went.
  uint32_t steps_ = 0;
  uint32_t cached_ = 0;
  uint32_t preemptions_ = 0;
  uint32_t recomputed_blocks_ = 0;
  bool short_of_blocks_ = false;
  bool copied_ = false;
  bool flipped_ = false;
};

std::shared_ptr<Listener> Runner::Admit(const Ask& ask) {
  auto listener = std::make_shared<Listener>();
  if (Status admitted = driver_.Admit(Prepare(ask), listener); !admitted) {
    listener->OnEvent(wire::Failed{std::move(admitted).error()});
  }
  return listener;
}

Status Runner::RunAlone(const Ask& ask) {
  const std::shared_ptr<Listener> listener = Admit(ask);
  for (size_t step = 0; step < StepsMax() && !listener->ended(); ++step) {
    driver_.Step();
  }
  if (listener->error()) {
    return Fail(*listener->error());
  }
  return listener->ended() ? Status() : Fail(Code::kInternal, "it did not end");
}

void Runner::AddOther() {
  const uint32_t i = others_made_++;
  const uint32_t length = 3 + (5 * i) % (kOtherPromptMax - 2);
  const auto begin = texts_.others.begin() + (37 * i) % (texts_.others.size() - kOtherPromptMax);
  others_.push_back(Admit({.id = "other-" + std::to_string(i),
                           .salt = "others",
                           .prompt = {begin, begin + length},
                           .answer = 8 + (7 * i) % 33,
                           .temperature = 0.8f}));
}

void Runner::ReplaceOthers() {
  const size_t before = others_.size();
  std::erase_if(others_, [](const auto& other) { return other->ended(); });
  while (others_.size() < before) {
    AddOther();
  }
}

void Runner::TakeBlocks(uint32_t blocks) {
  for (uint32_t i = 0; i < blocks; ++i) {
    taken_.push_back(driver_.pool().Allocate());
  }
}

void Runner::GiveBlocks(uint32_t blocks) {
  for (uint32_t i = 0; i < blocks && !taken_.empty(); ++i) {
    driver_.pool().Release(taken_.back());
    taken_.pop_back();
  }
}

// Puts into the prefix cache what the path wants to find there.
Status Runner::Seed() {
  const auto length = static_cast<uint32_t>(run_.prompt.size());
  if (cell_.path == KvPath::kHitAfterEviction) {
    return SeedAndEvict();
  }
  if (cell_.path != KvPath::kHitAtEdge && cell_.path != KvPath::kHitInBlock) {
    return {};
  }
  expected_cached_ = length / 2 / kBlock * kBlock + (cell_.path == KvPath::kHitInBlock ? 5 : 0);
  const std::vector<int32_t> prefix(run_.prompt.begin(), run_.prompt.begin() + expected_cached_);
  TRY(RunAlone({.id = "seed", .salt = std::string(kTarget), .prompt = prefix}));
  const kv::PrefixTree::Match match = driver_.tree().Find(kTarget, prefix, length);
  for (const tensor::BlockId block : match.blocks) {
    driver_.pool().Release(block);  // Find() held it for us
  }
  seeded_block_ = match.blocks.empty() ? tensor::kNoBlock : match.blocks.back();
  return {};
}

// The whole prompt is cached; then others need blocks when none is free, and take half of its.
// What is left of the pool afterwards is as tight as the cell's sequences allow.
Status Runner::SeedAndEvict() {
  const uint32_t all = BlocksFor(run_.prompt.size());
  const uint32_t evicted = all / 2;
  expected_cached_ = (all - evicted) * kBlock;
  TRY(RunAlone({.id = "seed", .salt = std::string(kTarget), .prompt = run_.prompt}));
  TakeBlocks(driver_.pool().free());
  const auto begin = texts_.others.begin();
  TRY(RunAlone({.id = "evictor", .salt = "evictor", .prompt = {begin, begin + evicted * kBlock}}));
  GiveBlocks(2 + (cell_.batch - 1) * kOtherBlocks);
  return {};
}

// When half of the target is computed, all that is free or only cached goes, and so does what
// others give back when they end; who needs a block next takes the target's, because it is the last
// and least. Then half of what the cache kept of it goes too, so that it has to be computed anew,
// and there are blocks again.
void Runner::MaybePreempt() {
  const Request* request = driver_.Find(kTarget);
  if (cell_.path != KvPath::kPreempted || request == nullptr) {
    return;
  }
  const Sequence& sequence = request->choices.front().sequence;
  const size_t half = run_.prompt.size() / 2;
  if (recomputed_blocks_ == 0 && sequence.preemptions == 0 && sequence.computed >= half) {
    driver_.tree().Evict(driver_.pool().cached_only());
    TakeBlocks(driver_.pool().free());
    short_of_blocks_ = true;
  } else if (short_of_blocks_ && sequence.preemptions > 0) {
    recomputed_blocks_ =
        driver_.tree().Prune(kTarget, std::span(run_.prompt).first(half / kBlock * kBlock)).nodes;
    GiveBlocks(static_cast<uint32_t>(taken_.size()));
    short_of_blocks_ = false;
  }
}

// The sign of one value in a block that only the target holds.
void Runner::FlipBit() {
  const Request* request = driver_.Find(kTarget);
  if (!run_.flips_bit || flipped_ || request == nullptr) {
    return;
  }
  const Sequence& sequence = request->choices.front().sequence;
  if (!sequence.prompt_done()) {
    return;
  }
  flipped_ = true;
  tensor::Backend& backend = *driver_.engine().backend;
  const tensor::KvLayerShape& shape = backend.kv().layers.front();
  const uint32_t bytes = tensor::KvTypeBytes(backend.kv().type);
  std::vector<std::byte> row(size_t{shape.kv_heads} * shape.head_dim * bytes);
  backend.ReadKv(sequence.blocks.front(), 0, tensor::KvPart::kValue, 3, 1, row);
  row[bytes - 1] ^= std::byte{0x80};
  backend.WriteKv(sequence.blocks.front(), 0, tensor::KvPart::kValue, 3, 1, row);
}

void Runner::OnStep(std::span<const StepSlice> slices) noexcept {
  const auto found = std::find_if(slices.begin(), slices.end(), [](const StepSlice& slice) {
    return slice.request_id == kTarget;
  });
  if (found == slices.end()) {
    return;
  }
  const Sequence& sequence = *found->sequence;
  const auto pending =
      static_cast<uint32_t>(sequence.tokens.size()) - (sequence.computed - found->rows);
  const uint32_t rows = cell_.chunk == 0 ? pending : std::min(cell_.chunk, pending);
  Want(found->rows == rows, "a step took " + std::to_string(found->rows) + " rows of the target, " +
                                std::to_string(rows) + " expected");
  // Short of blocks, others may have to wait as well.
  Want(slices.size() == cell_.batch || (short_of_blocks_ && slices.size() < cell_.batch),
       "a step had " + Counted(slices.size(), "sequences"));
  if (steps_++ == 0 && expected_cached_ % kBlock != 0) {
    copied_ = sequence.blocks[expected_cached_ / kBlock] != seeded_block_;
  }
  if (!found->samples) {
    return;
  }
  Trace& trace = outcome_.trace;
  trace.ReadLogits(driver_.engine(), found->first_logit);
  if (trace.logits.size() == size_t{kGenerated} * trace.vocabulary) {
    trace.ReadKv(driver_.engine(), sequence);
    cached_ = sequence.cached_tokens;
    preemptions_ = sequence.preemptions;
  }
}

void Runner::CheckPath() {
  Want(outcome_.trace.positions == run_.prompt.size() + kGenerated - 1,
       "KV of " + Counted(outcome_.trace.positions, "positions"));
  Want(cached_ == expected_cached_, Counted(cached_, "tokens came from the cache, ") +
                                        std::to_string(expected_cached_) + " expected");
  Want(expected_cached_ % kBlock == 0 || copied_, "the shared block was not copied");
  const bool preempts = cell_.path == KvPath::kPreempted;
  Want((preemptions_ > 0) == preempts, Counted(preemptions_, "preemptions"));
  Want(!preempts || recomputed_blocks_ > 0, "nothing was computed anew after the preemption");
  Want(!run_.flips_bit || flipped_, "no bit was flipped");
}

void Runner::RunTarget() {
  const uint32_t others = cell_.batch - 1;
  for (uint32_t i = 0; i < (others + 1) / 2; ++i) {
    AddOther();
  }
  if (others > 0) {
    driver_.Step();  // these generate while the target's prompt is computed
    ReplaceOthers();
  }
  target_ = Admit({.id = std::string(kTarget),
                   .salt = std::string(kTarget),
                   .prompt = run_.prompt,
                   .answer = kGenerated,
                   // The last and the least: the one that loses its blocks.
                   .priority = cell_.path == KvPath::kPreempted ? 1 : 0});
  while (others_.size() < others) {
    AddOther();
  }
  for (size_t step = 0; step < StepsMax() && !target_->ended(); ++step) {
    driver_.Step();
    ReplaceOthers();
    MaybePreempt();
    FlipBit();
  }
}

CellOutcome Runner::Run() {
  Poison(*driver_.engine().backend);
  if (const Status seeded = Seed(); !seeded) {
    outcome_.failure = "filling the cache: " + seeded.error().detail;
    return std::move(outcome_);
  }
  RunTarget();
  GiveBlocks(static_cast<uint32_t>(taken_.size()));
  if (!target_->ended()) {
    outcome_.failure = "the target did not end";
  } else if (target_->error()) {
    outcome_.failure = target_->error()->detail;
  } else {
    outcome_.trace.tokens = target_->tokens();
    CheckPath();
  }
  return std::move(outcome_);
}

// A page of text, as long as wanted: prose, code, figures, other scripts.
std::string Page(uint32_t first, size_t bytes) {
  std::string text;
  for (uint32_t i = first; text.size() < bytes; ++i) {
    const std::string n = std::to_string(i);
    text += "Entry " + n + ". The harbour master wrote that ship " + std::to_string(7 * i % 90) +
            " had come in at dawn with " + std::to_string(311 * i % 1009) +
            " crates of tea, and that nobody could say why its log ended a day too early.\n";
    text += "for (int i = " + n + "; i < limit; ++i) { total += price[i] * " +
            std::to_string(13 * i % 64) + "; }  // see note " + n + "\n";
    text += "Une théière à 25 €, 茶の木, чай и сахар, 🍵 × " + n + "\n\n";
  }
  return text;
}

Result<std::vector<int32_t>> Tokens(const text::Tokenizer& tokenizer, uint32_t first) {
  constexpr size_t kBytesMax = 1 << 20;
  for (size_t bytes = size_t{8} * kVerifyPromptLong; bytes <= kBytesMax; bytes *= 2) {
    std::vector<int32_t> tokens = tokenizer.Encode(Page(first, bytes));
    if (tokens.size() >= kVerifyPromptLong) {
      tokens.resize(kVerifyPromptLong);
      return tokens;
    }
  }
  return Fail(Code::kUnsupported, "the tokenizer makes too few tokens of a text to verify with");
}

}  // namespace

EngineOptions VerifyEngineOptions(const VerifyCell& cell) {
  EngineOptions options;
  options.scheduler.max_num_seqs = kBatchMax;
  options.scheduler.max_num_batched_tokens = kVerifyPromptLong + (kBatchMax - 1) * kOtherPromptMax;
  options.max_model_len = kVerifyContext;
  options.scheduler.block_size = kBlock;
  options.kv_cache_dtype = cell.kv;
  options.kv_blocks = kPoolBlocks;
  return options;
}

Result<VerifyTexts> MakeVerifyTexts(const text::Tokenizer& tokenizer) {
  VerifyTexts texts;
  TRY_ASSIGN(texts.target, Tokens(tokenizer, 1));
  TRY_ASSIGN(texts.others, Tokens(tokenizer, 1000));
  return texts;
}

CellOutcome RunCell(LoadedEngine& engine, const CellRun& run, const VerifyTexts& texts) {
  return Runner(engine, run, texts).Run();
}

}  // namespace fak::engine
