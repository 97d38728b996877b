#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "base/base64.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "fleet/discovery.h"
#include "fleet/discovery_client.h"
#include "fleet/discovery_thread.h"
#include "fleet/replica_json.h"
#include "net/url.h"

// Replicas that tell etcd of themselves: a key each, under a lease that they keep alive.
namespace fak::fleet {
namespace {

constexpr int kQuietMs = 30'000;         // without news all is read again
constexpr int64_t kLostKeptMs = 60'000;  // that a replica stays whose lease is lost

// etcd's JSON has its 64-bit numbers as strings.
int64_t Number(const Json* value) {
  if (value == nullptr) {
    return 0;
  }
  if (value->is_number()) {
    return value->AsInt().value_or(0);
  }
  const bool negative = value->is_string() && value->string().starts_with('-');
  const auto number =
      value->is_string() ? ParseUint(value->string().substr(negative ? 1 : 0)) : std::nullopt;
  return number ? (negative ? -1 : 1) * static_cast<int64_t>(*number) : 0;
}

std::string Text(const Json& row, const char* key) {
  const Json* value = row.Find(key);
  return value != nullptr && value->is_string() ? FromBase64(value->string()).value_or("") : "";
}

// The end of the range of keys that begin with this.
std::string After(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') {
    prefix.pop_back();
  }
  if (!prefix.empty()) {
    prefix.back() = static_cast<char>(prefix.back() + 1);
  }
  return prefix.empty() ? std::string(1, '\0') : prefix;
}

class EtcdDiscovery final : public Discovery {
 public:
  EtcdDiscovery(DiscoverySpec spec, Membership& membership)
      : spec_(std::move(spec)),
        membership_(membership),
        thread_(spec_, membership, [this](DiscoveryClient& client) { return Round(client); }) {}

 private:
  struct Entry {
    driver::ReplicaSpec spec;
    int64_t lease = 0;
    int64_t lost_ns = 0;  // when its lease was; 0: it wasn't
  };

  net::HttpClientRequest Call(const std::string& path, const Json& body) const {
    net::HttpClientRequest request;
    const net::Url url = *net::ParseUrl(spec_.name);
    request.method = "POST";
    request.origin = url.origin;
    request.target = (url.target == "/" ? "" : url.target) + path;
    request.body = body.Dump();
    request.headers.Add("content-type", "application/json");
    return request;
  }
  Json Range() const {
    Json range = Json::Object{};
    range.Set("key", Base64(spec_.prefix));
    range.Set("range_end", Base64(After(spec_.prefix)));
    return range;
  }

  // Ok: it has been quiet, or what was to follow is no more there; all is to be read again.
  Status Round(DiscoveryClient& client) {
    TRY_ASSIGN(const Json read, client.Ask(Call("/v3/kv/range", Range())));
    const Json* header = read.Find("header");
    const int64_t revision = header == nullptr ? 0 : Number(header->Find("revision"));
    std::map<std::string, Entry> before = std::exchange(entries_, {});
    if (const Json* rows = read.Find("kvs"); rows != nullptr && rows->is_array()) {
      for (const Json& row : rows->array()) {
        Put(row);
      }
    }
    // Who went while nobody looked.
    for (auto& [name, entry] : before) {
      if (!entries_.contains(name)) {
        Lose(client, name, std::move(entry));
      }
    }
    TRY(Tell());
    Json create = Range();
    create.Set("start_revision", std::to_string(revision + 1));
    Json watch = Json::Object{};
    watch.Set("create_request", std::move(create));
    net::HttpClientRequest request = Call("/v3/watch", watch);
    request.timeouts.idle_ms = kQuietMs;
    return client.Follow(std::move(request), [&](const Json& said) { return Take(client, said); });
  }

  Status Take(DiscoveryClient& client, const Json& said) {
    const Json* result = said.Find("result");
    if (result == nullptr) {
      return Fail(Code::kUpstreamError, "etcd ended the watch: " + said.Dump().substr(0, 200));
    }
    if (const Json* canceled = result->Find("canceled");
        canceled != nullptr && canceled->is_bool() && canceled->boolean()) {
      return Fail(Code::kUpstreamError, "etcd ended the watch; all is read again");
    }
    const Json* events = result->Find("events");
    if (events == nullptr || !events->is_array()) {
      return {};
    }
    for (const Json& event : events->array()) {
      const Json* row = event.Find("kv");
      const Json* type = event.Find("type");  // PUT is left out
      if (row == nullptr) {
        continue;
      }
      if (type == nullptr || !type->is_string() || type->string() != "DELETE") {
        Put(*row);
        continue;
      }
      const auto found = entries_.find(NameOf(*row));
      if (found != entries_.end()) {
        Entry entry = std::move(found->second);
        const std::string name = found->first;
        entries_.erase(found);
        Lose(client, name, std::move(entry));
      }
    }
    return Tell();
  }

  std::string NameOf(const Json& row) const {
    const std::string key = Text(row, "key");
    return key.starts_with(spec_.prefix) ? key.substr(spec_.prefix.size()) : "";
  }

  // One that can't be read doesn't keep the others away.
  void Put(const Json& row) {
    const std::string name = NameOf(row);
    const auto read = [&]() -> Result<driver::ReplicaSpec> {
      TRY_ASSIGN(const Json document, ParseJson(Text(row, "value")));
      TRY_ASSIGN(driver::ReplicaSpec spec, ReadReplicaJson(document));
      spec.name = name;
      TRY(membership_.Complete(spec));
      return spec;
    };
    Result<driver::ReplicaSpec> spec =
        name.empty() ? Fail(Code::kInvalidArgument, "it has no name") : read();
    if (!spec) {
      Log(LogLevel::kWarning, "{}: {} is no replica: {}", spec_.source, Text(row, "key"),
          spec.error().detail);
      entries_.erase(name);
      return;
    }
    entries_[name] = {*std::move(spec), Number(row.Find("lease")), 0};
  }

  // One whose key is gone. With its lease, it may be there still and only not have reached etcd: it
  // is doubted for a while. Else somebody took the key out, and means it.
  void Lose(DiscoveryClient& client, const std::string& name, Entry entry) {
    const int64_t now_ns = Clock::Real().NowNs();
    if (entry.lost_ns == 0 && IsLost(client, entry.lease)) {
      entry.lost_ns = now_ns;
    }
    if (entry.lost_ns != 0 && now_ns - entry.lost_ns < kLostKeptMs * kNsPerMs) {
      entries_.emplace(name, std::move(entry));
    }
  }
  // Also where etcd doesn't say.
  bool IsLost(DiscoveryClient& client, int64_t lease) const {
    if (lease == 0) {
      return false;
    }
    Json asked = Json::Object{};
    asked.Set("ID", std::to_string(lease));
    const Result<Json> answer = client.Ask(Call("/v3/lease/timetolive", asked));
    return !answer || Number(answer->Find("TTL")) < 0;
  }

  Status Tell() {
    std::vector<driver::ReplicaSpec> replicas;
    for (const auto& [name, entry] : entries_) {
      replicas.push_back(entry.spec);
    }
    TRY(membership_.Set(spec_.source, std::move(replicas)));
    for (const auto& [name, entry] : entries_) {
      membership_.Doubt(spec_.source, name, entry.lost_ns == 0 ? "" : "its lease in etcd is lost");
    }
    return {};
  }

  const DiscoverySpec spec_;
  Membership& membership_;
  std::map<std::string, Entry> entries_;  // by name; thread_'s
  DiscoveryThread thread_;
};

}  // namespace

std::unique_ptr<Discovery> internal::StartEtcd(DiscoverySpec spec, Membership& membership) {
  return std::make_unique<EtcdDiscovery>(std::move(spec), membership);
}

}  // namespace fak::fleet
