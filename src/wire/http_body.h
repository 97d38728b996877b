// Hot path: bench/micro/http_body_bench.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/result.h"

namespace fak::wire {

// How the end of an HTTP/1.1 message body is found (RFC 9112 section 6).
enum class HttpFraming : uint8_t {
  kNone,        // there is no body
  kLength,      // Content-Length
  kChunked,     // Transfer-Encoding: chunked
  kUntilClose,  // responses only: the body ends with the connection
};

// Takes the framing off one message body. Feed() may be called with any cut of the bytes.
//
// Strict where leniency lets two parsers disagree (request smuggling): a chunk size is 1 to 16 hex
// digits that fit 63 bits, blanks follow it only where an extension does (RFC 9112 7.1.1), lines
// end with CR LF only, extensions and trailers must be visible ASCII (all of that is dropped;
// together it may take limits::kHttpHeadBytesMax bytes). Errors are kInvalidArgument, or
// kPayloadTooLarge beyond `bytes_max` of content; the connection is useless after either. Holds no
// body bytes. Not thread-safe.
class HttpBodyDecoder {
 public:
  // No body.
  HttpBodyDecoder() = default;
  // `length` counts for kLength only.
  HttpBodyDecoder(HttpFraming framing, uint64_t length, uint64_t bytes_max = UINT64_MAX);

  // Hands out content in pieces (views into `bytes`) and returns how many of the bytes belonged to
  // this message: less than all only when it is done.
  [[nodiscard]] Result<size_t> Feed(std::string_view bytes,
                                    FunctionRef<void(std::string_view)> on_content);
  // The connection has ended. An error (kUpstreamError) unless the body is complete now.
  [[nodiscard]] Status Finish();

  bool done() const { return state_ == State::kDone; }
  uint64_t content_bytes() const { return content_bytes_; }

 private:
  enum class State : uint8_t {
    kSizeFirst,  // first digit of a chunk size
    kSize,
    kSizeBlank,  // before the ";" of an extension
    kExtension,
    kSizeLf,
    kChunk,  // also the whole body of kLength and kUntilClose
    kChunkCr,
    kChunkLf,
    kTrailerFirst,  // first byte of a line behind the last chunk
    kTrailer,
    kTrailerLf,
    kFinalLf,
    kDone,
  };

  size_t TakeContent(std::string_view bytes, FunctionRef<void(std::string_view)> on_content);
  // What frames a chunk as nearly everybody writes it and all of it here, in one step: how many
  // bytes, 0 where it isn't that. After a size the state is kSizeLf, its line end taken.
  size_t PlainFraming(std::string_view bytes);
  Status TakeByte(char c);
  Status TakeSizeDigit(char c);
  Status TakeExtra(char c);
  Status StartChunk();

  HttpFraming framing_ = HttpFraming::kNone;
  State state_ = State::kDone;
  uint64_t left_ = 0;  // of the chunk, or of the whole body
  int size_digits_ = 0;
  size_t extra_bytes_ = 0;  // extensions and trailers
  uint64_t content_bytes_ = 0;
  uint64_t bytes_max_ = UINT64_MAX;
};

// Appends one chunk. Nothing for empty data, which would end the body.
void AppendHttpChunk(std::string& out, std::string_view data);
// The end of a chunked body, without trailers.
inline constexpr std::string_view kHttpLastChunk = "0\r\n\r\n";

}  // namespace fak::wire
