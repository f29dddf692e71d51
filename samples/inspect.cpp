// What the compiler makes of a kernel and of an attention variant, for targets that need not be there.
#include "sample.hpp"

#include <chrono>
#include <iostream>
#include <string>
using namespace flextile;

static void first_lines(const char* title, const std::string& text, int lines) {
  std::cout << "-- " << title << '\n';
  std::size_t from = 0;
  for (int i = 0; i < lines && from < text.size(); ++i) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    std::cout << text.substr(from, end - from) << '\n';
    from = end + 1;
  }
  std::cout << "...\n";
}

int main() {
  auto causal = [](auto, auto, auto q, auto kv) { return q >= kv; };
  const auto start = std::chrono::steady_clock::now();
  CompiledKernel kernel = compile_flex_attention(causal, {.dim = 128, .element = ElementType::bf16}, Target::sm_80());
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();

  first_lines("tile IR", kernel.tile_ir(), 12);
  first_lines("LLVM IR", kernel.llvm_ir(), 8);
  first_lines("PTX", kernel.ptx(), 16);
  std::cout << "-- resources\n" << kernel.resources() << "\n-- decisions\n" << kernel.explain() << '\n';
  std::printf("compiled flex_attention for sm_80 in %.0f ms\n", ms);

  const bool right = kernel.ptx().find(".target sm_80") != std::string::npos && kernel.ptx().find("mma.sync") != std::string::npos;
  return sample::finish("inspect", right, "PTX for sm_80 that uses the tensor cores");
}
