#include "fleet/membership.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "base/strings.h"

namespace fak::fleet {
namespace {

template <class List>
auto FindNamed(List& list, std::string_view name) {
  return std::find_if(list.begin(), list.end(),
                      [name](const driver::ReplicaSpec& each) { return each.name == name; });
}

}  // namespace

bool IsSameEngine(const driver::ReplicaSpec& a, const driver::ReplicaSpec& b) {
  return a.engine == b.engine && a.url == b.url && a.model == b.model && a.api_key == b.api_key &&
         a.metrics_urls == b.metrics_urls && a.options == b.options;
}

Membership::Membership(FleetDriver& fleet, driver::DriverFactory& factory, Options options,
                       std::string source, std::vector<driver::ReplicaSpec> present)
    : fleet_(fleet), factory_(factory), options_(std::move(options)) {
  for (const driver::ReplicaSpec& spec : present) {
    present_.push_back({spec, source});
  }
  heard_.push_back({source, present.size(), 1, ""});
  said_.sources.emplace_back(std::move(source), std::move(present));
}

Membership::SourceStatus& Membership::Heard(std::string_view source) {
  const auto found = std::find_if(heard_.begin(), heard_.end(),
                                  [source](const auto& each) { return each.name == source; });
  return found != heard_.end() ? *found
                               : heard_.emplace_back(SourceStatus{.name = std::string(source)});
}

void Membership::NoteFailure(std::string_view source, const Error& error) {
  const std::lock_guard lock(heard_mutex_);
  SourceStatus& heard = Heard(source);
  if (heard.error != error.detail) {
    Log(LogLevel::kWarning, "{}: the fleet stays as it was: {}", source, error.detail);
  }
  ++heard.updates;
  heard.error = error.detail;
}

void Membership::Doubt(std::string_view source, std::string_view name, std::string why) {
  const std::lock_guard lock(mutex_);
  const bool its = std::any_of(present_.begin(), present_.end(), [&](const Wanted& each) {
    return each.spec.name == name && each.source == source;
  });
  if (its) {
    fleet_.SetDoubt(name, std::move(why));
  }
}

void Membership::Forget(std::string_view source) {
  const std::lock_guard lock(mutex_);
  Said said = said_;
  std::erase_if(said.sources, [source](const auto& each) { return each.first == source; });
  if (const auto changes = Apply(std::move(said)); !changes) {
    Log(LogLevel::kWarning, "{}: what it had can't leave: {}", source, changes.error().detail);
  }
  const std::lock_guard heard_lock(heard_mutex_);
  std::erase_if(heard_, [source](const SourceStatus& each) { return each.name == source; });
}

std::vector<Membership::SourceStatus> Membership::Sources() const {
  const std::lock_guard lock(heard_mutex_);
  return heard_;
}

Result<Membership::Changes> Membership::Set(std::string_view source,
                                            std::vector<driver::ReplicaSpec> replicas) {
  const std::lock_guard lock(mutex_);
  const size_t count = replicas.size();
  Said said = said_;
  Replace(said, source, std::move(replicas));
  TRY_ASSIGN(Changes changes, Apply(std::move(said)));
  const std::lock_guard heard_lock(heard_mutex_);
  SourceStatus& heard = Heard(source);
  heard = {std::move(heard.name), count, heard.updates + 1, ""};
  return changes;
}

void Membership::Replace(Said& said, std::string_view source,
                         std::vector<driver::ReplicaSpec> replicas) {
  const auto found = std::find_if(said.sources.begin(), said.sources.end(),
                                  [source](const auto& each) { return each.first == source; });
  if (found != said.sources.end()) {
    found->second = std::move(replicas);
  } else {
    said.sources.emplace_back(source, std::move(replicas));
  }
}

std::optional<std::vector<std::string>> Membership::ModelsWith(
    std::string_view source, std::vector<driver::ReplicaSpec> replicas) {
  const std::lock_guard lock(mutex_);
  Said said = said_;
  Replace(said, source, std::move(replicas));
  const std::vector<Wanted> wanted = Merged(said);
  const std::vector<ReplicaStatus> there = fleet_.Describe().replicas;
  std::vector<std::string> all;
  for (const Wanted& each : wanted) {
    if (wanted.size() == 1 && !each.spec.model.empty()) {
      return std::nullopt;  // it is asked for its own, whatever the name
    }
    const bool stays = std::any_of(present_.begin(), present_.end(), [&each](const Wanted& old) {
      return old.spec.name == each.spec.name && IsSameEngine(old.spec, each.spec);
    });
    const auto its = std::find_if(there.begin(), there.end(), [&](const ReplicaStatus& status) {
      return stays && !status.leaving && status.name == each.spec.name;
    });
    std::vector<std::string> models = its != there.end()   ? its->models
                                      : options_.models_of ? options_.models_of(each.spec)
                                                           : std::vector<std::string>();
    if (models.empty()) {
      return std::nullopt;
    }
    all.insert(all.end(), models.begin(), models.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return wanted.empty() ? std::nullopt : std::optional(std::move(all));
}

Status Membership::KeepIn(std::string path, FleetState state) {
  const std::lock_guard lock(mutex_);
  state_path_ = std::move(path);
  come_drained_ = state.drained;
  Said said = said_;
  for (driver::ReplicaSpec replica : state.added) {
    TRY(options_.complete(replica));
    said.added.push_back(std::move(replica));
  }
  said.removed.insert(state.removed.begin(), state.removed.end());
  state_ = std::move(state);
  TRY(Apply(std::move(said)));
  for (const Wanted& each : present_) {
    if (come_drained_.contains(each.spec.name)) {
      TRY(fleet_.DrainReplica(each.spec.name));
    }
  }
  return {};
}

Status Membership::Keep(Lasting lasting, FleetState next, FunctionRef<Status()> change) {
  if (lasting == Lasting::kProcess) {
    return change();
  }
  if (state_path_.empty()) {
    return Fail(Code::kUnsupported,
                "persist: this server has no file to keep it in: start it with --fleet-state-file "
                "FILE",
                "persist");
  }
  if (const Status written = WriteFleetState(state_path_, next); !written) {
    return Fail(Code::kIoError,
                "persist: nothing was changed, for it can't be kept: " + written.error().detail);
  }
  if (Status changed = change(); !changed) {
    if (const Status back = WriteFleetState(state_path_, state_); !back) {
      Log(LogLevel::kError, "{}: what didn't come about stands there: {}", state_path_,
          back.error().detail);
    }
    return changed;
  }
  state_ = std::move(next);
  return {};
}

Error Membership::NobodyIs(std::string_view name) const {
  std::vector<std::string> names;
  for (const Wanted& each : present_) {
    names.push_back(each.spec.name);
  }
  return {Code::kNotFound,
          "no upstream has the name " + std::string(name) +
              "; there are: " + (names.empty() ? "none" : Join(names, ", ")),
          "name"};
}

Result<std::string> Membership::Add(driver::ReplicaSpec replica, Lasting lasting) {
  driver::ReplicaSpec given = replica;  // the flags of all are added at each start
  TRY(options_.complete(replica));
  given.name = replica.name;
  const std::lock_guard lock(mutex_);
  std::string name = replica.name;
  for (const Wanted& each : present_) {
    if (each.spec.name == name) {
      return Fail(Code::kAlreadyExists, "another replica is called " + name + " already", "name");
    }
  }
  FleetState next = state_;
  if (const auto before = FindNamed(next.added, name); before != next.added.end()) {
    next.added.erase(before);  // it was removed for this process only
  }
  next.added.push_back(std::move(given));
  next.removed.erase(name);
  next.drained.erase(name);
  Said said = said_;
  said.added.push_back(std::move(replica));
  TRY(Keep(lasting, std::move(next), [&]() -> Status {
    const bool drained = come_drained_.erase(name) > 0;
    const auto applied = Apply(std::move(said));
    if (!applied && drained) {
      come_drained_.insert(name);
    }
    return applied ? Status() : Status(Fail(applied.error()));
  }));
  return name;
}

Status Membership::Remove(std::string_view name, Lasting lasting) {
  const std::lock_guard lock(mutex_);
  const bool any = std::any_of(present_.begin(), present_.end(),
                               [name](const Wanted& each) { return each.spec.name == name; });
  if (!any) {
    return Fail(NobodyIs(name));
  }
  Said said = said_;
  if (const auto added = FindNamed(said.added, name); added != said.added.end()) {
    said.added.erase(added);
  }
  said.removed.emplace(name);
  FleetState next = state_;
  if (const auto added = FindNamed(next.added, name); added != next.added.end()) {
    next.added.erase(added);
  }
  for (auto& [source, replicas] : said.sources) {
    if (FindNamed(replicas, name) != replicas.end()) {
      next.removed.emplace(name);  // or it would be back
    }
  }
  next.drained.erase(std::string(name));
  return Keep(lasting, std::move(next), [&]() -> Status {
    TRY(Apply(std::move(said)));
    return {};
  });
}

Status Membership::SetDraining(std::string_view name, bool draining, Lasting lasting) {
  const std::lock_guard lock(mutex_);
  const bool any = std::any_of(present_.begin(), present_.end(),
                               [name](const Wanted& each) { return each.spec.name == name; });
  if (!any) {
    return Fail(NobodyIs(name));
  }
  FleetState next = state_;
  if (draining) {
    next.drained.emplace(name);
  } else {
    next.drained.erase(std::string(name));
  }
  TRY(Keep(lasting, std::move(next), [&]() -> Status {
    return draining ? fleet_.DrainReplica(name) : fleet_.UndrainReplica(name);
  }));
  if (!draining) {
    come_drained_.erase(std::string(name));
  } else if (lasting == Lasting::kPersist) {
    come_drained_.emplace(name);
  }
  return {};
}

std::vector<Membership::Wanted> Membership::Merged(const Said& said) {
  std::vector<Wanted> all;
  const auto take = [&all](const driver::ReplicaSpec& spec, std::string_view source) {
    const auto taken = std::find_if(all.begin(), all.end(), [&spec](const Wanted& each) {
      return each.spec.name == spec.name;
    });
    if (taken == all.end()) {
      all.push_back({spec, std::string(source)});
    } else if (taken->source != kFromOperator) {
      Log(LogLevel::kDebug, "upstream {} of {} is passed over: {} has one of that name", spec.name,
          source, taken->source);
    }
  };
  for (const driver::ReplicaSpec& spec : said.added) {
    take(spec, kFromOperator);
  }
  for (const auto& [source, replicas] : said.sources) {
    for (const driver::ReplicaSpec& spec : replicas) {
      if (!said.removed.contains(spec.name)) {
        take(spec, source);
      }
    }
  }
  return all;
}

FleetMember Membership::MemberOf(const driver::ReplicaSpec& spec,
                                 std::unique_ptr<driver::EngineDriver> driver) const {
  return {{.name = spec.name,
           .weight = spec.weight,
           .max_concurrency = spec.max_concurrency,
           .models = options_.models_of ? options_.models_of(spec) : std::vector<std::string>(),
           .draining = come_drained_.contains(spec.name)},
          std::move(driver)};
}

// All drivers are made before anything is done, so that one that can't be made changes nothing.
Result<Membership::Changes> Membership::Apply(Said said) {
  // What nobody names any more isn't kept out, so that these don't pile up.
  std::erase_if(said.removed, [this, &said](const std::string& name) {
    return !state_.removed.contains(name) &&
           std::none_of(said.sources.begin(), said.sources.end(), [&name](const auto& source) {
             return FindNamed(source.second, name) != source.second.end();
           });
  });
  std::vector<Wanted> wanted = Merged(said);
  if (wanted.size() > limits::kUpstreamsMax) {
    return Fail(Code::kInvalidArgument, "at most " + std::to_string(limits::kUpstreamsMax) +
                                            " replicas, not " + std::to_string(wanted.size()));
  }
  struct New {
    FleetMember member;
    bool replaces;
  };
  std::vector<New> made;
  std::vector<const Wanted*> stay;
  for (const Wanted& each : wanted) {
    const auto before = std::find_if(present_.begin(), present_.end(), [&each](const Wanted& old) {
      return old.spec.name == each.spec.name;
    });
    if (before != present_.end() && IsSameEngine(before->spec, each.spec)) {
      stay.push_back(&each);
      continue;
    }
    TRY_ASSIGN(auto driver, factory_.Make(each.spec));
    made.push_back({MemberOf(each.spec, std::move(driver)), before != present_.end()});
  }
  Changes changes;
  for (const Wanted& each : present_) {
    const bool stays = std::any_of(wanted.begin(), wanted.end(), [&each](const Wanted& next) {
      return next.spec.name == each.spec.name;
    });
    if (!stays) {
      TRY(fleet_.RemoveReplica(each.spec.name));
      changes.removed.push_back(each.spec.name);
    }
  }
  for (New& each : made) {
    (each.replaces ? changes.replaced : changes.added).push_back(each.member.options.name);
    TRY(each.replaces ? fleet_.ReplaceReplica(std::move(each.member))
                      : fleet_.AddReplica(std::move(each.member)));
  }
  for (const Wanted* each : stay) {
    fleet_.SetShare(each->spec.name, each->spec.weight, each->spec.max_concurrency);
  }
  present_ = std::move(wanted);
  said_ = std::move(said);
  const auto tell = [](std::string_view what, const std::vector<std::string>& names) {
    if (!names.empty()) {
      Log(LogLevel::kInfo, "upstreams {}: {}", what, Join(names, ", "));
    }
  };
  tell("added", changes.added);
  tell("removed", changes.removed);
  tell("replaced", changes.replaced);
  return changes;
}

}  // namespace fak::fleet
