#include "ride/scrape.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace fak::ride {
namespace {

constexpr int kNoMetricsPauseMs = 60'000;

}  // namespace

class Scraper::Sink final : public net::HttpResponseSink {
 public:
  explicit Sink(Scraper& owner) : owner_(owner) {}
  void OnHead(int status, net::HttpHeaders) override { status_ = status; }
  void OnBody(std::string_view bytes) override {
    if (body_.size() + bytes.size() <= limits::kExpositionBytesMax) {
      body_ += bytes;
      return;
    }
    const std::shared_ptr<net::HttpExchange> open = std::exchange(owner_.open_, nullptr);
    Scraper& owner = owner_;
    open->Cancel();  // frees this sink
    owner.Give(Fail(
        Code::kPayloadTooLarge,
        "its metrics are more than " + std::to_string(limits::kExpositionBytesMax) + " bytes"));
  }
  void OnDone(Status done) override {
    owner_.open_ = nullptr;
    if (!done && done.error().code == Code::kResourceExhausted) {
      owner_.timer_.ArmMs(owner_.every_ms_);  // that we had nothing to ask with says nothing of it
    } else if (!done) {
      owner_.Give(Fail(done.error()));
    } else if (status_ == 200) {
      owner_.Give(std::move(body_));
    } else {
      const bool absent = status_ == 404 || status_ == 405 || status_ == 501;
      owner_.Give(Fail(absent ? Code::kUnsupported : Code::kUpstreamError,
                       "it answered " + std::to_string(status_)));
    }
  }

 private:
  Scraper& owner_;
  int status_ = 0;
  std::string body_;
};

Scraper::Scraper(net::EventLoop& loop, net::HttpClient& client, net::HttpClientRequest request,
                 int every_ms, OnText on_text)
    : client_(client),
      request_(std::move(request)),
      every_ms_(every_ms),
      on_text_(std::move(on_text)),
      timer_(loop.timers(), [this] { Send(); }) {
  request_.timeouts.connect_ms = limits::kScrapeTimeoutMs;
  request_.timeouts.total_ms = limits::kScrapeTimeoutMs;
  Send();
}

Scraper::~Scraper() {
  if (open_ != nullptr) {
    open_->Cancel();
  }
}

void Scraper::Send() {
  open_ = client_.Send(request_, std::make_unique<Sink>(*this));
}

void Scraper::Give(Result<std::string> text) {
  const bool absent = !text && text.error().code == Code::kUnsupported;
  timer_.ArmMs(absent ? std::max(every_ms_, kNoMetricsPauseMs) : every_ms_);
  on_text_(std::move(text));
}

}  // namespace fak::ride
