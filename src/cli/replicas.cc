#include "cli/replicas.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/printable.h"
#include "fleet/fleet_file.h"
#include "fleet/model_table.h"
#include "ride/upstream_driver.h"
#include "ride/upstream_spec.h"

namespace fak::cli {

Status CompleteReplica(driver::ReplicaSpec& spec) {
  if (spec.engine != driver::kNativeEngine) {
    if (spec.url.empty()) {
      return Fail(Code::kInvalidArgument, "is missing", "url");
    }
    TRY(ride::CompleteSpec(spec, spec.url));
    return ride::UpstreamDriver::Check(spec);
  }
  // Nothing reads them there.
  const std::pair<const char*, bool> kGiven[] = {{"name", !spec.name.empty()},
                                                 {"url", !spec.url.empty()},
                                                 {"api_key_file", !spec.api_key.empty()},
                                                 {"metrics_urls", !spec.metrics_urls.empty()},
                                                 {"weight", spec.weight != 1},
                                                 {"max_concurrency", spec.max_concurrency != 0}};
  for (const auto& [key, given] : kGiven) {
    if (given) {
      return Fail(Code::kInvalidArgument, "a model that is served here has none", key);
    }
  }
  if (!spec.options.object().empty()) {
    return Fail(Code::kInvalidArgument, "a model that is served here has none",
                spec.options.object().front().first);
  }
  spec.name = driver::kNativeEngine;
  return {};
}

namespace {

Error ModelsOfNobody(const ConfigTable& file) {
  return file.ErrorAt(fleet::kModelKey,
                      "is for upstreams; a model that is served here is called what "
                      "--served-model-name says");
}

Result<NamedReplicas> ReadFleet(const ConfigTable& file) {
  NamedReplicas named;
  TRY_ASSIGN(named.specs, fleet::ReadReplicas(file, CompleteReplica));
  TRY_ASSIGN(named.discoveries, fleet::ReadDiscoveries(file, CompleteReplica));
  TRY_ASSIGN(const fleet::ModelTable models, fleet::ModelTable::Read(file, std::nullopt));
  named.from_file = !named.specs.empty() || !named.discoveries.empty();
  if (!named.discoveries.empty() && !named.specs.empty() &&
      named.specs.front().engine == driver::kNativeEngine) {
    return Fail(file.ErrorAt(fleet::kDiscoverKey, "a native replica has to be the only one"));
  }
  if (!models.empty() && !named.specs.empty() &&
      named.specs.front().engine == driver::kNativeEngine) {
    return Fail(ModelsOfNobody(file));
  }
  return named;
}

}  // namespace

Result<NamedReplicas> NameReplicas(const UpstreamFlags& flags, const std::string& model,
                                   bool model_was_typed,
                                   const std::optional<ConfigTable>& maybe_file) {
  NamedReplicas named;
  if (maybe_file) {
    TRY_ASSIGN(named, ReadFleet(*maybe_file));
  }
  std::vector<driver::ReplicaSpec>& replicas = named.specs;
  const bool upstreams = !flags.upstreams.empty();
  if (named.from_file && (upstreams || model_was_typed)) {
    std::fprintf(stderr, "fak: the replicas of the TOML file are passed over: %s\n",
                 upstreams ? "--upstream, or FAK_UPSTREAM, names others" : "a model was named");
    named = {};
  }
  if (named.from_file && !model.empty()) {
    std::fprintf(stderr, "fak: the model %s is passed over: the TOML file names replicas\n",
                 Printable(model).c_str());
  }
  if (upstreams) {
    TRY_ASSIGN(replicas, UpstreamSpecs(flags));
  }
  if (replicas.empty() && !named.from_file) {
    if (maybe_file) {
      TRY_ASSIGN(const std::vector<ConfigTable> models, maybe_file->Tables(fleet::kModelKey));
      if (!models.empty()) {
        return Fail(ModelsOfNobody(*maybe_file));
      }
    }
    replicas.push_back({.name = std::string(driver::kNativeEngine),
                        .engine = std::string(driver::kNativeEngine),
                        .model = model});
  } else if (replicas.empty() || replicas.front().engine != driver::kNativeEngine) {
    TRY(ApplyUpstreamFlags(flags, replicas));
  }
  return named;
}

Status SetModels(const ConfigTable& file, const NamedReplicas& named, const std::string& source,
                 fleet::Membership& membership, fleet::FleetDriver& fleet) {
  // Whoever is found may list what nobody has so far.
  const auto known =
      named.discoveries.empty() ? membership.ModelsWith(source, named.specs) : std::nullopt;
  TRY_ASSIGN(fleet::ModelTable models, fleet::ModelTable::Read(file, known));
  fleet.SetModelTable(std::move(models));
  return {};
}

namespace {

Status Reread(const std::string& path, const UpstreamFlags& flags, const net::OwnAddress& own,
              fleet::FleetDriver& fleet, fleet::Membership& membership,
              fleet::Discoveries& discoveries) {
  TRY_ASSIGN(const ConfigTable file, ConfigTable::Load(path));
  TRY_ASSIGN(NamedReplicas named, ReadFleet(file));
  if (!named.from_file) {
    return Fail(Code::kInvalidArgument, path + ": it names no replica");
  }
  if (!named.specs.empty() && named.specs.front().engine == driver::kNativeEngine) {
    return Fail(Code::kInvalidArgument,
                path + ": a model can't be served here instead of upstreams without a restart");
  }
  TRY(ApplyUpstreamFlags(flags, named.specs));
  if (Status others = RefuseOwnAddress(named.specs, own, "url"); !others) {
    return Fail(Within(path, std::move(others).error()));
  }
  const std::shared_ptr<const fleet::ModelTable> before = fleet.model_table();
  TRY(SetModels(file, named, path, membership, fleet));
  auto changes = membership.Set(path, std::move(named.specs));
  if (!changes) {
    fleet.SetModelTable(*before);
    return Fail(std::move(changes).error());
  }
  discoveries.Set(std::move(named.discoveries));
  if (fleet.model_table()->entries() != before->entries()) {
    Log(LogLevel::kInfo, "{}: its models have changed", path);
  } else if (changes->empty()) {
    Log(LogLevel::kInfo, "{}: read again; the replicas are the same", path);
  }
  return {};
}

}  // namespace

void RereadFleetFile(const std::string& path, const UpstreamFlags& flags,
                     const net::OwnAddress& own, fleet::FleetDriver& fleet,
                     fleet::Membership& membership, fleet::Discoveries& discoveries) {
  if (const Status read = Reread(path, flags, own, fleet, membership, discoveries); !read) {
    membership.NoteFailure(path, read.error());
  }
}

void FileWatcher::Start(std::function<void()> on_change) {
  thread_ = std::thread([this, on_change = std::move(on_change)] { Run(on_change); });
}

void FileWatcher::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void FileWatcher::Ask() {
  const std::lock_guard lock(mutex_);
  asked_ = true;
  wake_.notify_all();
}

std::optional<std::string> FileWatcher::Read() const {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path_, error)) {
    return std::nullopt;  // a pipe would wait for its writer
  }
  auto bytes = ReadFile(path_, limits::kConfigBytesMax);
  return bytes ? std::optional(*std::move(bytes)) : std::nullopt;
}

void FileWatcher::Run(const std::function<void()>& on_change) {
  constexpr std::chrono::seconds kEvery{1};
  std::optional<std::string> known = Read();
  std::optional<std::string> before = known;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, kEvery, [this] { return stopping_ || asked_; });
    if (stopping_) {
      return;
    }
    const bool asked = std::exchange(asked_, false);
    lock.unlock();
    std::optional<std::string> now = Read();
    if (asked || (now && now == before && now != known)) {
      known = now;
      on_change();
    }
    before = std::move(now);
    lock.lock();
  }
}

}  // namespace fak::cli
