#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/key_file.h"
#include "base/printable.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "cli/upstreams.h"
#include "cli/verbs.h"
#include "ride/probe.h"
#include "ride/upstream_spec.h"

namespace fak::cli {
namespace {

struct ProbeFlags {
  std::string url;
  std::string api_key;
  std::string api_key_file;
  std::string ca_file;
  bool json = false;
};

// Cut where a person looks at a table; whole in a pipe.
std::string ForReader(const std::string& text) {
  constexpr size_t kShown = 60;
  return isatty(STDOUT_FILENO) == 0 || text.size() <= kShown
             ? text
             : ReplaceInvalidUtf8(text.substr(0, kShown)) + "...";
}

void PrintTable(const std::string& url, const ride::Endpoint& endpoint) {
  std::string out = url + ": " + std::string(endpoint.adapter->engine);
  out += " (" + Printable(endpoint.why) + ")\n";
  const auto shown_by = [](const std::string& asked) {
    return asked.empty() ? "" : " (" + asked + ")";
  };
  out += "version: " + (endpoint.version.empty() ? "it doesn't say" : Printable(endpoint.version)) +
         shown_by(endpoint.version_asked);
  out += "\nmodels: " +
         (!endpoint.models.empty()         ? Printable(Join(endpoint.models, ", "))
          : endpoint.why_no_models.empty() ? "it names none"
                                           : "it doesn't say: " + endpoint.why_no_models) +
         shown_by(endpoint.models_asked);
  out += "\ncontext: ";
  out += endpoint.context_length > 0 ? std::to_string(endpoint.context_length) + " tokens"
                                     : "it doesn't say";
  out += endpoint.slots > 0 ? ", " + std::to_string(endpoint.slots) + " slots" : "";
  out += shown_by(endpoint.context_asked) + "\n\n";
  std::vector<std::vector<std::string>> rows = {{"SIGNAL", "", "ASKED", "SEEN", "SO"}};
  for (const ride::Endpoint::Finding& finding : endpoint.findings) {
    rows.push_back({std::string(SignalName(finding.signal)),
                    !finding.told ? "can't be told"
                    : finding.has ? "yes"
                                  : "no",
                    Printable(finding.asked), Printable(ForReader(finding.seen)),
                    Printable(finding.means)});
  }
  out += LinedUp(rows);
  std::fputs(out.c_str(), stdout);
}

void PrintJson(const std::string& url, const ride::Endpoint& endpoint) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("url").String(url);
  json.Key("engine").String(endpoint.adapter->engine).Key("why").String(endpoint.why);
  json.Key("version").String(endpoint.version).Key("models").BeginArray();
  for (const std::string& model : endpoint.models) {
    json.String(model);
  }
  json.EndArray();
  if (!endpoint.why_no_models.empty()) {
    json.Key("why_no_models").String(endpoint.why_no_models);
  }
  if (endpoint.context_length > 0) {
    json.Key("context_length").Int(endpoint.context_length);
  }
  if (endpoint.slots > 0) {
    json.Key("slots").Int(endpoint.slots);
  }
  json.Key("asked").BeginObject();
  for (const auto& [name, asked] : {std::pair("version", endpoint.version_asked),
                                    {"models", endpoint.models_asked},
                                    {"context_length", endpoint.context_asked}}) {
    if (!asked.empty()) {
      json.Key(name).String(asked);
    }
  }
  json.EndObject().Key("signals").BeginArray();
  for (const ride::Endpoint::Finding& finding : endpoint.findings) {
    json.BeginObject().Key("signal").String(SignalName(finding.signal));
    json.Key("has");
    finding.told ? json.Bool(finding.has) : json.Null();
    json.Key("asked").String(finding.asked);
    json.Key("seen").String(finding.seen).Key("means").String(finding.means).EndObject();
  }
  json.EndArray().EndObject();
  std::printf("%s\n", out.c_str());
}

Status Probe(const ProbeFlags& flags) {
  TRY_ASSIGN(const driver::ReplicaSpec spec, ride::ParseUpstream(flags.url));
  std::string key;
  if (!flags.api_key.empty()) {
    TRY_ASSIGN(key, CleanKey(flags.api_key, "--upstream-api-key"));
  }
  if (!flags.api_key_file.empty()) {
    TRY_ASSIGN(key, ReadKeyFile(flags.api_key_file));
  }
  const ride::Adapter* maybe_adapter = ride::FindAdapter(spec.engine);
  TRY_ASSIGN(const ride::UpstreamTarget target, ride::UpstreamTarget::Parse(spec.url, key));
  auto endpoint = ride::ProbeAndWait(target, maybe_adapter, {.ca_file = flags.ca_file});
  if (!endpoint && endpoint.error().field == net::kUnreachedField) {
    endpoint.error().detail += "; check that a server runs there, on that port";
  }
  TRY(endpoint);
  flags.json ? PrintJson(spec.url, *endpoint) : PrintTable(spec.url, *endpoint);
  return {};
}

}  // namespace

std::function<ExitStatus()> AddProbe(Program& program) {
  CLI::App* verb = program.app.add_subcommand(
      "probe", "Say what engine is behind a URL, what it offers, and what fak can't do there");
  const auto flags = std::make_shared<ProbeFlags>();
  verb->add_option("url", flags->url, "[ENGINE+]URL")->required();
  verb->add_flag("--json", flags->json, "Print JSON");
  verb->add_option("--upstream-api-key", flags->api_key,
                   "Key for the upstream (better: FAK_UPSTREAM_API_KEY)");
  verb->add_option("--upstream-api-key-file", flags->api_key_file, "File with that key");
  verb->add_option("--upstream-ca-file", flags->ca_file,
                   "PEM certificates to trust instead of the system's");
  verb->footer(
      "Examples:\n  fak probe http://127.0.0.1:8001\n  fak probe vllm+http://10.0.0.5:8000 --json");
  return [flags]() -> ExitStatus {
    const Status probed = Probe(*flags);
    return probed ? 0 : PrintError(probed.error());
  };
}

}  // namespace fak::cli
