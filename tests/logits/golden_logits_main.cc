// golden_logits check|check-gpu|bless FILE.digest tiny|MODEL
// Computes the digests of a real model (an alias, pulled if it isn't here, or a path) or of the
// tiny ones, on every instruction set of this machine, and compares them with the file's or writes
// them; check-gpu: on the first GPU, leaving out models of types that it refuses. What the file
// holds and when it may change: docs/formats/numerics.md.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/strings.h"
#include "base/test_folder.h"
#include "hub/store.h"
#include "tensor/spec/version.h"
#include "tests/logits/prompt_run.h"
#include "tests/tiny/tiny_model.h"
#include "text/tokenizer.h"

namespace fak::logits {
namespace {

struct Prompt {
  std::string_view name;
  uint32_t tokens;  // the first of the text's, BOS included
  std::string_view text;
};

constexpr std::string_view kProse = "The harbour master wrote that the ship had come in at dawn.";
constexpr std::string_view kCode =
    "int Sum(const int* values, int count) {\n  int sum = 0;\n  for (int i = 0; i < count; ++i) {\n"
    "    sum += values[i];\n  }\n  return sum;\n}\n";
constexpr std::string_view kScripts =
    "Une théière à 25 €, 茶の木は山に生える, чай и сахар, 🍵 × 3;  naïve façade -- \"quoted\" "
    "0x1F.\n"
    "In 1969 two people walked on the Moon, and 12,000 pages had been written about how.";
// Beyond a split of attention (256 positions) and every window of the tiny models.
constexpr std::string_view kPage =
    "A page that goes on: 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987 and so "
    "forth.\n"
    "for word in text.split(): counts[word] = counts.get(word, 0) + 1\n"
    "Fünf Boxkämpfer jagen Viktor quer über den großen Sylter Deich; θάλασσα, море, 海.\n"
    "The keeper of the lighthouse counted 41 ships before noon; seven of them carried tea, two "
    "salt,\n"
    "and none the letter that she had been waiting for since the second of March.\n"
    "{\"name\": \"harbour\", \"depth_m\": 12.5, \"open\": true, \"berths\": [3, 5, 8], \"crane\": "
    "null}\n"
    "Whoever reads this far has read more than five hundred bytes, which is what it is for.\n";

constexpr Prompt kPrompts[] = {
    {"prose", 5, kProse}, {"code", 17, kCode}, {"scripts", 40, kScripts}};
constexpr Prompt kLongPrompt = {"page", 300, kPage};

struct Model {
  std::string name;
  std::string path;
  bool long_prompt = false;
};

// A line of the file.
struct Entry {
  std::string model;
  std::string file;  // digest of the model file
  std::string prompt;
  int64_t tokens = 0;
  std::string ids;  // digests
  std::string logits;
  std::string kv;

  std::string Input() const { return model + " " + file + " " + prompt + " " + ids; }
  std::string Line() const {
    return model + " " + file + " " + prompt + " " + std::to_string(tokens) + " " + ids + " " +
           logits + " " + kv;
  }
};

struct Golden {
  int64_t numerics = 0;  // version
  std::vector<Entry> entries;
};

constexpr std::string_view kNumericsWord = "numerics ";

Result<Golden> ReadGolden(const std::string& path) {
  constexpr size_t kBytesMax = 1 << 20;
  TRY_ASSIGN(const std::string text, ReadFile(path, kBytesMax));
  Golden golden;
  for (const std::string_view line : Split(text, '\n')) {
    const std::vector<std::string_view> words = Split(line, ' ');
    const auto number = ParseInt(words.size() == 7 ? words[3] : words.back());
    if (line.starts_with(kNumericsWord) && number) {
      golden.numerics = *number;
    } else if (words.size() == 7 && number) {
      const auto word = [&words](size_t i) { return std::string(words[i]); };
      golden.entries.push_back({word(0), word(1), word(2), *number, word(4), word(5), word(6)});
    } else if (!line.empty()) {
      return Fail(Code::kDataCorrupt, path + ": no line of a digest file: " + std::string(line));
    }
  }
  return golden;
}

Status WriteGolden(const std::string& path, const std::vector<Entry>& entries) {
  std::string text = std::string(kNumericsWord) + std::to_string(tensor::kNumericsVersion) + "\n";
  for (const Entry& entry : entries) {
    text += entry.Line() + "\n";
  }
  return WriteFileAtomically(path, text);
}

// Piece by piece: a model file is larger than what should be in memory beside the model.
Result<std::string> DigestOfFile(const std::string& path) {
  TRY_ASSIGN(const RandomAccessFile file, RandomAccessFile::Open(path));
  std::vector<std::byte> piece(1 << 20);
  uint64_t digest = 0;
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), file.size() - at));
    TRY(file.ReadAt(at, piece));
    digest = Xxh3(BytesOf(std::span<const std::byte>(piece)), digest);
  }
  return ToHex(digest);
}

template <class T>
std::string DigestOf(const std::vector<T>& values) {
  return Xxh3Wide(BytesOf(std::span<const T>(values))).ToHex();
}

// on: all of a run but its length.
Result<std::vector<Entry>> EntriesOf(const Model& model, LoadOptions on) {
  std::vector<Prompt> prompts(std::begin(kPrompts), std::end(kPrompts));
  if (model.long_prompt) {
    prompts.push_back(kLongPrompt);
  }
  TRY_ASSIGN(const std::string file, DigestOfFile(model.path));
  on.tokens_max = prompts.back().tokens;
  TRY_ASSIGN(engine::LoadedEngine engine, Load(model.path, on));
  std::vector<Entry> entries;
  for (const Prompt& prompt : prompts) {
    std::vector<int32_t> ids = engine.card->tokenizer->Encode(prompt.text);
    CHECK(ids.size() >= prompt.tokens) << "the prompt " << prompt.name << " is too short";
    ids.resize(prompt.tokens);
    TRY_ASSIGN(const engine::Trace trace, RunPrompt(engine, ids, Rows::kLast));
    entries.push_back({model.name, file, std::string(prompt.name), prompt.tokens,
                       ToHex(Xxh3(BytesOf(std::span<const int32_t>(ids)))), DigestOf(trace.logits),
                       DigestOf(trace.kv)});
  }
  return entries;
}

// ---- the tiny models

struct TinyModel {
  std::string name;
  tiny::TinyOptions options;
};

// Every type, in a llama; every family, in what files of it are mostly stored in and in F32; every
// scaling of positions.
std::vector<TinyModel> TinyModels() {
  using tiny::Family;
  std::vector<TinyModel> models;
  const auto add = [&models](Family family, std::string_view type, std::string_view rope = "none") {
    TinyModel& model = models.emplace_back();
    model.options.family = family;
    model.options.mix = tiny::FindTypeMix(type).value();
    model.options.rope_scaling = tiny::FindRopeScaling(rope).value();
    model.name = "tiny-" + std::string(tiny::FamilyName(family)) + "-" + std::string(type) +
                 (rope == "none" ? "" : "-" + std::string(rope));
  };
  for (const tensor::DTypeInfo& type : tensor::AllDTypes()) {
    if (type.support == tensor::DTypeSupport::kComputed) {
      add(Family::kLlama, type.name);
    }
  }
  for (const Family family :
       {Family::kLlama, Family::kQwen2, Family::kQwen3, Family::kQwen3Moe, Family::kGemma3}) {
    add(family, "Q4_K_M");
    if (family != Family::kLlama) {
      add(family, "F32");
    }
  }
  for (const std::string_view rope : {"linear", "yarn", "llama3"}) {
    add(Family::kLlama, "Q8_0", rope);
  }
  return models;
}

Result<std::vector<Model>> WriteTinyModels(const TestFolder& folder) {
  std::vector<Model> models;
  for (const TinyModel& tiny : TinyModels()) {
    Model& model = models.emplace_back();
    model.name = tiny.name;
    model.path = folder.Path(tiny.name + ".gguf");
    model.long_prompt = tiny.options.mix.more_bits;
    TRY(tiny::WriteTinyModel(tiny.options, model.path));
  }
  return models;
}

// ---- check and bless

Result<std::vector<Model>> ModelsOf(const std::string& reference, const TestFolder& folder) {
  if (reference == "tiny") {
    return WriteTinyModels(folder);
  }
  hub::Store store(hub::CacheFolder());
  TRY_ASSIGN(const hub::Entry entry, store.Pull(reference, {}));
  return std::vector<Model>{{.name = reference, .path = entry.path()}};
}

Result<std::vector<Entry>> ComputeAll(const std::vector<Model>& models, tensor::Isa isa) {
  std::vector<Entry> all;
  for (const Model& model : models) {
    TRY_ASSIGN(const std::vector<Entry> entries, EntriesOf(model, {.isa = isa}));
    all.insert(all.end(), entries.begin(), entries.end());
  }
  return all;
}

// Prints what differs; whether nothing does.
bool Same(const std::vector<Entry>& expected, const std::vector<Entry>& actual,
          std::string_view isa) {
  size_t same = 0;
  for (size_t i = 0; i < std::max(expected.size(), actual.size()); ++i) {
    const std::string wanted = i < expected.size() ? expected[i].Line() : "nothing";
    const std::string found = i < actual.size() ? actual[i].Line() : "nothing";
    if (wanted == found) {
      ++same;
    } else {
      std::printf("%s DIFFERS\n  expected %s\n  computed %s\n", std::string(isa).c_str(),
                  wanted.c_str(), found.c_str());
    }
  }
  std::printf("%s: %zu of %zu digests as they should be\n", std::string(isa).c_str(), same,
              expected.size());
  return same == expected.size() && same == actual.size();
}

Result<bool> Check(const std::string& path, const std::vector<Model>& models) {
  TRY_ASSIGN(const Golden golden, ReadGolden(path));
  if (golden.numerics != tensor::kNumericsVersion) {
    return Fail(Code::kDataCorrupt, path + " has numerics " + std::to_string(golden.numerics) +
                                        ", this build computes " +
                                        std::to_string(tensor::kNumericsVersion));
  }
  bool same = true;
  for (const tensor::Isa isa : tensor::CpuIsas()) {
    TRY_ASSIGN(const std::vector<Entry> entries, ComputeAll(models, isa));
    same = Same(golden.entries, entries, tensor::IsaName(isa)) && same;
  }
  return same;
}

// Of the file's lines those whose models the GPU takes.
Result<bool> CheckGpu(const std::string& path, const std::vector<Model>& models) {
  TRY_ASSIGN(const Golden golden, ReadGolden(path));
  std::vector<Entry> expected;
  std::vector<Entry> actual;
  for (const Model& model : models) {
    Result<std::vector<Entry>> entries = EntriesOf(model, {.gpu = true});
    if (!entries && entries.error().code == Code::kUnsupported) {
      std::printf("gpu: %s left out: %s\n", model.name.c_str(), entries.error().detail.c_str());
      continue;
    }
    TRY(entries);
    actual.insert(actual.end(), entries->begin(), entries->end());
    std::ranges::copy_if(golden.entries, std::back_inserter(expected),
                         [&](const Entry& entry) { return entry.model == model.name; });
  }
  return !actual.empty() && Same(expected, actual, "gpu");
}

// The same model and ids with other results are other numerics, which must have another version.
Status MayReplace(const Golden& old, const std::vector<Entry>& entries) {
  if (old.numerics != tensor::kNumericsVersion) {
    return {};
  }
  std::map<std::string, std::string> lines;
  for (const Entry& entry : old.entries) {
    lines[entry.Input()] = entry.Line();
  }
  for (const Entry& entry : entries) {
    const auto found = lines.find(entry.Input());
    if (found != lines.end() && found->second != entry.Line()) {
      return Fail(Code::kAlreadyExists, "bits of " + entry.model + ", prompt " + entry.prompt +
                                            ", moved: raise kNumericsVersion " +
                                            "(src/tensor/spec/version.h), then bless");
    }
  }
  return {};
}

Result<bool> Bless(const std::string& path, const std::vector<Model>& models) {
  const std::vector<tensor::Isa> isas = tensor::CpuIsas();
  TRY_ASSIGN(const std::vector<Entry> entries, ComputeAll(models, isas.front()));
  for (const tensor::Isa isa : std::span(isas).subspan(1)) {
    TRY_ASSIGN(const std::vector<Entry> others, ComputeAll(models, isa));
    if (!Same(entries, others, tensor::IsaName(isa))) {
      return Fail(Code::kInternal, "instruction sets don't agree: nothing was written");
    }
  }
  if (std::filesystem::exists(path)) {
    TRY_ASSIGN(const Golden old, ReadGolden(path));
    TRY(MayReplace(old, entries));
  }
  TRY(WriteGolden(path, entries));
  return true;
}

Result<bool> Run(const std::vector<std::string>& words) {
  if (words.size() != 3 ||
      (words[0] != "check" && words[0] != "check-gpu" && words[0] != "bless")) {
    return Fail(Code::kInvalidArgument,
                "usage: golden_logits check|check-gpu|bless FILE.digest tiny|MODEL");
  }
  const TestFolder folder;
  TRY_ASSIGN(const std::vector<Model> models, ModelsOf(words[2], folder));
  return words[0] == "check"       ? Check(words[1], models)
         : words[0] == "check-gpu" ? CheckGpu(words[1], models)
                                   : Bless(words[1], models);
}

}  // namespace
}  // namespace fak::logits

int main(int argc, char** argv) {
  const fak::Result<bool> same = fak::logits::Run({argv + 1, argv + argc});
  if (!same) {
    std::fprintf(stderr, "golden_logits: %s\n", same.error().detail.c_str());
    return 1;
  }
  return *same ? 0 : 1;
}
