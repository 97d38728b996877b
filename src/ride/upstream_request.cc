#include "ride/upstream_request.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/limits.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "ride/upstream_driver.h"
#include "ride/upstream_error.h"

namespace fak::ride {

class UpstreamRequest::Sink final : public net::HttpResponseSink {
 public:
  explicit Sink(std::shared_ptr<UpstreamRequest> request) : request_(std::move(request)) {}
  void OnHead(int status, net::HttpHeaders headers) override { request_->OnHead(status, headers); }
  void OnBody(std::string_view bytes) override { request_->OnBody(bytes); }
  void OnReadEnd() override { request_->OnReadEnd(); }
  void ListHot(HotLines& lines) const override {
    lines.AddObject(*this);
    request_->ListHot(lines);
  }
  void OnDone(Status status) override { request_->OnDone(std::move(status)); }

 private:
  const std::shared_ptr<UpstreamRequest> request_;
};

UpstreamRequest::UpstreamRequest(UpstreamDriver& owner, net::EventLoop& loop,
                                 const Adapter& adapter, std::string request_id,
                                 std::string upstream_id, std::unique_ptr<Relay> relay,
                                 Bounds bounds)
    : owner_(owner),
      loop_(loop),
      adapter_(adapter),
      request_id_(std::move(request_id)),
      upstream_id_(std::move(upstream_id)),
      relay_(std::move(relay)),
      bounds_(bounds),
      tail_(loop.timers(), [this] {
        const auto self = shared_from_this();
        OnTail();
      }) {}

std::unique_ptr<net::HttpResponseSink> UpstreamRequest::MakeSink(
    std::shared_ptr<UpstreamRequest> request) {
  return std::make_unique<Sink>(std::move(request));
}

void UpstreamRequest::OnHead(int status, const net::HttpHeaders& headers) {
  status_ = status;
  // The date form is left out: no engine was seen to send it.
  const auto after = ParseUint(headers.Get("retry-after").value_or(""));
  if (after && *after <= std::numeric_limits<int>::max()) {
    retry_after_s_ = static_cast<int>(*after);
  }
  relay_->SetContentType(headers.Get("content-type").value_or(""));
  net::HttpHeaders kept;
  for (const std::string_view name : adapter_.kept_headers) {
    if (const auto value = headers.Get(name)) {
      kept.Add(std::string(name), WithoutKey(std::string(*value), owner_.key()));
    }
  }
  std::string served_by = SaidBy(adapter_.served_by_header, headers);
  if (kept.size() > 0 || !served_by.empty()) {
    relay_->Emit(wire::UpstreamHeaders{std::move(kept), std::move(served_by)});
  }
  dropped_ = SaidBy(adapter_.dropped_header, headers);
  if (status_ != 200) {
    tail_.ArmMs(bounds_.tail_ms);
  }
}

std::string UpstreamRequest::SaidBy(std::string_view header,
                                    const net::HttpHeaders& headers) const {
  constexpr size_t kShown = 200;
  const auto value = header.empty() ? std::nullopt : headers.Get(header);
  // Without the key before it is cut: a cut one is found no more.
  return value ? ReplaceInvalidUtf8(WithoutKey(std::string(*value), owner_.key()).substr(0, kShown))
               : std::string();
}

void UpstreamRequest::OnBody(std::string_view bytes) {
  if (left_) {
    tail_bytes_ += bytes.size();
    if (tail_bytes_ > limits::kUpstreamErrorBytesMax) {
      CloseConnection();
    }
    return;
  }
  if (status_ != 200) {
    OnErrorBody(bytes);
    return;
  }
  if (!std::exchange(in_batch_, true)) {
    relay_->BeginBatch();
  }
  relay_->Feed(bytes);
  if (!relay_->ended()) {
    BoundTail();
    KeepToWindow(bytes.size());
    return;
  }
  if (relay_->succeeded()) {
    tail_.ArmMs(bounds_.tail_ms);
    maybe_handle_->Resume();
  } else {
    Close();
  }
  Leave();
}

void UpstreamRequest::OnReadEnd() {
  if (std::exchange(in_batch_, false)) {
    relay_->EndBatch();
  }
}

void UpstreamRequest::ListHot(HotLines& lines) const {
  lines.AddObject(*this);
  if (!left_) {
    relay_->ListHot(lines);
  }
}

void UpstreamRequest::OnErrorBody(std::string_view bytes) {
  error_body_ += bytes.substr(0, limits::kUpstreamErrorBytesMax - error_body_.size());
  if (error_body_.size() == limits::kUpstreamErrorBytesMax) {
    CloseConnection();
    FailByStatus();
  }
}

void UpstreamRequest::BoundTail() {
  const int bound_ms = relay_->whole()     ? bounds_.tail_ms
                       : relay_->settled() ? bounds_.choice_ms
                                           : 0;
  if (bound_ms == tail_bound_ms_) {
    return;
  }
  tail_bound_ms_ = bound_ms;
  if (bound_ms > 0) {
    tail_.ArmMs(bound_ms);
  } else {
    tail_.Disarm();
  }
}

void UpstreamRequest::OnTail() {
  if (paused_ && !left_) {
    tail_.ArmMs(tail_bound_ms_);  // it may have come, and its client doesn't read
    return;
  }
  CloseConnection();
  if (left_) {
    return;
  }
  if (status_ != 200) {
    FailByStatus();
  } else {
    relay_->Finish();
    Leave();
  }
}

void UpstreamRequest::KeepToWindow(size_t bytes) {
  since_asked_bytes_ += bytes;
  if (since_asked_bytes_ < limits::kStreamWindowBytes) {
    return;
  }
  if (asked_for_room_) {
    paused_ = true;
    maybe_handle_->Pause();
    return;
  }
  since_asked_bytes_ = 0;
  asked_for_room_ = true;
  relay_->AwaitRoom([&loop = loop_, weak = weak_from_this()] {
    loop.Post([weak] {
      if (const auto self = weak.lock()) {
        self->OnRoom();
      }
    });
  });
}

void UpstreamRequest::OnRoom() {
  asked_for_room_ = false;
  paused_ = false;
  if (maybe_handle_ != nullptr) {
    maybe_handle_->Resume();
  }
}

void UpstreamRequest::OnDone(Status status) {
  tail_.Disarm();
  if (left_) {
    return;
  }
  if (!status) {
    Error error = owner_.Named(std::move(status).error());
    error.field.clear();  // no field of the client's is at fault
    if (error.code == Code::kUnavailable) {
      owner_.OnUnreachable(error.detail);
    }
    relay_->Break(std::move(error));
  } else if (status_ != 200) {
    FailByStatus();
    return;
  } else {
    relay_->Finish();
  }
  Leave();
}

void UpstreamRequest::FailByStatus() {
  Error error = UpstreamError(status_, error_body_, owner_.key());
  if (adapter_.refine != nullptr) {
    adapter_.refine(status_, error_body_, error);
  }
  error.retry_after_s = std::max(error.retry_after_s, retry_after_s_);
  if (!dropped_.empty()) {
    error.detail += " (dropped: " + dropped_ + ")";
  }
  relay_->Fail(std::move(error));
  Leave();
}

// Its deadline must not fall on a later request with the same id.
void UpstreamRequest::Leave() {
  left_ = true;
  if (deadline_) {
    deadline_->Disarm();
  }
  owner_.Forget(request_id_);
}

void UpstreamRequest::ArmDeadline(const driver::Prepared& prepared) {
  if (!prepared.deadline_ns) {
    return;
  }
  deadline_.emplace(loop_.timers(),
                    [this, error = DeadlineError(prepared)] { owner_.End(request_id_, error); });
  deadline_->ArmMs(
      std::max<int64_t>(0, (*prepared.deadline_ns - loop_.NowNs() + kNsPerMs - 1) / kNsPerMs));
}

void UpstreamRequest::Abort(Error error) {
  left_ = true;
  Close();
  relay_->Fail(std::move(error));
}

void UpstreamRequest::CloseConnection() {
  tail_.Disarm();
  if (const auto handle = std::exchange(maybe_handle_, nullptr)) {
    handle->Cancel();
  }
}

void UpstreamRequest::Close() {
  CloseConnection();
  owner_.TellAbort(adapter_, upstream_id_);
}

}  // namespace fak::ride
