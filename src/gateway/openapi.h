#pragma once

#include <string_view>

namespace fak::gateway {

// src/gateway/openapi.json without its indentation, built into the program.
extern const std::string_view kOpenApi;

}  // namespace fak::gateway
