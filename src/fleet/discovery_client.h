#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/function_ref.h"
#include "base/json.h"
#include "base/result.h"
#include "net/event_loop.h"
#include "net/http_client.h"

namespace fak::fleet {

inline constexpr size_t kDiscoveryAnswerBytesMax = 16 * 1024 * 1024;
inline constexpr size_t kDiscoveryLinesMax = 4096;  // that came and weren't read yet

// The calls of one that asks a service where replicas are, over HTTP with JSON. One thread makes
// them, which they block; another one may end them.
class DiscoveryClient {
 public:
  // ca_file: PEM certificates to trust instead of the system's; empty: those.
  [[nodiscard]] static Result<std::unique_ptr<DiscoveryClient>> Make(const std::string& ca_file);
  ~DiscoveryClient();

  // The answer. kUpstreamError: another status than 200, which the error has, and what it says.
  [[nodiscard]] Result<Json> Ask(net::HttpClientRequest request);
  // An answer of documents, a line each: calls as they come. Ok: it has ended, or nothing came for
  // its idle time. The first error of on_document ends it and is given back.
  [[nodiscard]] Status Follow(net::HttpClientRequest request,
                              FunctionRef<Status(const Json&)> on_document);
  // Waits; false: it was stopped.
  bool Pause(int64_t ms);
  bool stopped() const;
  // Any thread. Ends what waits, now and later.
  void Stop();

 private:
  class Lines;
  struct Inbox {
    std::mutex mutex;  // guards the members below
    std::condition_variable wake;
    bool stopped = false;
    std::deque<std::string> lines;
    std::string partial;
    bool ended = false;
    int status = 0;
    std::string refusal;  // the body of another status than 200
    Status how;
  };
  DiscoveryClient() = default;
  // Nullopt: it has ended, or is stopped.
  std::optional<std::string> NextLine();

  net::EventLoop loop_;
  std::unique_ptr<net::HttpClient> client_;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
};

}  // namespace fak::fleet
