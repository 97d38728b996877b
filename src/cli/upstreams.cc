#include "cli/upstreams.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/file.h"
#include "base/limits.h"
#include "base/strings.h"
#include "ride/upstream_driver.h"
#include "ride/upstream_set.h"
#include "ride/upstream_spec.h"

namespace fak::cli {
namespace {

Json Names(const std::vector<std::string>& names) {
  Json::Array list;
  for (const std::string& name : names) {
    list.emplace_back(name);
  }
  return list;
}

Status GiveKeys(const UpstreamFlags& flags, std::vector<driver::ReplicaSpec>& specs) {
  if (!flags.api_key.empty()) {
    if (specs.size() > 1) {
      return Fail(Code::kInvalidArgument,
                  "--upstream-api-key would go to every upstream: give --upstream-api-key-file "
                  "NAME=FILE for the one that it belongs to");
    }
    specs.front().api_key = flags.api_key;
  }
  for (const std::string& text : flags.api_key_files) {
    const auto named = Cut(text, "=");
    if (!named && specs.size() > 1) {
      return Fail(Code::kInvalidArgument, "--upstream-api-key-file " + text +
                                              ": with several upstreams it must be NAME=FILE");
    }
    const auto owner = std::find_if(specs.begin(), specs.end(), [&named](const auto& spec) {
      return !named || spec.name == named->first;
    });
    if (owner == specs.end()) {
      return Fail(Code::kInvalidArgument, "--upstream-api-key-file " + text +
                                              ": no upstream has the name " +
                                              std::string(named->first));
    }
    TRY_ASSIGN(owner->api_key, ReadKeyFile(named ? std::string(named->second) : text));
  }
  return {};
}

Status GiveMetricsUrls(const UpstreamFlags& flags, std::vector<driver::ReplicaSpec>& specs) {
  for (const std::string& text : flags.metrics_urls) {
    const auto cut = Cut(text, "=");
    const bool named = cut && cut->first.find("://") == std::string_view::npos;
    if (!named && specs.size() > 1) {
      return Fail(Code::kInvalidArgument, "--upstream-metrics-url " + text +
                                              ": with several upstreams it must be NAME=URL");
    }
    const auto owner = std::find_if(specs.begin(), specs.end(), [&](const auto& spec) {
      return !named || spec.name == cut->first;
    });
    if (owner == specs.end()) {
      return Fail(Code::kInvalidArgument, "--upstream-metrics-url " + text +
                                              ": no upstream has the name " +
                                              std::string(cut->first));
    }
    owner->metrics_url = named ? std::string(cut->second) : text;
  }
  return {};
}

void Say(const ride::UpstreamDriver& driver, const std::string& url) {
  constexpr int kWaitMs = 3000;
  const auto found = driver.WaitForProbe(kWaitMs);
  if (!found) {
    std::fprintf(stderr, "upstream %s: %s\n", driver.name().c_str(), found.error().detail.c_str());
    return;
  }
  const ride::Endpoint& endpoint = **found;
  std::fprintf(stderr, "upstream %s: %s%s%s at %s (%s); models: %s\n", driver.name().c_str(),
               std::string(endpoint.adapter->engine).c_str(), endpoint.version.empty() ? "" : " ",
               endpoint.version.c_str(), url.c_str(), endpoint.why.c_str(),
               endpoint.models.empty() ? "it names none" : Join(endpoint.models, ", ").c_str());
}

}  // namespace

Result<std::string> ReadKeyFile(const std::string& path) {
  TRY_ASSIGN(const std::string text, ReadFile(path, limits::kConfigBytesMax));
  std::string key(Trim(text.substr(0, text.find('\n'))));
  if (key.empty()) {
    return Fail(Code::kInvalidArgument, path + ": the first line should be a key and is empty");
  }
  return key;
}

Result<std::vector<driver::ReplicaSpec>> UpstreamSpecs(const UpstreamFlags& flags) {
  if (flags.upstreams.size() > limits::kUpstreamsMax) {
    return Fail(Code::kInvalidArgument, "--upstream: at most " +
                                            std::to_string(limits::kUpstreamsMax) + ", not " +
                                            std::to_string(flags.upstreams.size()));
  }
  if (flags.upstreams.size() > 1 && !flags.model.empty()) {
    return Fail(Code::kInvalidArgument,
                "--upstream-model is for one upstream: several are chosen by the models that they "
                "list");
  }
  std::vector<driver::ReplicaSpec> specs;
  for (const std::string& text : flags.upstreams) {
    TRY_ASSIGN(driver::ReplicaSpec spec, ride::ParseUpstream(text));
    for (const driver::ReplicaSpec& other : specs) {
      if (other.name == spec.name) {
        return Fail(Code::kInvalidArgument,
                    "--upstream " + text + ": another one is called " + spec.name + " already");
      }
    }
    spec.model = flags.model;
    spec.options = Json::Object{};
    spec.options.Set("allow_fields", Names(flags.allowed_fields));
    spec.options.Set("allow_headers", Names(flags.allowed_headers));
    specs.push_back(std::move(spec));
  }
  TRY(GiveKeys(flags, specs));
  TRY(GiveMetricsUrls(flags, specs));
  return specs;
}

Result<std::unique_ptr<driver::EngineDriver>> StartUpstreams(const UpstreamFlags& flags,
                                                             metrics::Registry& metrics) {
  constexpr int kMsPerSecond = 1000;
  TRY_ASSIGN(const std::vector<driver::ReplicaSpec> specs, UpstreamSpecs(flags));
  std::vector<std::unique_ptr<driver::EngineDriver>> drivers;
  std::vector<const ride::UpstreamDriver*> upstreams;
  for (const driver::ReplicaSpec& spec : specs) {
    TRY_ASSIGN(std::unique_ptr<ride::UpstreamDriver> made,
               ride::UpstreamDriver::Make(
                   spec, {.timeouts = {},
                          .tls = {.ca_file = flags.ca_file},
                          .maybe_metrics = &metrics,
                          .scrape_every_ms = flags.metrics_scrape_interval_s * kMsPerSecond}));
    TRY(made->Start());
    upstreams.push_back(made.get());
    drivers.push_back(std::move(made));
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    Say(*upstreams[i], specs[i].url);
  }
  if (drivers.size() == 1) {
    return std::move(drivers.front());
  }
  return std::unique_ptr<driver::EngineDriver>(
      std::make_unique<ride::UpstreamSet>(std::move(drivers)));
}

}  // namespace fak::cli
