// fuzz: links fak_base
// A configuration file from anywhere gives a table whose every key can be asked for, or an error
// that says where.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/result.h"

namespace {

void Walk(const fak::ConfigTable& table) {
  for (const std::string& key : table.Keys()) {
    const bool read = table.String(key) || table.Int(key) || table.Float(key) || table.Bool(key) ||
                      table.Strings(key);
    (void)read;
    if (const auto inner = table.Table(key)) {
      Walk(**inner);
    }
    if (const auto inner = table.Tables(key)) {
      for (const fak::ConfigTable& item : *inner) {
        Walk(item);
      }
    }
    CHECK(table.ErrorAt(key, "x").detail.starts_with("f.toml:"));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto table = fak::ConfigTable::Parse({reinterpret_cast<const char*>(data), size}, "f.toml");
  if (table) {
    Walk(*table);
  } else {
    CHECK(table.error().detail.starts_with("f.toml:")) << table.error().detail;
  }
  return 0;
}
