#include "wire/document_edit.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json.h"

namespace fak::wire {
namespace {

struct Member {
  size_t begin = 0;  // of its name
  size_t value_begin = 0;
  size_t end = 0;
  std::string name;
};

// Walks over text that is known to be JSON.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<Member> Members() {
    std::vector<Member> members;
    SkipBlanks();
    ++at_;  // {
    SkipBlanks();
    while (text_[at_] != '}') {
      Member member;
      member.begin = at_;
      SkipString();
      member.name = NameOf(text_.substr(member.begin, at_ - member.begin));
      SkipBlanks();
      ++at_;  // :
      SkipBlanks();
      member.value_begin = at_;
      SkipValue();
      member.end = at_;
      members.push_back(std::move(member));
      SkipBlanks();
      if (text_[at_] == ',') {
        ++at_;
        SkipBlanks();
      }
    }
    return members;
  }
  // Of the object's closing brace.
  size_t at() const { return at_; }

  // Of a list: where each element begins and ends.
  std::vector<std::pair<size_t, size_t>> Elements() {
    std::vector<std::pair<size_t, size_t>> elements;
    ++at_;  // [
    SkipBlanks();
    while (text_[at_] != ']') {
      const size_t begin = at_;
      SkipValue();
      elements.emplace_back(begin, at_);
      SkipBlanks();
      if (text_[at_] == ',') {
        ++at_;
        SkipBlanks();
      }
    }
    return elements;
  }

 private:
  static std::string NameOf(std::string_view literal) {
    if (literal.find('\\') == std::string_view::npos) {
      return std::string(literal.substr(1, literal.size() - 2));
    }
    const Result<Json> parsed = ParseJson(literal);
    return parsed && parsed->is_string() ? parsed->string() : std::string();
  }
  void SkipBlanks() { at_ = text_.find_first_not_of(" \t\r\n", at_); }
  void SkipString() {
    for (++at_; text_[at_] != '"'; ++at_) {
      at_ += text_[at_] == '\\' ? 1 : 0;
    }
    ++at_;
  }
  void SkipValue() {
    int depth = 0;
    do {
      const char c = text_[at_];
      if (c == '"') {
        SkipString();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        --depth;
        ++at_;
      } else {
        at_ = text_.find_first_of(depth == 0 ? ",}] \t\r\n" : "\"{}[]", at_);
      }
    } while (depth > 0);
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string EditMembers(std::string_view object, std::span<const MemberEdit> edits) {
  Scanner scanner(object);
  const std::vector<Member> members = scanner.Members();
  const size_t close = scanner.at();
  std::vector<bool> used(edits.size(), false);
  std::string out;
  out.reserve(object.size() + 256);
  out += object.substr(0, members.empty() ? close : members.front().begin);
  bool any = false;
  for (size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    const auto edit = std::find_if(edits.begin(), edits.end(), [&member](const MemberEdit& each) {
      return each.name == member.name;
    });
    if (edit != edits.end()) {
      used[static_cast<size_t>(edit - edits.begin())] = true;
      if (!edit->json) {
        continue;
      }
    }
    if (any) {
      out += object.substr(members[i - 1].end, member.begin - members[i - 1].end);
    }
    any = true;
    out += object.substr(member.begin, member.value_begin - member.begin);
    out += edit != edits.end() ? std::string_view(*edit->json)
                               : object.substr(member.value_begin, member.end - member.value_begin);
  }
  for (size_t i = 0; i < edits.size(); ++i) {
    if (!used[i] && edits[i].json) {
      out += any ? "," : "";
      any = true;
      AppendJsonString(out, edits[i].name);
      out += ":" + *edits[i].json;
    }
  }
  out += object.substr(members.empty() ? close : members.back().end);
  return out;
}

std::string EditPresent(std::string_view object, std::span<const MemberEdit> edits) {
  const std::vector<Member> members = Scanner(object).Members();
  std::vector<MemberEdit> present;
  std::copy_if(edits.begin(), edits.end(), std::back_inserter(present), [&](const auto& edit) {
    return std::any_of(members.begin(), members.end(),
                       [&edit](const Member& member) { return member.name == edit.name; });
  });
  return present.empty() ? std::string(object) : EditMembers(object, present);
}

std::string EditListed(std::string_view object, std::string_view list,
                       std::span<const MemberEdit> edits) {
  std::string out;
  size_t done = 0;
  for (const Member& member : Scanner(object).Members()) {
    const std::string_view value =
        object.substr(member.value_begin, member.end - member.value_begin);
    if (member.name != list || !value.starts_with('[')) {
      continue;
    }
    for (const auto& [begin, end] : Scanner(value).Elements()) {
      if (value[begin] == '{') {
        out += object.substr(done, member.value_begin + begin - done);
        out += EditPresent(value.substr(begin, end - begin), edits);
        done = member.value_begin + end;
      }
    }
  }
  out += object.substr(done);
  return out;
}

}  // namespace fak::wire
