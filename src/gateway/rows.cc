#include "gateway/rows.h"

#include <utility>

#include "gateway/gateway.h"
#include "gateway/http_status.h"
#include "wire/openai_encode.h"

namespace fak::gateway {

void BeginRow(JsonWriter& json, const std::string& worker, const Error* maybe_error) {
  json.BeginObject().Key("worker").String(worker);
  json.Key("status").String(maybe_error == nullptr                    ? "done"
                            : maybe_error->code == Code::kUnsupported ? "refused"
                                                                      : "failed");
}

void WriteRowError(JsonWriter& json, const Error& error) {
  json.Key("error").BeginObject().Key("code").String(CodeName(error.code));
  json.Key("message").String(error.detail).EndObject();
}

void Gateway::AnswerRows(Call& call, size_t rows,
                         FunctionRef<const Error*(JsonWriter& json, size_t row)> write) {
  const Error* first = nullptr;
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("results").BeginArray();
  for (size_t row = 0; row < rows; ++row) {
    const Error* error = write(json, row);
    first = first == nullptr ? error : first;
  }
  json.EndArray();
  if (first != nullptr) {
    const Json told = *ParseJson(wire::OpenAiErrorBody(*first));
    json.Key("error").Raw(told.Find("error")->Dump());
  }
  json.EndObject();
  Answer(call, first == nullptr ? 200 : HttpStatusOf(*first), std::move(body));
}

}  // namespace fak::gateway
