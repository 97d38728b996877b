#include "fleet/router.h"

#include <utility>

#include "fleet/policy_parts.h"

namespace fak::fleet {
namespace {

using Make = std::unique_ptr<RoutingPolicy> (*)();

// The default first.
constexpr std::pair<std::string_view, Make> kPolicies[] = {
    {kDefaultRoutingPolicy, internal::MakeCacheAware},
    {"power_of_two", internal::MakePowerOfTwo},
    {"least_loaded", internal::MakeLeastLoaded},
    {"round_robin", internal::MakeRoundRobin},
    {"session", internal::MakeSession},
    {"random", internal::MakeRandom},
};

}  // namespace

std::vector<std::string> RoutingPolicyNames() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kPolicies) {
    names.emplace_back(name);
  }
  return names;
}

Result<std::unique_ptr<RoutingPolicy>> MakeRoutingPolicy(std::string_view name) {
  std::string known;
  for (const auto& [its_name, make] : kPolicies) {
    if (its_name == name) {
      return make();
    }
    known += (known.empty() ? "" : ", ") + std::string(its_name);
  }
  return Fail(Code::kInvalidArgument,
              "no routing policy " + std::string(name) + ": there are " + known);
}

}  // namespace fak::fleet
