#pragma once

#include <string>

#include "wire/fields.h"

namespace fak::wire {

// Fields that other engines and hosted APIs know, that would change the answer, and that none of
// our own engine's parts serves. Takes them all, and gives the first with a value that asks for
// something; empty: none does.
std::string TakeUnservedFields(Fields& fields);

}  // namespace fak::wire
