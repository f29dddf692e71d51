// PTX to machine code, on machines with and without nvJitLink.
#include <doctest/doctest.h>

#include <string>

#include <flextile/backend/assemble.hpp>
#include <flextile/backend/compile.hpp>
#include <flextile/ir/error.hpp>

#include "support/reference_kernels.hpp"

using namespace flextile;

namespace {

constexpr const char* good_ptx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry double_it(.param .u64 p) {
  .reg .b64 %rd<3>;
  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.f32 %f1, [%rd2];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd2], %f2;
  ret;
}
)";

bool has_linker() { return linker_version().find("none") != 0; }

}  // namespace

TEST_CASE("PTX becomes a cubin when nvJitLink is found") {
  if (!has_linker()) {
    MESSAGE("[SKIP] " << linker_version());
    CHECK(assemble("double_it", good_ptx, Target::sm_80(), true).cubin.empty());
    return;
  }
  const AssembledKernel assembled = assemble("double_it", good_ptx, Target::sm_80(), true);
  CHECK(assembled.cubin.substr(1, 3) == "ELF");
  Resources resources;
  read_assembler_log(assembled.log, "double_it", resources);
  CHECK(resources.registers > 0);
  CHECK(resources.registers < 32);
  CHECK(resources.spill_stores == 0);
  CHECK(resources.spill_loads == 0);
  CHECK(resources.stack == 0);
  CHECK(assembler_complaints(resources).empty());
}

TEST_CASE("PTX for an older target assembles for a newer one") {
  if (!has_linker()) return;
  CHECK(!assemble("double_it", good_ptx, Target::sm_90a(), false).cubin.empty());
}

TEST_CASE("wrong PTX is a fault of ours, with the assembler's words") {
  if (!has_linker()) return;
  std::string broken = good_ptx;
  broken.replace(broken.find("add.f32"), 7, "odd.f32");
  try {
    assemble("double_it", broken, Target::sm_80(), true);
    FAIL("nothing was thrown");
  } catch (const InternalError& error) {
    const std::string message = error.what();
    CHECK(message.find("the assembler refuses the PTX of kernel \"double_it\" for sm_80") != std::string::npos);
    CHECK(message.find("line 10") != std::string::npos);
  }
}

TEST_CASE("too few registers for an instruction are the caller's to mend") {
  if (!has_linker()) {
    MESSAGE("[SKIP] " << linker_version());
    return;
  }
  ir::Function product = test::matmul({.m = 128, .n = 128, .k = 64, .warps = 8, .stages = 1});
  product.occupancy = 4;   // 64 registers a thread: as many as one product's sums
  std::string sentence;
  try {
    compile(product, Target::sm_90a());
  } catch (const CompileError& error) {
    sentence = error.what();
  }
  CHECK_MESSAGE(sentence.find("[registers] a thread has too few of them on sm_90a for one of its matrix instructions: take smaller tiles, more warps, or a lower occupancy") != std::string::npos, sentence);
}

TEST_CASE("logs are read per kernel, whoever wrote them") {
  constexpr const char* log = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_90a'
ptxas info    : Function properties for other
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 19 registers, used 1 barriers
ptxas info    : Compiling entry function 'flash_forward' for 'sm_90a'
ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources
ptxas info    : Function properties for flash_forward
ptxas         .     160 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 160 bytes cumulative stack size
)";
  Resources resources;
  read_assembler_log(log, "flash_forward", resources);
  CHECK(resources.registers == 168);
  CHECK(resources.stack == 160);
  CHECK(resources.spill_stores == 24);
  CHECK(resources.spill_loads == 32);
  const std::vector<std::string> complaints = assembler_complaints(resources);
  REQUIRE(complaints.size() == 2);
  CHECK(complaints[0].find("24 bytes are spilled and 32 bytes reloaded") != std::string::npos);
  CHECK(complaints[1].find("C7512") != std::string::npos);
  CHECK(performance_faults(resources) ==
        std::vector<std::string>{"spills 32 bytes a thread",
                                 "C7512: wgmma.mma_async instructions are serialized due to insufficient register resources"});
  read_assembler_log(log, "other", resources);
  CHECK(resources.registers == 19);
  CHECK(resources.spill_stores == 0);

  Resources summary;
  read_assembler_log("info    : Function properties for 'scale':\n"
                     "info    : used 14 registers, used 0 barriers, 0 stack, 0 bytes smem, 560 bytes cmem[0], 0 bytes lmem\n", "scale", summary);
  CHECK(summary.registers == 14);
  CHECK(summary.stack == 0);
  CHECK(summary.spill_stores == 0);
  CHECK(summary.spill_loads == 0);

  Resources unknown;
  read_assembler_log("registers, and 99999999999999999999 bytes spill stores", "x", unknown);
  CHECK(unknown.registers == -1);
  CHECK(unknown.spill_stores == -1);
}

TEST_CASE("faults that make a kernel slow, and warnings that do not") {
  auto faults = [](const Resources& resources) {
    std::string text;
    for (const std::string& fault : performance_faults(resources)) text += fault + "|";
    return text;
  };
  CHECK(faults({}) == "");
  CHECK(faults({.registers = 255, .spill_stores = 0, .spill_loads = 0, .stack = 64, .log = ""}) == "");   // a stack, but none of it spilled
  CHECK(faults({.registers = 255, .stack = 64, .log = ""}) == "spills 64 bytes a thread|");              // the driver does not say of what
  CHECK(faults({.spill_stores = 8, .spill_loads = 0, .log = ""}) == "spills 8 bytes a thread|");
  for (const char* code : {"C7504", "C7508", "C7509", "C7510", "C7511", "C7512", "C7513", "C7514", "C7515"}) {
    const std::string line = "ptxas info    : (" + std::string(code) + ") Potential Performance Loss: as it says\n";
    CHECK(faults({.log = "ptxas info : 0 bytes gmem\n" + line + line}) == std::string(code) + ": as it says|");
  }
  CHECK(faults({.log = "ptxas info    : (C7519) Potential Performance Loss: a fence\nwarning: something else\n"}) == "");
}

TEST_CASE("resources print what is known") {
  Resources resources;
  resources.threads = 128;
  resources.shared_memory = 49152;
  CHECK(to_string(resources).find("registers       unknown: the driver assembles") != std::string::npos);
  resources.registers = 96;
  resources.log = "ptxas info";
  const std::string text = to_string(resources);
  CHECK(text.find("registers       96 per thread\n") != std::string::npos);
  CHECK(text.find("shared memory   49152 bytes per program\n") != std::string::npos);
  CHECK(text.find("assembler's log\nptxas info\n") != std::string::npos);
  CHECK(text.find("unknown") == std::string::npos);
}
