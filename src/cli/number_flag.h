#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/number_range.h"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace fak::cli {

// For CLI::Option::check(): the value is a number of that range, which the error says otherwise.
CLI::Validator Within(const NumberRange& range);
// The same for options that take no fractions.
CLI::Validator WholeWithin(const NumberRange& range);

// --seed, of the range that requests have, to the last digit. `take` gets nullopt for -1, which
// asks for a fresh one.
CLI::Option* AddSeed(CLI::App& verb, std::function<void(std::optional<uint64_t>)> take,
                     const std::string& about);
// The same for a seed that will be printed: a fresh one is drawn at once, and is short.
CLI::Option* AddSeed(CLI::App& verb, uint64_t& seed, const std::string& about);

}  // namespace fak::cli
