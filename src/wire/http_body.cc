#include "wire/http_body.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/hex.h"
#include "base/limits.h"

namespace fak::wire {
namespace {

tl::unexpected<Error> BadChunk(std::string_view what) {
  return Fail(Code::kInvalidArgument, "chunked body: " + std::string(what));
}

bool IsBlank(char c) {
  return c == ' ' || c == '\t';
}

}  // namespace

HttpBodyDecoder::HttpBodyDecoder(HttpFraming framing, uint64_t length, uint64_t bytes_max)
    : framing_(framing), bytes_max_(bytes_max) {
  switch (framing) {
    case HttpFraming::kNone: break;
    case HttpFraming::kLength:
      left_ = length;
      state_ = length == 0 ? State::kDone : State::kChunk;
      break;
    case HttpFraming::kChunked: state_ = State::kSizeFirst; break;
    case HttpFraming::kUntilClose:
      left_ = UINT64_MAX;
      state_ = State::kChunk;
      break;
  }
}

Result<size_t> HttpBodyDecoder::Feed(std::string_view bytes,
                                     FunctionRef<void(std::string_view)> on_content) {
  size_t used = 0;
  while (used < bytes.size() && state_ != State::kDone) {
    if (state_ == State::kChunk) {
      const size_t taken = std::min<uint64_t>(left_, bytes.size() - used);
      if (taken > bytes_max_ - content_bytes_) {
        return Fail(Code::kPayloadTooLarge,
                    "body: more than " + std::to_string(bytes_max_) + " bytes");
      }
      used += TakeContent(bytes.substr(used, taken), on_content);
    } else if (const size_t plain = PlainFraming(bytes.substr(used)); plain > 0) {
      used += plain;
      if (state_ == State::kSizeLf) {
        TRY(StartChunk());
      }
    } else {
      TRY(TakeByte(bytes[used]));
      ++used;
    }
  }
  return used;
}

size_t HttpBodyDecoder::PlainFraming(std::string_view bytes) {
  constexpr size_t kDigitsMax = 8;
  constexpr std::string_view kCrLf = "\r\n";
  if (state_ == State::kChunkCr && bytes.starts_with(kCrLf)) {
    state_ = State::kSizeFirst;
    return kCrLf.size();
  }
  if (state_ != State::kSizeFirst) {
    return 0;
  }
  uint64_t size = 0;
  size_t digits = 0;
  for (; digits < std::min(bytes.size(), kDigitsMax); ++digits) {
    const int digit = HexDigit(bytes[digits]);
    if (digit < 0) {
      break;
    }
    size = size * 16 + static_cast<uint64_t>(digit);
  }
  if (digits == 0 || !bytes.substr(digits).starts_with(kCrLf)) {
    return 0;
  }
  left_ = size;
  state_ = State::kSizeLf;
  return digits + kCrLf.size();
}

size_t HttpBodyDecoder::TakeContent(std::string_view bytes,
                                    FunctionRef<void(std::string_view)> on_content) {
  content_bytes_ += bytes.size();
  if (framing_ != HttpFraming::kUntilClose) {
    left_ -= bytes.size();
  }
  if (left_ == 0) {
    state_ = framing_ == HttpFraming::kChunked ? State::kChunkCr : State::kDone;
  }
  on_content(bytes);
  return bytes.size();
}

Status HttpBodyDecoder::TakeByte(char c) {
  switch (state_) {
    case State::kSizeFirst:
      left_ = 0;
      size_digits_ = 0;
      state_ = State::kSize;
      return TakeSizeDigit(c);
    case State::kSize:
      if (c == '\r') {
        state_ = State::kSizeLf;
        return {};
      }
      if (c == ';' || IsBlank(c)) {
        state_ = c == ';' ? State::kExtension : State::kSizeBlank;
        return TakeExtra(c);
      }
      return TakeSizeDigit(c);
    case State::kSizeBlank:
      if (c != ';' && !IsBlank(c)) {
        return BadChunk("a blank behind a size, and no extension");
      }
      state_ = c == ';' ? State::kExtension : State::kSizeBlank;
      return TakeExtra(c);
    case State::kExtension:
      if (c == '\r') {
        state_ = State::kSizeLf;
        return {};
      }
      return TakeExtra(c);
    case State::kSizeLf: return c == '\n' ? StartChunk() : BadChunk("CR without LF");
    case State::kChunkCr:
      state_ = State::kChunkLf;
      return c == '\r' ? Status() : BadChunk("a chunk is longer than its size");
    case State::kChunkLf:
      state_ = State::kSizeFirst;
      return c == '\n' ? Status() : BadChunk("CR without LF");
    case State::kTrailerFirst:
      state_ = c == '\r' ? State::kFinalLf : State::kTrailer;
      return c == '\r' ? Status() : TakeExtra(c);
    case State::kTrailer:
      if (c == '\r') {
        state_ = State::kTrailerLf;
        return {};
      }
      return TakeExtra(c);
    case State::kTrailerLf:
      state_ = State::kTrailerFirst;
      return c == '\n' ? Status() : BadChunk("CR without LF");
    case State::kFinalLf:
      state_ = State::kDone;
      return c == '\n' ? Status() : BadChunk("CR without LF");
    case State::kChunk:
    case State::kDone: break;
  }
  return Fail(Code::kInternal, "chunked body: no such state");
}

Status HttpBodyDecoder::TakeSizeDigit(char c) {
  const int digit = HexDigit(c);
  if (digit < 0) {
    return BadChunk(size_digits_ == 0 ? "no size where one must be" : "a size isn't hexadecimal");
  }
  // 16 digits fill 64 bits, and the highest of them must stay unset.
  if (++size_digits_ > 16 || left_ >> 59 != 0) {
    return BadChunk("a size is too large");
  }
  left_ = left_ * 16 + static_cast<uint64_t>(digit);
  return {};
}

Status HttpBodyDecoder::TakeExtra(char c) {
  const bool visible = (c >= ' ' && c <= '~') || c == '\t';
  if (!visible) {
    return BadChunk("a control or non-ASCII character in an extension or trailer");
  }
  // A stream may have an extension a chunk, for as long as it likes.
  if (++extra_bytes_ > limits::kHttpHeadBytesMax + content_bytes_) {
    return Fail(Code::kPayloadTooLarge, "chunked body: extensions and trailers of more than " +
                                            std::to_string(limits::kHttpHeadBytesMax) +
                                            " bytes beside the content");
  }
  return {};
}

Status HttpBodyDecoder::StartChunk() {
  state_ = left_ == 0 ? State::kTrailerFirst : State::kChunk;
  if (left_ > bytes_max_ - content_bytes_) {
    return Fail(Code::kPayloadTooLarge, "body: more than " + std::to_string(bytes_max_) + " bytes");
  }
  return {};
}

Status HttpBodyDecoder::Finish() {
  if (framing_ == HttpFraming::kUntilClose) {
    state_ = State::kDone;
  }
  if (state_ == State::kDone) {
    return {};
  }
  return Fail(Code::kUpstreamError, "the connection was closed in the middle of a body, after " +
                                        std::to_string(content_bytes_) + " bytes");
}

void AppendHttpChunk(std::string& out, std::string_view data) {
  if (data.empty()) {
    return;
  }
  std::array<char, 16> size;
  const auto done = std::to_chars(size.data(), size.data() + size.size(), data.size(), 16);
  out.append(size.data(), done.ptr);
  out += "\r\n";
  out += data;
  out += "\r\n";
}

}  // namespace fak::wire
