// fuzz: links fak_net fak_base
// What is taken for a URL names a host and a target that can stand in a request's head, and reads
// the same when it is written out again. What is refused is named, but never a password.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/strings.h"
#include "net/url.h"

namespace {

bool IsVisible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fak::net::IsLoopbackHost(text);
  const auto url = fak::net::ParseUrl(text);
  if (!url) {
    CHECK(url.error().code == fak::Code::kInvalidArgument && !url.error().detail.empty());
    return 0;
  }
  const fak::net::Origin& origin = url->origin;
  CHECK(!origin.host.empty() && origin.port != 0);
  CHECK(origin.host == fak::ToLower(origin.host));
  CHECK(IsVisible(origin.host) && origin.host.find_first_of("/?#@[]") == std::string::npos)
      << origin.host;
  CHECK(IsVisible(url->target) && url->target.starts_with('/')) << url->target;
  CHECK(url->target.find('#') == std::string::npos) << url->target;
  const auto again = fak::net::ParseUrl(origin.ToString() + url->target);
  CHECK(again.has_value()) << origin.ToString() << url->target;
  CHECK(again->origin == origin && again->target == url->target) << origin.ToString();
  return 0;
}
