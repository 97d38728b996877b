#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "text/jinja/ast.h"

namespace fak::text::jinja {

// Parses a template; errors as ChatTemplate::Parse says. Recursive descent with jinja2's grammar;
// its depth is bounded by kTemplateDepthMax, and so is that of the tree it makes.
[[nodiscard]] Result<std::shared_ptr<const Template>> ParseTemplate(std::string_view source);

}  // namespace fak::text::jinja
