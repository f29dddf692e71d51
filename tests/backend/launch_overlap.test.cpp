// A kernel of sm_90 waits for the launch before it in front of all that touches global memory, and behind what does not.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/builder.hpp>
#include <flextile/ir/error.hpp>

#include "nvptx/launch_overlap.hpp"
#include "support/reference_kernels.hpp"

using namespace flextile;

namespace {

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("kernels wait once for the launch before them, from sm_90 on, when their barriers are made") {
  for (const Target& target : {Target::sm_80(), Target::parse("sm_89"), Target::parse("sm_90"), Target::sm_90a(), Target::parse("sm_100")}) {
    const std::vector<ir::Function> kernels = {test::attention("causal", 64, 128, target), test::attention("causal", 128, 128, target), test::attention("sliding_window", 256, 128, target),
                                               test::attention(nullptr, 128, 128, target), test::softmax(), test::matmul({.m = 128, .n = 128, .k = 64, .warps = 8, .stages = 3}),
                                               test::matmul({.m = 64, .n = 64, .k = 32, .warps = 4, .stages = 1, .repeated = true})};
    for (const ir::Function& function : kernels) {
      CAPTURE(function.name);
      CAPTURE(target.name());
      const CompiledKernel kernel = compile(function, target, {.binary = false});
      const bool waits = target.sm >= 90;
      CHECK(kernel.overlaps == waits);
      CHECK(count(kernel.ptx(), "griddepcontrol.wait") == (waits ? 1 : 0));
      CHECK(count(kernel.ptx(), "griddepcontrol.launch_dependents") == (waits ? 1 : 0));
      if (!waits) continue;
      const std::string& ptx = kernel.ptx();
      const std::size_t wait = ptx.find("griddepcontrol.wait"), roles = ptx.find("setmaxnreg");
      CHECK(ptx.substr(ptx.rfind('\n', wait) + 1, wait - ptx.rfind('\n', wait) - 1).find('@') == std::string::npos);   // all threads do
      if (roles == std::string::npos) continue;
      CHECK(wait < roles);                                                     // both roles wait
      CHECK(ptx.rfind("mbarrier.init") < wait);
    }
  }
}

TEST_CASE("reductions through shared memory may come before the wait") {
  for (const int warps : {1, 2, 4, 8, 12}) {
    ir::Function function("count", {{.name = "out", .type = ir::Type::pointer(ElementType::i32)}});
    function.num_warps = warps;
    ir::Builder builder(function);
    const ir::Value numbers = builder.binary(ir::Opcode::mul, builder.arange(1024), builder.program_id(0));
    builder.store(function.parameter(0), builder.reduce("sum", numbers, 0));
    builder.return_values();
    const std::string ptx = compile(function, Target::sm_90a(), {.binary = false}).ptx();
    const std::size_t wait = ptx.find("griddepcontrol.wait");
    CHECK(ptx.find("st.global") > wait);
    if (warps > 1) CHECK(ptx.find("st.shared") < wait);
  }
}

TEST_CASE("PTX that touches memory before it waits is refused") {
  CHECK_NOTHROW(backend::require_wait_first("\tst.shared.b32 [%r2], %r1;\n\tld.shared.b32 %r1, [%r2];\n\t@%p1 bra L;\n\tgriddepcontrol.wait;\n\tst.global.b32 [%rd1], %r1;\n"));
  CHECK_THROWS_AS(backend::require_wait_first("\t@%p1 \tred.global.add.u32 [%rd1], 1;\n\tgriddepcontrol.wait;\n"), InternalError);
  CHECK_NOTHROW(backend::require_wait_first("mov.u32 %r1, 0;\ngriddepcontrol.wait;\nld.global.b32 %r1, [%rd1];\n"));
  CHECK_THROWS_AS(backend::require_wait_first("ld.global.nc.b32 %r1, [%rd1];\ngriddepcontrol.wait;\n"), InternalError);
  CHECK_THROWS_AS(backend::require_wait_first("atom.global.add.u32 %r1, [%rd1], 1;\ngriddepcontrol.wait;\n"), InternalError);
  CHECK_THROWS_AS(backend::require_wait_first("ret;\n"), InternalError);
}
