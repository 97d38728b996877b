#include "text/tool_call_parser.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "text/tokenizer.h"

namespace fak::text {
namespace {

using Kind = ToolCallPart::Kind;

// Neither has its first byte a second time: a match that fails begins anew with the byte it fails
// at.
constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";

bool IsBlank(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

void Append(Kind kind, std::string_view text, std::vector<ToolCallPart>& out) {
  if (text.empty()) {
    return;
  }
  if (out.empty() || out.back().kind != kind) {
    out.push_back({kind, {}});
  }
  out.back().text += text;
}

}  // namespace

bool ToolCallParser::NeedsSpecialTokens(const Tokenizer& tokenizer) {
  const std::vector<int32_t> tag =
      tokenizer.Encode(kOpen, {.add_special = false, .parse_special = true});
  return tokenizer.Decode(tag, {.skip_special = true}).find(kOpen) == std::string::npos;
}

ToolCallParser::ToolCallParser(std::vector<std::string> names) : names_(std::move(names)) {}

bool ToolCallParser::TakeText(char byte, std::vector<ToolCallPart>& out) {
  const size_t matched = held_.size() - tag_at_;
  if (byte == kOpen[matched]) {
    held_.push_back(byte);
    if (matched + 1 == kOpen.size()) {
      state_ = State::kHead;
      scanner_ = {};
      object_at_ = 0;
      key_.clear();
      name_.clear();
      arguments_.clear();
    }
    return true;
  }
  const bool goes_with_call =
      after_call_ ? IsBlank(byte) && held_.size() < kHeldBytesMax : byte == '\n' && held_.empty();
  if (matched == 0 && goes_with_call) {
    held_.push_back(byte);
    tag_at_ = held_.size();
    return true;
  }
  after_call_ = false;
  if (held_.empty()) {
    Append(Kind::kText, {&byte, 1}, out);
    return true;
  }
  Append(Kind::kText, std::exchange(held_, {}), out);
  tag_at_ = 0;
  return false;
}

void ToolCallParser::RefuseHead(std::vector<ToolCallPart>& out) {
  const size_t behind_tag = tag_at_ + kOpen.size();
  Append(Kind::kText, std::string_view(held_).substr(0, behind_tag), out);
  again_ = held_.substr(behind_tag);
  held_.clear();
  tag_at_ = 0;
  after_call_ = false;
  state_ = State::kText;
}

void ToolCallParser::BeginCall(std::vector<ToolCallPart>& out) {
  out.push_back({Kind::kCall, name_});
  ++calls_;
  held_.clear();
  tag_at_ = 0;
}

void ToolCallParser::EndCall() {
  held_.clear();
  tag_at_ = 0;
  after_call_ = true;
  state_ = State::kText;
}

bool ToolCallParser::ReadName(std::string_view literal) {
  const Result<Json> name = ParseJson(literal);
  if (!name || std::find(names_.begin(), names_.end(), name->string()) == names_.end()) {
    return false;
  }
  name_ = name->string();
  return true;
}

bool ToolCallParser::ReadHead(JsonScanner::Place place, size_t depth,
                              std::vector<ToolCallPart>& out) {
  const size_t at = held_.size() - 1;
  switch (place) {
    case JsonScanner::Place::kInvalid: return false;
    case JsonScanner::Place::kInside: return true;
    case JsonScanner::Place::kKeyBegin: begin_ = depth == 1 ? at : begin_; return true;
    case JsonScanner::Place::kKeyEnd:
      if (depth == 1) {
        key_ = held_.substr(begin_ + 1, at - begin_ - 1);
      }
      return true;
    case JsonScanner::Place::kValueBegin:
      if (depth != 1) {
        return true;
      }
      begin_ = at;
      if (key_ == "name") {
        return held_[at] == '"' && name_.empty();
      }
      if (key_ != "arguments") {
        return true;
      }
      if (held_[at] != '{' || !arguments_.empty()) {
        return false;
      }
      if (!name_.empty()) {
        BeginCall(out);
        Append(Kind::kArguments, "{", out);
        state_ = State::kArguments;
      }
      return true;
    case JsonScanner::Place::kValueEnd:
      if (scanner_.depth() != 1) {
        return true;
      }
      if (key_ == "arguments") {
        arguments_ = held_.substr(begin_);
      } else if (key_ == "name") {
        if (!ReadName(std::string_view(held_).substr(begin_))) {
          return false;
        }
        if (!arguments_.empty()) {
          BeginCall(out);
          Append(Kind::kArguments, arguments_, out);
          state_ = State::kTail;
        }
      }
      return true;
    case JsonScanner::Place::kEnd:
      if (name_.empty()) {
        return false;
      }
      BeginCall(out);
      Append(Kind::kArguments, "{}", out);
      state_ = State::kClosing;
      return true;
  }
  return false;
}

bool ToolCallParser::TakeHead(char byte, std::vector<ToolCallPart>& out) {
  held_.push_back(byte);
  bool may_be_call = held_.size() - tag_at_ <= kHeldBytesMax;
  if (object_at_ == 0 && !IsBlank(byte)) {
    object_at_ = held_.size() - 1;
    may_be_call = may_be_call && byte == '{';
  }
  if (may_be_call && object_at_ != 0) {
    const size_t depth = scanner_.depth();
    may_be_call = ReadHead(scanner_.Feed(byte), depth, out);
  }
  if (!may_be_call) {
    RefuseHead(out);
  }
  return true;
}

bool ToolCallParser::TakeArguments(char byte, std::vector<ToolCallPart>& out) {
  const JsonScanner::Place place = scanner_.Feed(byte);
  if (place == JsonScanner::Place::kInvalid) {
    state_ = State::kBroken;
    return false;
  }
  Append(Kind::kArguments, {&byte, 1}, out);
  if (place == JsonScanner::Place::kValueEnd && scanner_.depth() == 1) {
    state_ = State::kTail;
  }
  return true;
}

bool ToolCallParser::TakeBroken(char byte, std::vector<ToolCallPart>& out) {
  if (byte == kClose[held_.size()]) {
    held_.push_back(byte);
    if (held_.size() == kClose.size()) {
      EndCall();
    }
    return true;
  }
  if (held_.empty()) {
    Append(Kind::kArguments, {&byte, 1}, out);
    return true;
  }
  Append(Kind::kArguments, std::exchange(held_, {}), out);
  return false;
}

bool ToolCallParser::TakeTail(char byte) {
  const JsonScanner::Place place = scanner_.Feed(byte);
  if (place == JsonScanner::Place::kEnd || place == JsonScanner::Place::kInvalid) {
    state_ = State::kClosing;
  }
  return place != JsonScanner::Place::kInvalid;
}

bool ToolCallParser::TakeClosing(char byte) {
  const size_t matched = held_.size() - tag_at_;
  if (byte == kClose[matched]) {
    held_.push_back(byte);
    if (matched + 1 == kClose.size()) {
      EndCall();
    }
    return true;
  }
  if (matched == 0 && IsBlank(byte) && held_.size() < kHeldBytesMax) {
    held_.push_back(byte);
    tag_at_ = held_.size();
    return true;
  }
  again_ = held_;  // the tag was left out
  EndCall();
  return false;
}

bool ToolCallParser::Take(char byte, std::vector<ToolCallPart>& out) {
  switch (state_) {
    case State::kText: return TakeText(byte, out);
    case State::kHead: return TakeHead(byte, out);
    case State::kArguments: return TakeArguments(byte, out);
    case State::kBroken: return TakeBroken(byte, out);
    case State::kTail: return TakeTail(byte);
    case State::kClosing: return TakeClosing(byte);
  }
  return true;
}

void ToolCallParser::Run(std::string text, std::vector<ToolCallPart>& out) {
  std::vector<std::string> left = {std::move(text)};  // the last first
  while (!left.empty()) {
    const std::string now = std::move(left.back());
    left.pop_back();
    for (size_t at = 0; at < now.size();) {
      at += Take(now[at], out) ? 1 : 0;
      if (!again_.empty()) {
        left.push_back(now.substr(at));
        left.push_back(std::exchange(again_, {}));
        break;
      }
    }
  }
}

void ToolCallParser::Feed(std::string_view text, std::vector<ToolCallPart>& out) {
  Run(std::string(text), out);
}

void ToolCallParser::Finish(std::vector<ToolCallPart>& out) {
  while (state_ == State::kHead) {
    RefuseHead(out);
    Run(std::exchange(again_, {}), out);
  }
  const bool blank = std::all_of(held_.begin(), held_.end(), IsBlank);
  if (state_ == State::kText && !(after_call_ && blank)) {
    Append(Kind::kText, held_, out);
  } else if (state_ == State::kBroken) {
    Append(Kind::kArguments, held_, out);
  }
  held_.clear();
  tag_at_ = 0;
}

}  // namespace fak::text
