#include "text/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "text/jinja/evaluator.h"

namespace fak::text::jinja {

namespace {

// Dicts up to this size are searched in order; above it they have an index.
constexpr size_t kIndexFrom = 16;

// Kinds in key order. Numbers are one kind.
int KeyRank(const Value& value) {
  if (value.is_number()) {
    return 0;
  }
  if (value.is_string()) {
    return 1;
  }
  if (value.is_none()) {
    return 2;
  }
  if (value.is_undefined()) {
    return 3;
  }
  return value.is_list() ? 4 : 5;
}

bool NumberLess(const Value& a, const Value& b) {
  int64_t x = 0;
  int64_t y = 0;
  if (a.AsInt(&x) && b.AsInt(&y)) {
    return x < y;
  }
  if (a.is_big_int() && b.is_big_int()) {
    return *a.big_int().digits < *b.big_int().digits;
  }
  double p = 0;
  double q = 0;
  a.AsDouble(&p);
  b.AsDouble(&q);
  return p < q;
}

}  // namespace

bool Value::AsInt(int64_t* out) const {
  if (is_int()) {
    *out = integer();
    return true;
  }
  if (is_bool()) {
    *out = boolean() ? 1 : 0;
    return true;
  }
  return false;
}

bool Value::AsDouble(double* out) const {
  int64_t integer_value = 0;
  if (AsInt(&integer_value)) {
    *out = static_cast<double>(integer_value);
    return true;
  }
  if (is_float()) {
    *out = real();
    return true;
  }
  if (is_big_int()) {
    *out = std::strtod(big_int().digits->c_str(), nullptr);
    return true;
  }
  return false;
}

bool Value::IsSame(const Value& other) const {
  if (data_.index() != other.data_.index()) {
    return false;
  }
  return std::visit(
      [&](const auto& mine) {
        using T = std::decay_t<decltype(mine)>;
        const T& theirs = std::get<T>(other.data_);
        if constexpr (std::is_same_v<T, Undefined> || std::is_same_v<T, None>) {
          return true;
        } else if constexpr (std::is_same_v<T, BigInt>) {
          return *mine.digits == *theirs.digits;
        } else if constexpr (std::is_same_v<T, TextRef>) {
          return mine->bytes == theirs->bytes;
        } else {
          return mine == theirs;
        }
      },
      data_);
}

bool KeyLess(const Value& a, const Value& b) {
  const int rank_a = KeyRank(a);
  const int rank_b = KeyRank(b);
  if (rank_a != rank_b) {
    return rank_a < rank_b;
  }
  switch (rank_a) {
    case 0: return NumberLess(a, b);
    case 1: return a.text().bytes < b.text().bytes;
    case 4:
      return std::lexicographical_compare(a.list()->items.begin(), a.list()->items.end(),
                                          b.list()->items.begin(), b.list()->items.end(), KeyLess);
    default: return false;
  }
}

bool IsHashable(const Value& value) {
  if (value.is_list()) {
    const List& list = *value.list();
    return list.form == List::Form::kTuple &&
           std::all_of(list.items.begin(), list.items.end(), IsHashable);
  }
  return value.is_number() || value.is_string() || value.is_none() || value.is_undefined();
}

size_t Dict::IndexOf(const Value& key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? entries_.size() : found->second;
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Value& mine = entries_[i].first;
    if (mine.is_string() && key.is_string()) {
      if (mine.text().bytes == key.text().bytes) {
        return i;
      }
    } else if (!KeyLess(mine, key) && !KeyLess(key, mine)) {
      return i;
    }
  }
  return entries_.size();
}

void Dict::BuildIndex() {
  index_.clear();
  if (entries_.size() >= kIndexFrom) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      index_.emplace(entries_[i].first, i);
    }
  }
}

const Value* Dict::Find(const Value& key) const {
  const size_t i = IndexOf(key);
  return i == entries_.size() ? nullptr : &entries_[i].second;
}

const Value* Dict::Find(std::string_view key) const {
  return Find(Value::String(key));
}

void Dict::Set(Value key, Value value) {
  depth = std::max(depth, 1 + ContainerDepth(value));
  const size_t i = IndexOf(key);
  if (i < entries_.size()) {
    entries_[i].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (!index_.empty()) {
    index_.emplace(entries_.back().first, i);
  } else {
    BuildIndex();
  }
}

bool Dict::Remove(const Value& key) {
  const size_t i = IndexOf(key);
  if (i == entries_.size()) {
    return false;
  }
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
  BuildIndex();
  return true;
}

void Dict::clear() {
  entries_.clear();
  index_.clear();
}

int ContainerDepth(const Value& value) {
  if (value.is_list()) {
    return value.list()->depth;
  }
  if (value.is_dict()) {
    return value.dict()->depth;
  }
  if (value.is_callable()) {
    return value.callable()->depth;
  }
  if (value.is_loop()) {
    return value.loop()->container_depth;
  }
  return value.is_namespace() ? value.space()->attributes.depth : 0;
}

std::string_view TypeName(const Value& value) {
  if (value.is_list()) {
    switch (value.list()->form) {
      case List::Form::kList: return "list";
      case List::Form::kTuple: return "tuple";
      case List::Form::kRange: return "range";
      case List::Form::kKeys: return "dict_keys";
      case List::Form::kValues: return "dict_values";
      case List::Form::kItems: return "dict_items";
      case List::Form::kIterator: return "generator";
    }
  }
  if (value.is_undefined()) {
    return "Undefined";
  }
  if (value.is_none()) {
    return "NoneType";
  }
  if (value.is_bool()) {
    return "bool";
  }
  if (value.is_int() || value.is_big_int()) {
    return "int";
  }
  if (value.is_float()) {
    return "float";
  }
  if (value.is_string()) {
    return value.text().markup ? "Markup" : "str";
  }
  if (value.is_dict()) {
    return "dict";
  }
  if (value.is_namespace()) {
    return "Namespace";
  }
  return value.is_loop() ? "LoopContext" : "function";
}

Value MakeList(std::vector<Value> items, List::Form form) {
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  list->form = form;
  for (const Value& item : list->items) {
    list->depth = std::max(list->depth, 1 + ContainerDepth(item));
  }
  return Value(std::move(list));
}

Value MakeDict(std::vector<Dict::Entry> entries) {
  auto dict = std::make_shared<Dict>();
  for (Dict::Entry& entry : entries) {
    dict->Set(std::move(entry.first), std::move(entry.second));
  }
  return Value(std::move(dict));
}

namespace {

Value NumberFromJson(const Json& json) {
  const std::string& digits = json.number_text();
  if (digits.find_first_of(".eE") != std::string::npos) {
    return Value(json.number());
  }
  if (const std::optional<int64_t> integer = json.AsInt()) {
    return Value(*integer);
  }
  return Value(BigInt{std::make_shared<const std::string>(digits)});
}

Value TextFromJson(const std::string& bytes, bool is_user_content) {
  TextBuilder builder;
  builder.Append(bytes, is_user_content);
  return Value(builder.Take());
}

}  // namespace

Value FromJson(const Json& json, bool is_user_content) {
  switch (json.kind()) {
    case Json::Kind::kNull: return Value::MakeNone();
    case Json::Kind::kBool: return Value(json.boolean());
    case Json::Kind::kNumber: return NumberFromJson(json);
    case Json::Kind::kString: return TextFromJson(json.string(), is_user_content);
    case Json::Kind::kArray: break;
    case Json::Kind::kObject: {
      std::vector<Dict::Entry> entries;
      entries.reserve(json.object().size());
      for (const Json::Member& member : json.object()) {
        entries.emplace_back(TextFromJson(member.first, is_user_content),
                             FromJson(member.second, is_user_content));
      }
      return MakeDict(std::move(entries));
    }
  }
  std::vector<Value> items;
  items.reserve(json.array().size());
  for (const Json& item : json.array()) {
    items.push_back(FromJson(item, is_user_content));
  }
  return MakeList(std::move(items));
}

}  // namespace fak::text::jinja
