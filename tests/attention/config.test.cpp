// The library's choice of tiles covers every block mask and head dim.
#include <doctest/doctest.h>

#include <flextile/attention/attention_config.hpp>
#include <flextile/attention/compile.hpp>
#include <flextile/dsl/dsl.hpp>

using namespace flextile;

TEST_CASE("parts cover a block mask's tile, compute tiles are multiples of 16") {
  for (const Target& target : {Target::host(), Target::sm_80(), Target::sm_90a()})
    for (ElementType element : {ElementType::f32, ElementType::bf16})
      for (int dim : {1, 16, 64, 80, 128, 192, 256})
        for (int block = 8; block <= 256; ++block) {
          const AttentionConfig c = choose_config({element, dim, dim, block, 264 - block}, target);
          CAPTURE(to_string(c));
          CHECK(c.row_parts * c.row_step >= block);
          CHECK((c.row_parts - 1) * c.row_step < block);
          CHECK(c.column_parts * c.column_step >= 264 - block);
          CHECK((c.column_parts - 1) * c.column_step < 264 - block);
          CHECK(c.block_m >= c.row_step);
          CHECK(c.block_n >= c.column_step);
          CHECK(c.block_m % 16 == 0);
          CHECK(c.block_n % 16 == 0);
          CHECK(c.padded_dim >= dim);
          CHECK(c.padded_dim % 16 == 0);
          CHECK(c.num_warps * (element == ElementType::f32 ? 4 : 16) <= std::max(16, c.block_m));
        }
}

TEST_CASE("a configuration prints") {
  const AttentionConfig c = choose_config({ElementType::bf16, 128, 128, 128, 128}, Target::sm_80());
  CHECK(to_string(c) == "block 128x32, 1x4 parts of 128x32, dims 128/128, 4 warps, 3 stages");
}

TEST_CASE("the caller's limits hold") {
  const AttentionConfig c = choose_config({ElementType::f16, 64, 64, 0, 0}, Target::sm_80(), 64, 32);
  CHECK(c.block_m == 64);
  CHECK(c.block_n == 32);
}

TEST_CASE("the tiles of a mask that suit a head dim best") {
  CHECK(best_mask_block(ElementType::bf16, 64, Target::sm_90a()) == MaskBlock{192, 128});
  CHECK(best_mask_block(ElementType::bf16, 64, Target::sm_90a(), 2048) == MaskBlock{128, 80});
  CHECK(best_mask_block(ElementType::bf16, 64, Target::sm_90a(), 1024) == MaskBlock{128, 128});
  CHECK(best_mask_block(ElementType::bf16, 80, Target::sm_90a()) == MaskBlock{192, 96});
  CHECK(best_mask_block(ElementType::f16, 128, Target::sm_90a()) == MaskBlock{192, 80});
  CHECK(best_mask_block(ElementType::bf16, 192, Target::sm_90a()) == MaskBlock{128, 80});
  CHECK(best_mask_block(ElementType::bf16, 192, Target::sm_90a(), 4096) == MaskBlock{128, 128});
  CHECK(best_mask_block(ElementType::bf16, 256, Target::sm_90a()) == MaskBlock{128, 128});
  CHECK(best_mask_block(ElementType::f32, 128, Target::sm_90a()) == MaskBlock{128, 128});
  CHECK(best_mask_block(ElementType::bf16, 128, Target::sm_80()) == MaskBlock{128, 128});
  // Blocks of 192 rows where few of their rows are padding.
  CHECK(best_mask_block(ElementType::bf16, 128, Target::sm_90a(), 1024) == MaskBlock{128, 128});
  CHECK(best_mask_block(ElementType::bf16, 80, Target::sm_90a(), 1152) == MaskBlock{192, 96});
  CHECK(best_mask_block(ElementType::bf16, 80, Target::sm_90a(), 960) == MaskBlock{128, 128});
  CHECK(best_mask_block(ElementType::bf16, 96, Target::sm_90a(), 4096) == MaskBlock{128, 128});
  CHECK(best_mask_block(ElementType::bf16, 128, Target::sm_90a(), 4096) == MaskBlock{128, 128});
  CHECK(best_mask_block(ElementType::bf16, 128, Target::sm_90a(), 8192) == MaskBlock{192, 80});
  CHECK(choose_config({ElementType::bf16, 128, 128, 0, 0}, Target::sm_90a(), 0, 0, 0, 1024).block_m == 128);
  CHECK(choose_config({ElementType::bf16, 128, 128, 0, 0}, Target::sm_90a(), 0, 0, 0, 2048).block_m == 192);
  CHECK(choose_config({ElementType::bf16, 80, 80, 0, 0}, Target::sm_90a()).block_n == 112);
  CHECK(choose_config({ElementType::bf16, 96, 96, 0, 0}, Target::sm_90a()).block_n == 96);
  // They are computed whole: no padding, no parts.
  for (const int dim : {64, 80, 96, 128, 192}) {
    const MaskBlock block = best_mask_block(ElementType::bf16, dim, Target::sm_90a());
    const AttentionConfig c = choose_config({ElementType::bf16, dim, dim, block.q, block.kv}, Target::sm_90a());
    CAPTURE(to_string(c));
    CHECK(c.block_m == block.q);
    CHECK(c.block_n == block.kv);
  }
}

TEST_CASE("two programs share a multiprocessor where their registers are few") {
  auto occupancy = [](int dim, int q_block, int kv_block, const Target& target) { return choose_config({ElementType::bf16, dim, dim, q_block, kv_block}, target).occupancy; };
  CHECK(occupancy(64, 128, 128, Target::sm_90a()) == 2);
  CHECK(occupancy(64, 128, 80, Target::sm_90a()) == 2);
  CHECK(occupancy(64, 192, 128, Target::sm_90a()) == 1);
  CHECK(occupancy(128, 128, 128, Target::sm_90a()) == 1);
  CHECK(occupancy(64, 128, 128, Target::sm_80()) == 1);
  CHECK(occupancy(64, 128, 128, Target::host()) == 1);
  // Wide steps that the caller asks for leave no registers for a second program.
  CHECK(choose_config({ElementType::bf16, 64, 64, 128, 128}, Target::sm_90a(), 0, 128).occupancy == 1);
  // The kernel says so to the assembler, and keeps to half of the registers and of shared memory.
  const CompiledKernel kernel = compile_flex_attention([](auto, auto, auto q, auto kv) { return q >= kv; }, {.dim = 64}, Target::sm_90a());
  const std::string ptx(kernel.ptx());
  CHECK(ptx.find(".minnctapersm 2") != std::string::npos);
  CHECK(ptx.find("setmaxnreg.inc.sync.aligned.u32 \t104;") != std::string::npos);
  CHECK(kernel.resource_usage.shared_memory <= 115712);
}
