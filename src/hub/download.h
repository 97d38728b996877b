#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "hub/fetch.h"
#include "hub/http_session.h"

namespace fak::hub {

// A file on a server.
struct RemoteFile {
  std::string url;
  std::string token = {};   // HttpSession::Get
  uint64_t bytes = 0;       // as a listing says; 0: not known
  std::string sha256 = {};  // as a listing says; may be empty
};

// How much of a pull is behind, for its progress.
struct PullSize {
  uint64_t done = 0;   // bytes of earlier files
  uint64_t total = 0;  // of all; 0: as the server says
};

// Brings a file to `path`, going on after what is there already when the server still has the same
// file (Range with If-Range), else from its beginning. Beside it, in <path>.json, is its ETag.
// Errors: AnswerError's, kDataCorrupt (another length than expected; seen at the first byte too
// many), kResourceExhausted (the disk is full: bytes needed and free), the network's.
[[nodiscard]] Result<FetchedFile> DownloadFile(HttpSession& session, const RemoteFile& file,
                                               const std::string& path, const PullSize& size,
                                               const PullOptions& options);

}  // namespace fak::hub
