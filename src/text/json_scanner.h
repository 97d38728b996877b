#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fak::text {

// Checks a JSON text (RFC 8259) byte by byte, and says where its keys and values begin and end. For
// text that a model is still writing; base's ParseJson() reads a text that is there. The bytes of
// strings are not checked for UTF-8. At most kJsonDepthMax levels deep, more is invalid.
// Not thread-safe. O(1) a byte.
class JsonScanner {
 public:
  // What the byte just fed was.
  enum class Place : uint8_t {
    kInside,      // nothing of the following
    kKeyBegin,    // a key's opening quote
    kKeyEnd,      // and its closing one
    kValueBegin,  // the first byte of a value
    kValueEnd,    // the last byte of a string, an object or a list
    kEnd,         // the same, of the value that is the whole text: nothing may follow
    kInvalid,     // no JSON text goes on so: the byte is not taken, and no other will be
  };
  Place Feed(char byte);
  // Objects and lists that are open.
  size_t depth() const { return open_.size(); }

 private:
  enum class State : uint8_t {
    kValue,
    kValueOrEnd,  // behind '['
    kKey,         // behind ',' in an object
    kKeyOrEnd,    // behind '{'
    kColon,
    kAfterValue,
    kString,
    kEscape,
    kHex,
    kLiteral,
    kMinus,
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
    kOver,
  };

  Place BeginValue(char byte);
  Place InString(char byte);
  Place InNumber(char byte);
  Place BetweenValues(char byte);
  Place CloseWith(char byte);
  // A string, object or list ended.
  Place EndValue();
  Place Invalid();

  std::string open_;  // '{' and '[', outermost first
  State state_ = State::kValue;
  bool in_key_ = false;
  int hex_left_ = 0;
  const char* literal_left_ = "";
};

}  // namespace fak::text
