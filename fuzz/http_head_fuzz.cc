// fuzz: links fak_net
// The end of a head is found at any cut; a head that is taken has none of the shapes that two
// servers could read differently, whatever Beast thinks of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/limits.h"
#include "base/result.h"
#include "net/http_head.h"

namespace {

using fak::wire::HttpFraming;
using fak::wire::HttpHeaders;

void CheckText(std::string_view text) {
  CHECK(std::none_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
  })) << "a control character came through";
}

void CheckHeaders(const HttpHeaders& headers, bool request) {
  CHECK(headers.size() <= fak::limits::kHttpFieldsMax);
  for (const auto& [name, value] : headers) {
    CHECK(!name.empty() && name.find_first_of(" \t:") == std::string::npos);
    CheckText(name);
    CheckText(value);
  }
  const size_t lengths = headers.Count("Content-Length");
  const size_t codings = headers.Count("Transfer-Encoding");
  CHECK(lengths == 0 || codings == 0);
  CHECK(codings <= 1);
  CHECK(!request || (lengths <= 1 && headers.Count("Host") <= 1));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  fak::net::HeadFinder at_once;
  fak::net::HeadFinder stepwise;
  const auto found = at_once.Find(bytes);
  auto step = stepwise.Find({});
  for (size_t i = 1; i <= size && step && *step == 0; ++i) {
    step = stepwise.Find(bytes.substr(0, i));
  }
  CHECK(step.has_value() == found.has_value() && (!step || *step == *found));
  if (!found || *found == 0) {
    return 0;
  }
  const std::string_view head = bytes.substr(0, *found);
  if (const auto request = fak::net::ParseRequestHead(head)) {
    CheckHeaders(request->request.headers, /*request=*/true);
    CheckText(request->request.target);
    CHECK(request->request.target.starts_with('/') || request->request.target == "*");
    CHECK((request->framing == HttpFraming::kChunked) ==
          request->request.headers.Has("Transfer-Encoding"));
  }
  for (const bool to_head : {false, true}) {
    if (const auto response = fak::net::ParseResponseHead(head, to_head)) {
      CheckHeaders(response->headers, /*request=*/false);
      CHECK(response->status >= 100 && response->status <= 599);
      CHECK(!to_head || response->framing == HttpFraming::kNone);
    }
  }
  return 0;
}
