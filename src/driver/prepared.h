#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "wire/document_edit.h"
#include "wire/http_headers.h"
#include "wire/turn.h"

namespace fak::driver {

// One prompt of a turn, rendered and tokenised by the gateway with the model's ModelCard.
struct PreparedPrompt {
  std::string text;             // rendered
  std::vector<int32_t> tokens;  // empty when the model has no card here (ridden, no tokenizer)
  // Rolling hash of each whole unit of 16 tokens (or, without tokens, of 64 bytes of text) with
  // the salt: what the residency index and routing work with.
  std::vector<uint64_t> unit_keys;
  // A field of the request that the model's template can't be told; empty: none. Ridden engines
  // have templates of their own.
  std::string unserved_field{};
};

// An answer that another replica began and couldn't end: for a driver that CanContinue() it, which
// sends what follows, as if the other one had sent it.
struct Continuation {
  std::string artifact;                // of who began it
  std::vector<int32_t> prompt_tokens;  // as the engine told them; empty: it didn't
  std::vector<int32_t> tokens;         // of the answer so far
  // Members that every chunk of the stream has, as it began: "id", "created" ...
  std::vector<wire::MemberEdit> head;
  int64_t created_s = 0;         // that head's; 0: it has none
  std::optional<uint64_t> seed;  // in force, where the engine told it
};

// A prompt that leaves no room for an answer. tokens: how many, in words ("at least 12").
inline Error PromptTooLong(uint32_t context, const std::string& tokens) {
  return {Code::kContextTooLong,
          "This model's maximum context length is " + std::to_string(context) +
              " tokens. However, your prompt has " + tokens +
              " tokens. Please reduce the length of the prompt",
          "prompt"};
}

// A turn made ready, off the event loop and once, for whichever driver will answer it.
// Immutable; shared by the gateway, the fleet (scoring, retries on another replica) and the driver.
struct Prepared {
  std::string request_id;  // unique in this process; what Cancel() names
  // The client's own id where it gave a usable one: for logs, headers and the upstream.
  std::string shown_id;
  std::shared_ptr<const wire::Turn> turn;
  // The client's document as it came, read and in its own bytes. Ride sends those with only the
  // edits we made; null: nobody kept them, and the document is written anew.
  std::shared_ptr<const Json> document;
  std::shared_ptr<const std::string> maybe_body;
  // The client's headers, without credentials and what concerns its connection. A ridden engine
  // gets those that its adapter lists.
  wire::HttpHeaders client_headers;
  // One for chat; one a prompt for completions. Choice i of prompt p has index p · n + i.
  std::vector<PreparedPrompt> prompts;

  std::string tenant;  // name of the key; empty without keys
  double tenant_weight = 1.0;
  std::string cache_salt;  // tenant and the client's salt folded; caches never cross salts
  int32_t priority = 0;    // lower first
  int64_t arrival_ns = 0;  // Clock::NowNs
  // When the driver gives it up, waiting or running, with DeadlineError(). Absent: never.
  std::optional<int64_t> deadline_ns;
  std::string traceparent;

  // A fleet may have to go on with the answer elsewhere: a driver that CanContinue() fills
  // TextDelta::tokens, and shows the client no more of them than it asked for.
  bool for_resumption = false;
  std::shared_ptr<const Continuation> maybe_continuation = {};
  // What a fleet has made of the model that the turn asks for; empty: nothing, it is that one.
  std::string model = {};
  // To be taken by who is well and has room for it, or by nobody: there are other models to try.
  bool only_well = false;
};

// The model that is asked for, as clients name it; empty: the served one.
inline const std::string& ModelOf(const Prepared& prepared) {
  return prepared.model.empty() ? prepared.turn->model : prepared.model;
}

inline Error DeadlineError(const Prepared& prepared) {
  const int64_t allowed_ms = (*prepared.deadline_ns - prepared.arrival_ns) / kNsPerMs;
  return {Code::kDeadlineExceeded,
          "the request took longer than the " + std::to_string(allowed_ms) +
              " ms that the server gives to a request (--request-timeout)"};
}

}  // namespace fak::driver
