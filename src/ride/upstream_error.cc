#include "ride/upstream_error.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/utf8.h"
#include "ride/json_reads.h"

namespace fak::ride {
namespace {

// What a body says, whatever its shape.
struct Said {
  std::string message;
  std::string type;
  std::string code;  // as text; a number's text too
  std::string field;
};

std::string TextAt(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  return value != nullptr && value->is_number() ? value->number_text() : StringAt(object, key);
}

// FastAPI's list of what a validation found.
void ReadValidation(const Json::Array& findings, Said& said) {
  if (findings.empty()) {
    return;
  }
  const Json& first = findings.front();
  said.message = StringAt(first, "msg");
  for (const Json& part : ArrayAt(first, "loc")) {
    const std::string name = part.is_string() ? part.string() : part.Dump();
    if (name != "body") {
      said.field += (said.field.empty() ? "" : ".") + name;
    }
  }
}

Said Read(const Json& document) {
  Said said;
  const Json* inner = document.Find("error");
  if (inner != nullptr && inner->is_string()) {
    said.message = inner->string();
    return said;
  }
  const Json& holder = inner != nullptr && inner->is_object() ? *inner : document;
  said.message = StringAt(holder, "message");
  said.type = StringAt(holder, "type");
  said.code = TextAt(holder, "code");
  said.field = StringAt(holder, "param");
  if (said.message.empty()) {
    said.message = StringAt(document, "detail");
  }
  if (said.message.empty()) {
    ReadValidation(ArrayAt(document, "detail"), said);
  }
  return said;
}

bool SaysTooLong(const Said& said) {
  return said.type == "exceed_context_size_error" || said.code == "context_length_exceeded" ||
         said.code == CodeName(Code::kContextTooLong) || said.field == "input_tokens" ||
         said.message.find("maximum context length") != std::string::npos ||
         said.message.find("prompt is too long") != std::string::npos;
}

bool IsTheClients(int status) {
  return status >= 400 && status < 500 && status != 401 && status != 403 && status != 407 &&
         status != 408;
}

// What another fak calls an error, where that says more than the status does.
struct OwnError {
  Code code;
  int status;  // its usual one
};

constexpr OwnError kOwnErrors[] = {
    {Code::kInvalidArgument, 400},  {Code::kUnsupported, 400},   {Code::kContextTooLong, 400},
    {Code::kNotFound, 404},         {Code::kAlreadyExists, 409}, {Code::kPayloadTooLarge, 413},
    {Code::kRateLimited, 429},      {Code::kUnavailable, 503},   {Code::kResourceExhausted, 503},
    {Code::kDeadlineExceeded, 504},
};

const OwnError* MaybeOwnError(const Said& said) {
  const auto* const found =
      std::find_if(std::begin(kOwnErrors), std::end(kOwnErrors),
                   [&said](const OwnError& own) { return said.code == CodeName(own.code); });
  return found == std::end(kOwnErrors) ? nullptr : found;
}

Code CodeOf(int status, const Said& said) {
  const OwnError* const own = MaybeOwnError(said);
  if (own != nullptr && (own->status == status || (own->status == 400 && IsTheClients(status)))) {
    return own->code;
  }
  switch (status) {
    case 400: return SaysTooLong(said) ? Code::kContextTooLong : Code::kUpstreamError;
    case 403: return Code::kPermissionDenied;  // perhaps of what the prompt says
    case 404:
      return said.message.empty() || said.message == "Not Found" ? Code::kUnsupported
                                                                 : Code::kNotFound;
    case 408:
    case 504: return Code::kDeadlineExceeded;
    case 429: return Code::kRateLimited;
    case 503:
    case 529: return Code::kUnavailable;
    default: return Code::kUpstreamError;
  }
}

void Replace(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), with);
    at += with.size();
  }
}

Error Make(int status, const Said& said, std::string_view body, std::string_view key) {
  Error error = WithoutKey(Error{CodeOf(status, said), said.message, said.field}, key);
  const bool no_such_path = status == 404 && error.code == Code::kUnsupported;
  error.upstream_status = IsTheClients(status) && !no_such_path ? status : 0;
  if (error.detail.empty()) {
    constexpr size_t kShown = 200;
    const std::string shown =
        WithoutKey(std::string(body), key);  // first: a cut one is found no more
    error.detail = ReplaceInvalidUtf8(std::string_view(shown).substr(0, kShown));
  }
  if (error.detail.empty() || error.upstream_status == 0) {
    const std::string what = status == 200 ? "the upstream reported an error"
                                           : "the upstream answered " + std::to_string(status);
    error.detail = what + (error.detail.empty() ? "" : ": " + error.detail);
  }
  return error;
}

}  // namespace

std::string WithoutKey(std::string text, std::string_view key) {
  constexpr std::string_view kRedacted = "[redacted]";
  constexpr size_t kShortest = 4;  // a shorter one hides nothing, and stands in many a word
  if (key.size() < kShortest) {
    return text;
  }
  std::string quoted = Json(key).Dump();
  quoted = quoted.substr(1, quoted.size() - 2);
  std::string slashed = quoted;  // which some writers of JSON escape
  Replace(slashed, "/", "\\/");
  for (const std::string_view form : {key, std::string_view(quoted), std::string_view(slashed)}) {
    Replace(text, form, kRedacted);
  }
  return text;
}

Error WithoutKey(Error error, std::string_view key) {
  error.detail = WithoutKey(std::move(error.detail), key);
  error.field = WithoutKey(std::move(error.field), key);
  return error;
}

Error UpstreamError(int status, std::string_view body, std::string_view key) {
  const Result<Json> document = ParseJson(body);
  return Make(status, document ? Read(*document) : Said{}, body, key);
}

bool IsErrorDocument(const AnswerDocument& document) {
  const std::string_view object = document.object.string();
  if (document.error && !document.error.is_null()) {
    // A response of the Responses surface has an "error" of its own beside its status.
    return object != "response";
  }
  return object == "error" || document.type.string() == "error";
}

Error ErrorUnder200(const Json& document, std::string_view raw, std::string_view key) {
  const Said said = Read(document);
  // Dynamo, vLLM and llama.cpp put the status that it would have had into "code".
  int status = IntAt(ObjectAt(document, "error"), "code", IntAt(document, "code", 0));
  if (said.type == "overloaded_error") {
    status = 529;
  } else if (said.type == "rate_limit_error") {
    status = 429;
  } else if (const OwnError* const own = MaybeOwnError(said)) {
    status = own->status;
  }
  return Make(status >= 400 && status < 600 ? status : 200, said, raw, key);
}

}  // namespace fak::ride
