#include "tensor/value_buffers.h"

#include <algorithm>
#include <variant>

namespace fak::tensor {
namespace {

// Calls visit(value) for every value of the program that the op reads or writes.
template <class Visit>
void ForEachValue(const Op& op, Visit visit) {
  std::visit(
      [&](const auto& o) {
        if constexpr (requires { o.x; }) {
          visit(o.x);
        }
        if constexpr (requires { o.in; }) {
          visit(o.in);
        }
        if constexpr (requires { o.qkv.width; }) {
          visit(o.qkv);
        }
        if constexpr (requires { o.out; }) {
          visit(o.out);
        }
      },
      op);
}

}  // namespace

uint32_t ProductWidth(const Op& op) {
  if (const auto* project = std::get_if<ProjectResidualOp>(&op)) {
    return project->in.width;
  }
  return std::visit(
      [](const auto& o) -> uint32_t {
        if constexpr (requires { o.norm; }) {
          return o.x.width;
        }
        return 0;
      },
      op);
}

ValueBuffers PlanValueBuffers(const Program& program) {
  const size_t n = program.widths.size();
  std::vector<size_t> last_use(n, 0);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    ForEachValue(program.ops[i], [&](const Rows& rows) { last_use[rows.id] = i; });
  }
  ValueBuffers plan;
  std::vector<size_t> busy_until;  // of each buffer
  plan.of_values.assign(n, ValueBuffers::kNone);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    ForEachValue(program.ops[i], [&](const Rows& rows) {
      if (plan.of_values[rows.id] != ValueBuffers::kNone) {
        return;
      }
      size_t chosen = 0;
      while (chosen < busy_until.size() && busy_until[chosen] >= i) {
        ++chosen;
      }
      if (chosen == busy_until.size()) {
        busy_until.push_back(0);
        plan.widths.push_back(0);
      }
      busy_until[chosen] = last_use[rows.id];
      plan.widths[chosen] = std::max(plan.widths[chosen], rows.width);
      plan.of_values[rows.id] = chosen;
    });
  }
  return plan;
}

std::vector<RopeId> RopesOf(const Program& program) {
  std::vector<RopeId> ropes;
  for (const Op& op : program.ops) {
    if (const auto* append = std::get_if<RopeAppendOp>(&op)) {
      if (std::ranges::find(ropes, append->rope) == ropes.end()) {
        ropes.push_back(append->rope);
      }
    }
  }
  return ropes;
}

}  // namespace fak::tensor
