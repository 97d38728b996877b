#include "gateway/chat_tools.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace fak::gateway {
namespace {

std::string At(std::string_view list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

tl::unexpected<Error> Wrong(const std::string& field, std::string_view what) {
  return Fail(Code::kInvalidArgument, field + ": " + std::string(what), field);
}

const Json* FindSaid(const Json& object, std::string_view name) {
  const Json* value = object.Find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

// The name of a tool, or of a call of it.
Result<std::string> NameOf(const Json& tool, const std::string& where) {
  const Json* function = FindSaid(tool, "function");
  if (function == nullptr || !function->is_object()) {
    return Wrong(where + ".function", "must be an object");
  }
  const Json* name = function->Find("name");
  if (name == nullptr || !name->is_string() || name->string().empty()) {
    return Wrong(where + ".function.name", "must be a string that is not empty");
  }
  return name->string();
}

// As the template wants it: an object, or its text.
Result<Json> ArgumentsOf(const Json* maybe_given, bool wants_object, const std::string& where) {
  constexpr std::string_view kWanted = "must be the text of a JSON object";
  if (maybe_given == nullptr) {
    return wants_object ? Json(Json::Object()) : Json("{}");
  }
  if (maybe_given->is_object()) {
    return wants_object ? *maybe_given : Json(maybe_given->Dump());
  }
  if (!maybe_given->is_string()) {
    return Wrong(where, kWanted);
  }
  const std::string& text = maybe_given->string();
  Result<Json> parsed = text.empty() ? Json(Json::Object()) : ParseJson(text);
  if (!parsed || !parsed->is_object()) {
    return Wrong(where, kWanted);
  }
  return wants_object ? *std::move(parsed) : Json(text);
}

// Of one message. ids: of the calls so far.
Result<Json> CallsFor(const Json& calls, bool wants_object, const std::string& where,
                      std::vector<std::string>& ids) {
  if (!calls.is_array()) {
    return Wrong(where, "must be a list");
  }
  Json::Array out;
  const auto first = static_cast<std::ptrdiff_t>(ids.size());
  for (size_t i = 0; i < calls.array().size(); ++i) {
    Json call = calls.array()[i];
    const std::string at = At(where, i);
    TRY(NameOf(call, at));
    Json& function = *call.Find("function");
    TRY_ASSIGN(Json arguments, ArgumentsOf(FindSaid(function, "arguments"), wants_object,
                                           at + ".function.arguments"));
    function.Set("arguments", std::move(arguments));
    if (const Json* id = FindSaid(call, "id")) {
      if (!id->is_string()) {
        return Wrong(at + ".id", "must be a string");
      }
      if (std::find(ids.begin() + first, ids.end(), id->string()) != ids.end()) {
        return Wrong(at + ".id", "another call of this message has it");
      }
      ids.push_back(id->string());
    }
    out.push_back(std::move(call));
  }
  return Json(std::move(out));
}

Status CheckResult(const Json& message, const std::string& where,
                   const std::vector<std::string>& ids) {
  const Json* id = FindSaid(message, "tool_call_id");
  if (id == nullptr) {
    return {};
  }
  if (!id->is_string() || std::find(ids.begin(), ids.end(), id->string()) == ids.end()) {
    return Wrong(where + ".tool_call_id", "no call in the messages before has this id");
  }
  return {};
}

}  // namespace

bool HasTools(const wire::Turn& turn) {
  return turn.tools.is_array() && !turn.tools.array().empty();
}

bool ChoosesTools(const wire::Turn& turn) {
  return turn.tool_choice.is_null() ||
         (turn.tool_choice.is_string() && turn.tool_choice.string() == "auto");
}

Result<std::vector<std::string>> ToolNames(const wire::Turn& turn) {
  std::vector<std::string> names;
  for (size_t i = 0; i < turn.tools.array().size(); ++i) {
    const Json& tool = turn.tools.array()[i];
    const std::string where = At(turn.tools_field, i);
    const Json* type = FindSaid(tool, "type");
    if (type != nullptr && (!type->is_string() || type->string() != "function")) {
      return Fail(Code::kUnsupported, where + ".type: tools are functions here", where + ".type");
    }
    TRY_ASSIGN(std::string name, NameOf(tool, where));
    const Json* parameters = FindSaid(*tool.Find("function"), "parameters");
    if (parameters != nullptr && !parameters->is_object()) {
      return Wrong(where + ".function.parameters", "must be an object");
    }
    names.push_back(std::move(name));
  }
  return names;
}

Result<Json> MessagesFor(const wire::Turn& turn, const text::ChatTemplate& chat_template) {
  Json messages = turn.messages;
  std::vector<std::string> ids;
  for (size_t i = 0; i < messages.array().size(); ++i) {
    Json& message = messages.array()[i];
    const std::string where = At("messages", i);
    if (const Json* calls = FindSaid(message, "tool_calls")) {
      const bool wants_object = chat_template.traits().object_arguments;
      TRY_ASSIGN(Json shown, CallsFor(*calls, wants_object, where + ".tool_calls", ids));
      if (!shown.array().empty() && !chat_template.traits().tool_calls) {
        return Fail(Code::kUnsupported,
                    where + ".tool_calls: this model's chat template doesn't show tool calls",
                    where + ".tool_calls");
      }
      message.Set("tool_calls", std::move(shown));
    }
    if (message.Find("role")->string() == "tool") {
      TRY(CheckResult(message, where, ids));
    }
  }
  return messages;
}

}  // namespace fak::gateway
