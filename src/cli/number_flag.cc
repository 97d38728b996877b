#include "cli/number_flag.h"

#include <CLI/CLI.hpp>

#include <string>

namespace fak::cli {

CLI::Validator Within(const NumberRange& range) {
  return CLI::Validator(
      [range](const std::string& text) -> std::string {
        double value = 0.0;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        return is_number && range.Has(value) ? "" : "must be " + range.Text() + ", not " + text;
      },
      "");
}

}  // namespace fak::cli
