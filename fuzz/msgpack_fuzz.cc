// fuzz: links fak_wire
// What the reader takes, the writer writes so that it reads back the same; a
// whole value ends where its last token does.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/msgpack.h"

namespace {

using fak::wire::MsgpackReader;
using fak::wire::MsgpackToken;
using fak::wire::MsgpackWriter;
using Kind = MsgpackToken::Kind;

void Write(const MsgpackToken& token, std::string& out) {
  MsgpackWriter writer(out);
  switch (token.kind) {
    case Kind::kNil: writer.Nil(); break;
    case Kind::kBool: writer.Bool(token.boolean); break;
    case Kind::kInteger:
      token.negative ? writer.Int(token.AsInt().value()) : writer.Uint(token.AsUint().value());
      break;
    case Kind::kFloat: writer.Double(token.number); break;
    case Kind::kString: writer.String(token.bytes); break;
    case Kind::kBinary: writer.Binary(token.bytes); break;
    case Kind::kArray: writer.Array(token.count); break;
    case Kind::kMap: writer.Map(token.count); break;
    case Kind::kExtension: writer.Binary(token.bytes); break;  // the writer has none
  }
}

bool Same(const MsgpackToken& a, const MsgpackToken& b) {
  const bool binary = a.kind == Kind::kExtension && b.kind == Kind::kBinary;
  return (a.kind == b.kind || binary) && a.boolean == b.boolean && a.negative == b.negative &&
         a.count == b.count && a.bits == b.bits && a.bytes == b.bytes &&
         (a.number == b.number || (std::isnan(a.number) && std::isnan(b.number)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  MsgpackReader whole(text);
  const auto value = whole.NextWhole();
  if (!value) {
    CHECK(value.error().code == fak::Code::kDataCorrupt);
    return 0;
  }
  MsgpackReader reader(*value);
  std::vector<MsgpackToken> tokens;
  std::string written;
  while (!reader.at_end()) {
    const auto token = reader.Next();
    CHECK(token.has_value()) << "a whole value has a broken part";
    tokens.push_back(*token);
    Write(*token, written);
  }
  MsgpackReader again(written);
  for (const MsgpackToken& token : tokens) {
    const auto read = again.Next();
    CHECK(read.has_value() && Same(token, *read)) << "another value";
  }
  CHECK(again.at_end());
  CHECK(MsgpackReader(written).NextWhole()->size() == written.size());
  return 0;
}
