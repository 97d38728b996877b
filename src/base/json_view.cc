// Hot path: bench/micro/relay_bench.cc.
#include "base/json_view.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

namespace fak {
namespace {

namespace dom = simdjson::dom;

using Place = std::array<uint64_t, 2>;

// A larger document is read as a tree, so that little memory is kept.
constexpr size_t kPlainBytesMax = 16 * 1024;
// Below kJsonDepthMax: what lies deeper is for ParseJson() to take or to refuse.
constexpr size_t kPlainDepthMax = 64;

static_assert(sizeof(dom::element) == sizeof(Place) && std::is_trivially_copyable_v<dom::element>);
static_assert(sizeof(dom::array::iterator) == sizeof(Place) &&
              std::is_trivially_copyable_v<dom::array::iterator>);

dom::element ElementAt(const Place& place) {
  return std::bit_cast<dom::element>(place);
}

// simdjson lets some lone surrogates through that ParseJson() finds; later versions skip a byte
// order mark. Both are left to it.
bool IsPlain(std::string_view text) {
  return text.size() <= kPlainBytesMax && !text.starts_with('\xEF') &&
         text.find("\\u") == std::string_view::npos;
}

std::optional<int64_t> IntOf(const dom::element& element) {
  int64_t whole = 0;
  if (!element.get_int64().get(whole)) {
    return whole;
  }
  constexpr double kExactMax = 9007199254740992.0;  // 2^53
  double number = 0;
  const bool fits = !element.get_double().get(number) && std::trunc(number) == number &&
                    std::abs(number) <= kExactMax;
  return fits ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
}

}  // namespace

bool JsonView::is_null() const {
  return tree_ != nullptr ? tree_->is_null() : on_tape_ && ElementAt(place_).is_null();
}

bool JsonView::is_number() const {
  return tree_ != nullptr ? tree_->is_number() : on_tape_ && ElementAt(place_).is_number();
}

bool JsonView::is_string() const {
  return tree_ != nullptr ? tree_->is_string() : on_tape_ && ElementAt(place_).is_string();
}

bool JsonView::is_array() const {
  return tree_ != nullptr ? tree_->is_array() : on_tape_ && ElementAt(place_).is_array();
}

bool JsonView::is_object() const {
  return tree_ != nullptr ? tree_->is_object() : on_tape_ && ElementAt(place_).is_object();
}

std::string_view JsonView::string() const {
  if (tree_ != nullptr) {
    return tree_->is_string() ? std::string_view(tree_->string()) : std::string_view();
  }
  std::string_view text;
  return on_tape_ && !ElementAt(place_).get_string().get(text) ? text : std::string_view();
}

std::optional<int64_t> JsonView::AsInt() const {
  if (tree_ != nullptr) {
    return tree_->is_number() ? tree_->AsInt() : std::nullopt;
  }
  return is_number() ? IntOf(ElementAt(place_)) : std::nullopt;
}

JsonView JsonView::Find(std::string_view key) const {
  if (tree_ != nullptr) {
    const Json* found = tree_->Find(key);
    return found == nullptr ? JsonView() : JsonView(*found);
  }
  JsonView found;
  dom::object object;
  if (on_tape_ && !ElementAt(place_).get_object().get(object)) {
    for (auto member = object.begin(); member != object.end(); ++member) {
      if (member.key_equals(key)) {
        found = JsonView(std::bit_cast<Place>(member.value()));
      }
    }
  }
  return found;
}

void JsonView::FindEach(std::span<const std::string_view> keys, std::span<JsonView> found) const {
  if (tree_ != nullptr) {
    for (size_t i = 0; i < keys.size(); ++i) {
      found[i] = Find(keys[i]);
    }
    return;
  }
  std::fill(found.begin(), found.end(), JsonView());
  dom::object object;
  if (!on_tape_ || ElementAt(place_).get_object().get(object)) {
    return;
  }
  uint64_t sizes = 0;  // of the keys, a bit each: most members differ in that already
  const auto bit_of = [](std::string_view key) {
    return uint64_t{1} << std::min<size_t>(key.size(), 63);
  };
  for (const std::string_view key : keys) {
    sizes |= bit_of(key);
  }
  for (auto member = object.begin(); member != object.end(); ++member) {
    const std::string_view key = member.key();
    if ((sizes & bit_of(key)) == 0) {
      continue;
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == key) {
        found[i] = JsonView(std::bit_cast<Place>(member.value()));
      }
    }
  }
}

JsonView::Iterator JsonView::begin() const {
  Iterator at;
  dom::array array;
  if (tree_ != nullptr) {
    at.tree_ = tree_->is_array() ? tree_->array().data() : nullptr;
  } else if (on_tape_ && !ElementAt(place_).get_array().get(array)) {
    at.place_ = std::bit_cast<Place>(array.begin());
  }
  return at;
}

JsonView::Iterator JsonView::end() const {
  Iterator at;
  dom::array array;
  if (tree_ != nullptr) {
    at.tree_ = tree_->is_array() ? tree_->array().data() + tree_->array().size() : nullptr;
  } else if (on_tape_ && !ElementAt(place_).get_array().get(array)) {
    at.place_ = std::bit_cast<Place>(array.end());
  }
  return at;
}

bool JsonView::empty() const {
  return !(begin() != end());
}

JsonView JsonView::Iterator::operator*() const {
  return tree_ != nullptr
             ? JsonView(*tree_)
             : JsonView(std::bit_cast<Place>(*std::bit_cast<dom::array::iterator>(place_)));
}

JsonView::Iterator& JsonView::Iterator::operator++() {
  if (tree_ != nullptr) {
    ++tree_;
  } else {
    auto at = std::bit_cast<dom::array::iterator>(place_);
    place_ = std::bit_cast<Place>(++at);
  }
  return *this;
}

Json JsonView::Copy() const {
  if (tree_ != nullptr || !on_tape_) {
    return tree_ != nullptr ? *tree_ : Json();
  }
  return ParseJson(std::string(simdjson::minify(ElementAt(place_)))).value_or(Json());
}

struct JsonReader::Impl {
  dom::parser parser{kPlainBytesMax};
  const bool ready = parser.allocate(kPlainBytesMax, kPlainDepthMax) == simdjson::SUCCESS;
  std::array<char, kPlainBytesMax + simdjson::SIMDJSON_PADDING> text;
  Json tree;  // of a document that isn't plain
};

JsonReader::JsonReader() : impl_(std::make_unique<Impl>()) {}
JsonReader::~JsonReader() = default;

Result<JsonView> JsonReader::Read(std::string_view text) {
  if (impl_->ready && IsPlain(text)) {
    std::memcpy(impl_->text.data(), text.data(), text.size());
    std::memset(impl_->text.data() + text.size(), 0, simdjson::SIMDJSON_PADDING);
    dom::element root;
    if (!impl_->parser.parse(impl_->text.data(), text.size(), /*realloc_if_needed=*/false)
             .get(root)) {
      return JsonView(std::bit_cast<Place>(root));
    }
  }
  TRY_ASSIGN(impl_->tree, ParseJson(text));
  return JsonView(impl_->tree);
}

}  // namespace fak
