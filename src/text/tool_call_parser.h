#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_scanner.h"

namespace fak::text {

class Tokenizer;

// A part of an answer. Parts in order; consecutive ones of kText, or of kArguments, are one.
struct ToolCallPart {
  enum class Kind : uint8_t {
    kText,       // for the user
    kCall,       // a call begins; text is the tool's name
    kArguments,  // more of its arguments, as the model wrote them
  };
  Kind kind = Kind::kText;
  std::string text;

  friend bool operator==(const ToolCallPart&, const ToolCallPart&) = default;
};

// Finds the tool calls in an answer that comes in pieces, in the Hermes dialect (ToolDialect). The
// outcome doesn't depend on how the text is cut; only what may be the beginning of a call is held
// back.
//
// A call is a tag, and behind it an object with the name of a tool that there is; anything else is
// text, tag included. Its arguments come out as they are written; a call without any has "{}". They
// are one JSON object, unless the model writes something else: then they are what it wrote, up to
// the closing tag. What a call has no need of goes: one end of line before it, blanks behind it
// when nothing or another call follows.
//
// Owned by one choice; not thread-safe. Time is O(bytes).
class ToolCallParser {
 public:
  // Of a tag that is no call yet; with more it is text.
  static constexpr size_t kHeldBytesMax = 64 * 1024;

  // Whether the vocabulary has the tags as control tokens, which a detokenizer would leave out.
  static bool NeedsSpecialTokens(const Tokenizer& tokenizer);

  // The tools that there are.
  explicit ToolCallParser(std::vector<std::string> names);

  void Feed(std::string_view text, std::vector<ToolCallPart>& out);
  // The answer has ended: what is held comes out.
  void Finish(std::vector<ToolCallPart>& out);

  size_t calls() const { return calls_; }
  // The last call's arguments are not complete (yet).
  bool in_arguments() const { return state_ == State::kArguments || state_ == State::kBroken; }

 private:
  enum class State : uint8_t {
    kText,
    kHead,       // behind an opening tag; held
    kArguments,  // a JSON object so far
    kBroken,     // arguments that are no JSON
    kTail,       // behind the arguments, in the call's object
    kClosing,    // behind the call's object
  };

  void Run(std::string text, std::vector<ToolCallPart>& out);
  // Each takes a byte; false: it is to be looked at again, in the state that is next.
  bool Take(char byte, std::vector<ToolCallPart>& out);
  bool TakeText(char byte, std::vector<ToolCallPart>& out);
  bool TakeHead(char byte, std::vector<ToolCallPart>& out);
  bool TakeArguments(char byte, std::vector<ToolCallPart>& out);
  bool TakeBroken(char byte, std::vector<ToolCallPart>& out);
  bool TakeTail(char byte);
  bool TakeClosing(char byte);

  // Behind the last byte of held_, one of a call's object. False: it is no call.
  bool ReadHead(JsonScanner::Place place, size_t depth, std::vector<ToolCallPart>& out);
  bool ReadName(std::string_view literal);
  void BeginCall(std::vector<ToolCallPart>& out);
  // It was no call: the tag is text, what was held behind it is looked at again.
  void RefuseHead(std::vector<ToolCallPart>& out);
  void EndCall();

  const std::vector<std::string> names_;
  State state_ = State::kText;
  size_t calls_ = 0;
  bool after_call_ = false;  // nothing but blanks since
  std::string held_;         // blanks, and what a tag, or a call, may begin with
  size_t tag_at_ = 0;        // of the tag, in held_
  std::string again_;        // to be looked at again, before what comes

  // kHead, kArguments, kTail: of the call's object.
  JsonScanner scanner_;
  size_t object_at_ = 0;  // in held_; 0: it has not begun
  size_t begin_ = 0;      // of its last key or value, in held_
  std::string key_;
  std::string name_;
  std::string arguments_;  // that came before the name
};

}  // namespace fak::text
