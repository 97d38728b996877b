#include "base/base64.h"

#include <utility>

#include <gtest/gtest.h>

namespace fak {
namespace {

TEST(Base64, IsAsTheRfcHasIt) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
      {"\xff\xfe\x3f", "//4/"},
  };
  for (const auto& [bytes, text] : kCases) {
    EXPECT_EQ(Base64(bytes), text);
    EXPECT_EQ(FromBase64(text), bytes);
  }
}

TEST(Base64, RefusesWhatItIsNot) {
  for (const char* text : {"Z", "Zg", "Zg=", "Z===", "Zg==Zg==", "Zm9*", "Zh==", "=Zg=", "===="}) {
    EXPECT_EQ(FromBase64(text), std::nullopt) << text;
  }
  EXPECT_EQ(FromBase64(Base64(std::string(2, '\0'))), std::string(2, '\0'));
}

}  // namespace
}  // namespace fak
