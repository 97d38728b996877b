#include "cli/number_flag.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "base/random.h"
#include "base/sampling_ranges.h"

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

std::optional<int64_t> ReadSeed(const std::string& text) {
  int64_t seed = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, seed);
  return read.ec == std::errc() && read.ptr == end ? std::optional(seed) : std::nullopt;
}

}  // namespace

CLI::Validator Within(const NumberRange& range) {
  return Checked(range, /*whole=*/false);
}

CLI::Validator WholeWithin(const NumberRange& range) {
  return Checked(range, /*whole=*/true);
}

CLI::Option* AddSeed(CLI::App& verb, std::function<void(std::optional<uint64_t>)> take,
                     const std::string& about) {
  // Not by CLI11, whose conversion gives all that is too large one value.
  const auto read = [take = std::move(take)](const std::string& text) {
    take(sampling_ranges::SeedOf(*ReadSeed(text)));
  };
  return verb.add_option_function<std::string>("--seed", read, about)
      ->type_name("INT")
      ->check(CLI::Validator(
          [](const std::string& text) -> std::string {
            return ReadSeed(text)
                       ? ""
                       : "must be an integer, " + std::to_string(sampling_ranges::kSeedLeast) +
                             " to " + std::to_string(sampling_ranges::kSeedMost) + ", not " + text;
          },
          ""));
}

CLI::Option* AddSeed(CLI::App& verb, uint64_t& seed, const std::string& about) {
  const auto take = [&seed](std::optional<uint64_t> given) {
    seed = given ? *given : RandomSource::Real().Next64() >> 32;
  };
  return AddSeed(verb, take, about + "; -1: a fresh one")->default_str(std::to_string(seed));
}

}  // namespace fak::cli
