#include "ride/request_meter.h"

#include <algorithm>
#include <utility>

namespace fak::ride {
namespace {

double Seconds(int64_t ns) {
  return static_cast<double>(ns) / static_cast<double>(kNsPerSecond);
}

}  // namespace

RequestMeter::RequestMeter(std::shared_ptr<driver::EventSink> sink,
                           std::shared_ptr<metrics::Emitter> emitter,
                           const driver::Prepared& prepared, const Clock& clock,
                           std::function<void()> on_end)
    : sink_(std::move(sink)),
      emitter_(std::move(emitter)),
      clock_(clock),
      streamed_(prepared.turn->stream),
      choices_(static_cast<size_t>(prepared.turn->n) *
               std::max<size_t>(1, prepared.turn->prompts.size())),
      arrival_ns_(prepared.arrival_ns),
      on_end_(std::move(on_end)) {}

RequestMeter::~RequestMeter() {
  End();
}

void RequestMeter::OnEvent(wire::Event&& event) noexcept {
  if (const auto* text = std::get_if<wire::TextDelta>(&event)) {
    TokenCame(text->choice);
  } else if (const auto* reasoning = std::get_if<wire::ReasoningDelta>(&event)) {
    TokenCame(reasoning->choice);
  } else if (const auto* call = std::get_if<wire::ToolCallDelta>(&event)) {
    TokenCame(call->choice);
  } else if (const auto* finish = std::get_if<wire::Finish>(&event)) {
    broken_off_ = broken_off_ || finish->reason == wire::FinishReason::kError;
  } else if (const auto* usage = std::get_if<wire::UsageReport>(&event)) {
    usage_ = usage->usage;
  } else if (std::holds_alternative<wire::Done>(event)) {
    CountEnded();
  } else if (const auto* failed = std::get_if<wire::Failed>(&event)) {
    CountFailed(failed->error);
  }
  sink_->OnEvent(std::move(event));
}

void RequestMeter::TokenCame(int32_t choice) {
  const auto at = static_cast<size_t>(choice);
  if (!streamed_ || choice < 0 || at >= choices_) {
    return;
  }
  const int64_t now_ns = clock_.NowNs();
  int64_t& last_ns = LastOf(at);
  if (last_ns != 0) {
    emitter_->Observe(metrics::Latency::kInterToken, Seconds(now_ns - last_ns));
  } else if (first_ns_ == 0) {
    first_ns_ = now_ns;
    emitter_->Observe(metrics::Latency::kTimeToFirstToken, Seconds(now_ns - arrival_ns_));
  }
  last_ns = now_ns;
}

int64_t& RequestMeter::LastOf(size_t choice) {
  if (choice == 0) {
    return last_ns_;
  }
  others_last_ns_.resize(std::max(others_last_ns_.size(), choice));
  return others_last_ns_[choice - 1];
}

void RequestMeter::CountEnded() {
  metrics::RequestTimes times;
  times.end_to_end_s = Seconds(clock_.NowNs() - arrival_ns_);
  if (first_ns_ != 0) {
    times.first_token_s = Seconds(first_ns_ - arrival_ns_);
  }
  if (usage_) {
    emitter_->Observe(metrics::Tokens::kPrompt, usage_->prompt_tokens);
    emitter_->Observe(metrics::Tokens::kGeneration, usage_->completion_tokens);
    emitter_->Add(metrics::Counter::kPromptTokens, usage_->prompt_tokens);
    emitter_->Add(metrics::Counter::kGenerationTokens, usage_->completion_tokens);
    if (usage_->cached_tokens >= 0) {
      emitter_->Add(metrics::Counter::kPrefixQueries, usage_->prompt_tokens);
      emitter_->Add(metrics::Counter::kPrefixHits, usage_->cached_tokens);
    }
    times.tokens = choices_ == 1 ? usage_->completion_tokens : 0;
    if (first_ns_ != 0 && choices_ == 1 && usage_->completion_tokens > 1) {
      times.per_token_s = Seconds(last_ns_ - first_ns_) / (usage_->completion_tokens - 1);
      emitter_->Observe(metrics::Latency::kTimePerOutputToken, *times.per_token_s);
    }
  }
  emitter_->Observe(metrics::Latency::kEndToEnd, times.end_to_end_s);
  if (broken_off_) {
    emitter_->CountRequest("error");
    emitter_->CountError(CodeName(Code::kUpstreamError));
  } else {
    emitter_->CountRequest("ok");
    emitter_->CountGoodput(times);
  }
  End();
}

void RequestMeter::CountFailed(const Error& error) {
  const bool cancelled = error.code == Code::kCancelled;
  emitter_->CountRequest(cancelled ? "cancelled" : "error");
  if (!cancelled) {
    emitter_->CountError(CodeName(error.code));
  }
  End();
}

void RequestMeter::End() {
  if (const std::function<void()> on_end = std::exchange(on_end_, nullptr)) {
    on_end();
  }
}

}  // namespace fak::ride
