#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fak::wire {

// One value of a MessagePack text, or the head of one: the elements of an array, and the keys and
// values of a map in turn, follow as values of their own.
struct MsgpackToken {
  enum class Kind : uint8_t {
    kNil,
    kBool,
    kInteger,
    kFloat,
    kString,  // `bytes`, not checked for UTF-8
    kBinary,  // `bytes`
    kArray,   // `count` elements follow
    kMap,     // `count` pairs follow
    kExtension,
  };
  Kind kind = Kind::kNil;
  bool boolean = false;
  bool negative = false;      // an integer below 0
  int8_t extension_type = 0;  // with `bytes`
  uint32_t count = 0;
  uint64_t bits = 0;  // of an integer, in two's complement
  double number = 0;  // of a float
  std::string_view bytes;

  // nullopt for what is no integer or out of range.
  std::optional<int64_t> AsInt() const;
  std::optional<uint64_t> AsUint() const;
  std::optional<double> AsDouble() const;  // of an integer too
};

// Reads values one after the other; never more than was given. Errors are kDataCorrupt and name
// the offset: the text ends too early, a byte that starts no value (c1), or a count of elements
// that the rest is too short for, so that a count may be reserved for. No recursion and no
// allocation: nesting costs nothing.
// The text must outlive the reader and what it gave. Plain value, not thread-safe. Fuzzed
// (fuzz/msgpack_fuzz.cc).
class MsgpackReader {
 public:
  explicit MsgpackReader(std::string_view text) : text_(text) {}

  bool at_end() const { return offset_ == text_.size(); }
  size_t offset() const { return offset_; }

  [[nodiscard]] Result<MsgpackToken> Next();
  // The bytes of a whole value, with all that is inside it, which is thereby known to be whole.
  [[nodiscard]] Result<std::string_view> NextWhole();
  // Next(), which must be of that kind. `what` names it in the error.
  [[nodiscard]] Result<MsgpackToken> Expect(MsgpackToken::Kind kind, std::string_view what);

 private:
  std::optional<uint64_t> TakeNumber(size_t bytes);
  Result<MsgpackToken> TakeInteger(MsgpackToken token, size_t bytes, bool is_signed);
  Result<MsgpackToken> TakeFloat(MsgpackToken token, size_t bytes);
  Result<MsgpackToken> TakeBytes(MsgpackToken token, uint64_t length);
  Result<MsgpackToken> TakeCount(MsgpackToken token, uint64_t count);
  Result<MsgpackToken> TakeSized(MsgpackToken token, size_t length_bytes);
  tl::unexpected<Error> Broken(std::string_view what) const;

  std::string_view text_;
  size_t offset_ = 0;
};

// Appends values in their shortest form. The caller keeps the counts that it announced.
class MsgpackWriter {
 public:
  explicit MsgpackWriter(std::string& out) : out_(out) {}

  MsgpackWriter& Nil();
  MsgpackWriter& Bool(bool value);
  MsgpackWriter& Int(int64_t value);
  MsgpackWriter& Uint(uint64_t value);
  MsgpackWriter& Double(double value);
  // At most 4 GiB - 1 of bytes, elements or pairs.
  MsgpackWriter& String(std::string_view value);
  MsgpackWriter& Binary(std::string_view value);
  MsgpackWriter& Array(size_t count);
  MsgpackWriter& Map(size_t count);

 private:
  void Byte(unsigned value);
  void Number(uint64_t value, size_t bytes);  // big-endian
  void Head(unsigned short_head, size_t short_max, unsigned long_head, size_t count);

  std::string& out_;
};

}  // namespace fak::wire
