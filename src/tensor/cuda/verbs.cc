// The verbs of a program as launches.
#include <algorithm>

#include "tensor/cuda/executable.h"
#include "tensor/cuda/experts.h"
#include "tensor/cuda/rows.h"
#include "tensor/cuda/status.h"
#include "tensor/spec/attention.h"

namespace fak::tensor::cuda {
namespace {

uint32_t ClassOf(const Part& part) {
  return 1u << static_cast<uint32_t>(InputClassOf(part.type));
}

uint32_t ClassesOf(const Matrix& matrix) {
  uint32_t classes = 0;
  for (const Part& part : matrix.parts) {
    classes |= ClassOf(part);
  }
  return classes;
}

}  // namespace

Status CudaExecutable::PrepareInputs(const float* x, uint32_t width, const Norm* maybe_norm,
                                     uint32_t classes, uint32_t rows, const uint32_t* maybe_rows) {
  Preparation preparation{.x = x,
                          .width = width,
                          .rows = rows,
                          .maybe_rows = maybe_rows,
                          .classes = classes,
                          .floats = FloatsAt(layout_.floats),
                          .int8x32 = reinterpret_cast<int8_t*>(At(layout_.int8x32)),
                          .scales32 = FloatsAt(layout_.scales32),
                          .int8x256 = reinterpret_cast<int8_t*>(At(layout_.int8x256)),
                          .scales256 = FloatsAt(layout_.scales256)};
  if (maybe_norm != nullptr) {
    preparation.maybe_weight = device_.vector(maybe_norm->weight);
    preparation.eps = maybe_norm->eps;
  }
  TRY_CUDA(Prepare(preparation, device_.stream));
  return {};
}

Status CudaExecutable::MultiplyPart(cudaStream_t stream, const Part& part, uint32_t outputs,
                                    uint32_t rows, const Sink& sink, const Choices* maybe_choices) {
  Product product{.type = part.type,
                  .weights = part.data,
                  .row_bytes = part.row_bytes,
                  .outputs = outputs,
                  .cols = part.cols,
                  .maybe_bias = part.maybe_bias,
                  .inputs = {},
                  .rows = rows,
                  .out = sink.out,
                  .out_stride = sink.stride,
                  .residual = sink.residual};
  switch (InputClassOf(part.type)) {
    case InputClass::kFloat: product.inputs = {At(layout_.floats), nullptr}; break;
    case InputClass::kInt8x32:
      product.inputs = {At(layout_.int8x32), FloatsAt(layout_.scales32)};
      break;
    case InputClass::kInt8x256:
      product.inputs = {At(layout_.int8x256), FloatsAt(layout_.scales256)};
      break;
  }
  if (maybe_choices != nullptr) {
    product.maybe_experts = maybe_choices->ids;
    product.choices_a_row = maybe_choices->choices_a_row;
  }
  TRY_CUDA(Multiply(product, stream));
  return {};
}

// Parts of few outputs leave most of a GPU idle, so they run beside each other.
Status CudaExecutable::MultiplyMatrix(const Matrix& matrix, uint32_t rows, const Sink& sink) {
  const bool several = matrix.parts.size() > 1;
  if (several) {
    TRY(device_.Fork());
  }
  uint32_t first = 0;
  for (size_t i = 0; i < matrix.parts.size(); ++i) {
    const Part& part = matrix.parts[i];
    const cudaStream_t stream =
        i == 0 ? device_.stream : device_.sides[(i - 1) % device_.sides.size()];
    TRY(MultiplyPart(stream, part, part.rows, rows,
                     {sink.out + first, sink.stride, sink.residual}));
    first += part.rows;
  }
  return several ? device_.Join() : Status{};
}

// The same of two matrices with a sink each.
Status CudaExecutable::MultiplyBoth(const Part& a, const Part& b, uint32_t outputs, uint32_t rows,
                                    float* out_a, float* out_b, const Choices* maybe_choices) {
  TRY(device_.Fork());
  TRY(MultiplyPart(device_.stream, a, outputs, rows, {.out = out_a, .stride = outputs},
                   maybe_choices));
  TRY(MultiplyPart(device_.sides[0], b, outputs, rows, {.out = out_b, .stride = outputs},
                   maybe_choices));
  return device_.Join();
}

Status CudaExecutable::Run(const EmbedOp& op) {
  const Part& table = device_.matrix(op.table).parts.front();
  TRY_CUDA(Embed({.type = table.type,
                  .weights = table.data,
                  .row_bytes = table.row_bytes,
                  .width = op.out.width,
                  .scale = op.scale,
                  .tokens = view_.tokens,
                  .rows = n_rows_,
                  .out = Value(op.out)},
                 device_.stream));
  return {};
}

Status CudaExecutable::Run(const NormQkvOp& op) {
  const Matrix& matrix = device_.matrix(op.qkv);
  TRY(PrepareInputs(Value(op.x), op.x.width, &op.norm, ClassesOf(matrix), n_rows_));
  return MultiplyMatrix(matrix, n_rows_, {.out = Value(op.out), .stride = op.out.width});
}

PagedRows CudaExecutable::Paged(uint32_t kv_layer) const {
  const KvMemory& kv = device_.kv;
  return {.positions = view_.positions,
          .tables = view_.tables,
          .blocks = view_.blocks,
          .kv = kv.data(),
          .block_bytes = kv.block_bytes(),
          .keys = kv.Offset(kv_layer, KvPart::kKey),
          .values = kv.Offset(kv_layer, KvPart::kValue),
          .block_size = kv.spec().block_size,
          .type = kv.spec().type};
}

Status CudaExecutable::Run(const RopeAppendOp& op) {
  const RopeSpec& rope = device_.rope(op.rope);
  const auto index = static_cast<size_t>(std::ranges::find(ropes_, op.rope) - ropes_.begin());
  TRY_CUDA(RopeAppend({.paged = Paged(op.kv_layer),
                       .heads = op.heads,
                       .qkv = Value(op.qkv),
                       .width = op.qkv.width,
                       .rows = n_rows_,
                       .maybe_q_norm = device_.vector(op.q_norm.weight),
                       .maybe_k_norm = device_.vector(op.k_norm.weight),
                       .q_eps = op.q_norm.eps,
                       .k_eps = op.k_norm.eps,
                       .adjacent = rope.style == RopeStyle::kAdjacent,
                       .rotated = rope.dims,
                       .cos = view_.cos[index],
                       .sin = view_.sin[index],
                       .rope_stride = layout_.rope_pairs,
                       .finite = Finite(),
                       .clamped = reinterpret_cast<unsigned long long*>(device_.clamped.data())},
                      device_.stream));
  return {};
}

Status CudaExecutable::Run(const AttentionOp& op) {
  Attention attention{.paged = Paged(op.kv_layer),
                      .heads = op.heads,
                      .qkv = Value(op.qkv),
                      .width = op.qkv.width,
                      .window = op.window,
                      .scale = spec::PlainScore(op.scale).outer,
                      .splits = Splits(),
                      .partials = FloatsAt(layout_.partials),
                      .out = Value(op.out),
                      .out_width = op.out.width};
  // As many rows at a time as there is memory for their results by split.
  const auto rows_max = static_cast<uint32_t>(std::min<uint64_t>(
      layout_.partial_floats / PartialFloats(op.heads, attention.splits), n_rows_));
  for (uint32_t first = 0; first < n_rows_; first += rows_max) {
    attention.first_row = first;
    attention.rows = std::min(rows_max, n_rows_ - first);
    TRY_CUDA(Attend(attention, device_.stream));
  }
  return {};
}

Status CudaExecutable::Run(const ProjectResidualOp& op) {
  const Matrix& matrix = device_.matrix(op.matrix);
  const uint32_t width = op.x.width;
  TRY(PrepareInputs(Value(op.in), op.in.width, nullptr, ClassesOf(matrix), n_rows_));
  if (op.post_norm.weight == kNoVector) {
    return MultiplyMatrix(matrix, n_rows_, {.out = Value(op.x), .stride = width, .residual = true});
  }
  float* const products = FloatsAt(layout_.products);
  TRY(MultiplyMatrix(matrix, n_rows_, {.out = products, .stride = width}));
  TRY(PrepareInputs(products, width, &op.post_norm, 0, n_rows_));
  TRY_CUDA(Add(FloatsAt(layout_.floats), uint64_t{n_rows_} * width, Value(op.x), device_.stream));
  return {};
}

Status CudaExecutable::Run(const NormGateUpOp& op) {
  const Matrix& matrix = device_.matrix(op.gate_up);
  const uint32_t ff = op.out.width;
  float* const gates = FloatsAt(layout_.products);
  float* const ups = FloatsAt(layout_.ups);
  TRY(PrepareInputs(Value(op.x), op.x.width, &op.norm, ClassesOf(matrix), n_rows_));
  TRY(MultiplyBoth(matrix.parts[0], matrix.parts[1], ff, n_rows_, gates, ups));
  TRY_CUDA(Gate(op.activation, gates, ups, uint64_t{n_rows_} * ff, Value(op.out), device_.stream));
  return {};
}

Status CudaExecutable::Run(const MoeOp& op) {
  const Experts& experts = device_.experts[static_cast<size_t>(op.experts)];
  const Matrix& router = device_.matrix(op.router);
  const uint32_t choices = n_rows_ * op.top_k;
  auto* const ids = reinterpret_cast<int32_t*>(At(layout_.router_ids));
  float* const products = FloatsAt(layout_.products);
  float* const ups = FloatsAt(layout_.ups);
  TRY(PrepareInputs(Value(op.x), op.x.width, &op.norm,
                    ClassesOf(router) | ClassOf(experts.gate) | ClassOf(experts.up), n_rows_));
  TRY(MultiplyMatrix(router, n_rows_,
                     {.out = FloatsAt(layout_.router_logits), .stride = op.n_experts}));
  TRY_CUDA(Route({.logits = FloatsAt(layout_.router_logits),
                  .rows = n_rows_,
                  .experts = op.n_experts,
                  .top_k = op.top_k,
                  .normalise = op.normalise,
                  .scale = op.scale,
                  .ids = ids,
                  .weights = FloatsAt(layout_.router_weights)},
                 device_.stream));
  const Choices of_rows{.ids = ids, .choices_a_row = op.top_k};
  TRY(MultiplyBoth(experts.gate, experts.up, op.ff, choices, products, ups, &of_rows));
  TRY_CUDA(Gate(op.activation, products, ups, uint64_t{choices} * op.ff, products, device_.stream));
  TRY(PrepareInputs(products, op.ff, nullptr, ClassOf(experts.down), choices));
  const Choices of_choices{.ids = ids, .choices_a_row = 1};
  TRY(MultiplyPart(device_.stream, experts.down, op.x.width, choices,
                   {.out = products, .stride = op.x.width}, &of_choices));
  TRY_CUDA(CombineExperts(products, FloatsAt(layout_.router_weights), n_rows_, op.top_k, op.x.width,
                          Value(op.x), device_.stream));
  return {};
}

Status CudaExecutable::Run(const HeadOp& op) {
  TRY_CUDA(TestFinite(Value(op.x), op.x.width, n_rows_, nullptr, Finite(), device_.stream));
  if (n_logit_rows_ == 0) {
    return {};
  }
  const Matrix& matrix = device_.matrix(op.matrix);
  float* const logits = FloatsAt(layout_.logits);
  TRY(PrepareInputs(Value(op.x), op.x.width, &op.norm, ClassesOf(matrix), n_logit_rows_,
                    view_.logit_rows));
  TRY(MultiplyPart(device_.stream, matrix.parts.front(), program_.vocabulary, n_logit_rows_,
                   {.out = logits, .stride = program_.vocabulary}));
  TRY_CUDA(TestFinite(logits, program_.vocabulary, n_logit_rows_, view_.logit_rows, Finite(),
                      device_.stream));
  return {};
}

}  // namespace fak::tensor::cuda
