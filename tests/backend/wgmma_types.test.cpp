// Products of warpgroups of every type: numbers in the emulator, how f32 is rounded, what the assembler says of real tiles, and where
// they are not made.
#include <array>

#include "../support/agree.hpp"
#include "../support/ptxas.hpp"

using namespace flextile;
using ir::Builder;
using ir::Opcode;
using ir::Shape;
using ir::Type;
using ir::Value;
using test::agree;

namespace {

struct Kind {
  ElementType operand, sum;
  const char* name;                       // in the instruction
  int step;                               // K of one instruction
  int panel() const { return 128 / byte_size(operand); }
};

constexpr Kind kinds[] = {
    {ElementType::f32, ElementType::f32, "f32.tf32.tf32", 8},
    {ElementType::i8, ElementType::i32, "s32.s8.s8", 32},
    {ElementType::u8, ElementType::i32, "s32.u8.u8", 32},
    {ElementType::f8e4m3, ElementType::f32, "f32.e4m3.e4m3", 32},
    {ElementType::f8e5m2, ElementType::f32, "f32.e5m2.e5m2", 32},
};

struct Sizes {
  int m, n, warps, stages, depth;
  int k = 0;                              // of a tile; 0: a panel
  bool doubled = false;                   // the left operand is computed in registers
  bool across = false;                    // the right operand has K across its rows
};

/// c = a . b^T over `depth`, in a loop; a ragged end in every direction is the views' affair.
void loop_of_products(Builder& b, const std::vector<Value>& v, const Kind& kind, const Sizes& s) {
  auto number = [&](std::int64_t x) { return b.constant(ElementType::i32, x); };
  const int k = s.k > 0 ? s.k : kind.panel();
  const Type sums = Type::tile(kind.sum, {s.m, s.n});
  const Value zero = is_float(kind.sum) ? b.splat(sums, 0.0) : b.splat(sums, std::int64_t{0});
  const ir::OperationId loop = b.for_loop(number(0), number(s.depth), number(k), {zero}, {{ir::AttributeName::stages, std::int64_t{s.stages}}});
  const ir::BlockId here = b.insertion_block();
  b.set_insertion_block(b.function().operation(loop).blocks[0]);
  const Value at = b.argument(loop, 0, 0), sum = b.argument(loop, 0, 1);
  Value x = b.view_load(v[0], {number(0), at}, {s.m, k});
  if (s.doubled && is_float8(kind.operand)) {        // computed in f16, and rounded to eight bits again
    const Value wide = b.cast(x, ElementType::f16);
    x = b.cast(b.binary(Opcode::add, wide, wide), kind.operand);
  } else if (s.doubled) {
    x = b.binary(Opcode::add, x, x);
  }
  const Value y = s.across ? b.view_load(v[1], {at, number(0)}, {k, s.n}) : b.transpose(b.view_load(v[1], {number(0), at}, {s.n, k}));
  b.yield({b.dot(x, y, sum)});
  b.set_insertion_block(here);
  b.view_store(v[2], b.results(loop)[0], {number(0), number(0)});
}

std::string instruction(const Kind& kind, int n) { return "wgmma.mma_async.sync.aligned.m64n" + std::to_string(n) + "k" + std::to_string(kind.step) + "." + kind.name; }

/// The kernel with views of sizes that only the launch knows.
CompiledKernel compiled(const Kind& kind, const Sizes& s, const Target& target = Target::sm_90a()) {
  ir::Function function("product", {test::view_parameter("a", {kind.operand, {s.m, 512}}, true, true), test::view_parameter("b", {kind.operand, {s.n, 512}}, true, true),
                                    test::view_parameter("out", {kind.sum, {s.m, 512}}, false, true)});
  function.num_warps = s.warps;
  Builder builder(function);
  loop_of_products(builder, {function.parameter(0), function.parameter(1), function.parameter(2)}, kind, s);
  builder.return_values();
  return compile(function, target, {.line_info = false, .binary = false});
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("wgmma: every type, operands from shared memory, ragged ends") {
  for (const Kind& kind : kinds) {
    for (const Sizes& s : {Sizes{64, 64, 4, 2, 3}, {128, 128, 8, 3, 3}, {128, 24, 4, 2, 2}, {192, 48, 12, 4, 5}, {64, 256, 4, 2, 2}}) {
      Sizes sizes = s;
      sizes.depth = s.depth * kind.panel() - 16;      // rows must be whole 16 bytes
      CAPTURE(kind.name);
      CAPTURE(s.m);
      CAPTURE(s.n);
      const std::string uses = instruction(kind, s.n);
      agree({.inputs = {{kind.operand, {s.m - 3, sizes.depth}}, {kind.operand, {s.n - 8, sizes.depth}}}, .output = {kind.sum, {s.m - 3, s.n - 8}}, .num_warps = s.warps,
             .tolerance = 1e-4, .target = Target::sm_90a(), .uses = uses.c_str()}, [&](Builder& b, auto& v) { loop_of_products(b, v, kind, sizes); });
    }
  }
}

TEST_CASE("wgmma: every type, the left operand from registers, tiles of several panels") {
  for (const Kind& kind : kinds) {
    for (const bool doubled : {false, true}) {
      const Sizes s{.m = 128, .n = 32, .warps = 4, .stages = 2, .depth = 4 * kind.panel(), .k = 2 * kind.panel(), .doubled = doubled};
      CAPTURE(kind.name);
      CAPTURE(doubled);
      const std::string uses = instruction(kind, s.n);
      agree({.inputs = {{kind.operand, {s.m, s.depth}}, {kind.operand, {s.n, s.depth}}}, .output = {kind.sum, {s.m, s.n}}, .num_warps = s.warps, .tolerance = 1e-4,
             .target = Target::sm_90a(), .uses = uses.c_str()}, [&](Builder& b, auto& v) { loop_of_products(b, v, kind, s); });
    }
  }
}

TEST_CASE("wgmma: integers that come by cp.async, outside of a loop with stages") {
  for (const Kind& kind : kinds) {
    const Sizes s{.m = 64, .n = 32, .warps = 4, .stages = 1, .depth = 3 * kind.panel()};
    const std::string uses = kind.operand == ElementType::f32 ? "mma.sync.aligned.m16n8k8.row.col.f32.tf32" : instruction(kind, s.n);   // cp.async does not round
    CAPTURE(kind.name);
    agree({.inputs = {{kind.operand, {s.m, s.depth}}, {kind.operand, {s.n, s.depth}}}, .output = {kind.sum, {s.m, s.n}}, .num_warps = s.warps, .tolerance = 1e-4,
           .target = Target::sm_90a(), .uses = uses.c_str()}, [&](Builder& b, auto& v) { loop_of_products(b, v, kind, s); });
  }
}

namespace {

/// Of c = a . b^T in a loop: how far the sums are from those of f64, relative to the sums of absolute products; the largest, and the mean.
struct Distance {
  double largest = 0, mean = 0;
};

template <class Fill> Distance distance_of_tf32(const Target& target, const Sizes& s, Fill fill, bool expect_wgmma, bool maps_round = true) {
  const Kind& kind = kinds[0];
  test::TestTensor a(ElementType::f32, {s.m, s.depth}, 1), b(ElementType::f32, {s.n, s.depth}, 2), c(ElementType::f32, {s.m, s.n}, 3);
  for (test::TestTensor* each : {&a, &b}) {
    for (std::int64_t i = 0; i < each->count(); ++i) static_cast<float*>(each->base)[i] = fill();
  }
  ir::Function function("product", {test::view_parameter("a", {ElementType::f32, a.shape}, true, true), test::view_parameter("b", {ElementType::f32, b.shape}, true, true),
                                    test::view_parameter("out", {ElementType::f32, c.shape}, false, true)});
  function.num_warps = s.warps;
  Builder builder(function);
  loop_of_products(builder, {function.parameter(0), function.parameter(1), function.parameter(2)}, kind, s);
  builder.return_values();
  CompiledKernel kernel = compile(function, target, {.line_info = false, .binary = false});
  CHECK(contains(kernel.ptx(), "wgmma.mma_async") == expect_wgmma);
  for (TensorMap& map : kernel.tensor_maps) map.tf32 = map.tf32 && maps_round;
  std::vector<void*> arguments;
  for (test::TestTensor* each : {&a, &b, &c}) test::add_view(arguments, *each);
  test::run_ptx(kernel, arguments.data(), {{0, 0, 0}, {1, 1, 1}}, {a.range(), b.range(), c.range()});
  Distance result;
  for (int i = 0; i < s.m; ++i) {
    for (int j = 0; j < s.n; ++j) {
      double sum = 0, size = 0;
      for (int k = 0; k < s.depth; ++k) {
        const double product = (s.doubled ? 2 : 1) * a.at(i * s.depth + k) * b.at(j * s.depth + k);
        sum += product, size += std::fabs(product);
      }
      const double error = (c.at(i * s.n + j) - sum) / size;
      result.largest = std::max(result.largest, std::fabs(error));
      result.mean += error / (s.m * s.n);
    }
  }
  return result;
}

}  // namespace

TEST_CASE("tf32: operands are rounded to nearest, wherever they come from") {
  const Sizes sizes{.m = 64, .n = 32, .warps = 4, .stages = 2, .depth = 256};
  for (const bool hopper : {false, true}) {
    for (const bool doubled : {false, true}) {          // from registers
      CAPTURE(hopper);
      CAPTURE(doubled);
      Sizes s = sizes;
      s.doubled = doubled;
      const Target target = hopper ? Target::sm_90a() : Target::sm_80();
      // 5/8 of a unit in the last of 10 bits: up by 3/8 when it is rounded, down by 5/8 when it is cut.
      const Distance worst = distance_of_tf32(target, s, [] { return 1 + 0x1p-11f + 0x1p-13f; }, hopper);
      CHECK(worst.largest <= 0x1p-10);
      std::mt19937 random(7);
      const Distance spread = distance_of_tf32(target, s, [&] { return std::uniform_real_distribution<float>(0.5f, 2.0f)(random); }, hopper);
      CHECK(spread.largest <= 0x1p-10);
      CHECK(std::fabs(spread.mean) <= 0x1p-14);
      if (!hopper) continue;
      // Where the copy engine leaves f32 as it is, the instruction cuts it, and that would show.
      if (!doubled) CHECK(distance_of_tf32(target, s, [] { return 1 + 0x1p-11f + 0x1p-13f; }, true, false).largest > 0x1p-10);
      CHECK(distance_of_tf32(target, s, [&] { return std::uniform_real_distribution<float>(0.5f, 2.0f)(random); }, true, false).mean < -0x1p-13);
    }
  }
}

TEST_CASE("wgmma: two products in a loop, the first one's sums are the second one's operand") {
  for (const Kind& kind : kinds) {
    const int panel = kind.panel(), m = 64, length = 3 * panel;
    CAPTURE(kind.name);
    const std::string uses = instruction(kind, panel);
    agree({.inputs = {{kind.operand, {m, panel}}, {kind.operand, {length, panel}}, {kind.operand, {panel, length}}}, .output = {kind.sum, {m, panel}}, .num_warps = 4, .tolerance = kind.operand == ElementType::f32 ? 2e-3 : 1e-4,
           .target = Target::sm_90a(), .uses = uses.c_str()}, [&](Builder& b, auto& v) {
      auto number = [&](std::int64_t x) { return b.constant(ElementType::i32, x); };
      auto zeros = [&] { return is_float(kind.sum) ? b.splat(Type::tile(kind.sum, {m, panel}), 0.0) : b.splat(Type::tile(kind.sum, {m, panel}), std::int64_t{0}); };
      const Value query = test::load(b, v[0], {m, panel});
      const ir::OperationId loop = b.for_loop(number(0), number(length), number(panel), {zeros()}, {{ir::AttributeName::stages, std::int64_t{2}}});
      const ir::BlockId here = b.insertion_block();
      b.set_insertion_block(b.function().operation(loop).blocks[0]);
      const Value at = b.argument(loop, 0, 0);
      Value scores = b.dot(query, b.transpose(b.view_load(v[1], {at, number(0)}, {panel, panel})), zeros());
      if (is_float(kind.sum)) scores = b.binary(Opcode::mul, scores, b.constant(ElementType::f32, 0.125));
      const Value values = b.transpose(b.view_load(v[2], {number(0), at}, {panel, panel}));
      b.yield({b.dot(b.cast(scores, kind.operand), values, b.argument(loop, 0, 1))});
      b.set_insertion_block(here);
      test::store(b, v[3], b.results(loop)[0]);
    });
  }
}

TEST_CASE("wgmma: where it is not made, the kernel says why") {
  const Kind &tf32 = kinds[0], &i8 = kinds[1], &e4m3 = kinds[3];
  auto says = [](const CompiledKernel& kernel, const std::string& reason) {
    CAPTURE(kernel.explain());
    CHECK_FALSE(contains(kernel.ptx(), "wgmma.mma_async"));
    CHECK(contains(kernel.explain(), reason));
  };
  for (const Kind& kind : {tf32, i8, e4m3}) {
    says(compiled(kind, {.m = 64, .n = 32, .warps = 4, .stages = 2, .depth = 256, .across = true}), "read it as trans(load of [N, K])");
    says(compiled(kind, {.m = 48, .n = 32, .warps = 4, .stages = 2, .depth = 256}), "its 48 rows must be a multiple of 16 for each of 4 warps");
    says(compiled(kind, {.m = 32, .n = 32, .warps = 2, .stages = 2, .depth = 256}), "the program's 2 warps are no groups of four");
    says(compiled(kind, {.m = 64, .n = 264, .warps = 4, .stages = 2, .depth = 256}), "its 264 columns must be at most 256");
    says(compiled(kind, {.m = 64, .n = 32, .warps = 4, .stages = 2, .depth = 256, .k = kind.panel() / 2}), "does not lie in shared memory in rows of whole 128 bytes");
  }
  says(compiled(tf32, {.m = 64, .n = 32, .warps = 4, .stages = 1, .depth = 256}), "the copy engine, which rounds f32 to tf32, does not fetch its operands");
}

TEST_CASE("wgmma: integers of widths that the instruction lacks are two of them") {
  for (const Kind& kind : {kinds[1], kinds[2]}) {
    for (const Sizes& s : {Sizes{64, 40, 4, 2, 3}, {128, 72, 8, 3, 3}, {64, 248, 4, 2, 2}, {128, 56, 4, 2, 2}}) {
      Sizes sizes = s;
      sizes.depth = s.depth * kind.panel() - 16;
      CAPTURE(kind.name);
      CAPTURE(s.n);
      const std::string uses = instruction(kind, s.n - 8);
      agree({.inputs = {{kind.operand, {s.m, sizes.depth}}, {kind.operand, {s.n, sizes.depth}}}, .output = {kind.sum, {s.m, s.n}}, .num_warps = s.warps, .tolerance = 0,
             .target = Target::sm_90a(), .uses = uses.c_str()}, [&](Builder& b, auto& v) { loop_of_products(b, v, kind, sizes); });
    }
  }
}

TEST_CASE("wgmma: any number of columns in steps of 8") {
  const bool assembles = test::has_ptxas();
  for (const Kind& kind : {kinds[0], kinds[1], kinds[3]}) {
    for (int n = 8; n <= 256; n += 8) {
      CAPTURE(kind.name);
      CAPTURE(n);
      const CompiledKernel kernel = compiled(kind, {.m = 64, .n = n, .warps = 4, .stages = 2, .depth = 8192});
      const bool in_two = !is_float(kind.sum) && n > 32 && n % 16 != 0;
      CHECK(contains(kernel.ptx(), instruction(kind, in_two ? n - 8 : n) + " "));
      CHECK((!in_two || contains(kernel.ptx(), instruction(kind, 8) + " ")));
      if (n != 8 && n != 24 && n != 40 && n != 240) continue;
      if (assembles) test::check_assembles_well(kernel);
    }
  }
}

TEST_CASE("mma.sync: tiles of every type go through the assembler for older targets") {
  const bool assembles = test::has_ptxas();
  for (const Kind& kind : kinds) {
    for (const Target& target : {Target::sm_80(), Target::cuda(89), Target::cuda(90)}) {
      const CompiledKernel kernel = compiled(kind, {.m = 64, .n = 64, .warps = 4, .stages = 3, .depth = 8192}, target);
      CHECK(contains(kernel.ptx(), "mma.sync"));
      CAPTURE(kind.name);
      CAPTURE(target.name());
      if (assembles) test::check_assembles_well(kernel);
    }
  }
}

TEST_CASE("wgmma: real tiles of every type go through the assembler without spills and warnings") {
  const bool assembles = test::has_ptxas();
  for (const Kind& kind : kinds) {
    for (const Sizes& s : {Sizes{128, 256, 8, 4, 8192}, {128, 128, 8, 4, 8192}, {256, 128, 8, 3, 8192}, {128, 128, 8, 4, 8192, 0, true}}) {
      CAPTURE(kind.name);
      CAPTURE(s.doubled);
      const CompiledKernel kernel = compiled(kind, s);
      CAPTURE(kernel.explain());
      CHECK(contains(kernel.ptx(), instruction(kind, s.n)));
      CHECK(contains(kernel.explain(), "by the copy engine"));
      CHECK(kernel.resident);                           // a producer fetches, and programs stay
      if (assembles) test::check_assembles_well(kernel);
    }
  }
}
