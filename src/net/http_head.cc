#include "net/http_head.h"

#include <algorithm>
#include <optional>

#include "net/asio.h"
// After asio.h, which sets Asio up.
#include <boost/beast/http/basic_parser.hpp>

#include "base/limits.h"
#include "base/strings.h"

namespace fak::net {
namespace {

namespace beast_http = boost::beast::http;
using wire::HttpFraming;

std::string_view View(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// Beast's grammar with our own storage. The body callbacks are never reached.
template <bool kIsRequest>
class Grammar final : public beast_http::basic_parser<kIsRequest> {
  using BeastView = boost::beast::string_view;

 public:
  // Parses a whole head; false when it isn't one, with `error`.
  bool Parse(std::string_view head, std::string* error) {
    error_code failure;
    this->header_limit(static_cast<uint32_t>(head.size() + 1));
    this->skip(true);  // whatever the head says, nothing follows here
    const size_t used = this->put(asio::const_buffer(head.data(), head.size()), failure);
    if (!failure && used == head.size() && this->is_done()) {
      return true;
    }
    *error = failure ? failure.message() : "bytes behind the head";
    return false;
  }

  std::string method;
  std::string target;
  int status = 0;
  int version = 0;  // 10 or 11
  HttpHeaders headers;

 private:
  void on_request_impl(beast_http::verb, BeastView method_text, BeastView target_text,
                       int version_number, error_code&) override {
    method = View(method_text);
    target = View(target_text);
    version = version_number;
  }
  void on_response_impl(int code, BeastView, int version_number, error_code&) override {
    status = code;
    version = version_number;
  }
  void on_field_impl(beast_http::field, BeastView name, BeastView value, error_code&) override {
    headers.Add(std::string(View(name)), std::string(View(value)));
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
  size_t on_body_impl(BeastView, error_code&) override { return 0; }
  void on_chunk_header_impl(uint64_t, BeastView, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, BeastView, error_code&) override { return 0; }
  void on_finish_impl(error_code&) override {}
};

struct Refusal {
  int status;
  std::string why;
};

// What Beast takes and we don't, in the bytes of a head.
std::optional<Refusal> CheckLines(std::string_view head) {
  size_t fields = 0;
  for (size_t at = head.find("\r\n") + 2; at < head.size(); at = head.find("\r\n", at) + 2) {
    if (head[at] == ' ' || head[at] == '\t') {
      return Refusal{400, "a header field is continued on a second line"};
    }
    if (++fields > limits::kHttpFieldsMax + 1) {  // the blank line is one of them
      return Refusal{431, "more than " + std::to_string(limits::kHttpFieldsMax) + " header fields"};
    }
  }
  const auto is_bad = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\r' && c != '\n' && c != '\t') || byte == 0x7F;
  };
  if (std::any_of(head.begin(), head.end(), is_bad)) {
    return Refusal{400, "a control character in the head"};
  }
  return std::nullopt;
}

struct Framing {
  HttpFraming kind = HttpFraming::kNone;
  uint64_t length = 0;
};

// What the framing fields say, nothing when they are absent.
tl::expected<std::optional<Framing>, Refusal> ReadFraming(const HttpHeaders& headers, int version,
                                                          bool same_length_twice) {
  const size_t lengths = headers.Count("Content-Length");
  const size_t codings = headers.Count("Transfer-Encoding");
  if (lengths > 0 && codings > 0) {
    return tl::unexpected(Refusal{400, "Content-Length and Transfer-Encoding together"});
  }
  if (codings > 0) {
    if (codings > 1 || version < 11) {
      return tl::unexpected(Refusal{400, "Transfer-Encoding twice, or in HTTP/1.0"});
    }
    if (!EqualsIgnoringCase(*headers.Get("Transfer-Encoding"), "chunked")) {
      return tl::unexpected(Refusal{501, "a Transfer-Encoding other than chunked"});
    }
    return Framing{HttpFraming::kChunked, 0};
  }
  std::optional<Framing> framing;
  for (const auto& [name, value] : headers) {
    if (!EqualsIgnoringCase(name, "Content-Length")) {
      continue;
    }
    const std::optional<uint64_t> length = ParseUint(value);
    if (!length || *length > INT64_MAX) {
      return tl::unexpected(Refusal{400, "Content-Length is no number of bytes"});
    }
    if (framing && !(same_length_twice && framing->length == *length)) {
      return tl::unexpected(Refusal{400, "Content-Length twice"});
    }
    framing = Framing{HttpFraming::kLength, *length};
  }
  return framing;
}

bool KeepsAlive(const HttpHeaders& headers, int version) {
  if (headers.HasToken("Connection", "close")) {
    return false;
  }
  return version >= 11 || headers.HasToken("Connection", "keep-alive");
}

// Brings the target into origin form.
std::optional<Refusal> CheckTarget(const std::string& method, std::string& target) {
  if (method == "CONNECT") {
    return Refusal{501, "CONNECT is not offered"};
  }
  const bool visible =
      std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!visible) {
    return Refusal{400, "the request target has a non-ASCII character"};
  }
  if (target.starts_with('/') || (target == "*" && method == "OPTIONS")) {
    return std::nullopt;
  }
  const size_t authority = target.find("://") + 3;
  const std::string scheme = ToLower(std::string_view(target).substr(0, authority));
  if (scheme != "http://" && scheme != "https://") {
    return Refusal{400, "the request target is neither a path nor a URL"};
  }
  const size_t path = target.find_first_of("/?", authority);
  target.erase(0, std::min(path, target.size()));
  if (!target.starts_with('/')) {
    target.insert(0, "/");
  }
  return std::nullopt;
}

std::optional<Refusal> CheckHost(const HttpHeaders& headers, int version) {
  const size_t hosts = headers.Count("Host");
  if (hosts > 1 || (hosts == 0 && version >= 11)) {
    return Refusal{400, hosts == 0 ? "no Host" : "Host twice"};
  }
  return std::nullopt;
}

// Fills `head` from what the grammar found.
std::optional<Refusal> Interpret(Grammar<true>& grammar, RequestHead* head) {
  HttpRequest& request = head->request;
  request.method = std::move(grammar.method);
  request.target = std::move(grammar.target);
  request.headers = std::move(grammar.headers);
  request.minor_version = grammar.version - 10;
  if (auto refusal = CheckTarget(request.method, request.target)) {
    return refusal;
  }
  if (auto refusal = CheckHost(request.headers, grammar.version)) {
    return refusal;
  }
  const auto framing = ReadFraming(request.headers, grammar.version, /*same_length_twice=*/false);
  if (!framing) {
    return framing.error();
  }
  if (*framing) {
    head->framing = (*framing)->kind;
    head->length = (*framing)->length;
  }
  if (const auto expect = request.headers.Get("Expect")) {
    head->expects_continue = EqualsIgnoringCase(*expect, "100-continue");
    if (!head->expects_continue) {
      return Refusal{417, "an Expect other than 100-continue"};
    }
  }
  head->keep_alive = KeepsAlive(request.headers, grammar.version);
  return std::nullopt;
}

HttpFault ToFault(const Refusal& refusal, HttpRequest request) {
  const Code code = refusal.status == 431   ? Code::kPayloadTooLarge
                    : refusal.status == 501 ? Code::kUnsupported
                                            : Code::kInvalidArgument;
  return {refusal.status, {code, "HTTP request: " + refusal.why}, std::move(request)};
}

// "HTTP/2.0" where a version should be, so that the answer can say so.
bool HasOtherVersion(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const size_t at = line.rfind(" HTTP/");
  return at != std::string_view::npos && !line.ends_with(" HTTP/1.1") &&
         !line.ends_with(" HTTP/1.0");
}

tl::unexpected<Error> BadResponse(std::string_view why) {
  return Fail(Code::kUpstreamError, "HTTP response: " + std::string(why));
}

}  // namespace

Result<size_t> HeadFinder::Find(std::string_view bytes) {
  for (size_t lf; (lf = bytes.find('\n', looked_)) != std::string_view::npos;) {
    looked_ = lf + 1;
    if (lf == 0 || bytes[lf - 1] != '\r') {
      return Fail(Code::kInvalidArgument, "HTTP head: LF without CR");
    }
    if (lf - line_start_ == 1 && line_start_ > 0) {
      return looked_;
    }
    line_start_ = looked_;
  }
  looked_ = bytes.size();
  return size_t{0};
}

tl::expected<RequestHead, HttpFault> ParseRequestHead(std::string_view head) {
  if (auto refusal = CheckLines(head)) {
    return tl::unexpected(ToFault(*refusal, {}));
  }
  Grammar<true> grammar;
  std::string why;
  if (!grammar.Parse(head, &why)) {
    return tl::unexpected(ToFault({HasOtherVersion(head) ? 505 : 400, why}, {}));
  }
  RequestHead parsed;
  if (auto refusal = Interpret(grammar, &parsed)) {
    return tl::unexpected(ToFault(*refusal, std::move(parsed.request)));
  }
  return parsed;
}

Result<ResponseHead> ParseResponseHead(std::string_view head, bool to_head) {
  if (const auto refusal = CheckLines(head)) {
    return BadResponse(refusal->why);
  }
  Grammar<false> grammar;
  std::string why;
  if (!grammar.Parse(head, &why)) {
    return BadResponse(why);
  }
  ResponseHead parsed;
  parsed.status = grammar.status;
  parsed.headers = std::move(grammar.headers);
  if (parsed.status < 100 || parsed.status > 599) {
    return BadResponse("status " + std::to_string(parsed.status));
  }
  const auto framing = ReadFraming(parsed.headers, grammar.version, /*same_length_twice=*/true);
  if (!framing) {
    return BadResponse(framing.error().why);
  }
  parsed.keep_alive = KeepsAlive(parsed.headers, grammar.version);
  const bool no_body =
      to_head || parsed.status < 200 || parsed.status == 204 || parsed.status == 304;
  if (no_body) {
    return parsed;
  }
  parsed.framing = *framing ? (*framing)->kind : HttpFraming::kUntilClose;
  parsed.length = *framing ? (*framing)->length : 0;
  parsed.keep_alive = parsed.keep_alive && parsed.framing != HttpFraming::kUntilClose;
  return parsed;
}

}  // namespace fak::net
