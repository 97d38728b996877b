#include "fleet/fleet_state.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/config.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/private_file.h"
#include "base/utf8.h"
#include "fleet/fleet_file.h"

namespace fak::fleet {
namespace {

// A JSON string is a TOML one.
std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(out, ReplaceInvalidUtf8(text));
  constexpr char kDelete = '\x7f';  // but for this, which TOML has escaped only
  for (size_t at; (at = out.find(kDelete)) != std::string::npos;) {
    out.replace(at, 1, "\\u007F");
  }
  return out;
}

template <class Texts>
std::string List(const Texts& texts) {
  std::string out = "[";
  for (const auto& text : texts) {
    out += (out.size() > 1 ? ", " : "") + Quoted(text);
  }
  return out + "]";
}

void WriteReplica(std::string& out, const driver::ReplicaSpec& spec) {
  const auto text = [&out](std::string_view key, const std::string& value) {
    if (!value.empty()) {
      out += fmt::format("{} = {}\n", key, Quoted(value));
    }
  };
  out += "\n[[replica]]\n";
  text("name", spec.name);
  text("engine", spec.engine);
  text("url", spec.url);
  text("model", spec.model);
  text("api-key", spec.api_key);
  out += fmt::format("weight = {}\n", Json(spec.weight).Dump());
  if (spec.max_concurrency > 0) {
    out += fmt::format("max-concurrency = {}\n", spec.max_concurrency);
  }
  if (!spec.metrics_urls.empty()) {
    out += "metrics-urls = " + List(spec.metrics_urls) + "\n";
  }
  for (const auto& [key, option] : kReplicaLists) {
    const Json* list = spec.options.is_object() ? spec.options.Find(option) : nullptr;
    if (list == nullptr || !list->is_array() || list->array().empty()) {
      continue;
    }
    std::vector<std::string> texts;
    for (const Json& each : list->array()) {
      texts.push_back(each.string());
    }
    out += fmt::format("{} = {}\n", key, List(texts));
  }
  for (const auto& [key, option] : kReplicaNumbers) {
    const Json* number = spec.options.is_object() ? spec.options.Find(option) : nullptr;
    if (number != nullptr) {
      out += fmt::format("{} = {}\n", key, number->Dump());
    }
  }
}

Result<std::set<std::string, std::less<>>> ReadNames(const ConfigTable& file,
                                                     std::string_view key) {
  TRY_ASSIGN(const auto names, file.Strings(key));
  std::set<std::string, std::less<>> all;
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    if (name.empty() || !all.insert(name).second) {
      return Fail(file.ErrorAt(key, name.empty() ? "a name is empty" : name + " is there twice"));
    }
  }
  if (all.size() > kFleetStateNamesMax) {
    return Fail(
        file.ErrorAt(key, "at most " + std::to_string(kFleetStateNamesMax) + " names are kept"));
  }
  return all;
}

}  // namespace

Result<FleetState> OpenFleetState(const std::string& path,
                                  FunctionRef<Status(driver::ReplicaSpec&)> complete) {
  FleetState state;
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) {
    TRY(WriteFleetState(path, state));
    return state;
  }
  TRY_ASSIGN(const ConfigTable file, ConfigTable::Load(path));
  TRY(file.RefuseUnknownKeys({kReplicaKey, "removed", "drained"}));
  const auto complete_ridden = [&complete](driver::ReplicaSpec& spec) -> Status {
    if (spec.engine == driver::kNativeEngine) {
      return Fail(Code::kInvalidArgument, "a model that is served here can't join others",
                  "engine");
    }
    return complete(spec);
  };
  TRY_ASSIGN(state.added, ReadReplicas(file, complete_ridden, KeysIn::kClear));
  TRY_ASSIGN(state.removed, ReadNames(file, "removed"));
  TRY_ASSIGN(state.drained, ReadNames(file, "drained"));
  return state;
}

Status WriteFleetState(const std::string& path, const FleetState& state) {
  if (state.removed.size() > kFleetStateNamesMax || state.drained.size() > kFleetStateNamesMax ||
      state.added.size() > limits::kUpstreamsMax) {
    return Fail(Code::kInvalidArgument, path + ": no more than " +
                                            std::to_string(kFleetStateNamesMax) +
                                            " removed or drained names are kept");
  }
  std::string out =
      "# What was changed with --persist, written by fak serve --fleet-state-file. May hold "
      "keys.\n";
  out += "removed = " + List(state.removed) + "\n";
  out += "drained = " + List(state.drained) + "\n";
  for (const driver::ReplicaSpec& spec : state.added) {
    WriteReplica(out, spec);
  }
  return WritePrivateFileAtomically(path, out);
}

}  // namespace fak::fleet
