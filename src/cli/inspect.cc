#include "cli/inspect.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/json.h"
#include "base/printable.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "cli/engine_flags.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "model/card.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace fak::cli {
namespace {

struct InspectFlags {
  EngineFlags engine;
  bool tensors = false;
  bool json = false;
  bool quick = false;
};

struct TypeSum {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

// What was found out about a file; the parts that failed say why.
struct Findings {
  std::unique_ptr<tensor::GgufFile> file;
  Result<model::ModelShape> shape = Fail(Code::kInternal, "");
  Result<std::shared_ptr<const text::ModelCard>> card = Fail(Code::kInternal, "");
  Result<engine::MemoryPlan> plan = Fail(Code::kInternal, "");
  std::map<std::string, TypeSum> types;
  bool weights_checked = false;
  Status weights = {};  // once they are

  const Error* WhyNot() const {
    return !shape     ? &shape.error()
           : !card    ? &card.error()
           : !plan    ? &plan.error()
           : !weights ? &weights.error()
                      : nullptr;
  }
};

Status CheckWeights(const model::ModelFile& file) {
  ProgressBar bar;
  return file.CheckWeights(
      [&bar](uint64_t done, uint64_t total) { bar.Show("checking weights", done, total); });
}

Result<Findings> Look(const InspectFlags& flags) {
  TRY_ASSIGN(const ResolvedModel model, ResolveModel(flags.engine.model));
  Findings found;
  TRY_ASSIGN(found.file, tensor::GgufFile::Open(model.path));
  for (const tensor::GgufTensor& tensor : found.file->tensors()) {
    TypeSum& sum = found.types[std::string(tensor::DTypeName(tensor.type))];
    ++sum.tensors;
    sum.bytes += tensor.bytes;
  }
  found.shape = model::ReadShape(*found.file);
  TRY_ASSIGN(const std::unique_ptr<tensor::Backend> backend, flags.engine.MakeBackend());
  TRY_ASSIGN(const engine::EngineOptions options, flags.engine.Options());
  found.card = model::MakeCard(*found.file, options.chat_template_source);
  if (found.shape) {
    TRY_ASSIGN(const auto opened, model::ModelFile::Open(model.path));
    found.plan = engine::PlanMemory(*opened, *backend, options);
    found.weights_checked = !flags.quick && found.WhyNot() == nullptr;
    if (found.weights_checked) {
      found.weights = CheckWeights(*opened);
    }
  }
  return found;
}

// How positions are stretched: "none", "linear", "yarn", or "llama3", which is a tensor of factors.
std::string RopeScalingName(const Findings& found) {
  std::string name;
  switch (found.shape->rope.scaling) {
    case model::RopeScaling::kNone: break;
    case model::RopeScaling::kLinear: name = "linear"; break;
    case model::RopeScaling::kYarn: name = "yarn"; break;
  }
  if (found.file->FindTensor("rope_freqs.weight") != nullptr) {
    name += name.empty() ? "llama3" : " and llama3";
  }
  return name.empty() ? "none" : name;
}

// "yarn scaling by 4 from 512 tokens", and the like; empty: none.
std::string RopeScalingText(const Findings& found) {
  const model::RopeShape& rope = found.shape->rope;
  const std::string name = RopeScalingName(found);
  if (name == "none") {
    return "";
  }
  return "; " + name + " scaling" +
         (rope.scaling == model::RopeScaling::kNone ? "" : fmt::format(" by {:g}", rope.factor)) +
         (rope.scaling == model::RopeScaling::kYarn
              ? fmt::format(" from {:.0f} tokens", rope.original_context)
              : "");
}

void PrintShape(const Findings& found) {
  const model::ModelShape& shape = *found.shape;
  const model::LayerShape& first = shape.layers.front();
  const auto windowed = std::count_if(shape.layers.begin(), shape.layers.end(),
                                      [](const auto& layer) { return layer.window != 0; });
  std::printf("architecture   %s, %zu layers, width %u, %u query and %u KV heads of %u\n",
              Printable(shape.architecture).c_str(), shape.layers.size(), shape.width,
              first.heads.q_heads, first.heads.kv_heads, first.heads.dim);
  if (shape.experts != 0) {
    std::printf("experts        %u, %u a token, width %u\n", shape.experts, shape.experts_used,
                shape.expert_feed_forward);
  } else {
    std::printf("feed forward   %u\n", first.feed_forward);
  }
  std::printf("context        %u tokens", shape.context);
  if (windowed > 0) {
    std::printf("; %ld of %zu layers see a window of %u", static_cast<long>(windowed),
                shape.layers.size(), shape.layers.front().window);
  }
  std::printf("\nrope           base %.0f, %u dims%s", shape.rope.base, shape.rope.dims,
              RopeScalingText(found).c_str());
  if (windowed > 0) {
    std::printf("; base %.0f where there is a window", shape.rope_local.base);
  }
  std::printf("\n");
}

// A text of the metadata; empty when it isn't there.
std::string MetadataText(const tensor::GgufFile& file, std::string_view key) {
  return tensor::PrintableName(file.GetString(key, "").value_or(""));
}

// "gpt2 smollm": the tokenizer and, for byte-level ones, its pre-tokenizer.
std::string TokenizerKind(const tensor::GgufFile& file) {
  const std::string pre = MetadataText(file, "tokenizer.ggml.pre");
  return MetadataText(file, "tokenizer.ggml.model") + (pre.empty() ? "" : " " + pre);
}

std::string TemplateText(const text::ModelCard& card) {
  if (card.maybe_chat_template == nullptr) {
    return "none: completes text";
  }
  return std::to_string(card.maybe_chat_template->source().size()) + " bytes" +
         (card.maybe_chat_template->readable() ? "" : " that can't be read");
}

void PrintTable(const Findings& found, const InspectFlags& flags) {
  std::printf("file           %s, GGUF v%u, %s in %zu part%s\n",
              Printable(found.file->part_path(0)).c_str(), found.file->version(),
              FormatBytes(found.file->file_bytes()).c_str(), found.file->parts(),
              found.file->parts() == 1 ? "" : "s");
  if (found.shape) {
    PrintShape(found);
  }
  if (found.card) {
    const text::ModelCard& card = **found.card;
    std::printf("parameters     %.1f M\n", static_cast<double>(card.parameters) / 1e6);
    std::printf("tokenizer      %s, %d tokens, BOS %s, EOS %s\n",
                TokenizerKind(*found.file).c_str(), card.tokenizer->vocab_size(),
                card.bos_token.empty() ? "none" : Printable(card.bos_token).c_str(),
                card.eos_token.empty() ? "none" : Printable(card.eos_token).c_str());
    std::printf("chat template  %s\n", TemplateText(card).c_str());
    for (const std::string& note : card.notes) {
      std::printf("note           %s\n", Printable(note).c_str());
    }
  }
  std::printf("types         ");
  for (const auto& [name, sum] : found.types) {
    std::printf(" %s %llu (%s)", name.c_str(), static_cast<unsigned long long>(sum.tensors),
                FormatBytes(sum.bytes).c_str());
  }
  std::printf("\n");
  if (found.plan) {
    const engine::MemoryPlan& plan = *found.plan;
    std::printf("memory         weights %s, workspace %s, KV %s a token\n",
                FormatBytes(plan.weights).c_str(), FormatBytes(plan.workspace).c_str(),
                FormatBytes(plan.kv_bytes_a_token).c_str());
    std::printf("here           context %u, KV %s, of %s available\n", plan.context,
                FormatBytes(plan.kv).c_str(), FormatBytes(plan.available).c_str());
  }
  const Error* why_not = found.WhyNot();
  std::printf("runnable       %s\n",
              why_not != nullptr      ? ("no: " + Printable(why_not->detail)).c_str()
              : found.weights_checked ? "yes"
                                      : "yes by its head; a load checks the weights too");
  if (flags.tensors) {
    for (const tensor::GgufTensor& tensor : found.file->tensors()) {
      std::printf("  %-36s %-6s %lld x %lld\n", tensor::PrintableName(tensor.name).c_str(),
                  std::string(tensor::DTypeName(tensor.type)).c_str(),
                  static_cast<long long>(tensor.shape[0]), static_cast<long long>(tensor.rows()));
    }
  }
}

void WriteShape(JsonWriter& json, const Findings& found) {
  const model::ModelShape& shape = *found.shape;
  const model::LayerShape& first = shape.layers.front();
  json.Key("architecture").String(shape.architecture);
  json.Key("layers").Uint(shape.layers.size()).Key("width").Uint(shape.width);
  json.Key("query_heads").Uint(first.heads.q_heads).Key("kv_heads").Uint(first.heads.kv_heads);
  json.Key("head_dim").Uint(first.heads.dim).Key("context").Uint(shape.context);
  json.Key("window").Uint(first.window).Key("rope_base").Double(shape.rope.base);
  json.Key("rope_scaling").BeginObject().Key("type").String(RopeScalingName(found));
  json.Key("factor").Double(shape.rope.factor);
  json.Key("original_context").Uint(static_cast<uint64_t>(shape.rope.original_context)).EndObject();
  json.Key("vocabulary").Uint(shape.vocabulary).Key("experts").Uint(shape.experts);
  json.Key("feed_forward")
      .Uint(shape.experts != 0 ? shape.expert_feed_forward : first.feed_forward);
}

void PrintJson(const Findings& found, const InspectFlags& flags) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("file").String(ReplaceInvalidUtf8(found.file->part_path(0)));
  json.Key("bytes").Uint(found.file->file_bytes()).Key("parts").Uint(found.file->parts());
  json.Key("gguf_version").Uint(found.file->version());
  if (found.shape) {
    WriteShape(json, found);
  }
  if (found.card) {
    json.Key("name").String((*found.card)->name);
    json.Key("parameters").Uint((*found.card)->parameters);
    const auto& maybe_template = (*found.card)->maybe_chat_template;
    json.Key("chat_template").Bool(maybe_template != nullptr && maybe_template->readable());
    json.Key("tokenizer").BeginObject();
    json.Key("model").String(MetadataText(*found.file, "tokenizer.ggml.model"));
    json.Key("pre").String(MetadataText(*found.file, "tokenizer.ggml.pre"));
    json.Key("tokens").Int((*found.card)->tokenizer->vocab_size());
    json.Key("bos").String(ReplaceInvalidUtf8((*found.card)->bos_token));
    json.Key("eos").String(ReplaceInvalidUtf8((*found.card)->eos_token)).EndObject();
    json.Key("notes").BeginArray();
    for (const std::string& note : (*found.card)->notes) {
      json.String(ReplaceInvalidUtf8(note));
    }
    json.EndArray();
  }
  json.Key("types").BeginObject();
  for (const auto& [name, sum] : found.types) {
    json.Key(name).BeginObject().Key("tensors").Uint(sum.tensors).Key("bytes").Uint(sum.bytes);
    json.EndObject();
  }
  json.EndObject();
  if (found.plan) {
    json.Key("memory").BeginObject().Key("weights").Uint(found.plan->weights);
    json.Key("workspace").Uint(found.plan->workspace).Key("kv").Uint(found.plan->kv);
    json.Key("kv_bytes_a_token").Uint(found.plan->kv_bytes_a_token);
    json.Key("context").Uint(found.plan->context);
    json.Key("available").Uint(found.plan->available).EndObject();
  }
  const Error* why_not = found.WhyNot();
  json.Key("runnable").Bool(why_not == nullptr);
  json.Key("weights_checked").Bool(found.weights_checked);
  if (why_not != nullptr) {
    json.Key("why_not").String(ReplaceInvalidUtf8(why_not->detail));
  }
  if (flags.tensors) {
    json.Key("tensors").BeginArray();
    for (const tensor::GgufTensor& tensor : found.file->tensors()) {
      json.BeginObject().Key("name").String(tensor::PrintableName(tensor.name));
      json.Key("type").String(tensor::DTypeName(tensor.type)).Key("shape").BeginArray();
      for (int i = 0; i < tensor.dims; ++i) {
        json.Int(tensor.shape[static_cast<size_t>(i)]);
      }
      json.EndArray().EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
  std::printf("%s\n", out.c_str());
}

}  // namespace

Status CheckRunnable(const std::string& path) {
  InspectFlags flags;
  flags.engine.model = path;
  TRY_ASSIGN(const Findings found, Look(flags));
  const Error* why_not = found.WhyNot();
  return why_not == nullptr ? Status() : Status(Fail(*why_not));
}

std::function<ExitStatus()> AddInspect(Program& program) {
  CLI::App* verb = program.app.add_subcommand(
      "inspect", "What a model file holds, what it needs here, whether it can run");
  const auto flags = std::make_shared<InspectFlags>();
  AddModel(*verb, flags->engine.model);
  flags->engine.AddChatTemplate(*verb);
  flags->engine.AddSequences(*verb);
  flags->engine.AddStepRows(*verb);
  flags->engine.AddMemory(*verb);
  flags->engine.AddMachine(*verb);
  verb->add_flag("--tensors", flags->tensors, "List every tensor");
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->add_flag("--quick", flags->quick,
                 "Read the head only, and leave it to a load to refuse weights that aren't finite");
  verb->footer(
      "A file whose head is in order is read whole, as a load does, so that \"runnable\" holds "
      "for\n"
      "its weights too.\n"
      "Example:\n  fak inspect smollm2 --json");
  return [flags]() -> ExitStatus {
    const Result<Findings> found = Look(*flags);
    if (!found) {
      return PrintError(found.error());
    }
    flags->json ? PrintJson(*found, *flags) : PrintTable(*found, *flags);
    return 0;
  };
}

}  // namespace fak::cli
