#include "ride/relay.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/printable.h"
#include "ride/json_reads.h"
#include "ride/upstream_error.h"

namespace fak::ride {
namespace {

// Of its "event:" line, or of its document where a server leaves the line out.
std::string EventName(std::string_view given, const AnswerDocument& document) {
  const std::string_view name = given.empty() ? document.type.string() : given;
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_' || c == '.';
  });
  return std::string(plain ? name : std::string_view());
}

// Of this thread: an event's document is done with before the next one comes.
JsonReader& Reader() {
  thread_local JsonReader reader;
  return reader;
}

}  // namespace

Relay::Relay(std::shared_ptr<driver::EventSink> sink, const Options& options)
    : sink_(std::move(sink)),
      options_(options),
      reader_(MakeAnswerReader(options.surface, options.streamed)) {}

void Relay::Feed(std::string_view bytes) {
  if (ended_) {
    return;
  }
  if (!options_.streamed) {
    if (body_.size() + bytes.size() > limits::kUpstreamBodyBytesMax) {
      Fail({Code::kUpstreamError, "the upstream's answer is larger than " +
                                      std::to_string(limits::kUpstreamBodyBytesMax) + " bytes"});
      return;
    }
    body_ += bytes;
    return;
  }
  // Until an event comes this may be no stream: a plain document, which says what went wrong.
  if (!has_event_) {
    body_ += bytes.substr(0, limits::kUpstreamErrorBytesMax - body_.size());
  }
  const Status fed =
      splitter_.Feed(bytes, [this](const wire::SseEvent& event) { TakeEvent(event); });
  if (!fed) {
    Fail({Code::kUpstreamError, fed.error().detail});
  }
}

void Relay::TakeEvent(const wire::SseEvent& event) {
  if (ended_) {
    return;
  }
  if (!std::exchange(has_event_, true)) {
    body_ = {};
  }
  if (event.data == "[DONE]") {
    Conclude();
    return;
  }
  if (event.type.empty() && TakeOfShape(event.data)) {
    return;
  }
  const Result<JsonView> document = Reader().Read(event.data);
  if (!document) {
    Break({Code::kUpstreamError,
           "the upstream sent an event that is no JSON: " + document.error().detail});
    return;
  }
  if (event.type == "error" && document->is_object()) {
    Fail(ErrorUnder200(document->Copy(), event.data, options_.key));
    return;
  }
  if (options_.edits.counts_anew()) {
    if (const auto edited = options_.edits.WithWholeUsage(event.data, AnswerDocument(*document))) {
      const Result<JsonView> again = Reader().Read(*edited);
      CHECK(again.has_value()) << again.error().detail;
      TakeDocument(*again, *edited, event.type);
      return;
    }
  }
  TakeDocument(*document, event.data, event.type);
}

bool Relay::TakeOfShape(std::string_view raw) {
  const std::optional<std::string_view> text = shape_.TextOf(raw);
  if (!text) {
    return false;
  }
  Emit(wire::RawChunk{options_.edits.Shown(raw)});
  Emit(wire::TextDelta{shape_choice_, std::string(*text), {}, {}});
  return true;
}

void Relay::TakeWhole() {
  const Result<Json> document = ParseJson(body_);
  if (!document) {
    Fail({Code::kUpstreamError,
          "the upstream's answer is no JSON: " + document.error().detail + WhatCame()});
    return;
  }
  TakeDocument(*document, body_, {});
}

void Relay::TakeDocument(const JsonView& whole, std::string_view raw, std::string_view type) {
  if (!whole.is_object() && !(whole.is_array() && reader_->takes_lists())) {
    Fail({Code::kUpstreamError, "the upstream sent a document that is no object"});
    return;
  }
  const AnswerDocument document(whole);
  if (IsErrorDocument(document)) {
    Fail(ErrorUnder200(whole.Copy(), raw, options_.key));
    return;
  }
  if (const Status placed = reader_->CheckPlace(document); !placed) {
    Fail(placed.error());
    return;
  }
  std::string name = EventName(type, document);
  const bool nameless = name.empty();
  // First the raw text, then what it says: an encoder of the same wire ignores the latter.
  if (!options_.withhold_usage || !reader_->IsUsageOnly(document)) {
    const bool tells_error = name == "response.failed";
    std::string shown = options_.edits.Shown(raw);
    Emit(wire::RawChunk{tells_error ? WithoutKey(std::move(shown), options_.key) : std::move(shown),
                        std::move(name)});
  }
  int events = 0;
  wire::TextDelta said;
  const Status taken = reader_->Take(document, [&](wire::Event&& event) {
    if (const auto* text = std::get_if<wire::TextDelta>(&event); ++events == 1 && text != nullptr) {
      said = *text;
    }
    Emit(std::move(event));
  });
  if (events == 1 && said.tokens.empty() && nameless && reader_->tells_text_by_place()) {
    shape_.Learn(raw, said.text);
    shape_choice_ = said.choice;
  }
  if (!taken) {
    Fail(taken.error());
  } else if (reader_->ended()) {
    Conclude();
  }
}

std::string Relay::WhatCame() const {
  constexpr size_t kTypeShown = 80;
  constexpr size_t kBodyShown = 200;
  // Without the key before it is cut: a cut one is found no more.
  const std::string body = WithoutKey(body_, options_.key);
  const std::string start = Printable(std::string_view(body).substr(0, kBodyShown));
  const std::string said =
      maybe_odd_type_ == nullptr
          ? std::string(UsualType())
          : Printable(WithoutKey(*maybe_odd_type_, options_.key).substr(0, kTypeShown));
  const std::string type = said.empty() ? "no Content-Type" : "Content-Type " + said;
  return " (" + type + (start.empty() ? ", and nothing in it)" : ": " + start + ")");
}

void Relay::Finish() {
  if (ended_) {
    return;
  }
  if (options_.streamed) {
    splitter_.Finish([this](const wire::SseEvent& event) { TakeEvent(event); });
    if (const auto document = has_event_ ? Json() : ParseJson(body_).value_or(Json());
        IsErrorDocument(AnswerDocument(document))) {
      Fail(ErrorUnder200(document, body_, options_.key));
    } else if (!has_event_) {
      Fail({Code::kUpstreamError, "the upstream answered with no stream of events" + WhatCame()});
    }
  } else {
    TakeWhole();
  }
  if (ended_) {
    return;
  }
  // An engine that says "[DONE]" after fewer choices than were asked for knows no more.
  if (settled() && !whole()) {
    Fail({Code::kUpstreamError, "the upstream's answer ended after " +
                                    std::to_string(reader_->begun()) + " of " +
                                    std::to_string(options_.choices) + " choices"});
    return;
  }
  Conclude();
}

void Relay::Conclude() {
  if (!reader_->complete()) {
    Fail({Code::kUpstreamError,
          "the upstream's answer ended without " + std::string(reader_->missing())});
    return;
  }
  Succeed();
}

void Relay::Succeed() {
  ended_ = succeeded_ = true;
  Emit(wire::Done{});
}

bool Relay::whole() const {
  return settled() && reader_->begun() >= options_.choices;
}

void Relay::Break(Error error) {
  if (!ended_ && whole()) {
    Succeed();
    return;
  }
  Fail(std::move(error));
}

void Relay::Fail(Error error) {
  if (!std::exchange(ended_, true)) {
    Emit(wire::Failed{WithoutKey(std::move(error), options_.key)});
  }
}

}  // namespace fak::ride
