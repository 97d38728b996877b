#pragma once

#include "base/number_range.h"

namespace CLI {
class Validator;
}  // namespace CLI

namespace fak::cli {

// For CLI::Option::check(): the value is a number of that range, which the error says otherwise.
CLI::Validator Within(const NumberRange& range);
// The same for options that take no fractions.
CLI::Validator WholeWithin(const NumberRange& range);

}  // namespace fak::cli
