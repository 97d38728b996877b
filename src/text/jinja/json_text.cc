#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"
#include "text/jinja/merge_sort.h"
#include "text/jinja/operations.h"
#include "text/jinja/repr.h"

namespace fak::text::jinja {

namespace {

// What json.dumps writes for a character that must be escaped; empty for one that need not.
std::string JsonEscape(char32_t c, bool ensure_ascii) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\f': return "\\f";
    case '\b': return "\\b";
    default: break;
  }
  if (c >= 0x20 && (c < 0x7F || !ensure_ascii)) {
    return {};
  }
  char buffer[16];
  if (c < 0x10000) {
    std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(c));
  } else {
    const auto low = static_cast<unsigned>(c - 0x10000);
    std::snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xD800 + (low >> 10),
                  0xDC00 + (low & 0x3FF));
  }
  return buffer;
}

class JsonDumper {
 public:
  JsonDumper(Budget& budget, const JsonStyle& style) : budget_(budget), style_(style) {}

  Status Dump(const Value& value);
  Text Take() { return out_.Take(); }
  size_t size() const { return out_.size(); }

 private:
  Status String(const Text& text);
  Status Array(const List& list);
  Status Object(const Dict& dict);
  Status Key(const Value& key);
  Status Number(double value);
  void NewLine();
  void Separate(bool is_first);

  Budget& budget_;
  const JsonStyle& style_;
  TextBuilder out_;
  size_t indent_ = 0;
};

Status JsonDumper::String(const Text& text) {
  TRY(budget_.Decode(text.bytes.size()));
  out_.Append("\"");
  MarkCursor marks(text);
  size_t plain = 0;
  char32_t c = 0;
  size_t i = 0;
  while (i < text.bytes.size()) {
    const auto byte = static_cast<unsigned char>(text.bytes[i]);
    if (byte != '"' && byte != '\\' && byte >= 0x20 && (byte < 0x7F || !style_.ensure_ascii)) {
      ++i;
      continue;
    }
    const int length = DecodeUtf8(std::string_view(text.bytes).substr(i), &c);
    const std::string escape = JsonEscape(c, style_.ensure_ascii);
    if (!escape.empty()) {
      out_.Append(text, plain, i);
      out_.Append(escape, marks.IsUserContent(i));
      plain = i + static_cast<size_t>(length);
    }
    i += static_cast<size_t>(length);
  }
  out_.Append(text, plain, i);
  out_.Append("\"");
  return {};
}

void JsonDumper::NewLine() {
  if (style_.has_indent) {
    out_.Append("\n");
    for (size_t i = 0; i < indent_; ++i) {
      out_.Append(style_.indent);
    }
  }
}

void JsonDumper::Separate(bool is_first) {
  if (!is_first) {
    out_.Append(style_.item_separator);
  }
  NewLine();
}

Status JsonDumper::Array(const List& list) {
  if (list.form != List::Form::kList && list.form != List::Form::kTuple) {
    return Raise("Object of type " + std::string(TypeName(Value(std::make_shared<List>(list)))) +
                 " is not JSON serializable");
  }
  if (list.items.empty()) {
    out_.Append("[]");
    return {};
  }
  out_.Append("[");
  ++indent_;
  for (size_t i = 0; i < list.items.size(); ++i) {
    Separate(i == 0);
    TRY(Dump(list.items[i]));
  }
  --indent_;
  NewLine();
  out_.Append("]");
  return {};
}

Status JsonDumper::Key(const Value& key) {
  if (key.is_string()) {
    return String(key.text());
  }
  if (!key.is_number() && !key.is_none()) {
    return Raise("keys must be str, int, float, bool or None, not " + std::string(TypeName(key)));
  }
  out_.Append("\"");
  TRY(Dump(key));
  out_.Append("\"");
  return {};
}

Status JsonDumper::Object(const Dict& dict) {
  if (dict.entries().empty()) {
    out_.Append("{}");
    return {};
  }
  std::vector<const Dict::Entry*> order;
  for (const Dict::Entry& entry : dict.entries()) {
    order.push_back(&entry);
  }
  if (style_.sort_keys) {
    const bool all_text = std::all_of(order.begin(), order.end(),
                                      [](const auto* entry) { return entry->first.is_string(); });
    const bool all_numbers = std::all_of(
        order.begin(), order.end(), [](const auto* entry) { return entry->first.is_number(); });
    if (!all_text && !all_numbers) {
      return Raise("keys of different types can't be sorted");
    }
    for (const Dict::Entry* entry : order) {
      TRY(budget_.Steps());
      TRY(PayForKey(budget_, entry->first));
    }
    MergeSort(order, [](const auto* a, const auto* b) { return KeyLess(a->first, b->first); });
  }
  out_.Append("{");
  ++indent_;
  for (size_t i = 0; i < order.size(); ++i) {
    Separate(i == 0);
    TRY(Key(order[i]->first));
    out_.Append(style_.key_separator);
    TRY(Dump(order[i]->second));
  }
  --indent_;
  NewLine();
  out_.Append("}");
  return {};
}

Status JsonDumper::Number(double value) {
  if (std::isnan(value)) {
    out_.Append("NaN");
  } else if (std::isinf(value)) {
    out_.Append(value < 0 ? "-Infinity" : "Infinity");
  } else {
    out_.Append(FloatRepr(value));
  }
  return {};
}

Status JsonDumper::Dump(const Value& value) {
  const Budget::Level level(budget_);
  TRY(level.Check());
  TRY(budget_.Steps(1 + (style_.has_indent ? indent_ * style_.indent.size() / 64 : 0)));
  TRY(budget_.CheckSize(out_.size()));
  if (value.is_string()) {
    return String(value.text());
  } else if (value.is_none()) {
    out_.Append("null");
  } else if (value.is_bool()) {
    out_.Append(value.boolean() ? "true" : "false");
  } else if (value.is_int()) {
    out_.Append(std::to_string(value.integer()));
  } else if (value.is_big_int()) {
    out_.Append(*value.big_int().digits);
  } else if (value.is_float()) {
    return Number(value.real());
  } else if (value.is_list()) {
    return Array(*value.list());
  } else if (value.is_dict()) {
    return Object(*value.dict());
  } else {
    return Raise("Object of type " + std::string(TypeName(value)) + " is not JSON serializable");
  }
  return {};
}

}  // namespace

Result<Text> DumpJson(Budget& budget, const Value& value, const JsonStyle& style) {
  JsonDumper dumper(budget, style);
  TRY(dumper.Dump(value));
  TRY(budget.Write(dumper.size()));
  return dumper.Take();
}

}  // namespace fak::text::jinja
