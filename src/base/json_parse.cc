// Walks a document once, in order, and builds the tree. Only this file and json_view.cc see
// simdjson.

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/json.h"
#include "base/limits.h"
#include "base/utf8.h"

namespace fak {
namespace {

namespace ondemand = simdjson::ondemand;

// Reads four hex digits at `p`; -1 when one isn't.
int HexQuad(const char* p) {
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = p[i];
    int digit = 0;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

// simdjson 3.0 lets some lone surrogates through, so they are found here. `p` points behind the
// opening quote; simdjson has made sure that there is a closing one, and padding behind it.
const char* FindBrokenUnicodeEscape(const char* p) {
  for (; *p != '"'; ++p) {
    if (*p != '\\') {
      continue;
    }
    const char* const escape = p++;
    if (*p != 'u') {
      continue;
    }
    const int unit = HexQuad(p + 1);
    if (unit < 0) {
      return escape;
    }
    p += 4;
    if (unit >= 0xD800 && unit <= 0xDFFF) {
      const bool paired = unit < 0xDC00 && p[1] == '\\' && p[2] == 'u' &&
                          HexQuad(p + 3) >= 0xDC00 && HexQuad(p + 3) <= 0xDFFF;
      if (!paired) {
        return escape;
      }
      p += 6;
    }
  }
  return nullptr;
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// RFC 8259: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
bool IsJsonNumber(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t start = at;
    while (at < text.size() && IsDigit(text[at])) {
      ++at;
    }
    return at - start;
  };
  const auto take = [&](std::string_view any_of) {
    const bool found = at < text.size() && any_of.find(text[at]) != std::string_view::npos;
    at += found ? 1 : 0;
    return found;
  };
  take("-");
  if (!take("0") && digits() == 0) {
    return false;
  }
  if (take(".") && digits() == 0) {
    return false;
  }
  if (take("eE")) {
    take("+-");
    if (digits() == 0) {
      return false;
    }
  }
  return at == text.size();
}

class TreeBuilder {
 public:
  // `text` is the document as simdjson reads it: "[" before it, "]" and padding behind it.
  TreeBuilder(std::string_view text, ondemand::document& document)
      : text_(text), document_(document) {}

  Result<Json> BuildRoot() {
    ondemand::array root;
    if (document_.get_array().get(root)) {
      return BadHere("not a JSON value");
    }
    Json result;
    int count = 0;
    for (auto item : root) {
      ondemand::value value;
      if (item.get(value) || ++count > 1) {
        return BadHere("expected one JSON value and nothing behind it");
      }
      TRY_ASSIGN(result, Build(value, 0));
    }
    if (count == 0) {
      return BadHere("no JSON value");
    }
    const char* behind = nullptr;
    if (!document_.current_location().get(behind)) {  // an error means: at the end
      return BadHere("expected one JSON value and nothing behind it");
    }
    return result;
  }

  tl::unexpected<Error> BadAt(const char* where, std::string_view what) const {
    const size_t size = text_.size() - 2;
    const size_t at =
        std::clamp<ptrdiff_t>(where - text_.data() - 1, 0, static_cast<ptrdiff_t>(size));
    return Fail(Code::kInvalidArgument,
                "JSON: " + std::string(what) + " at byte " + std::to_string(at));
  }

  tl::unexpected<Error> BadHere(std::string_view what) const {
    const char* where = nullptr;
    if (document_.current_location().get(where)) {
      where = text_.data() + text_.size();
    }
    return BadAt(where, what);
  }

 private:
  Result<Json> Build(ondemand::value& value, int depth) {
    const std::string_view token = value.raw_json_token();
    if (++values_ > limits::kJsonValuesMax) {
      return Fail(Code::kPayloadTooLarge,
                  "JSON: more than " + std::to_string(limits::kJsonValuesMax) + " values");
    }
    switch (token.front()) {
      case '[': return BuildArray(value, depth);
      case '{': return BuildObject(value, depth);
      case '"': return BuildString(value, token.data());
      case 't':
      case 'f': {
        bool flag = false;
        if (!value.get_bool().get(flag)) {
          return Json(flag);
        }
        break;
      }
      case 'n': {
        bool null = false;
        if (!value.is_null().get(null) && null) {
          return Json();
        }
        break;
      }
      default: {
        // Left unread on purpose: the iterator steps over it, and a number beyond double's range
        // is still a valid document.
        const std::string_view number = token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
        if (IsJsonNumber(number)) {
          return Json::NumberText(std::string(number));
        }
      }
    }
    return BadAt(token.data(), "not a JSON value");
  }

  Result<Json> BuildArray(ondemand::value& value, int depth) {
    ondemand::array array;
    TRY(CheckDepth(depth));
    if (value.get_array().get(array)) {
      return BadHere("broken array");
    }
    Json::Array items;
    for (auto item : array) {
      ondemand::value element;
      if (item.get(element)) {
        return BadHere("expected , or ] in an array");
      }
      TRY_ASSIGN(Json built, Build(element, depth + 1));
      items.push_back(std::move(built));
    }
    return Json(std::move(items));
  }

  Result<Json> BuildObject(ondemand::value& value, int depth) {
    ondemand::object object;
    TRY(CheckDepth(depth));
    if (value.get_object().get(object)) {
      return BadHere("broken object");
    }
    Json::Object members;
    for (auto item : object) {
      ondemand::field field;
      if (std::move(item).get(field)) {
        return BadHere("expected a member, a comma or } in an object");
      }
      const char* const raw_key = field.key().raw();
      TRY(CheckEscapes(raw_key));
      std::string_view key;
      if (field.unescaped_key().get(key)) {
        return BadAt(raw_key, "broken escape in a key");
      }
      std::string name(key);
      TRY_ASSIGN(Json built, Build(field.value(), depth + 1));
      members.emplace_back(std::move(name), std::move(built));
    }
    return Json(std::move(members));
  }

  Result<Json> BuildString(ondemand::value& value, const char* quote) {
    TRY(CheckEscapes(quote + 1));
    std::string_view text;
    if (value.get_string().get(text)) {
      return BadAt(quote, "broken escape in a string");
    }
    return Json(text);
  }

  Status CheckDepth(int depth) const {
    if (depth >= limits::kJsonDepthMax) {
      return BadHere("nested deeper than " + std::to_string(limits::kJsonDepthMax) + " levels");
    }
    return {};
  }

  Status CheckEscapes(const char* string) const {
    if (const char* broken = FindBrokenUnicodeEscape(string)) {
      return BadAt(broken, "broken or unpaired \\u escape");
    }
    return {};
  }

  std::string_view text_;
  ondemand::document& document_;
  size_t values_ = 0;
};

}  // namespace

Result<Json> ParseJson(std::string_view text) {
  if (const size_t valid = ValidUtf8Prefix(text); valid != text.size()) {
    return Fail(Code::kInvalidArgument, "JSON: invalid UTF-8 at byte " + std::to_string(valid));
  }
  // simdjson wants padding behind the text, so it is copied anyway. Wrapped in an array, a root
  // scalar is a value like any other.
  simdjson::padded_string padded(text.size() + 2);
  char* const data = padded.data();
  data[0] = '[';
  std::memcpy(data + 1, text.data(), text.size());
  data[text.size() + 1] = ']';
  ondemand::parser parser;
  ondemand::document document;
  if (const auto error = parser.iterate(padded).get(document)) {
    return Fail(Code::kInvalidArgument,
                "JSON: " + std::string(simdjson::error_message(error)) + " in the document");
  }
  return TreeBuilder({data, text.size() + 2}, document).BuildRoot();
}

}  // namespace fak
