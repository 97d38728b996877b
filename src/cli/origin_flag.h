#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace fak::cli {

// --allowed-origin: "*", "null", or an origin as browsers send it, scheme://host[:port]; of another
// value, which no browser sends, the error says the right form.
void AddAllowedOrigin(CLI::App& verb, std::string& allowed_origin);

}  // namespace fak::cli
