#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/event_loop.h"
#include "net/http_client.h"
#include "net/timer_wheel.h"

namespace fak::ride {

// Asks an engine for its metrics, again and again, one request at a time. Loop thread.
class Scraper {
 public:
  // The body of one answer. kUnsupported: the engine has no metrics (404, 405, 501); asked again
  // after a minute at the earliest. kPayloadTooLarge beyond kExpositionBytesMax; kUpstreamError for
  // any other status; else the client's errors, but for kResourceExhausted, which is
  // our own lack: that scrape was none.
  using OnText = std::function<void(Result<std::string>)>;

  // `request` is sent as it is, apart from its time-outs (kScrapeTimeoutMs), at once and then
  // every_ms after each answer. The loop and the client outlive the scraper.
  Scraper(net::EventLoop& loop, net::HttpClient& client, net::HttpClientRequest request,
          int every_ms, OnText on_text);
  // Cancels what is open; on_text is not called after it.
  ~Scraper();
  Scraper(const Scraper&) = delete;
  Scraper& operator=(const Scraper&) = delete;

 private:
  class Sink;

  void Send();
  void Give(Result<std::string> text);

  net::HttpClient& client_;
  net::HttpClientRequest request_;
  const int every_ms_;
  const OnText on_text_;
  net::Timer timer_;
  std::shared_ptr<net::HttpExchange> open_;
};

}  // namespace fak::ride
