#include "wire/http_headers.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace fak::wire {
namespace {

// Calls `use` with each trimmed element of a comma-separated list until it returns true.
template <class Use>
bool AnyListElement(std::string_view list, Use use) {
  for (const std::string_view part : Split(list, ',')) {
    const std::string_view element = Trim(part);
    if (!element.empty() && use(element)) {
      return true;
    }
  }
  return false;
}

}  // namespace

void HttpHeaders::Add(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

void HttpHeaders::Set(std::string_view name, std::string value) {
  Remove(name);
  Add(std::string(name), std::move(value));
}

bool HttpHeaders::Remove(std::string_view name) {
  return std::erase_if(fields_, [name](const Field& field) {
           return EqualsIgnoringCase(field.first, name);
         }) > 0;
}

std::optional<std::string_view> HttpHeaders::Get(std::string_view name) const {
  for (const Field& field : fields_) {
    if (EqualsIgnoringCase(field.first, name)) {
      return field.second;
    }
  }
  return std::nullopt;
}

size_t HttpHeaders::Count(std::string_view name) const {
  return static_cast<size_t>(std::count_if(fields_.begin(), fields_.end(), [name](const Field& f) {
    return EqualsIgnoringCase(f.first, name);
  }));
}

bool HttpHeaders::HasToken(std::string_view name, std::string_view token) const {
  return std::any_of(fields_.begin(), fields_.end(), [name, token](const Field& field) {
    return EqualsIgnoringCase(field.first, name) &&
           AnyListElement(field.second,
                          [token](std::string_view e) { return EqualsIgnoringCase(e, token); });
  });
}

void HttpHeaders::RemoveHopByHop() {
  constexpr std::array<std::string_view, 9> kHopByHop = {"Connection",
                                                         "Keep-Alive",
                                                         "Proxy-Connection",
                                                         "Proxy-Authenticate",
                                                         "Proxy-Authorization",
                                                         "TE",
                                                         "Trailer",
                                                         "Transfer-Encoding",
                                                         "Upgrade"};
  std::vector<std::string> named;
  for (const Field& field : fields_) {
    if (EqualsIgnoringCase(field.first, "Connection")) {
      AnyListElement(field.second, [&named](std::string_view element) {
        named.emplace_back(element);
        return false;
      });
    }
  }
  for (const std::string& name : named) {
    Remove(name);
  }
  for (const std::string_view name : kHopByHop) {
    Remove(name);
  }
}

}  // namespace fak::wire
