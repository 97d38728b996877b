#include "text/jinja/builtins.h"

#include <algorithm>

#include "text/jinja/budget.h"

namespace fak::text::jinja {

namespace {

struct Parameter {
  std::string_view name;
  bool is_optional = false;
};

size_t ParseParameters(std::string_view spec,
                       std::array<Parameter, BoundArguments::kParametersMax>* out) {
  size_t count = 0;
  while (!spec.empty()) {
    const size_t blank = std::min(spec.find(' '), spec.size());
    std::string_view name = spec.substr(0, blank);
    const bool is_optional = name.ends_with('?');
    name.remove_suffix(is_optional ? 1 : 0);
    CHECK(count < out->size()) << "too many parameters";
    (*out)[count++] = {name, is_optional};
    spec.remove_prefix(std::min(blank + 1, spec.size()));
  }
  return count;
}

}  // namespace

Result<BoundArguments> Bind(std::string_view name, std::string_view parameters,
                            const CallArguments& args) {
  BoundArguments bound;
  bound.all_ = &args;
  if (parameters == "*") {
    return bound;
  }
  std::array<Parameter, BoundArguments::kParametersMax> wanted;
  const size_t count = ParseParameters(parameters, &wanted);
  const std::string shown = std::string(name) + "()";
  if (args.positional.size() > count) {
    return Raise(shown + " takes at most " + std::to_string(count) + " arguments, got " +
                 std::to_string(args.positional.size()));
  }
  for (size_t i = 0; i < args.positional.size(); ++i) {
    bound.values_[i] = &args.positional[i];
  }
  for (const auto& keyword : args.keywords) {
    const auto& [key, value] = keyword;
    const auto found =
        std::find_if(wanted.begin(), wanted.begin() + count,
                     [&keyword](const Parameter& p) { return p.name == keyword.first; });
    const auto i = static_cast<size_t>(found - wanted.begin());
    if (i == count) {
      return Raise(shown + " got an unexpected keyword argument '" + key + "'");
    }
    if (bound.values_[i] != nullptr) {
      return Raise(shown + " got multiple values for argument '" + key + "'");
    }
    bound.values_[i] = &value;
  }
  for (size_t i = 0; i < count; ++i) {
    if (bound.values_[i] == nullptr && !wanted[i].is_optional) {
      return Raise(shown + " is missing the argument '" + std::string(wanted[i].name) + "'");
    }
  }
  return bound;
}

}  // namespace fak::text::jinja
