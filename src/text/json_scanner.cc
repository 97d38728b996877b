#include "text/json_scanner.h"

#include <string_view>

#include "base/limits.h"

namespace fak::text {
namespace {

bool IsBlank(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

bool IsDigit(char byte) {
  return byte >= '0' && byte <= '9';
}

bool IsHex(char byte) {
  return IsDigit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

}  // namespace

JsonScanner::Place JsonScanner::Invalid() {
  state_ = State::kOver;
  return Place::kInvalid;
}

JsonScanner::Place JsonScanner::EndValue() {
  state_ = open_.empty() ? State::kOver : State::kAfterValue;
  return open_.empty() ? Place::kEnd : Place::kValueEnd;
}

JsonScanner::Place JsonScanner::BeginValue(char byte) {
  switch (byte) {
    case '{':
    case '[':
      if (open_.size() >= static_cast<size_t>(limits::kJsonDepthMax)) {
        return Invalid();
      }
      open_.push_back(byte);
      state_ = byte == '{' ? State::kKeyOrEnd : State::kValueOrEnd;
      return Place::kValueBegin;
    case '"':
      in_key_ = false;
      state_ = State::kString;
      return Place::kValueBegin;
    case 't': literal_left_ = "rue"; break;
    case 'f': literal_left_ = "alse"; break;
    case 'n': literal_left_ = "ull"; break;
    default:
      if (byte != '-' && !IsDigit(byte)) {
        return Invalid();
      }
      state_ = byte == '-' ? State::kMinus : byte == '0' ? State::kZero : State::kInteger;
      return Place::kValueBegin;
  }
  state_ = State::kLiteral;
  return Place::kValueBegin;
}

JsonScanner::Place JsonScanner::InString(char byte) {
  if (state_ == State::kHex) {
    if (!IsHex(byte)) {
      return Invalid();
    }
    state_ = --hex_left_ == 0 ? State::kString : State::kHex;
    return Place::kInside;
  }
  if (state_ == State::kEscape) {
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    if (byte != 'u' && kEscapes.find(byte) == std::string_view::npos) {
      return Invalid();
    }
    hex_left_ = 4;
    state_ = byte == 'u' ? State::kHex : State::kString;
    return Place::kInside;
  }
  if (static_cast<unsigned char>(byte) < 0x20) {
    return Invalid();
  }
  if (byte == '\\') {
    state_ = State::kEscape;
    return Place::kInside;
  }
  if (byte != '"') {
    return Place::kInside;
  }
  if (in_key_) {
    state_ = State::kColon;
    return Place::kKeyEnd;
  }
  return EndValue();
}

// A number has ended when the next byte is no part of it; that one is looked at again.
JsonScanner::Place JsonScanner::InNumber(char byte) {
  const bool exponent = byte == 'e' || byte == 'E';
  State next = State::kAfterValue;
  switch (state_) {
    case State::kMinus:
      next = byte == '0' ? State::kZero : IsDigit(byte) ? State::kInteger : State::kOver;
      break;
    case State::kPoint: next = IsDigit(byte) ? State::kFraction : State::kOver; break;
    case State::kExponent:
      next = byte == '+' || byte == '-' ? State::kExponentSign
             : IsDigit(byte)            ? State::kExponentDigits
                                        : State::kOver;
      break;
    case State::kExponentSign: next = IsDigit(byte) ? State::kExponentDigits : State::kOver; break;
    case State::kZero:
    case State::kInteger:
      next = exponent                                     ? State::kExponent
             : byte == '.'                                ? State::kPoint
             : state_ == State::kInteger && IsDigit(byte) ? State::kInteger
                                                          : State::kAfterValue;
      break;
    case State::kFraction:
      next = exponent ? State::kExponent : IsDigit(byte) ? State::kFraction : State::kAfterValue;
      break;
    default: next = IsDigit(byte) ? State::kExponentDigits : State::kAfterValue; break;
  }
  if (next == State::kOver) {
    return Invalid();
  }
  state_ = next;
  return next == State::kAfterValue ? Feed(byte) : Place::kInside;
}

JsonScanner::Place JsonScanner::CloseWith(char byte) {
  const char wanted = byte == '}' ? '{' : '[';
  if ((byte != '}' && byte != ']') || open_.empty() || open_.back() != wanted) {
    return Invalid();
  }
  open_.pop_back();
  return EndValue();
}

JsonScanner::Place JsonScanner::BetweenValues(char byte) {
  switch (state_) {
    case State::kValue: return BeginValue(byte);
    case State::kValueOrEnd: return byte == ']' ? CloseWith(byte) : BeginValue(byte);
    case State::kKey:
    case State::kKeyOrEnd:
      if (byte == '"') {
        in_key_ = true;
        state_ = State::kString;
        return Place::kKeyBegin;
      }
      return state_ == State::kKeyOrEnd ? CloseWith(byte) : Invalid();
    case State::kColon:
      if (byte != ':') {
        return Invalid();
      }
      state_ = State::kValue;
      return Place::kInside;
    default:  // kAfterValue
      if (byte == ',' && !open_.empty()) {
        state_ = open_.back() == '{' ? State::kKey : State::kValue;
        return Place::kInside;
      }
      return CloseWith(byte);
  }
}

JsonScanner::Place JsonScanner::Feed(char byte) {
  switch (state_) {
    case State::kString:
    case State::kEscape:
    case State::kHex: return InString(byte);
    case State::kLiteral:
      if (byte != *literal_left_) {
        return Invalid();
      }
      state_ = *++literal_left_ == '\0' ? State::kAfterValue : State::kLiteral;
      return Place::kInside;
    case State::kMinus:
    case State::kZero:
    case State::kInteger:
    case State::kPoint:
    case State::kFraction:
    case State::kExponent:
    case State::kExponentSign:
    case State::kExponentDigits: return InNumber(byte);
    case State::kOver: return Place::kInvalid;
    default: return IsBlank(byte) ? Place::kInside : BetweenValues(byte);
  }
}

}  // namespace fak::text
