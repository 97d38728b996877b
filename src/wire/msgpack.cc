#include "wire/msgpack.h"

#include <bit>
#include <limits>

namespace fak::wire {

using Kind = MsgpackToken::Kind;

std::optional<int64_t> MsgpackToken::AsInt() const {
  const auto value = static_cast<int64_t>(bits);
  if (kind != Kind::kInteger || negative != (value < 0)) {
    return std::nullopt;
  }
  return value;
}

std::optional<uint64_t> MsgpackToken::AsUint() const {
  return kind == Kind::kInteger && !negative ? std::optional(bits) : std::nullopt;
}

std::optional<double> MsgpackToken::AsDouble() const {
  if (kind == Kind::kFloat) {
    return number;
  }
  if (kind == Kind::kInteger) {
    return negative ? static_cast<double>(static_cast<int64_t>(bits)) : static_cast<double>(bits);
  }
  return std::nullopt;
}

tl::unexpected<Error> MsgpackReader::Broken(std::string_view what) const {
  return Fail(Code::kDataCorrupt,
              "MessagePack, offset " + std::to_string(offset_) + ": " + std::string(what));
}

std::optional<uint64_t> MsgpackReader::TakeNumber(size_t bytes) {
  if (text_.size() - offset_ < bytes) {
    return std::nullopt;
  }
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value = value << 8 | static_cast<unsigned char>(text_[offset_ + i]);
  }
  offset_ += bytes;
  return value;
}

Result<MsgpackToken> MsgpackReader::TakeInteger(MsgpackToken token, size_t bytes, bool is_signed) {
  const std::optional<uint64_t> value = TakeNumber(bytes);
  if (!value) {
    return Broken("ends within an integer");
  }
  token.kind = Kind::kInteger;
  token.bits = *value;
  if (is_signed && (*value >> (bytes * 8 - 1)) != 0) {
    token.negative = true;
    token.bits |= bytes == 8 ? 0 : ~uint64_t{0} << (bytes * 8);
  }
  return token;
}

Result<MsgpackToken> MsgpackReader::TakeFloat(MsgpackToken token, size_t bytes) {
  const std::optional<uint64_t> value = TakeNumber(bytes);
  if (!value) {
    return Broken("ends within a float");
  }
  token.kind = Kind::kFloat;
  token.number = bytes == 8 ? std::bit_cast<double>(*value)
                            : std::bit_cast<float>(static_cast<uint32_t>(*value));
  return token;
}

Result<MsgpackToken> MsgpackReader::TakeBytes(MsgpackToken token, uint64_t length) {
  if (text_.size() - offset_ < length) {
    return Broken(std::to_string(length) + " bytes announced, " +
                  std::to_string(text_.size() - offset_) + " are left");
  }
  token.bytes = text_.substr(offset_, length);
  offset_ += length;
  return token;
}

// An element takes a byte at least.
Result<MsgpackToken> MsgpackReader::TakeCount(MsgpackToken token, uint64_t count) {
  const uint64_t least = token.kind == Kind::kMap ? 2 * count : count;
  if (text_.size() - offset_ < least) {
    return Broken(std::to_string(count) + " elements announced, " +
                  std::to_string(text_.size() - offset_) + " bytes are left");
  }
  token.count = static_cast<uint32_t>(count);
  return token;
}

// A string, binary, extension, array or map whose length stands in `length_bytes` bytes.
Result<MsgpackToken> MsgpackReader::TakeSized(MsgpackToken token, size_t length_bytes) {
  const std::optional<uint64_t> length = TakeNumber(length_bytes);
  if (!length) {
    return Broken("ends within a length");
  }
  if (token.kind == Kind::kArray || token.kind == Kind::kMap) {
    return TakeCount(token, *length);
  }
  if (token.kind == Kind::kExtension) {
    const std::optional<uint64_t> type = TakeNumber(1);
    if (!type) {
      return Broken("ends within an extension");
    }
    token.extension_type = static_cast<int8_t>(*type);
  }
  return TakeBytes(token, *length);
}

Result<MsgpackToken> MsgpackReader::Next() {
  const std::optional<uint64_t> head_byte = TakeNumber(1);
  if (!head_byte) {
    return Broken("ends where a value should be");
  }
  const auto head = static_cast<unsigned>(*head_byte);
  MsgpackToken token;
  const auto as = [&token](Kind kind) {
    token.kind = kind;
    return token;
  };
  if (head < 0x80 || head >= 0xe0) {
    token.negative = head >= 0xe0;
    token.bits = token.negative ? ~uint64_t{0xff} | head : head;
    return as(Kind::kInteger);
  }
  if (head < 0xc0) {
    return head < 0x90   ? TakeCount(as(Kind::kMap), head & 0x0f)
           : head < 0xa0 ? TakeCount(as(Kind::kArray), head & 0x0f)
                         : TakeBytes(as(Kind::kString), head & 0x1f);
  }
  switch (head) {
    case 0xc0: return token;
    case 0xc2:
    case 0xc3: token.boolean = head == 0xc3; return as(Kind::kBool);
    case 0xc4:
    case 0xc5:
    case 0xc6: return TakeSized(as(Kind::kBinary), size_t{1} << (head - 0xc4));
    case 0xc7:
    case 0xc8:
    case 0xc9: return TakeSized(as(Kind::kExtension), size_t{1} << (head - 0xc7));
    case 0xca: return TakeFloat(token, 4);
    case 0xcb: return TakeFloat(token, 8);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf: return TakeInteger(token, size_t{1} << (head - 0xcc), false);
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3: return TakeInteger(token, size_t{1} << (head - 0xd0), true);
    case 0xd9:
    case 0xda:
    case 0xdb: return TakeSized(as(Kind::kString), size_t{1} << (head - 0xd9));
    case 0xdc:
    case 0xdd: return TakeSized(as(Kind::kArray), size_t{2} << (head - 0xdc));
    case 0xde:
    case 0xdf: return TakeSized(as(Kind::kMap), size_t{2} << (head - 0xde));
    case 0xc1: return Broken("byte c1 starts no value");
    default: break;
  }
  // d4 to d8: extensions of 1, 2, 4, 8, 16 bytes.
  const std::optional<uint64_t> type = TakeNumber(1);
  if (!type) {
    return Broken("ends within an extension");
  }
  token.extension_type = static_cast<int8_t>(*type);
  return TakeBytes(as(Kind::kExtension), uint64_t{1} << (head - 0xd4));
}

Result<std::string_view> MsgpackReader::NextWhole() {
  const size_t begin = offset_;
  for (uint64_t left = 1; left > 0; --left) {
    TRY_ASSIGN(const MsgpackToken token, Next());
    left += token.kind == Kind::kMap ? uint64_t{2} * token.count : token.count;
  }
  return text_.substr(begin, offset_ - begin);
}

Result<MsgpackToken> MsgpackReader::Expect(Kind kind, std::string_view what) {
  TRY_ASSIGN(const MsgpackToken token, Next());
  if (token.kind != kind) {
    return Broken("before it: not " + std::string(what));
  }
  return token;
}

void MsgpackWriter::Byte(unsigned value) {
  out_ += static_cast<char>(value);
}

void MsgpackWriter::Number(uint64_t value, size_t bytes) {
  for (size_t i = bytes; i-- > 0;) {
    Byte(static_cast<unsigned>(value >> (8 * i)) & 0xff);
  }
}

// `long_head` is the form with two bytes of length, the one after it has four.
void MsgpackWriter::Head(unsigned short_head, size_t short_max, unsigned long_head, size_t count) {
  CHECK(count <= std::numeric_limits<uint32_t>::max()) << "too long for MessagePack";
  if (count <= short_max) {
    Byte(short_head | static_cast<unsigned>(count));
  } else if (count <= 0xffff) {
    Byte(long_head);
    Number(count, 2);
  } else {
    Byte(long_head + 1);
    Number(count, 4);
  }
}

MsgpackWriter& MsgpackWriter::Nil() {
  Byte(0xc0);
  return *this;
}

MsgpackWriter& MsgpackWriter::Bool(bool value) {
  Byte(value ? 0xc3 : 0xc2);
  return *this;
}

MsgpackWriter& MsgpackWriter::Uint(uint64_t value) {
  if (value < 0x80) {
    Byte(static_cast<unsigned>(value));
    return *this;
  }
  const unsigned power = value <= 0xff ? 0 : value <= 0xffff ? 1 : value <= 0xffffffff ? 2 : 3;
  Byte(0xcc + power);
  Number(value, size_t{1} << power);
  return *this;
}

MsgpackWriter& MsgpackWriter::Int(int64_t value) {
  if (value >= 0) {
    return Uint(static_cast<uint64_t>(value));
  }
  if (value >= -32) {
    Byte(static_cast<unsigned>(value) & 0xff);
    return *this;
  }
  const unsigned power = value >= std::numeric_limits<int8_t>::min()    ? 0
                         : value >= std::numeric_limits<int16_t>::min() ? 1
                         : value >= std::numeric_limits<int32_t>::min() ? 2
                                                                        : 3;
  Byte(0xd0 + power);
  Number(static_cast<uint64_t>(value), size_t{1} << power);
  return *this;
}

MsgpackWriter& MsgpackWriter::Double(double value) {
  Byte(0xcb);
  Number(std::bit_cast<uint64_t>(value), 8);
  return *this;
}

MsgpackWriter& MsgpackWriter::String(std::string_view value) {
  if (value.size() > 31 && value.size() <= 0xff) {
    Byte(0xd9);
    Number(value.size(), 1);
  } else {
    Head(0xa0, 31, 0xda, value.size());
  }
  out_ += value;
  return *this;
}

MsgpackWriter& MsgpackWriter::Binary(std::string_view value) {
  if (value.size() <= 0xff) {
    Byte(0xc4);
    Number(value.size(), 1);
  } else {
    Head(0, 0, 0xc5, value.size());
  }
  out_ += value;
  return *this;
}

MsgpackWriter& MsgpackWriter::Array(size_t count) {
  Head(0x90, 15, 0xdc, count);
  return *this;
}

MsgpackWriter& MsgpackWriter::Map(size_t count) {
  Head(0x80, 15, 0xde, count);
  return *this;
}

}  // namespace fak::wire
