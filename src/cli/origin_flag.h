#pragma once

namespace CLI {
class Validator;
}  // namespace CLI

namespace fak::cli {

// For CLI::Option::check(): "*", "null", or an origin as browsers send it, scheme://host[:port]; of
// another value, which no browser sends, the error says the right form.
CLI::Validator AnOrigin();

}  // namespace fak::cli
