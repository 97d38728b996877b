// The only file that sees toml++. A document is turned into our own nodes at once.
#include "base/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <map>
#include <variant>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"

namespace fak {

namespace internal {

using NodePtr = std::shared_ptr<const ConfigNode>;
using NodeMap = std::map<std::string, NodePtr, std::less<>>;
using NodeList = std::vector<NodePtr>;

struct ConfigNode {
  // monostate: a type that no setting of ours has (dates and times).
  std::variant<std::monostate, bool, int64_t, double, std::string, NodeList, NodeMap> value;
  std::string place;  // "file:line:column"
  std::string path;   // dotted key
};

}  // namespace internal

namespace {

using internal::ConfigNode;
using internal::NodeList;
using internal::NodeMap;
using internal::NodePtr;

std::string PlaceOf(const std::string& name, const toml::source_position& at) {
  return name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
}

// toml++ bounds the nesting (TOML_MAX_NESTED_VALUES), and with it this recursion.
NodePtr Convert(const toml::node& node, const std::string& name, const std::string& path) {
  auto out = std::make_shared<ConfigNode>();
  out->place = PlaceOf(name, node.source().begin);
  out->path = path;
  if (const auto* table = node.as_table()) {
    NodeMap members;
    for (const auto& [key, value] : *table) {
      const std::string member(key.str());
      members.emplace(member, Convert(value, name, path.empty() ? member : path + "." + member));
    }
    out->value = std::move(members);
  } else if (const auto* array = node.as_array()) {
    NodeList items;
    for (const toml::node& item : *array) {
      items.push_back(Convert(item, name, path + "[" + std::to_string(items.size()) + "]"));
    }
    out->value = std::move(items);
  } else if (const auto* text = node.as_string()) {
    out->value = text->get();
  } else if (const auto* integer = node.as_integer()) {
    out->value = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    out->value = real->get();
  } else if (const auto* flag = node.as_boolean()) {
    out->value = flag->get();
  }
  return out;
}

// What toml++ quotes of the file may be a key: more than a character or two isn't repeated.
std::string WithoutQuotes(std::string_view description) {
  const size_t first = description.find('\'');
  const size_t last = description.rfind('\'');
  if (first == std::string_view::npos || last - first <= 3) {
    return std::string(description);
  }
  return std::string(description.substr(0, first)) + "'...'" +
         std::string(description.substr(last + 1));
}

std::string_view TypeName(const ConfigNode& node) {
  constexpr std::string_view kNames[] = {"a date or time", "a boolean", "an integer", "a number",
                                         "a string",       "an array",  "a table"};
  return kNames[node.value.index()];
}

Error At(const ConfigNode& node, std::string_view what) {
  return {Code::kInvalidArgument,
          node.place + ": " + (node.path.empty() ? "" : node.path + ": ") + std::string(what),
          node.path};
}

Error WrongType(const ConfigNode& node, std::string_view wanted) {
  return At(node, "must be " + std::string(wanted) + ", is " + std::string(TypeName(node)));
}

template <class T>
Result<std::optional<T>> Get(const ConfigNode* node, std::string_view wanted) {
  if (node == nullptr) {
    return std::optional<T>();
  }
  if (const T* value = std::get_if<T>(&node->value)) {
    return std::optional<T>(*value);
  }
  return Fail(WrongType(*node, wanted));
}

// As a person would type it.
Result<std::string> TextOf(const ConfigNode& node) {
  if (const auto* text = std::get_if<std::string>(&node.value)) {
    return *text;
  }
  if (const auto* flag = std::get_if<bool>(&node.value)) {
    return *flag ? "true" : "false";
  }
  if (const auto* integer = std::get_if<int64_t>(&node.value)) {
    return std::to_string(*integer);
  }
  if (const auto* real = std::get_if<double>(&node.value)) {
    return Json(*real).Dump();
  }
  return Fail(WrongType(node, "a string, a number or a boolean"));
}

}  // namespace

ConfigTable::ConfigTable(std::shared_ptr<const ConfigNode> node) : node_(std::move(node)) {}

Result<ConfigTable> ConfigTable::Parse(std::string_view text, const std::string& name) {
  try {
    const toml::table table = toml::parse(text, name);
    return ConfigTable(Convert(table, name, ""));
  } catch (const toml::parse_error& error) {
    return Fail(Code::kInvalidArgument,
                PlaceOf(name, error.source().begin) + ": " + WithoutQuotes(error.description()));
  }
}

Result<ConfigTable> ConfigTable::Load(const std::string& path) {
  TRY_ASSIGN(const std::string text, ReadFile(path, limits::kConfigBytesMax));
  return Parse(text, path);
}

const ConfigNode* ConfigTable::Find(std::string_view key) const {
  const NodeMap& members = std::get<NodeMap>(node_->value);
  const auto found = members.find(key);
  return found == members.end() ? nullptr : found->second.get();
}

Result<std::optional<std::string>> ConfigTable::String(std::string_view key) const {
  return Get<std::string>(Find(key), "a string");
}

Result<std::optional<int64_t>> ConfigTable::Int(std::string_view key) const {
  return Get<int64_t>(Find(key), "an integer");
}

Result<std::optional<double>> ConfigTable::Float(std::string_view key) const {
  const ConfigNode* node = Find(key);
  if (node != nullptr) {
    if (const auto* integer = std::get_if<int64_t>(&node->value)) {
      return std::optional<double>(static_cast<double>(*integer));
    }
  }
  return Get<double>(node, "a number");
}

Result<std::optional<bool>> ConfigTable::Bool(std::string_view key) const {
  return Get<bool>(Find(key), "a boolean");
}

Result<std::optional<std::vector<std::string>>> ConfigTable::Strings(std::string_view key) const {
  TRY_ASSIGN(const auto items, Get<NodeList>(Find(key), "an array of strings"));
  if (!items) {
    return std::optional<std::vector<std::string>>();
  }
  std::vector<std::string> out;
  for (const NodePtr& item : *items) {
    const auto* text = std::get_if<std::string>(&item->value);
    if (text == nullptr) {
      return Fail(WrongType(*item, "a string"));
    }
    out.push_back(*text);
  }
  return std::optional(std::move(out));
}

Result<std::optional<std::vector<std::string>>> ConfigTable::Texts(std::string_view key) const {
  const ConfigNode* node = Find(key);
  if (node == nullptr) {
    return std::optional<std::vector<std::string>>();
  }
  std::vector<std::string> out;
  if (const auto* items = std::get_if<NodeList>(&node->value)) {
    for (const NodePtr& item : *items) {
      TRY_ASSIGN(std::string text, TextOf(*item));
      out.push_back(std::move(text));
    }
  } else {
    TRY_ASSIGN(std::string text, TextOf(*node));
    out.push_back(std::move(text));
  }
  return std::optional(std::move(out));
}

Result<std::optional<ConfigTable>> ConfigTable::Table(std::string_view key) const {
  const NodeMap& members = std::get<NodeMap>(node_->value);
  const auto found = members.find(key);
  if (found == members.end()) {
    return std::optional<ConfigTable>();
  }
  if (!std::holds_alternative<NodeMap>(found->second->value)) {
    return Fail(WrongType(*found->second, "a table"));
  }
  return std::optional(ConfigTable(found->second));
}

Result<std::vector<ConfigTable>> ConfigTable::Tables(std::string_view key) const {
  TRY_ASSIGN(const auto items, Get<NodeList>(Find(key), "an array of tables"));
  std::vector<ConfigTable> out;
  for (const NodePtr& item : items.value_or(NodeList())) {
    if (!std::holds_alternative<NodeMap>(item->value)) {
      return Fail(WrongType(*item, "a table"));
    }
    out.push_back(ConfigTable(item));
  }
  return out;
}

std::vector<std::string> ConfigTable::Keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : std::get<NodeMap>(node_->value)) {
    keys.push_back(key);
  }
  return keys;
}

Status ConfigTable::RefuseUnknownKeys(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : std::get<NodeMap>(node_->value)) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::string all;
      for (const std::string_view each : known) {
        all += (all.empty() ? "" : ", ") + std::string(each);
      }
      return Fail(At(*value, "unknown key (known: " + all + ")"));
    }
  }
  return {};
}

Error ConfigTable::ErrorAt(std::string_view key, std::string_view what) const {
  if (const ConfigNode* node = Find(key)) {
    return At(*node, what);
  }
  const std::string path =
      node_->path.empty() ? std::string(key) : node_->path + "." + std::string(key);
  return {Code::kInvalidArgument, node_->place + ": " + path + ": " + std::string(what), path};
}

}  // namespace fak
