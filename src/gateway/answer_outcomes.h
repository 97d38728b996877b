#pragma once

#include <string>
#include <vector>

#include "gateway/gateway.h"
#include "gateway/rows.h"

namespace fak::gateway {

template <class Outcome, class Did>
void Gateway::AnswerOutcomes(Call& call, const std::string& worker, const std::vector<Outcome>& all,
                             Result<Did> Outcome::* did,
                             FunctionRef<void(JsonWriter& json, const Did& done)> write) {
  if (all.empty()) {
    Refuse(call, {Code::kNotFound, "no upstream has the name " + worker, "worker"});
    return;
  }
  AnswerRows(call, all.size(), [&](JsonWriter& json, size_t row) {
    const Result<Did>& what = all[row].*did;
    const Error* error = what ? nullptr : &what.error();
    BeginRow(json, all[row].worker, error);
    if (error == nullptr) {
      write(json, *what);
    } else {
      WriteRowError(json, *error);
    }
    json.EndObject();
    return error;
  });
}

}  // namespace fak::gateway
