#pragma once

#include "base/result.h"

namespace fak::gateway {

// The HTTP status of an error. The only place that knows. An upstream's own 4xx is passed on.
int HttpStatusOf(const Error& error);

}  // namespace fak::gateway
