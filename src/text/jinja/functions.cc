#include <ctime>

#include "text/jinja/arguments.h"

namespace fak::text::jinja {

namespace {

using Args = BoundArguments;

constexpr int64_t kRangeMax = 100'000;  // as in jinja2's sandbox

Result<Value> RaiseException(Evaluator& evaluator, const Value&, const Args& args) {
  TRY_ASSIGN(const TextRef message, Str(evaluator.budget(), *args[0]));
  return evaluator.RaiseVerbatim(message->bytes);
}

Result<Value> StrftimeNow(Evaluator& evaluator, const Value&, const Args& args) {
  TRY_ASSIGN(const TextRef format, TextArgument(*args[0], "the format of strftime_now()"));
  const auto seconds = static_cast<std::time_t>(evaluator.local_now().time_since_epoch().count());
  std::tm fields{};
  if (gmtime_r(&seconds, &fields) == nullptr) {
    return Raise("the time is out of range");
  }
  char buffer[1024];
  TRY(evaluator.budget().Decode(sizeof buffer));
  const size_t length = std::strftime(buffer, sizeof buffer, format->bytes.c_str(), &fields);
  if (length == 0 && !format->bytes.empty()) {
    return Raise("the format of strftime_now() gives more than " +
                 std::to_string(sizeof buffer - 1) + " bytes, or none");
  }
  return Value::String(std::string_view(buffer, length));
}

Result<Value> Range(Evaluator& evaluator, const Value&, const Args& args) {
  TRY_ASSIGN(const int64_t first, IntArgument(args[0], 0));
  TRY_ASSIGN(const int64_t second, IntArgument(args[1], 0));
  TRY_ASSIGN(const int64_t step, IntArgument(args[2], 1));
  if (step == 0) {
    return Raise("range() arg 3 must not be zero");
  }
  const int64_t start = args[1] == nullptr ? 0 : first;
  const int64_t stop = args[1] == nullptr ? first : second;
  auto list = std::make_shared<List>();
  list->form = List::Form::kRange;
  list->range[0] = start;
  list->range[1] = stop;
  list->range[2] = step;
  int64_t at = start;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<int64_t>(list->items.size()) >= kRangeMax) {
      return Raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" +
                   std::to_string(kRangeMax) + ").");
    }
    list->items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) {
      break;
    }
  }
  TRY(evaluator.budget().Steps(list->items.size()));
  return Value(std::move(list));
}

// dict(mapping or pairs, **keywords)
Result<Dict> BuildDict(Evaluator& evaluator, const Args& args, std::string_view name) {
  Dict dict;
  const CallArguments& all = args.all();
  if (all.positional.size() > 1) {
    return Raise(std::string(name) + " expected at most 1 argument, got " +
                 std::to_string(all.positional.size()));
  }
  if (!all.positional.empty() && all.positional[0].is_dict()) {
    TRY(evaluator.budget().Steps(all.positional[0].dict()->entries().size()));
    dict = *all.positional[0].dict();
  } else if (!all.positional.empty()) {
    TRY_ASSIGN(const ListRef pairs, Iterate(evaluator.budget(), all.positional[0]));
    for (const Value& pair : pairs->items) {
      TRY_ASSIGN(const ListRef parts, Iterate(evaluator.budget(), pair));
      if (parts->items.size() != 2) {
        return Raise(std::string(name) + " needs pairs of a key and a value");
      }
      TRY(evaluator.budget().Steps());
      TRY(CheckKey(evaluator.budget(), parts->items[0]));
      dict.Set(parts->items[0], parts->items[1]);
    }
  }
  for (const auto& [key, value] : all.keywords) {
    dict.Set(Value::String(key), value);
  }
  return dict;
}

Result<Value> MakeDictFunction(Evaluator& evaluator, const Value&, const Args& args) {
  TRY_ASSIGN(Dict dict, BuildDict(evaluator, args, "dict"));
  return Value(std::make_shared<Dict>(std::move(dict)));
}

Result<Value> MakeNamespace(Evaluator& evaluator, const Value&, const Args& args) {
  TRY_ASSIGN(Dict dict, BuildDict(evaluator, args, "namespace"));
  auto space = std::make_shared<Namespace>();
  space->attributes = std::move(dict);
  return Value(std::move(space));
}

Result<Value> MakeJoiner(Evaluator&, const Value&, const Args& args) {
  auto joiner = std::make_shared<Callable>();
  joiner->kind = Callable::Kind::kJoiner;
  joiner->items.push_back(args[0] == nullptr ? Value::String(", ") : *args[0]);
  joiner->depth = 1 + ContainerDepth(joiner->items[0]);
  return Value(std::move(joiner));
}

Result<Value> MakeCycler(Evaluator&, const Value&, const Args& args) {
  if (args.all().positional.empty() || !args.all().keywords.empty()) {
    return Raise("at least one item has to be provided");
  }
  auto cycler = std::make_shared<Callable>();
  cycler->kind = Callable::Kind::kCycler;
  cycler->items = args.all().positional;
  for (const Value& item : cycler->items) {
    cycler->depth = std::max(cycler->depth, 1 + ContainerDepth(item));
  }
  return Value(std::move(cycler));
}

constexpr Builtin kFunctions[] = {
    {"raise_exception", "message", RaiseException, Charge::kItself},
    {"strftime_now", "format", StrftimeNow},
    {"range", "start stop? step?", Range, Charge::kItself},
    {"dict", "*", MakeDictFunction, Charge::kItself},
    {"namespace", "*", MakeNamespace, Charge::kItself},
    {"joiner", "sep?", MakeJoiner, Charge::kItself},
    {"cycler", "*", MakeCycler, Charge::kItself},
};

}  // namespace

const Builtin* FindFunction(std::string_view name) {
  return FindIn(kFunctions, name);
}

}  // namespace fak::text::jinja
