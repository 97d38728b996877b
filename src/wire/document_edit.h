#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fak::wire {

// What happens to every top-level member of that name: it gets this JSON text as its value (one is
// appended when there is none), or it goes.
struct MemberEdit {
  std::string name;
  std::optional<std::string> json;  // nullopt: removed
};

// The text of a JSON object with these edits; every other byte stays as it was, blanks, escapes and
// duplicates included. Names compare as JSON means them: "mod\u0065l" is "model". At most one edit
// a name. Precondition: ParseJson() takes `object`, and it is an object. Linear, copies once.
std::string EditMembers(std::string_view object, std::span<const MemberEdit> edits);

// The same for members that are there alone: none is appended.
std::string EditPresent(std::string_view object, std::span<const MemberEdit> edits);

// EditPresent() of every object in the list `list` of the object. A `list` that is none stays.
std::string EditListed(std::string_view object, std::string_view list,
                       std::span<const MemberEdit> edits);

}  // namespace fak::wire
