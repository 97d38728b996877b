#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/test_folder.h"
#include "engine/loader.h"
#include "engine/native_driver.h"
#include "tensor/cpu_backend.h"
#include "tests/tiny/synthetic_model.h"
#include "tests/tiny/vocabulary.h"

// A model of a few megabytes and a client without a wire, for this room's tests.
namespace fak::engine {

// Written once, gone with the program. Random weights, context 2048, 303 tokens of which the first
// 256 are the bytes in their alphabet's order; matrices wide enough that an order of sums shows.
inline const std::string& TinyModelPath() {
  struct File {
    const TestFolder folder;
    const std::string path = folder.Path("tiny.gguf");
    File() {
      const tiny::ModelShape shape = {.family = tiny::Family::kLlama,
                                      .layers = 3,
                                      .width = 256,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .head_dim = 64,
                                      .ff = 1024,
                                      .vocabulary = 303,
                                      .context = 2048,
                                      .rope_base = 10'000.0f};
      tensor::GgufWriter writer;
      tiny::AddModel(shape, tiny::FindTypeMix("Q4_0").value(), {.seed = 3}, writer);
      tiny::AddVocabulary(tiny::ByteLevelVocabulary("gpt-2"), writer);
      const Status written = writer.Write(path);
      CHECK(written.has_value()) << written.error().detail;
    }
  };
  static const File file;
  return file.path;
}

inline EngineOptions TinyOptions(uint32_t blocks = 256) {
  EngineOptions options;
  options.kv_blocks = blocks;
  return options;
}

inline LoadedEngine LoadTiny(const EngineOptions& options, const tensor::CpuOptions& cpu = {}) {
  auto backend = tensor::CreateCpuBackend(cpu);
  CHECK(backend.has_value()) << backend.error().detail;
  auto engine = LoadEngine(TinyModelPath(), *std::move(backend), options);
  CHECK(engine.has_value()) << engine.error().detail;
  return *std::move(engine);
}

inline wire::SamplingParams Greedy(int32_t tokens) {
  wire::SamplingParams sampling;
  sampling.temperature = 0.0f;
  sampling.max_tokens = tokens;
  sampling.ignore_eos = true;
  return sampling;
}

inline wire::SamplingParams Drawn(int32_t tokens, uint64_t seed) {
  wire::SamplingParams sampling = Greedy(tokens);
  sampling.temperature = 0.9f;
  sampling.seed = seed;
  return sampling;
}

// What a client asks, in the neutral form.
struct Ask {
  std::string id = "target";
  std::vector<int32_t> prompt = {};
  wire::SamplingParams sampling = {};
  int32_t n = 1;
  bool echo = false;
  bool return_token_ids = false;
  std::vector<int32_t> said = {};  // of the answer, elsewhere
  std::string salt = {};
  int32_t priority = 0;
  std::optional<int64_t> deadline_ns = {};
  std::string text = "the prompt's text";

  std::shared_ptr<const driver::Prepared> Prepared() const {
    auto turn = std::make_shared<wire::Turn>();
    turn->surface = wire::Surface::kCompletion;
    turn->sampling = sampling;
    turn->n = n;
    turn->echo = echo;
    turn->return_token_ids = return_token_ids;
    if (!said.empty()) {
      turn->answer_so_far = wire::AnswerSoFar{said, 0, {}};
    }
    auto prepared = std::make_shared<driver::Prepared>();
    prepared->request_id = id;
    prepared->turn = std::move(turn);
    prepared->prompts.push_back({text, prompt, {}});
    prepared->cache_salt = salt;
    prepared->priority = priority;
    prepared->deadline_ns = deadline_ns;
    return prepared;
  }
};

// Everything that a request's sink was told.
class Heard final : public driver::EventSink {
 public:
  struct Choice {
    std::string text;
    std::vector<int32_t> tokens;
    std::vector<wire::TokenLogprobs> logprobs;
    std::optional<wire::Finish> finish;
    std::optional<wire::PromptEcho> echo;
  };

  void OnEvent(wire::Event&& event) noexcept override {
    EXPECT_FALSE(ended()) << "an event after the end";
    if (auto* text = std::get_if<wire::TextDelta>(&event)) {
      Choice& choice = choices[text->choice];
      EXPECT_FALSE(choice.finish.has_value()) << "text after the finish";
      choice.text += text->text;
      choice.tokens.insert(choice.tokens.end(), text->tokens.begin(), text->tokens.end());
      choice.logprobs.insert(choice.logprobs.end(), text->logprobs.begin(), text->logprobs.end());
    } else if (auto* finish = std::get_if<wire::Finish>(&event)) {
      EXPECT_FALSE(choices[finish->choice].finish.has_value()) << "two finishes";
      choices[finish->choice].finish = *finish;
    } else if (auto* echo = std::get_if<wire::PromptEcho>(&event)) {
      EXPECT_FALSE(choices[echo->choice].echo.has_value()) << "two echoes";
      choices[echo->choice].echo = *echo;
    } else if (auto* told = std::get_if<wire::Started>(&event)) {
      started = *told;
    } else if (auto* report = std::get_if<wire::UsageReport>(&event)) {
      usage = report->usage;
    } else if (auto* failed = std::get_if<wire::Failed>(&event)) {
      error = failed->error;
    } else if (std::holds_alternative<wire::Done>(event)) {
      done = true;
    }
  }
  bool ended() const { return done || error.has_value(); }
  const Choice& choice(int32_t i = 0) const { return choices.at(i); }

  std::map<int32_t, Choice> choices;
  std::optional<wire::Started> started;
  wire::Usage usage;
  std::optional<Error> error;
  bool done = false;
};

// A driver that its test steps.
class TinyDriver {
 public:
  explicit TinyDriver(const EngineOptions& options = TinyOptions(),
                      const tensor::CpuOptions& cpu = {}, StepObserver* maybe_observer = nullptr)
      : TinyDriver(LoadTiny(options, cpu), maybe_observer) {}
  explicit TinyDriver(LoadedEngine engine, StepObserver* maybe_observer = nullptr)
      : driver_(std::move(engine), {.served_names = {"tiny"}, .maybe_observer = maybe_observer},
                clock_, random_, nullptr) {}

  NativeDriver& operator*() { return driver_; }
  NativeDriver* operator->() { return &driver_; }

  std::shared_ptr<Heard> Admit(const Ask& ask) {
    auto heard = std::make_shared<Heard>();
    const Status admitted = driver_.Admit(ask.Prepared(), heard);
    EXPECT_TRUE(admitted) << admitted.error().detail;
    return heard;
  }
  // Steps until it ended.
  void Finish(const Heard& heard) {
    for (int i = 0; i < 10'000 && !heard.ended(); ++i) {
      driver_.Step();
    }
    EXPECT_TRUE(heard.ended());
  }
  std::shared_ptr<Heard> Run(const Ask& ask) {
    auto heard = Admit(ask);
    Finish(*heard);
    return heard;
  }
  FakeClock& clock() { return clock_; }
  uint64_t free_blocks() const { return *driver_.Load().kv_blocks_free; }

 private:
  FakeClock clock_;
  FakeRandom random_;
  NativeDriver driver_;
};

// `count` tokens out of the first 256, another sequence for each seed.
inline std::vector<int32_t> Tokens(uint32_t count, uint32_t seed = 1) {
  std::vector<int32_t> tokens;
  uint32_t state = seed * 2654435761u + 1;
  for (uint32_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>(state >> 24));
  }
  return tokens;
}

}  // namespace fak::engine
