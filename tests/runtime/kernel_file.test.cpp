#include <doctest/doctest.h>

#include "kernel_file.hpp"

using namespace flextile;

namespace {

CompiledKernel some_kernel() {
  CompiledKernel kernel;
  kernel.kernel_name = "some";
  kernel.target = Target::sm_90a();
  kernel.parameters = {{"q", ir::Type::view(ElementType::bf16, 4), true, true, true}, {"n", ir::Type::scalar(ElementType::i32)}};
  kernel.tile_ir_text = "tile";
  kernel.llvm_ir_text = "llvm";
  kernel.ptx_text = "ptx";
  kernel.binary = std::string("\0\1\2", 3);
  kernel.resource_usage = {40, 8, 4, 1024, 128, 16, "log"};
  kernel.tensor_maps = {{0, {1, 1, 64, 64}, 128}, {0, {1, 1, 128, 16}, 32, true}, {1, {8, 32}, 128, false, true}};
  kernel.resident = true;
  kernel.overlaps = true;
  kernel.explanation = {"one", "two"};
  kernel.stages = {{"canonicalise", "text"}};
  return kernel;
}

}  // namespace

TEST_CASE("a kernel comes back from its file with every field") {
  const CompiledKernel kernel = some_kernel();
  CompiledKernel read;
  REQUIRE(runtime::read_kernel_file(runtime::write_kernel_file(kernel, "key"), "key", read));
  CHECK(read.kernel_name == kernel.kernel_name);
  CHECK(read.target == kernel.target);
  REQUIRE(read.parameters.size() == 2);
  CHECK(read.parameters[0].name == "q");
  CHECK(read.parameters[0].type == kernel.parameters[0].type);
  CHECK((read.parameters[0].read_only && read.parameters[0].aligned && read.parameters[0].unit_stride));
  CHECK(read.parameters[1].type == kernel.parameters[1].type);
  CHECK(read.tile_ir() == "tile");
  CHECK(read.llvm_ir() == "llvm");
  CHECK(read.ptx() == "ptx");
  CHECK(read.binary == kernel.binary);
  CHECK(read.resources() == kernel.resources());
  CHECK(read.resource_usage.log == "log");
  CHECK(read.tensor_maps == kernel.tensor_maps);
  CHECK(read.overlaps);
  CHECK(read.resident);
  CHECK(read.explanation == kernel.explanation);
  REQUIRE(read.stages.size() == 1);
  CHECK(read.stages[0].text == "text");
}

TEST_CASE("a kernel's file that was cut, changed or written under another key is not read") {
  const std::string bytes = runtime::write_kernel_file(some_kernel(), "key");
  CompiledKernel read;
  CHECK_FALSE(runtime::read_kernel_file(bytes, "other", read));
  for (std::size_t length = 0; length < bytes.size(); length += 7) CHECK_FALSE(runtime::read_kernel_file(bytes.substr(0, length), "key", read));
  for (std::size_t at = 0; at < bytes.size(); at += 5) {
    if (at >= 12 && at < 16) continue;   // reserved
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK_FALSE(runtime::read_kernel_file(changed, "key", read));
  }
}
