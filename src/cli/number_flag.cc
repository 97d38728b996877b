#include "cli/number_flag.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <string>

namespace fak::cli {

namespace {

CLI::Validator Checked(const NumberRange& range, bool whole) {
  return CLI::Validator(
      [range, whole](const std::string& text) -> std::string {
        double value = 0.0;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        const bool fits = !whole || std::trunc(value) == value;
        return is_number && fits && range.Has(value)
                   ? ""
                   : "must be " + std::string(fits ? "" : "an integer, ") +
                         range.TextAgainst(value) + ", not " + text;
      },
      "");
}

}  // namespace

CLI::Validator Within(const NumberRange& range) {
  return Checked(range, /*whole=*/false);
}

CLI::Validator WholeWithin(const NumberRange& range) {
  return Checked(range, /*whole=*/true);
}

}  // namespace fak::cli
