#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "ride/answer_document.h"

namespace fak::ride {

// What an upstream's refusal means: its status and body in any shape that was seen, as an Error.
//
//   {"error": {"message", "type", "param", "code"}}     OpenAI, vLLM, llama.cpp, fak
//   {"error": "text"}                                   mlx-lm, vLLM's 401
//   {"object": "error", "message", "type", ...}         SGLang
//   {"message", "type", "code"}                         Dynamo
//   {"type": "error", "error": {"type", "message"}}     Anthropic
//   {"detail": "text"}, {"detail": [{"loc", "msg"}]}    FastAPI
//   anything else                                       its first bytes
//
// 4xx keep their status for the client, but 401, 403 and 407, which speak of our credentials, not
// of the client's. The code is for whoever decides about retries:
//   429 kRateLimited; 503 and 529 kUnavailable (come back later); 408 and 504 kDeadlineExceeded;
//   400 that says the prompt is too long kContextTooLong; 403 kPermissionDenied (it may be about
//   what the prompt says); 404 kNotFound; everything else kUpstreamError.
// A 404 without a message, or with a router's own words, means that the engine doesn't serve the
// path: kUnsupported. The codes of another fak that say more than their status are kept.
//
// `key` is ours at that upstream: one that quotes it back is shown without it.
Error UpstreamError(int status, std::string_view body, std::string_view key = {});

// Whether a document that came under status 200 is an error all the same, and then which.
bool IsErrorDocument(const AnswerDocument& document);
Error ErrorUnder200(const Json& document, std::string_view raw, std::string_view key = {});

// An upstream's text with our key there, as it is and as JSON may write it, replaced by
// "[redacted]". For all that goes to a client or into a log and isn't a model's answer.
std::string WithoutKey(std::string text, std::string_view key);
Error WithoutKey(Error error, std::string_view key);

}  // namespace fak::ride
