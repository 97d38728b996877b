#pragma once

#include "base/json_view.h"

namespace fak::ride {

// A document of an answer, and those of its members that most are judged by, found in one walk.
struct AnswerDocument {
  explicit AnswerDocument(const JsonView& document) : whole(document) {
    const auto found = document.FindEach({"error", "object", "type", "choices", "usage"});
    error = found[0];
    object = found[1];
    type = found[2];
    choices = found[3];
    usage = found[4];
  }

  JsonView whole, error, object, type, choices, usage;
};

}  // namespace fak::ride
