// fuzz: links fak_base
// A document that is taken comes out as it went in: what Dump() writes parses to the same value,
// and is written the same way again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "base/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = fak::ParseJson(text);
  if (!json) {
    CHECK(json.error().code == fak::Code::kInvalidArgument);
    return 0;
  }
  const std::string dump = json->Dump();
  CHECK(fak::IsValidUtf8(dump));
  for (const std::string& written : {dump, json->Pretty()}) {
    const auto again = fak::ParseJson(written);
    CHECK(again.has_value()) << written;
    CHECK(*again == *json) << written;
    CHECK(again->Dump() == dump) << written;
  }
  return 0;
}
