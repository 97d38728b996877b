#include "gateway/exchange.h"

#include <utility>

#include "gateway/http_status.h"

namespace fak::gateway {

OpenAiExchange::OpenAiExchange(std::shared_ptr<const wire::Turn> turn, wire::AnswerHead head,
                               net::HttpHeaders headers,
                               std::shared_ptr<net::ResponseWriter> response, const Clock& clock,
                               OnEnd on_end)
    : turn_(std::move(turn)),
      headers_(std::move(headers)),
      response_(std::move(response)),
      clock_(clock),
      on_end_(std::move(on_end)) {
  if (turn_->stream) {
    stream_.emplace(std::move(head), *turn_);
  } else {
    whole_.emplace(std::move(head), *turn_);
  }
}

net::HttpHeaders OpenAiExchange::Headers(std::string_view content_type) const {
  net::HttpHeaders headers = headers_;
  headers.Add("content-type", std::string(content_type));
  return headers;
}

void OpenAiExchange::OnEvent(wire::Event event) noexcept {
  if (const auto* usage = std::get_if<wire::UsageReport>(&event)) {
    end_.usage = usage->usage;
  }
  if (stream_) {
    OnStreamEvent(event);
  } else {
    OnWholeEvent(event);
  }
}

void OpenAiExchange::OnStreamEvent(const wire::Event& event) {
  const auto* failed = std::get_if<wire::Failed>(&event);
  if (failed != nullptr && !started_) {
    Refuse(failed->error);
    return;
  }
  bytes_.clear();
  stream_->Encode(event, bytes_);
  if (!bytes_.empty()) {
    if (!std::exchange(started_, true)) {
      end_.first_byte_ns = clock_.NowNs();
      net::HttpHeaders headers = Headers("text/event-stream; charset=utf-8");
      headers.Add("cache-control", "no-cache");
      headers.Add("x-accel-buffering", "no");
      response_->StartStream(200, std::move(headers));
    }
    response_->Write(bytes_);
  }
  if (stream_->ended()) {
    response_->End();
    End(200, failed != nullptr ? std::optional(failed->error) : std::nullopt);
  }
}

void OpenAiExchange::OnWholeEvent(const wire::Event& event) {
  whole_->Add(event);
  if (whole_->error()) {
    Refuse(*whole_->error());
  } else if (whole_->done()) {
    end_.first_byte_ns = clock_.NowNs();
    response_->Send({200, Headers("application/json"), whole_->Body()});
    End(200, std::nullopt);
  }
}

void OpenAiExchange::Refuse(const Error& error) {
  const int status = HttpStatusOf(error);
  net::HttpHeaders headers = Headers("application/json");
  if (error.retry_after_s > 0) {
    headers.Add("retry-after", std::to_string(error.retry_after_s));
  }
  response_->Send({status, std::move(headers), wire::OpenAiErrorBody(error)});
  End(status, error);
}

void OpenAiExchange::End(int status, std::optional<Error> error) {
  end_.status = status;
  end_.error = std::move(error);
  if (OnEnd on_end = std::exchange(on_end_, nullptr)) {
    on_end(end_);
  }
}

}  // namespace fak::gateway
