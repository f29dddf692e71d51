// Kernels that the tests of synchronisation take apart: attention, products, reductions through scratch space.
#pragma once
#include <flextile/attention/catalogue.hpp>
#include <flextile/attention/compile.hpp>
#include <flextile/dsl/mod.hpp>
#include <flextile/ir/builder.hpp>

namespace flextile::test {

using ir::Opcode;
using ir::Type;
using ir::Value;

inline ir::Parameter matrix(const char* name, ElementType element, bool read_only) {
  return {.name = name, .type = Type::view(element, 2), .read_only = read_only, .aligned = true, .unit_stride = true};
}

struct Matmul {
  int m, n, k, warps, stages;
  bool twice = false;         // a second loop, whose tiles may take the place of the first one's
  bool columns = false;       // sums of columns behind it, which pass through scratch space
  bool inside = false;        // sums of columns in the loop
  int depth = 0;              // 0: known at run time
  bool repeated = false;      // all of it in a loop of the user's
  bool half = false;          // sums are stored as bf16
  ElementType element = ElementType::bf16;
  bool turned = false;        // b is [n x k], read as its transpose
};

inline ir::Function matmul(const Matmul& shape) {
  const ElementType sums = is_float(shape.element) ? ElementType::f32 : ElementType::i32;
  ir::Function function("matmul", {matrix("a", shape.element, true), matrix("b", shape.element, true), matrix("c", shape.half ? ElementType::bf16 : sums, false)});
  function.num_warps = shape.warps;
  ir::Builder builder(function);
  auto number = [&](std::int64_t value) { return builder.constant(ElementType::i32, value); };
  const Value zero = number(0);
  ir::BlockId around = function.body();
  if (shape.repeated) builder.set_insertion_block(around = function.operation(builder.for_loop(zero, builder.view_size(function.parameter(1), 0), number(1), {})).blocks[0]);
  const Type tile = Type::tile(sums, {shape.m, shape.n});
  Value sum = is_float(sums) ? builder.splat(tile, 0.0) : builder.splat(tile, std::int64_t{0});
  for (int round = 0; round < (shape.twice ? 2 : 1); ++round) {
    const ir::OperationId loop = builder.for_loop(zero, shape.depth > 0 ? number(shape.depth) : builder.view_size(function.parameter(0), 1), number(shape.k), {sum}, {{ir::AttributeName::stages, std::int64_t{shape.stages}}});
    builder.set_insertion_block(function.operation(loop).blocks[0]);
    const Value at = builder.argument(loop, 0, 0);
    const Value a = builder.view_load(function.parameter(0), {zero, at}, {shape.m, shape.k});
    const Value b = shape.turned ? builder.transpose(builder.view_load(function.parameter(1), {zero, at}, {shape.n, shape.k})) : builder.view_load(function.parameter(1), {at, zero}, {shape.k, shape.n});
    Value product = builder.dot(a, b, builder.argument(loop, 0, 1));
    if (shape.inside) product = builder.binary(Opcode::add, product, builder.expand_dims(builder.reduce("sum", product, 0), 0));
    builder.yield({product});
    builder.set_insertion_block(around);
    sum = builder.results(loop)[0];
  }
  builder.view_store(function.parameter(2), shape.half ? builder.cast(sum, ElementType::bf16) : sum, {zero, zero});
  if (shape.columns) builder.view_store(function.parameter(2), builder.expand_dims(builder.reduce("sum", sum, 0), 0), {zero, zero});
  if (shape.repeated) {
    builder.yield({});
    builder.set_insertion_block(function.body());
  }
  builder.return_values();
  return function;
}

/// A row per program: two reductions through scratch space.
inline ir::Function softmax() {
  ir::Function function("softmax", {matrix("x", ElementType::f32, true), matrix("y", ElementType::f32, false)});
  ir::Builder builder(function);
  const Value row = builder.program_id(0), zero = builder.constant(ElementType::i32, std::int64_t{0});
  const Value x = builder.view_load(function.parameter(0), {row, zero}, {1024}, -1e30);
  const Value e = builder.unary(Opcode::exp2, builder.binary(Opcode::sub, x, builder.reduce("max", x, 0)));
  builder.view_store(function.parameter(1), builder.binary(Opcode::div, e, builder.reduce("sum", e, 0)), {row, zero});
  builder.return_values();
  return function;
}

/// Attention's forward kernel; no mask: every key is visible.
inline ir::Function attention(const char* mask, int dim, int block, const Target& target) {
  const AttentionCompileOptions options{.dim = dim, .q_block = block, .kv_block = 128};
  if (!mask) return trace_attention(nullptr, nullptr, options, target);
  const ir::Mod mod = named_mask(mask);
  return trace_attention(nullptr, &mod, options, target);
}

/// A bias by the distance of query and key: of a table [heads, distances], for lengths below 200.
inline ir::Mod bias_by_distance(const Tensor<bf16>& table) { return erase_score(scores::distance_bias(table, 200)); }

/// Attention's forward kernel with such a bias and a causal mask.
inline ir::Function attention_by_distance(int dim, int block, const Target& target) {
  const ir::Mod mask = named_mask("causal"), score = bias_by_distance(zeros<bf16>(Device::host(), {2, 400}));
  return trace_attention(&score, &mask, {.dim = dim, .q_block = block, .kv_block = 128}, target);
}

}  // namespace flextile::test
