#pragma once

#include "base/result.h"
#include "tensor/program.h"

namespace fak::tensor {

// CHECKs that the verbs' shapes fit the weights that they name: our own recorder made the program.
// Device: a back end's, with matrix(id) (rows, cols, parts with rows) and rope(id).
template <class Device>
void CheckProgram(const Program& program, const Device& device) {
  for (const Op& op : program.ops) {
    if (const auto* append = std::get_if<RopeAppendOp>(&op)) {
      CHECK(device.rope(append->rope).dims <= append->heads.dim);
    } else if (const auto* qkv = std::get_if<NormQkvOp>(&op)) {
      CHECK(device.matrix(qkv->qkv).rows == qkv->out.width);
      CHECK(device.matrix(qkv->qkv).cols == qkv->x.width);
    } else if (const auto* project = std::get_if<ProjectResidualOp>(&op)) {
      CHECK(device.matrix(project->matrix).rows == project->x.width);
      CHECK(device.matrix(project->matrix).cols == project->in.width);
    } else if (const auto* gate = std::get_if<NormGateUpOp>(&op)) {
      const auto& matrix = device.matrix(gate->gate_up);
      CHECK(matrix.parts.size() == 2 && matrix.parts[0].rows == gate->out.width &&
            matrix.parts[1].rows == gate->out.width);
    } else if (const auto* head = std::get_if<HeadOp>(&op)) {
      const auto& matrix = device.matrix(head->matrix);
      CHECK(matrix.parts.size() == 1 && matrix.rows >= program.vocabulary);
    }
  }
}

}  // namespace fak::tensor
