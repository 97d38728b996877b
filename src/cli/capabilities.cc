#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

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
  std::string_view proof;  // a command that shows it, from a checkout; empty for a gap
  std::string_view note;   // what it lacks, or covers; may be empty
};

// The registry: what the program can do, and the command that proves it, from a checkout. README.md
// has the table as it is printed; tests/readme.py holds the two together.
constexpr std::array kCapabilities = {
    Capability{"native engine on the CPU", State::kShipped, "fak run \"Say hello\"",
               "llama, qwen2, qwen3, qwen3moe, gemma3; scalar, AVX2, AVX-512"},
    Capability{"same bits whatever the path", State::kShipped, "fak verify smollm2 --quick", ""},
    Capability{"continuous batching, paged KV, prefix cache", State::kShipped,
               "ctest -R 'unit.(engine|kv)'", ""},
    Capability{"sampling and log probabilities", State::kShipped, "ctest -R unit.tensor", ""},
    Capability{"OpenAI chat, completions, models", State::kShipped, "ctest -R sdk", ""},
    Capability{"keys, tenants, TLS", State::kShipped, "ctest -R 'unit.(gateway|net)'", ""},
    Capability{"models by alias and pypi:", State::kShipped, "fak pull smollm2", ""},
    Capability{"speed of a model, beside llama.cpp", State::kShipped,
               "fak bench model smollm2 -p 128 -n 32", ""},
    Capability{"what this machine gives, a model's share", State::kShipped,
               "fak bench roofline smollm2", "read bandwidth, int8 dot and fp32 FMA of each ISA"},
    Capability{"time and memory to the first token", State::kShipped, "fak bench load smollm2",
               "cold and warm page cache; on Linux"},
    Capability{"what spoils a measurement here", State::kShipped, "fak bench doctor", ""},
    Capability{"load on servers, side by side", State::kPartial,
               "fak bench serve --target http://127.0.0.1:8000 -n 8 --output-len 16",
               "synthetic loads, traces, sweeps, comparisons; no receipts and HTML reports yet"},
    Capability{
        "fleet: routing, health, failover", State::kPartial, "ctest -R '(unit|http).fleet'",
        "replicas by flags, a fleet file, DNS, etcd, Kubernetes (a stand-in of it), fak fleet add; "
        "names, shares and stand-ins of models"},
    Capability{"routing policies beside SGLang's", State::kShipped,
               "fak bench route --trace tests/sim/traces/mooncake_1000.jsonl",
               "a simulated fleet, the routing code of production"},
    Capability{"perplexity", State::kShipped, "fak perplexity smollm2 LICENSE --window 128", ""},
    Capability{"in front of another fak", State::kPartial, "ctest -R http.fleet",
               "several upstreams, by flags or a fleet file"},
    Capability{"in front of vLLM, llama.cpp, Dynamo, mlx-lm", State::kPartial,
               "tests/real/run llama.cpp",
               "real servers on a CPU; what each lacks: docs/engines.md"},
    Capability{"in front of other engines", State::kStandInOnly, "ctest -R unit.ride",
               "SGLang, llm-d, vllm-mlx, OpenAI, Anthropic: as recorded, or by their documents"},
    Capability{"Anthropic and Responses wires", State::kPartial, "ctest -R 'unit.(wire|ride)'",
               "passed on to engines that serve them; not translated, not native"},
    Capability{"one metrics schema for all engines", State::kPartial,
               "ctest -R 'unit.(metrics|ride)'",
               "read from real vLLM, llama.cpp, Dynamo and fak; of others from texts as recorded"},
    Capability{"KV events, published and read", State::kPartial, "ctest -R 'kv_events|unit.ride'",
               "from real vLLM and fak; SGLang's shapes are stand-in only"},
    Capability{"NEON kernels", State::kStandInOnly, "tools/neon-test",
               "the scalar kernels' bits and all golden digests, under qemu-user only"},
    Capability{"models by hf: and https:", State::kStandInOnly, "ctest -R 'unit.hub|cli.models'",
               "resume, checksums, split models, tokens; no real hub was reachable yet"},
    Capability{
        "recurrent state beside KV", State::kSeamOnly, "ctest -R unit.tensor",
        "no layer keeps one over a step yet: memory for it, per sequence, that can be copied"},
    Capability{"CUDA", State::kPartial, "tools/gpu/check",
               "the CPU's bits on one H200 (sm_90); simple kernels, eleven types; not fast yet"},
    Capability{"tools and structured output", State::kPartial, "ctest -R 'unit.(text|gateway)'",
               "read natively as Hermes and Qwen write calls; no required calls, no grammars yet"},
};

// A note stands on a line of its own, so that the table is no wider than a terminal.
void PrintTable() {
  const auto column = [](std::string_view text, size_t width) {
    std::string padded(text);
    padded.resize(std::max(width, text.size()), ' ');
    return padded;
  };
  std::string out = column("CAPABILITY", 44) + column("STATE", 15) + "SHOWN BY\n";
  for (const Capability& capability : kCapabilities) {
    std::string line = column(capability.name, 44) + column(StateName(capability.state), 15);
    line += capability.proof;
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (!capability.note.empty()) {
      out += "  (" + std::string(capability.note) + ")\n";
    }
  }
  std::fputs(out.c_str(), stdout);
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

std::function<ExitStatus()> AddCapabilities(Program& program) {
  CLI::App* verb = program.app.add_subcommand(
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
