#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/chat_template.h"
#include "wire/turn.h"

// The tools of a chat whose prompt is made here, and the calls of them in its messages.
namespace fak::gateway {

bool HasTools(const wire::Turn& turn);

// The names of the turn's tools. kInvalidArgument, kUnsupported: the first that is no function with
// a name, by field.
[[nodiscard]] Result<std::vector<std::string>> ToolNames(const wire::Turn& turn);

// Whether the model is free to call a tool and to call none: tool_choice is "auto", or nothing.
bool ChoosesTools(const wire::Turn& turn);

// The turn's messages as the template wants them: the arguments of calls as objects or as text.
// kInvalidArgument, by field: a call without a name, with arguments that are no object, with an id
// that another one of its message has; the result of a call that nobody made. kUnsupported: the
// template doesn't show what is there.
[[nodiscard]] Result<Json> MessagesFor(const wire::Turn& turn,
                                       const text::ChatTemplate& chat_template);

}  // namespace fak::gateway
