#include "fleet/model_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/hash.h"
#include "base/strings.h"
#include "fleet/router.h"

namespace fak::fleet {
namespace {

bool Contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

Result<std::string> ReadName(const ConfigTable& table, std::string_view key) {
  TRY_ASSIGN(std::optional<std::string> name, table.String(key));
  if (!name || name->empty()) {
    return Fail(table.ErrorAt(key, name ? "is empty" : "is missing"));
  }
  return *std::move(name);
}

Result<std::vector<ModelTable::Target>> ReadTargets(const ConfigTable& table) {
  TRY_ASSIGN(const std::vector<ConfigTable> rows, table.Tables("to"));
  std::vector<ModelTable::Target> targets;
  double sum = 0;
  for (const ConfigTable& row : rows) {
    TRY(row.RefuseUnknownKeys({"model", "weight"}));
    TRY_ASSIGN(std::string model, ReadName(row, "model"));
    TRY_ASSIGN(const std::optional<double> weight, row.Float("weight"));
    if (weight && !(*weight >= 0 && *weight <= kReplicaWeightMax)) {
      return Fail(row.ErrorAt("weight", "must be from 0 to 1000000"));
    }
    if (std::any_of(targets.begin(), targets.end(),
                    [&model](const auto& other) { return other.model == model; })) {
      return Fail(row.ErrorAt("model", model + " stands there twice"));
    }
    targets.push_back({std::move(model), weight.value_or(1)});
    sum += targets.back().weight;
  }
  if (targets.size() > kModelTargetsMax) {
    return Fail(
        table.ErrorAt("to", "at most " + std::to_string(kModelTargetsMax) + " models are taken"));
  }
  if (!targets.empty() && sum <= 0) {
    return Fail(table.ErrorAt("to", "a weight has to be above 0"));
  }
  return targets;
}

Result<ModelTable::Entry> ReadEntry(const ConfigTable& table) {
  TRY(table.RefuseUnknownKeys({"name", "to", "fallback"}));
  ModelTable::Entry entry;
  TRY_ASSIGN(entry.name, ReadName(table, "name"));
  TRY_ASSIGN(entry.to, ReadTargets(table));
  TRY_ASSIGN(auto fallback, table.Strings("fallback"));
  entry.fallback = std::move(fallback).value_or(std::vector<std::string>());
  if (entry.fallback.size() > kModelTargetsMax) {
    return Fail(table.ErrorAt("fallback",
                              "at most " + std::to_string(kModelTargetsMax) + " models are taken"));
  }
  if (entry.to.empty() && entry.fallback.empty()) {
    return Fail(table.ErrorAt("to", "is missing, and so is fallback: it changes nothing"));
  }
  if (Contains(entry.fallback, entry.name)) {
    return Fail(table.ErrorAt("fallback", entry.name + " can't stand in for itself"));
  }
  if (entry.to.empty()) {
    entry.to.push_back({entry.name, 1});
  }
  return entry;
}

// The way from an entry back to it, over others; empty: there is none.
class LoopFinder {
 public:
  explicit LoopFinder(const ModelTable& table) : table_(table) {}

  std::vector<std::string> From(const ModelTable::Entry& entry) {
    seen_.clear();
    std::vector<std::string> way = {entry.name};
    return Follow(entry, entry.name, way) ? way : std::vector<std::string>();
  }

 private:
  // Depth: the entries, each once.
  bool Follow(const ModelTable::Entry& entry, const std::string& home,
              std::vector<std::string>& way) {
    std::vector<std::string> next = entry.fallback;
    for (const ModelTable::Target& target : entry.to) {
      if (target.model != entry.name) {
        next.push_back(target.model);
      }
    }
    for (const std::string& name : next) {
      const ModelTable::Entry* maybe_entry = table_.Find(name);
      if (maybe_entry == nullptr || (name != home && Contains(seen_, name))) {
        continue;
      }
      way.push_back(name);
      seen_.push_back(name);
      if (name == home || Follow(*maybe_entry, home, way)) {
        return true;
      }
      way.pop_back();
    }
    return false;
  }

  const ModelTable& table_;
  std::vector<std::string> seen_;
};

// Of an entry, whether each model can be had.
Status CheckKnown(const ConfigTable& table, const ModelTable::Entry& entry, const ModelTable& all,
                  const std::vector<std::string>& known) {
  const auto unknown = [&](const std::string& model) {
    const bool is_entry = model != entry.name && all.Find(model) != nullptr;
    return !is_entry && !Contains(known, model);
  };
  const std::string lists = "; upstreams list " + (known.empty() ? "none" : Join(known, ", "));
  TRY_ASSIGN(const std::vector<ConfigTable> rows, table.Tables("to"));
  if (rows.empty() && unknown(entry.name)) {
    return Fail(table.ErrorAt(
        "name", "there is no model " + entry.name + ", and no `to` says what it means" + lists));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (unknown(entry.to[i].model)) {
      return Fail(rows[i].ErrorAt("model", "there is no model " + entry.to[i].model + lists));
    }
  }
  for (const std::string& model : entry.fallback) {
    if (unknown(model)) {
      return Fail(table.ErrorAt("fallback", "there is no model " + model + lists));
    }
  }
  return {};
}

// Of a conversation's numbers, one for each target, the highest decides (weighted rendezvous
// hashing, as the policy `session` has it).
const std::string& Choose(const std::vector<ModelTable::Target>& to, uint64_t conversation) {
  const std::string* best = &to.front().model;
  double best_score = -1;
  for (const ModelTable::Target& target : to) {
    const uint64_t hash = Xxh3(target.model, conversation);
    const double unit = (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53;  // in (0, 1)
    const double score = target.weight > 0 ? target.weight / -std::log(unit) : -1;
    if (score > best_score) {
      best_score = score;
      best = &target.model;
    }
  }
  return *best;
}

}  // namespace

Result<ModelTable> ModelTable::Read(const ConfigTable& file,
                                    const std::optional<std::vector<std::string>>& maybe_known) {
  TRY_ASSIGN(const std::vector<ConfigTable> tables, file.Tables(kModelKey));
  if (tables.size() > kModelEntriesMax) {
    return Fail(tables[kModelEntriesMax].ErrorAt(
        "", "at most " + std::to_string(kModelEntriesMax) + " models"));
  }
  ModelTable all;
  for (const ConfigTable& table : tables) {
    TRY_ASSIGN(Entry entry, ReadEntry(table));
    if (all.Find(entry.name) != nullptr) {
      return Fail(table.ErrorAt("name", "another model is called " + entry.name + " already"));
    }
    all.entries_.push_back(std::move(entry));
  }
  LoopFinder loops(all);
  for (size_t i = 0; i < tables.size(); ++i) {
    if (const auto way = loops.From(all.entries_[i]); !way.empty()) {
      const bool by_fallback = Contains(all.entries_[i].fallback, way[1]);
      return Fail(tables[i].ErrorAt(by_fallback ? "fallback" : "to",
                                    "leads back to itself: " + Join(way, ", then ")));
    }
    if (maybe_known) {
      TRY(CheckKnown(tables[i], all.entries_[i], all, *maybe_known));
    }
  }
  return all;
}

const ModelTable::Entry* ModelTable::Find(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [name](const Entry& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

std::vector<std::string> ModelTable::PlanFor(std::string_view name, uint64_t conversation) const {
  std::vector<std::string> expanded;
  std::vector<std::string> plan;
  Expand(std::string(name), conversation, expanded, plan);
  return plan;
}

std::vector<std::string> ModelTable::TargetsOf(const std::string& name) const {
  std::vector<std::string> all;
  std::vector<std::string> ahead = {name};
  for (size_t i = 0; i < ahead.size(); ++i) {  // it grows
    const std::string model = ahead[i];
    const Entry* maybe_entry = Find(model);
    std::vector<Target> to =
        maybe_entry == nullptr ? std::vector<Target>{{model, 1}} : maybe_entry->to;
    std::stable_sort(to.begin(), to.end(),
                     [](const Target& a, const Target& b) { return a.weight > b.weight; });
    for (const Target& target : to) {
      const bool ends = target.model == model || Find(target.model) == nullptr;
      std::vector<std::string>& list = ends ? all : ahead;
      if (!Contains(list, target.model)) {
        list.push_back(target.model);
      }
    }
  }
  return all;
}

// Entries don't lead back to themselves, and each is expanded once.
void ModelTable::Expand(const std::string& name, uint64_t conversation,
                        std::vector<std::string>& expanded, std::vector<std::string>& plan) const {
  const auto add = [&plan](const std::string& model) {
    if (plan.size() < kModelsOfRequestMax && !Contains(plan, model)) {
      plan.push_back(model);
    }
  };
  const Entry* entry = Find(name);
  if (entry == nullptr) {
    add(name);
    return;
  }
  if (Contains(expanded, name)) {
    return;
  }
  expanded.push_back(name);
  const std::string& chosen = Choose(entry->to, Xxh3(entry->name, conversation));
  if (chosen == name) {
    add(name);
  } else {
    Expand(chosen, conversation, expanded, plan);
  }
  for (const std::string& model : entry->fallback) {
    Expand(model, conversation, expanded, plan);
  }
}

}  // namespace fak::fleet
