// fuzz: links fak_wire fak_base
// Edits of a document, held against the same edits of what a parser makes of it: what was edited is
// what is read then, and everything else stays, to the byte.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "wire/document_edit.h"

namespace {

using fak::Json;
using fak::wire::EditMembers;
using fak::wire::MemberEdit;

constexpr const char* kValues[] = {"null", "-0.0", "\"}, \\\"a\\\": [\"", "{\"a\":{},\"a\":[]}",
                                   "[1,[2],{}]"};

// The first bytes say which names are edited, of those that the document has and of others.
std::vector<MemberEdit> EditsOf(std::span<const uint8_t> choices, const Json& document) {
  std::vector<MemberEdit> edits;
  for (const uint8_t choice : choices) {
    MemberEdit edit;
    const size_t members = document.object().size();
    const size_t at = choice % (members + 2);
    edit.name = at < members ? document.object()[at].first : at == members ? "model" : "\n\"é\"";
    if (choice % 3 != 0) {
      edit.json = kValues[choice % std::size(kValues)];
    }
    bool again = false;
    for (const MemberEdit& other : edits) {
      again = again || other.name == edit.name;
    }
    if (!again) {
      edits.push_back(std::move(edit));
    }
  }
  return edits;
}

Json Expected(const Json& document, std::span<const MemberEdit> edits) {
  Json::Object members;
  std::vector<bool> found(edits.size(), false);
  for (const auto& [name, value] : document.object()) {
    std::optional<std::string> json = value.Dump();
    for (size_t i = 0; i < edits.size(); ++i) {
      if (edits[i].name == name) {
        found[i] = true;
        json = edits[i].json;
      }
    }
    if (json) {
      members.emplace_back(name, *fak::ParseJson(*json));
    }
  }
  for (size_t i = 0; i < edits.size(); ++i) {
    if (!found[i] && edits[i].json) {
      members.emplace_back(edits[i].name, *fak::ParseJson(*edits[i].json));
    }
  }
  return Json(std::move(members));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kChoices = 3;
  if (size < kChoices) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + kChoices, size - kChoices);
  const auto document = fak::ParseJson(text);
  if (!document || !document->is_object()) {
    return 0;
  }
  const std::vector<MemberEdit> edits = EditsOf(std::span(data, kChoices), *document);
  const std::string edited = EditMembers(text, edits);
  const auto read = fak::ParseJson(edited);
  CHECK(read.has_value()) << edited;
  CHECK(read->Dump() == Expected(*document, edits).Dump()) << edited;

  CHECK(EditMembers(text, {}) == text);
  const std::string fresh = "a name that no document has";
  if (document->Find(fresh) == nullptr) {
    const std::vector<MemberEdit> add = {{fresh, "[]"}};
    const std::vector<MemberEdit> remove = {{fresh, std::nullopt}};
    CHECK(EditMembers(EditMembers(text, add), remove) == text);
  }
  return 0;
}
