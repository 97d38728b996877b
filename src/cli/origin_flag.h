#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace fak::cli {

// --allowed-origin: "*", or an origin as browsers send it, scheme://host[:port]; of another value,
// which no browser sends, and of "null", which any page can, the error says what to give.
void AddAllowedOrigin(CLI::App& verb, std::string& allowed_origin);

}  // namespace fak::cli
