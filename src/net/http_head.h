#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tl/expected.hpp>

#include "base/result.h"
#include "net/http_message.h"
#include "wire/http_body.h"

namespace fak::net {

// Heads of HTTP/1.x messages: Beast reads the grammar, the rules on top of it are ours. A proxy
// or cache before us may read a sloppy message differently than we do, and then one of its
// requests ends where we see another begin (request smuggling). So whatever the standards (RFC
// 9110, 9112) let a server refuse is refused:
//
//   shape                                                           request      response
//   LF without CR, CR without LF, NUL and other controls            400          error
//   a continued line (obs-fold), a blank before the colon           400          error
//   Content-Length twice, or a list, or not only digits             400          error, same value
//   twice is taken Content-Length with Transfer-Encoding                           400 error
//   Transfer-Encoding twice or in HTTP/1.0                          400          error
//   Transfer-Encoding other than "chunked"                          501          error
//   no Host or two in HTTP/1.1                                      400
//   a target that isn't "/...", "*" with OPTIONS, "http(s)://..."   400
//   CONNECT                                                         501
//   a version other than 1.0 and 1.1                                505          error
//   an Expect other than "100-continue"                             417
//   more than limits::kHttpFieldsMax fields                         431          error
//
// Pure functions, any thread.

// Looks for the blank line that ends a head; remembers how far it has looked.
class HeadFinder {
 public:
  // `bytes`: all that has come of this head so far, never less than before. Gives the length of
  // the head, its blank line included, or 0 while that hasn't come. An error for what can't become
  // a head (LF without CR).
  [[nodiscard]] Result<size_t> Find(std::string_view bytes);
  void Reset() { *this = HeadFinder(); }

 private:
  size_t looked_ = 0;
  size_t line_start_ = 0;
};

struct RequestHead {
  HttpRequest request;  // without body and peer
  wire::HttpFraming framing = wire::HttpFraming::kNone;
  uint64_t length = 0;  // kLength
  bool keep_alive = false;
  bool expects_continue = false;
};
// `head`: with its blank line.
[[nodiscard]] tl::expected<RequestHead, HttpFault> ParseRequestHead(std::string_view head);

struct ResponseHead {
  int status = 0;
  HttpHeaders headers;
  wire::HttpFraming framing = wire::HttpFraming::kNone;
  uint64_t length = 0;
  bool keep_alive = false;
};
// `to_head`: it answers a HEAD request, and has no body whatever it says. Errors: kUpstreamError.
[[nodiscard]] Result<ResponseHead> ParseResponseHead(std::string_view head, bool to_head);

}  // namespace fak::net
