// Atomics keep the order and the scope that were asked for.
// RUN: --target=sm_80 --emit=ptx --check-prefix=PTX
#include <flextile/ir/builder.hpp>

#include "support/golden_main.hpp"

using namespace flextile;

ir::Function golden() {
  ir::Function function("atomics", {{.name = "x", .type = ir::Type::pointer(ElementType::i32)}, {.name = "y", .type = ir::Type::pointer(ElementType::f32)}});
  ir::Builder b(function);
  const ir::Value places = b.binary(ir::Opcode::offset, function.parameter(0), b.arange(128));
  b.atomic("add", places, b.arange(128), {}, "relaxed", "gpu");
  b.store(places, b.atomic("max", places, b.arange(128), {}, "acq_rel", "sys"));
  b.atomic("add", function.parameter(1), b.constant(ElementType::f32, 1.5), {}, "release", "cta");
  b.store(function.parameter(0), b.atomic_cas(function.parameter(0), b.constant(ElementType::i32, std::int64_t{0}), b.constant(ElementType::i32, std::int64_t{1}), "acquire", "gpu"));
  b.return_values();
  return function;
}

// PTX: red.relaxed.gpu.global.add.s32
// PTX: bar.sync
// PTX: atom.acq_rel.sys.global.max.s32
// PTX: bar.sync
// PTX: red.release.cta.global.add.f32
// PTX: atom.acquire.gpu.global.cas.b32
// PTX: bar.sync
