// A row of attention: what the tile passes make of two dots in a pipelined loop, and the instructions that come out.
// RUN: --target=sm_80 --emit=tile_after:pipeline_loads --check-prefix=RING
// RUN: --target=sm_80 --emit=tile_after:choose_layouts --check-prefix=LAYOUT
// RUN: --target=sm_80 --emit=ptx --check-prefix=PTX
// RUN: --target=sm_90a --emit=ptx --check-prefix=CLEAN
#include <flextile/ir/builder.hpp>

#include "support/golden_main.hpp"

using namespace flextile;

ir::Function golden() {
  auto view = [](const char* name, bool read_only) {
    return ir::Parameter{.name = name, .type = ir::Type::view(ElementType::bf16, 2), .read_only = read_only, .aligned = true, .unit_stride = true};
  };
  ir::Function function("attention", {view("q", true), view("k", true), view("v", true), view("out", false)});
  ir::Builder b(function);
  auto number = [&](std::int64_t value) { return b.constant(ElementType::i32, value); };
  const ir::Value row = b.binary(ir::Opcode::mul, b.program_id(0), number(64)), zero = number(0);
  const ir::Value q = b.view_load(function.parameter(0), {row, zero}, {64, 64});
  const ir::Value sum = b.splat(ir::Type::tile(ElementType::f32, {64, 64}), 0.0), total = b.splat(ir::Type::tile(ElementType::f32, {64}), 0.0);
  const ir::OperationId loop = b.for_loop(zero, b.view_size(function.parameter(1), 0), number(32), {total, sum}, {{ir::AttributeName::stages, std::int64_t{3}}});
  const ir::BlockId here = b.insertion_block();
  b.set_insertion_block(function.operation(loop).blocks[0]);
  const ir::Value column = b.argument(loop, 0, 0);
  const ir::Value k = b.view_load(function.parameter(1), {column, zero}, {32, 64}), v = b.view_load(function.parameter(2), {column, zero}, {32, 64});
  const ir::Value scores = b.dot(q, b.transpose(k), b.splat(ir::Type::tile(ElementType::f32, {64, 32}), 0.0));
  const ir::Value weights = b.unary(ir::Opcode::exp2, scores);
  b.yield({b.binary(ir::Opcode::add, b.argument(loop, 0, 1), b.reduce("sum", weights, 1)),
           b.dot(b.cast(weights, ElementType::bf16), v, b.argument(loop, 0, 2))});
  b.set_insertion_block(here);
  const ir::Value result = b.binary(ir::Opcode::div, b.results(loop)[1], b.expand_dims(b.results(loop)[0], 1));
  b.view_store(function.parameter(3), b.cast(result, ElementType::bf16), {row, zero});
  b.return_values();
  return function;
}

// The rings: two stages filled before the loop; in the loop a wait that leaves one stage in flight, a barrier, the copies
// for two iterations later, and each stage read at its dot.
// RING: alloc_shared {swizzle = 128} : shared<3x32x64xbf16>
// RING: alloc_shared {swizzle = 128} : shared<3x32x64xbf16>
// RING-COUNT-4: async_copy
// RING: for
// RING: async_wait {pending = 2}
// RING-NEXT: barrier
// RING: async_copy
// RING: async_copy
// RING: shared_load
// RING-NEXT: transpose
// RING-NEXT: dot
// RING: shared_load
// RING-NEXT: dot

// The weights become the left operand by renaming registers: a conversion whose two layouts have the same lanes and warps.
// LAYOUT: layout {{[0-9]+}} = registers[2:1@1, 2:8@0, 4:8@1] lanes[4:2@1, 8:1@0] warps[4:16@0]

// Blocks of PTX come in no promised order.
// PTX: .reqntid 128
// PTX-DAG: cp.async.cg.shared.global
// PTX-DAG: cp.async.wait_group 2
// PTX-DAG: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// PTX-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// PTX-DAG: ex2.approx.ftz.f32
// PTX-DAG: cvt.rn.bf16x2.f32
// PTX-DAG: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16

// CLEAN-NOT: .local
// CLEAN-NOT: call
