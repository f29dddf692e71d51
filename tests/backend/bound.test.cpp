// What kernels are up against, counted in their scheduled IR.
#include <doctest/doctest.h>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/builder.hpp>

#include "nvptx/bound.hpp"
#include "support/reference_kernels.hpp"

using namespace flextile;
using backend::Bound;
using backend::bound_of;

namespace {

/// The function after all passes, as the compiler keeps it.
ir::Function scheduled(const ir::Function& function, const Target& target) {
  const CompiledKernel kernel = compile(function, target, {.line_info = false, .keep_stages = true, .binary = false});
  for (std::size_t i = kernel.stages.size(); i-- > 0;)
    if (kernel.stages[i].pass == "check_synchronisation") return ir::parse(kernel.stages[i].text);
  FAIL("there is no last stage");
  return function;
}

Bound bound(const ir::Function& function, const Target& target = Target::sm_90a()) { return bound_of(scheduled(function, target), target); }

bool explains(const ir::Function& function, const char* sentence, const Target& target = Target::sm_90a()) {
  const std::string text = compile(function, target, {.line_info = false, .binary = false}).explain();
  CAPTURE(text);
  const bool found = text.find(sentence) != std::string::npos;
  CHECK(found);
  return found;
}

/// y = e(x) of 1024 f32 a program.
ir::Function elementwise(ir::Opcode opcode, ElementType element = ElementType::f32, int times = 1) {
  ir::Function function("elementwise", {test::matrix("x", element, true), test::matrix("y", element, false)});
  ir::Builder builder(function);
  const ir::Value row = builder.program_id(0), zero = builder.constant(ElementType::i32, std::int64_t{0});
  ir::Value x = builder.view_load(function.parameter(0), {row, zero}, {1024});
  for (int i = 0; i < times; ++i) x = builder.unary(opcode, x);
  builder.view_store(function.parameter(1), x, {row, zero});
  builder.return_values();
  return function;
}

}  // namespace

TEST_CASE("bound of a matmul: its matrix units, by an iteration's FLOP") {
  const ir::Function function = test::matmul({.m = 128, .n = 256, .k = 64, .warps = 8, .stages = 3});
  const Bound b = bound(function);
  CHECK(b.per_iteration);
  CHECK(b.products == "128x256x64");
  CHECK(b.clocks.matrix == doctest::Approx(2.0 * 128 * 256 * 64 / 4096));
  CHECK(b.clocks.most() == b.clocks.matrix);
  CHECK(b.clocks.global == doctest::Approx((128 * 64 + 64 * 256) * 2 / 64.0));            // both tiles from the L2 cache
  // Into shared memory and out of it: each warpgroup reads its 64 rows of A and all of B.
  CHECK(b.clocks.shared == doctest::Approx((128 * 64 + 64 * 256) * 2 / 128.0 + (128 * 64 + 2 * 64 * 256) * 2 / 128.0));
  CHECK(b.clocks.special == 0);
  CHECK(b.clocks.fp32 == 0);
  explains(function, "[bound] matrix units: an iteration (128x256x64) takes at least 1024 clocks of matrix instructions, 1024 of shared memory, 768 of global memory (at the L2 cache's rate)");
}

TEST_CASE("bound of a matmul on sm_80: mma.sync, half the rate, tiles by cp.async") {
  const Bound b = bound(test::matmul({.m = 128, .n = 128, .k = 32, .warps = 4, .stages = 3}), Target::sm_80());
  CHECK(b.per_iteration);
  CHECK(b.clocks.matrix == doctest::Approx(2.0 * 128 * 128 * 32 / 2048));
  CHECK(b.clocks.global == doctest::Approx(2 * 128 * 32 * 2 / 64.0));
  CHECK(b.clocks.most() == b.clocks.matrix);
}

TEST_CASE("bound of a matmul with few columns: shared memory, or what fills it") {
  const Bound b = bound(test::matmul({.m = 128, .n = 16, .k = 64, .warps = 8, .stages = 3}));
  CHECK(b.clocks.most() > 2 * b.clocks.matrix);
}

TEST_CASE("bound of softmax: memory") {
  const Bound b = bound(test::softmax());
  CHECK(!b.per_iteration);
  CHECK(b.clocks.global == doctest::Approx(2 * 1024 * 4 / 20.0));                         // an H200's main memory
  CHECK(b.clocks.most() == b.clocks.global);
  CHECK(b.clocks.special == doctest::Approx(2 * 1024 / 16.0));                            // an exp2 and a division
  CHECK(b.clocks.matrix == 0);
  explains(test::softmax(), "[bound] global memory: a program takes at least 410 clocks of global memory (at main memory's rate), 128 of special functions");
}

TEST_CASE("bound of element-wise work: the unit that runs it, once it is more than its memory") {
  for (const Target& target : {Target::sm_80(), Target::sm_90a()}) {
    CHECK(bound(elementwise(ir::Opcode::exp2), target).clocks.special == doctest::Approx(1024 / 16.0));
    CHECK(bound(elementwise(ir::Opcode::exp2, ElementType::f32, 16), target).clocks.most() == doctest::Approx(16 * 1024 / 16.0));
    const Bound memory = bound(elementwise(ir::Opcode::neg), target);
    CHECK(memory.clocks.most() == memory.clocks.global);
  }
  explains(elementwise(ir::Opcode::exp2, ElementType::f32, 16), "[bound] special functions: a program takes at least 1024 clocks of special functions, 410 of global memory");
}

TEST_CASE("bound of attention: matrix units from head dim 128 on, special functions beside them at 64") {
  for (const int dim : {64, 128, 256}) {
    CAPTURE(dim);
    const ir::Function function = test::attention("causal", dim, 128, Target::sm_90a());
    const AttentionConfig c = choose_config({ElementType::bf16, dim, dim, 128, 128}, Target::sm_90a());
    const Bound b = bound(function);
    const double scores = double(c.block_m) * c.block_n;
    CHECK(b.per_iteration);
    CHECK(b.clocks.matrix == doctest::Approx(4.0 * scores * dim / 4096));
    CHECK(b.clocks.special >= scores / 16);                                                // an exp2 a score
    CHECK(b.clocks.special <= scores / 16 + 64);                                           // and none of the rescaling, which is seldom
    CHECK(b.clocks.fp32 >= 2 * scores / 128);                                              // an fma and a sum
    CHECK(b.clocks.fp32 <= 4 * scores / 128);
    CHECK(b.clocks.integer >= 1.5 * scores / 64);                                          // a maximum, half a conversion
    CHECK(b.clocks.integer <= 2.5 * scores / 64);                                          // and no mask: whole tiles run without
    CHECK(b.clocks.global == doctest::Approx(2.0 * c.block_n * dim * 2 / 64));
    if (dim > 64) CHECK(b.clocks.most() == b.clocks.matrix);
    const std::string products = std::to_string(c.block_m) + "x" + std::to_string(c.block_n) + "x" + std::to_string(dim);
    CHECK(b.products.find(products) != std::string::npos);
  }
  const Bound narrow = bound(test::attention("causal", 64, 128, Target::sm_90a()));
  CHECK(narrow.clocks.special >= narrow.clocks.matrix);
}

TEST_CASE("bound of attention: what a score mod computes is in it") {
  const ir::Mod capped = named_score("softcap");
  const ir::Function plain = trace_attention(nullptr, nullptr, {.dim = 128}, Target::sm_90a()), function = trace_attention(&capped, nullptr, {.dim = 128}, Target::sm_90a());
  const AttentionConfig c = choose_config({ElementType::bf16, 128, 128, 0, 0}, Target::sm_90a());
  CHECK(bound(function).clocks.special - bound(plain).clocks.special == doctest::Approx(c.block_m * c.block_n / 16.0).epsilon(0.02));   // a tanh a score
}

TEST_CASE("targets whose rates are not known have no bound, and a product that is none of warpgroups says why") {
  CHECK(bound(test::softmax(), Target::parse("sm_100")).clocks.most() == 0);
  CHECK(compile(test::softmax(), Target::parse("sm_120"), {.binary = false}).explain().find("[bound]") == std::string::npos);
  explains(test::matmul({.m = 128, .n = 128, .k = 64, .warps = 2, .stages = 3}), "[dot] mma.m16n8k16; no wgmma: the program's 2 warps are no groups of four");
  explains(test::matmul({.m = 96, .n = 128, .k = 64, .warps = 4, .stages = 3}), "no wgmma: its 96 rows must be a multiple of 16 for each of 4 warps");
  ir::Function by_rows = test::matmul({.m = 128, .n = 128, .k = 64, .warps = 4, .stages = 3});
  by_rows.parameters[1].aligned = false;
  explains(by_rows, "no wgmma: its right operand does not lie in shared memory in rows of whole 128 bytes");
}

TEST_CASE("no loop that is fetched ahead is explained as one that is not") {
  auto says_not = [](const ir::Function& function, const Target& target) {
    return compile(function, target, {.line_info = false, .binary = false}).explain().find("not pipelined") != std::string::npos;
  };
  for (const Target& target : {Target::sm_80(), Target::sm_90a()}) {
    CAPTURE(target.name());
    for (const char* mask : {static_cast<const char*>(nullptr), "causal"})
      for (const int dim : {64, 128}) CHECK(!says_not(test::attention(mask, dim, 128, target), target));
    CHECK(!says_not(test::matmul({.m = 128, .n = 128, .k = 64, .warps = 8, .stages = 3}), target));
    ir::Function by_rows = test::matmul({.m = 128, .n = 128, .k = 64, .warps = 8, .stages = 3});
    for (ir::Parameter& parameter : by_rows.parameters) parameter.aligned = false;
    CHECK(says_not(by_rows, target));
  }
}

TEST_CASE("an explanation ends with the kernel's resources") {
  const CompiledKernel kernel = compile(test::matmul({.m = 128, .n = 128, .k = 32, .warps = 4, .stages = 3}), Target::sm_80(), {.binary = false});
  CHECK(kernel.explain().ends_with("[resources] 128 threads, registers are known once it is loaded, " + std::to_string(kernel.resource_usage.shared_memory) +
                                   " bytes of shared memory\n"));
  CompiledKernel assembled = kernel;
  assembled.resource_usage.registers = 168, assembled.resource_usage.spill_stores = 0, assembled.resource_usage.spill_loads = 0;
  CHECK(assembled.explain().find("128 threads, 168 registers each, ") != std::string::npos);
  CHECK(assembled.explain().ends_with("; nothing is spilled\n"));
  assembled.resource_usage.spill_stores = 12;
  CHECK(assembled.explain().ends_with("; spills 12 bytes a thread\n"));
}
