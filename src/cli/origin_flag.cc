#include "cli/origin_flag.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "net/url.h"

namespace fak::cli {
namespace {

// Of an extension or an app in a browser's engine: "chrome-extension://abc", "tauri://localhost".
bool IsOfAnotherScheme(std::string_view text) {
  const auto parts = Cut(text, "://");
  const auto in_scheme = [](char c) { return (c >= 'a' && c <= 'z') || c == '-' || c == '+'; };
  const auto in_host = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':';
  };
  return parts && !parts->first.empty() && !parts->second.empty() && parts->first != "http" &&
         parts->first != "https" &&
         std::all_of(parts->first.begin(), parts->first.end(), in_scheme) &&
         std::all_of(parts->second.begin(), parts->second.end(), in_host);
}

std::string Refusal(const std::string& text) {
  if (text == "null") {
    return "must be * or an origin, not null, which any site's page can send, from a sandboxed "
           "frame";
  }
  if (text == "*" || IsOfAnotherScheme(text)) {
    return "";
  }
  const Result<net::Url> url = net::ParseUrl(text);
  if (!url) {  // not quoted: it may hold a password
    return "must be * or an origin as browsers send it, like https://desk.example:8443";
  }
  const std::string origin = url->origin.ToString();
  return origin == text ? "" : "must be " + origin + ", as browsers send it, not " + text;
}

}  // namespace

void AddAllowedOrigin(CLI::App& verb, std::string& allowed_origin) {
  verb.add_option("--allowed-origin", allowed_origin,
                  "Origin that may call from a browser, or *; without keys, POSTs of other sites' "
                  "pages are refused")
      ->check(CLI::Validator([](const std::string& text) { return Refusal(text); }, ""));
}

}  // namespace fak::cli
