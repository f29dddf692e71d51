// Vector width follows what is known of the addresses. Rows of an aligned view of two axes end between accesses, so that the edge
// goes by whole ones too; a vector's edge goes by single elements.
// RUN: --target=sm_80 --emit=ptx --check-prefix=PTX
#include <flextile/ir/builder.hpp>

#include "support/golden_main.hpp"

using namespace flextile;

ir::Function golden() {
  ir::Function function("copy", {{.name = "x", .type = ir::Type::view(ElementType::f16, 2), .read_only = true, .aligned = true, .unit_stride = true},
                                 {.name = "z", .type = ir::Type::view(ElementType::f16, 1), .read_only = true, .aligned = true, .unit_stride = true},
                                 {.name = "y", .type = ir::Type::pointer(ElementType::f16), .aligned = true}});
  ir::Builder b(function);
  const ir::Value zero = b.constant(ElementType::i32, std::int64_t{0});
  const ir::Value x = b.view_load(function.parameter(0), {b.program_id(0), zero}, {1024});
  const ir::Value z = b.view_load(function.parameter(1), {zero}, {1024});
  b.store(b.binary(ir::Opcode::offset, function.parameter(2), b.arange(1024)), b.binary(ir::Opcode::add, x, z));
  b.return_values();
  return function;
}

// PTX: ld.global.v4.b32
// PTX: @%p{{[0-9]+}} ld.global.v4.b32
// PTX: ld.global.v4.b32
// PTX: @%p{{[0-9]+}} ld.global.b16
// PTX: st.global.v4.b32
// PTX-NOT: .local
