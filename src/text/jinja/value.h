#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja/marked_text.h"

namespace fak::text::jinja {

struct List;
struct Dict;
struct Namespace;
struct Callable;
struct LoopState;

// A name that has no value. Printing it gives nothing; most other uses are errors with this
// message.
struct Undefined {
  std::shared_ptr<const std::string> message;
};
struct None {};
// An integer of the input beyond 64 bits. Prints as it came; arithmetic on it is refused.
struct BigInt {
  std::shared_ptr<const std::string> digits;
};

using TextRef = std::shared_ptr<const Text>;
using ListRef = std::shared_ptr<List>;
using DictRef = std::shared_ptr<Dict>;
using NamespaceRef = std::shared_ptr<Namespace>;
using CallableRef = std::shared_ptr<Callable>;
using LoopRef = std::shared_ptr<LoopState>;

// A Python value as templates see it. Small handle; containers and texts are shared, as in Python.
// Values of one render belong to its thread; those in a parsed template (texts, numbers) are
// constant and shared between threads.
class Value {
 public:
  Value() = default;  // undefined, without a message of its own
  explicit Value(Undefined undefined) : data_(std::move(undefined)) {}
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(BigInt value) : data_(std::move(value)) {}
  explicit Value(TextRef text) : data_(std::move(text)) {}
  explicit Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}
  explicit Value(ListRef list) : data_(std::move(list)) {}
  explicit Value(DictRef dict) : data_(std::move(dict)) {}
  explicit Value(NamespaceRef space) : data_(std::move(space)) {}
  explicit Value(CallableRef callable) : data_(std::move(callable)) {}
  explicit Value(LoopRef loop) : data_(std::move(loop)) {}
  static Value MakeNone() {
    Value value;
    value.data_ = None{};
    return value;
  }
  // Scaffolding text.
  static Value String(std::string_view bytes) { return Value(Text{std::string(bytes), {}, false}); }
  static Value MakeUndefined(std::string message) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(message))});
  }

  bool is_undefined() const { return Is<Undefined>(); }
  bool is_none() const { return Is<None>(); }
  bool is_bool() const { return Is<bool>(); }
  bool is_int() const { return Is<int64_t>(); }
  bool is_float() const { return Is<double>(); }
  bool is_big_int() const { return Is<BigInt>(); }
  bool is_string() const { return Is<TextRef>(); }
  bool is_list() const { return Is<ListRef>(); }
  bool is_dict() const { return Is<DictRef>(); }
  bool is_namespace() const { return Is<NamespaceRef>(); }
  bool is_callable() const { return Is<CallableRef>(); }
  bool is_loop() const { return Is<LoopRef>(); }
  // bool, int, BigInt or float.
  bool is_number() const { return is_bool() || is_int() || is_float() || is_big_int(); }

  // Precondition of these: the kind matches.
  const Undefined& undefined() const { return std::get<Undefined>(data_); }
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const { return std::get<int64_t>(data_); }
  double real() const { return std::get<double>(data_); }
  const BigInt& big_int() const { return std::get<BigInt>(data_); }
  const TextRef& text_ref() const { return std::get<TextRef>(data_); }
  const Text& text() const { return *std::get<TextRef>(data_); }
  const ListRef& list() const { return std::get<ListRef>(data_); }
  const DictRef& dict() const { return std::get<DictRef>(data_); }
  const NamespaceRef& space() const { return std::get<NamespaceRef>(data_); }
  const CallableRef& callable() const { return std::get<CallableRef>(data_); }
  const LoopRef& loop() const { return std::get<LoopRef>(data_); }

  // int and bool as an integer, else false.
  bool AsInt(int64_t* out) const;
  // Any number as a double, else false.
  bool AsDouble(double* out) const;
  // Python's `is`: same object, or equal small values of one kind.
  bool IsSame(const Value& other) const;

 private:
  template <class T>
  bool Is() const {
    return std::holds_alternative<T>(data_);
  }
  std::variant<Undefined, None, bool, int64_t, double, BigInt, TextRef, ListRef, DictRef,
               NamespaceRef, CallableRef, LoopRef>
      data_;
};

// Every Python sequence that isn't a str. The form decides its name, its repr and what it can do.
struct List {
  enum class Form { kList, kTuple, kRange, kKeys, kValues, kItems, kIterator };
  std::vector<Value> items;
  Form form = Form::kList;
  int depth = 1;                 // containers on the longest path inside, this one included
  bool is_tracked = false;       // by the evaluator, because it was changed
  size_t next = 0;               // kIterator: what was consumed; an iterator can be walked once
  int64_t range[3] = {0, 0, 1};  // kRange: start, stop, step, for its repr
};

// Total order of hashable values (equal numbers of different kinds are one key, as in Python).
bool KeyLess(const Value& a, const Value& b);

// An insertion-ordered dict with keys of any hashable kind.
struct Dict {
  using Entry = std::pair<Value, Value>;

  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  void Set(Value key, Value value);
  bool Remove(const Value& key);

  const std::vector<Entry>& entries() const { return entries_; }
  void clear();
  int depth = 1;  // as List's
  bool is_tracked = false;

 private:
  size_t IndexOf(const Value& key) const;
  void BuildIndex();
  std::vector<Entry> entries_;
  // Only for large dicts; a tree, so that no choice of keys makes look-ups slow.
  struct Compare {
    bool operator()(const Value& a, const Value& b) const { return KeyLess(a, b); }
  };
  std::map<Value, size_t, Compare> index_;
};

struct Namespace {
  Dict attributes;
};

// Whether the value can be a dict key: everything but lists, dicts and namespaces, deeply.
bool IsHashable(const Value& value);

// How many containers are on the longest path through the value: a bound for recursions over it.
// What a change put into a container that others hold already is not in their depth.
int ContainerDepth(const Value& value);

// Python's type name: "str", "dict", "NoneType".
std::string_view TypeName(const Value& value);

// The input document as values. Strings and keys are user content if `is_user_content`.
// Depth is bounded by kJsonDepthMax, which ParseJson checked.
Value FromJson(const Json& json, bool is_user_content);

Value MakeList(std::vector<Value> items, List::Form form = List::Form::kList);
Value MakeDict(std::vector<Dict::Entry> entries);

}  // namespace fak::text::jinja
