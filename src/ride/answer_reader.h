#pragma once

#include <memory>
#include <string>

#include "base/function_ref.h"
#include "base/limits.h"
#include "base/result.h"
#include "ride/answer_document.h"
#include "wire/event.h"
#include "wire/turn.h"

namespace fak::ride {

// The most choices that one request can ask for: what an answer's index stays below.
inline constexpr int32_t kAnswerChoicesMax =
    limits::kChoicesMax * static_cast<int32_t>(limits::kPromptsMax);

// Reads the documents of one wire's answer, streamed events or a whole one, into neutral events.
// One object an answer; not thread-safe.
class AnswerReader {
 public:
  using Emit = FunctionRef<void(wire::Event&&)>;

  static constexpr size_t kHotBytes = 128;  // of a reader, from its start: what is small and used

  virtual ~AnswerReader() = default;
  // Whether an answer may be a list of documents.
  virtual bool takes_lists() const { return false; }
  // Whether an event may come now, as its wire orders them. Before Take(), and before a client sees
  // it: one that ends a stream too early must not reach one.
  [[nodiscard]] virtual Status CheckPlace(const AnswerDocument&) const { return {}; }
  // What an event or answer says. An error ends the answer with it.
  [[nodiscard]] virtual Status Take(const AnswerDocument& document, Emit emit) = 0;
  // A document that only carries usage, which a client that didn't ask for it must not see.
  virtual bool IsUsageOnly(const AnswerDocument&) const { return false; }
  // Whether a document that said one text, and nothing else, would say any other text in its place
  // likewise, whenever it came.
  virtual bool tells_text_by_place() const { return false; }
  // Whether everything that began has ended as this wire says. If not, the answer was cut.
  virtual bool complete() const = 0;
  // Whether the event that this wire has last was taken: whatever follows is no part of the answer.
  virtual bool ended() const { return false; }
  // Choices that began, finished or not.
  virtual size_t begun() const { return 1; }
  // What is missing when it isn't complete, for the error.
  virtual std::string_view missing() const = 0;
};

// What a reader's CheckPlace() says of an event that came too early, too late or twice.
inline Status OutOfOrder(const std::string& what) {
  return Fail(Code::kUpstreamError, "the upstream's stream is out of order: " + what);
}

// OpenAI's chat and completions: complete when every choice that began has a finish reason.
std::unique_ptr<AnswerReader> MakeChatReader(bool streamed);
// Anthropic's messages: complete with a stop reason and, in a stream, message_stop. In order: it
// begins with message_start; content comes between that and the stop reason, message_stop after it.
std::unique_ptr<AnswerReader> MakeMessagesReader(bool streamed);
// OpenAI's responses: complete with response.completed or response.incomplete. In order: it begins
// with response.created (.queued, .in_progress), or with a last event that has all of the output.
std::unique_ptr<AnswerReader> MakeResponsesReader(bool streamed);
// SGLang's own generate: complete when every choice that began has a finish reason.
std::unique_ptr<AnswerReader> MakeGenerateReader();
// One document that needs no finishing: embeddings ("data"), counted tokens ("input_tokens").
std::unique_ptr<AnswerReader> MakeDocumentReader(std::string_view member);

std::unique_ptr<AnswerReader> MakeAnswerReader(wire::Surface surface, bool streamed);

}  // namespace fak::ride
