#pragma once

#include <optional>
#include <string>
#include <vector>

#include "driver/prepared.h"
#include "ride/adapter.h"
#include "wire/http_headers.h"

namespace fak::ride {

// What the operator says about an upstream, beyond its URL.
struct UpstreamPolicy {
  std::string model = {};  // asked for instead of the client's; empty: as asked
  // Of Adapter::owned_fields; also members of them, as in "nvext.agent_hints".
  std::vector<std::string> allowed_fields = {};
  std::vector<std::string> allowed_headers = {};
  std::optional<int> rank = {};  // data-parallel
};

struct EditedRequest {
  std::string body;
  bool withhold_usage = false;  // the client didn't ask for the usage that we asked for
};

// The client's document with the edits that docs/engines.md names, and no other byte changed.
// `id` is ours, for engines that take one (Adapter::id_field). Pure.
EditedRequest EditRequest(const Adapter& adapter, const UpstreamPolicy& policy,
                          const driver::Prepared& prepared, const std::string& id);

// The headers that go with it, but for host, framing and key.
wire::HttpHeaders EditHeaders(const Adapter& adapter, const UpstreamPolicy& policy,
                              const driver::Prepared& prepared);

// Where requests of a surface go; null: the engine doesn't serve it.
const Route* FindRoute(const Adapter& adapter, wire::Surface surface);

}  // namespace fak::ride
