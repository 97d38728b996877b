#include "ride/upstream_spec.h"

#include <algorithm>
#include <string_view>

#include "net/url.h"
#include "ride/adapter.h"

namespace fak::ride {
namespace {

Status CheckName(std::string_view name, const std::string& text) {
  const bool fits = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  });
  return fits ? Status()
              : Fail(Code::kInvalidArgument,
                     text + ": a name is letters, digits, \"-\", \"_\" and \".\"", "name");
}

// Metrics have an upstream's name beside these.
Status RefuseOwnWorkers(std::string_view name, const std::string& text) {
  if (name != "gateway" && name != "native") {
    return {};
  }
  return Fail(Code::kInvalidArgument,
              text + ": \"" + std::string(name) +
                  "\" is what metrics call a worker of fak's own; give another name, as in "
                  "NAME=URL",
              "name");
}

// A query isn't quoted: it is likely to hold a key.
Status RefuseQuery(const std::string& text) {
  const size_t query = text.find('?');
  return query == std::string::npos
             ? Status()
             : Fail(Code::kInvalidArgument,
                    text.substr(0, query) +
                        ": an upstream's URL has no query (\"?...\"); a key goes into "
                        "--upstream-api-key-file",
                    "url");
}

// The part of a path that clients append to a base URL, where one was pasted with it; empty: none.
std::string_view PastedEndpoint(std::string_view path) {
  constexpr std::string_view kEndpoints[] = {
      "/v1/chat/completions", "/v1/completions", "/v1/messages",     "/v1/responses",
      "/v1/embeddings",       "/v1/models",      "/chat/completions"};
  while (path.ends_with('/')) {
    path.remove_suffix(1);
  }
  for (const std::string_view endpoint : kEndpoints) {
    if (path.ends_with(endpoint)) {
      return endpoint;
    }
  }
  return "";
}

}  // namespace

Status CompleteSpec(driver::ReplicaSpec& spec, const std::string& text) {
  TRY(RefuseQuery(spec.url));
  if (!spec.name.empty()) {
    TRY(CheckName(spec.name, text));
  }
  if (spec.engine != "auto" && FindAdapter(spec.engine) == nullptr) {
    return Fail(Code::kInvalidArgument,
                text + ": no engine " + spec.engine + "; there are auto, " + AdapterNames(),
                "engine");
  }
  auto url = net::ParseUrl(spec.url);
  if (!url) {
    url.error().field = "url";
    return Fail(std::move(url).error());
  }
  if (const std::string_view endpoint = PastedEndpoint(url->target); !endpoint.empty()) {
    return Fail(Code::kInvalidArgument,
                text + ": leave out " + std::string(endpoint) +
                    ": each request's own path follows this URL",
                "url");
  }
  if (spec.name.empty()) {
    spec.name = url->origin.HostHeader();
  }
  return RefuseOwnWorkers(spec.name, text);
}

Result<driver::ReplicaSpec> ParseUpstream(const std::string& text) {
  driver::ReplicaSpec spec;
  std::string_view rest = text;
  TRY(RefuseQuery(text));
  const size_t scheme = rest.find("://");
  if (scheme == std::string_view::npos) {
    const size_t host = text.find_last_of("=+") + 1;  // 0 when there is neither
    return Fail(Code::kInvalidArgument,
                text + ": is no URL with http:// or https://" +
                    (host == text.size() ? ""
                                         : "; did you mean " + text.substr(0, host) + "http://" +
                                               text.substr(host) + "?"));
  }
  if (const size_t equals = rest.substr(0, scheme).find('='); equals != std::string_view::npos) {
    spec.name = rest.substr(0, equals);
    rest.remove_prefix(equals + 1);
    TRY(CheckName(spec.name, text));
  }
  spec.engine = "auto";
  if (const size_t plus = rest.substr(0, rest.find("://")).find('+');
      plus != std::string_view::npos) {
    spec.engine = rest.substr(0, plus);
    rest.remove_prefix(plus + 1);
  }
  spec.url = rest;
  TRY(CompleteSpec(spec, text));
  return spec;
}

}  // namespace fak::ride
