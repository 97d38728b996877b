#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/value.h"

namespace fak::text::jinja {

class Evaluator;

struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

// Arguments by position of the parameter they are for.
class BoundArguments {
 public:
  static constexpr size_t kParametersMax = 6;
  // Null when the argument was not given.
  const Value* operator[](size_t parameter) const { return values_[parameter]; }
  // As they came, for builtins that take any ("*").
  const CallArguments& all() const { return *all_; }

 private:
  friend Result<BoundArguments> Bind(std::string_view, std::string_view, const CallArguments&);
  std::array<const Value*, kParametersMax> values_{};
  const CallArguments* all_ = nullptr;
};

// How a call is paid for by the size of what it is given: each text among `self` and the arguments
// by its bytes, each list and dict by its elements.
enum class Charge {
  kDecode,  // texts at the price of a walk over their characters
  kScan,    // texts at the price of a search
  kItself,  // no: it takes constant time, or pays for what it does
};

// A filter, test, method or function of ours. `self` is the filtered value, the tested value or the
// object of the method; undefined for functions.
struct Builtin {
  std::string_view name;
  // Parameter names in Python's order, blanks between; '?' ends an optional one; "*" alone means
  // that the function looks at the arguments itself.
  std::string_view parameters;
  Result<Value> (*function)(Evaluator& evaluator, const Value& self, const BoundArguments& args);
  Charge charge = Charge::kDecode;
};

// Sorts the arguments to the parameters. `name` is for the error. The arguments must outlive the
// result.
[[nodiscard]] Result<BoundArguments> Bind(std::string_view name, std::string_view parameters,
                                          const CallArguments& args);

// All that work on texts or any value, for a test that each is paid for.
std::vector<Builtin> AllFilters();
std::vector<Builtin> AllTests();
std::vector<Builtin> AllTextMethods();

// Null when there is none of that name.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindFunction(std::string_view name);
// A method of the value's type. *is_known says that Python has it, whether or not we do.
const Builtin* FindMethod(const Value& self, std::string_view name, bool* is_known);

}  // namespace fak::text::jinja
