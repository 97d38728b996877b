#include "gateway/exchange.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/spare_buffer.h"
#include "gateway/http_status.h"

namespace fak::gateway {

namespace {

// As a header may have it.
std::string ForHeader(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace

Exchange::Exchange(std::shared_ptr<const wire::Turn> turn, wire::AnswerHead head,
                   net::HttpHeaders headers, std::string request_id,
                   std::shared_ptr<net::ResponseWriter> response, const Clock& clock, OnEnd on_end)
    : turn_(std::move(turn)),
      headers_(std::move(headers)),
      request_id_(std::move(request_id)),
      response_(std::move(response)),
      clock_(clock),
      on_end_(std::move(on_end)) {
  const bool openai =
      turn_->surface == wire::Surface::kChat || turn_->surface == wire::Surface::kCompletion;
  if (turn_->stream && !openai) {
    passed_.emplace(turn_->surface);
  } else if (turn_->stream) {
    stream_.emplace(std::move(head), *turn_);
  } else {
    whole_.emplace(std::move(head), *turn_);
  }
}

net::HttpHeaders Exchange::Headers(std::string_view content_type) const {
  net::HttpHeaders headers = headers_;
  headers.Add("content-type", std::string(content_type));
  // The limits of a key go before those of the account behind it.
  for (const auto& [name, value] : upstream_headers_) {
    if (!headers_.Has(name)) {
      headers.Add(name, value);
    }
  }
  if (!end_.model.empty()) {
    headers.Add("x-fak-model", ForHeader(end_.model));
  }
  if (shows_route_ && !end_.worker.empty()) {
    std::string route = end_.worker + (end_.route.empty() ? "" : "; " + end_.route);
    route += end_.attempts > 1 ? "; attempt " + std::to_string(end_.attempts) : "";
    headers.Add("x-fak-route", ForHeader(std::move(route)));
  }
  return headers;
}

void Exchange::OnPlaced(const driver::Placement& placement) {
  end_.model = placement.model;
  end_.worker = placement.worker;
  end_.route = placement.why;
  end_.attempts = placement.attempt;
  end_.resumed = placement.resumed;
}

void Exchange::OnEvent(wire::Event&& event) noexcept {
  if (const auto* usage = std::get_if<wire::UsageReport>(&event)) {
    end_.usage = usage->usage;
  } else if (const auto* started = std::get_if<wire::Started>(&event)) {
    end_.usage.prompt_tokens = started->prompt_tokens;
    if (started->said_tokens > 0) {
      end_.usage.completion_tokens = started->said_tokens;
    }
  } else if (const auto* finish = std::get_if<wire::Finish>(&event)) {
    broken_off_ = broken_off_ || finish->reason == wire::FinishReason::kError;
  } else if (const auto* text = std::get_if<wire::TextDelta>(&event)) {
    end_.text_bytes += static_cast<int64_t>(text->text.size());
    if (!text->tokens.empty()) {
      end_.usage.completion_tokens =
          std::max(0, end_.usage.completion_tokens) + static_cast<int32_t>(text->tokens.size());
    }
  } else if (const auto* reasoning = std::get_if<wire::ReasoningDelta>(&event)) {
    end_.text_bytes += static_cast<int64_t>(reasoning->text.size());
  } else if (const auto* tool_call = std::get_if<wire::ToolCallDelta>(&event)) {
    end_.text_bytes += static_cast<int64_t>(tool_call->arguments.size());
  }
  if (auto* headers = std::get_if<wire::UpstreamHeaders>(&event)) {
    upstream_headers_ = std::move(headers->headers);
    end_.served_by = std::move(headers->served_by);
    return;
  }
  if (stream_ || passed_) {
    OnStreamEvent(event);
  } else {
    OnWholeEvent(event);
  }
}

void Exchange::AwaitRoom(std::function<void()> on_room) {
  response_->OnDrained(limits::kStreamWindowBytes, std::move(on_room));
}

void Exchange::EndBatch() noexcept {
  in_batch_ = false;
  WriteBytes();
}

void Exchange::ListHot(HotLines& lines) const noexcept {
  lines.AddObject(*this);
  response_->ListHot(lines);
}

void Exchange::WriteBytes() {
  if (!bytes_.empty()) {
    response_->Write(bytes_);
  }
  GiveSpare(bytes_);
}

// Behind what is in bytes_; whether it was the last.
bool Exchange::Encode(const wire::Event& event) {
  TakeSpare(bytes_);
  if (stream_) {
    stream_->Encode(event, bytes_);
    return stream_->ended();
  }
  passed_->Encode(event, bytes_);
  return passed_->ended();
}

void Exchange::OnStreamEvent(const wire::Event& event) {
  const auto* failed = std::get_if<wire::Failed>(&event);
  if (failed != nullptr && !started_) {
    Refuse(failed->error);
    return;
  }
  const bool last = Encode(event);
  if (!bytes_.empty()) {
    if (!std::exchange(started_, true)) {
      end_.first_byte_ns = clock_.NowNs();
      net::HttpHeaders headers = Headers("text/event-stream; charset=utf-8");
      headers.Add("cache-control", "no-cache");
      headers.Add("x-accel-buffering", "no");
      response_->StartStream(200, std::move(headers));
    }
  }
  if (last) {
    End(200, failed != nullptr ? std::optional(failed->error) : std::nullopt);
    response_->End(bytes_);
  } else if (!in_batch_) {
    WriteBytes();
  }
}

void Exchange::OnWholeEvent(const wire::Event& event) {
  whole_->Add(event);
  if (whole_->error()) {
    Refuse(*whole_->error());
  } else if (whole_->done()) {
    End(200, std::nullopt);
    response_->Send({200, Headers("application/json"), whole_->Body()});
  }
}

void Exchange::Refuse(const Error& error) {
  const int status = HttpStatusOf(error);
  net::HttpHeaders headers = Headers("application/json");
  if (error.retry_after_s > 0) {
    headers.Add("retry-after", std::to_string(error.retry_after_s));
  }
  End(status, error);
  response_->Send(
      {status, std::move(headers), wire::ErrorBody(turn_->surface, error, status, request_id_)});
}

void Exchange::End(int status, std::optional<Error> error) {
  end_.status = status;
  end_.error = std::move(error);
  if (broken_off_ && !end_.error) {
    end_.error = Error{Code::kUpstreamError, "the engine broke the answer off"};
  }
  if (OnEnd on_end = std::exchange(on_end_, nullptr)) {
    on_end(end_);
  }
}

}  // namespace fak::gateway
