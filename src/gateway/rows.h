#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

// Answers of admin calls that several workers have a part in: a row each.
namespace fak::gateway {

// Begins the object of a row: its worker, and "done", or what its error makes of it.
void BeginRow(JsonWriter& json, const std::string& worker, const Error* maybe_error);
// Its "error".
void WriteRowError(JsonWriter& json, const Error& error);

}  // namespace fak::gateway
