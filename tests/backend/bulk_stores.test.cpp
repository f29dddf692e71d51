// Tiles that the copy engine stores: who stores is said, and the numbers are right, whatever of a tile lies outside of the tensor.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/builder.hpp>

#include "support/reference_kernels.hpp"
#include "support/run_ptx.hpp"

using namespace flextile;
using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {

/// What keeps the copy engine from the store, if anything does.
enum class Obstacle { none, unaligned, between_chunks, read_elsewhere, atomics, in_a_loop, in_a_branch, f32 };

struct Product {
  int m, n, k, warps, stages;
  Obstacle obstacle = Obstacle::none;
  int stores = 1;            // the second one is of twice the product, to d
};

/// c = a b in bf16, a tile for each program of a grid of two axes.
ir::Function product(const Product& shape) {
  const bool half = shape.obstacle != Obstacle::f32;
  ir::Parameter c = test::matrix("c", half ? ElementType::bf16 : ElementType::f32, false), d = test::matrix("d", ElementType::bf16, false);
  c.aligned = shape.obstacle != Obstacle::unaligned;
  ir::Function function("product", {test::matrix("a", ElementType::bf16, true), test::matrix("b", ElementType::bf16, true), c, d,
                                    {.name = "flag", .type = Type::pointer(ElementType::i32)}});
  function.num_warps = shape.warps;
  ir::Builder b(function);
  auto number = [&](std::int64_t value) { return b.constant(ElementType::i32, value); };
  const Value row = b.binary(Opcode::mul, b.program_id(0), number(shape.m)), column = b.binary(Opcode::mul, b.program_id(1), number(shape.n));
  const ir::OperationId loop = b.for_loop(number(0), b.view_size(function.parameter(0), 1), number(shape.k), {b.splat(Type::tile(ElementType::f32, {shape.m, shape.n}), 0.0)},
                                          {{ir::AttributeName::stages, std::int64_t{shape.stages}}});
  b.set_insertion_block(function.operation(loop).blocks[0]);
  const Value at = b.argument(loop, 0, 0);
  const Value left = b.view_load(function.parameter(0), {row, at}, {shape.m, shape.k}), right = b.view_load(function.parameter(1), {at, column}, {shape.k, shape.n});
  b.yield({b.dot(left, right, b.argument(loop, 0, 1))});
  b.set_insertion_block(function.body());
  const Value sum = b.results(loop)[0], stored = half ? b.cast(sum, ElementType::bf16) : sum;
  if (shape.obstacle == Obstacle::read_elsewhere) b.view_store(function.parameter(2), b.splat(Type::tile(ElementType::bf16, {shape.m, shape.n}), 3.0), {row, column});
  if (shape.obstacle == Obstacle::in_a_loop) b.set_insertion_block(function.operation(b.for_loop(number(0), b.program_id(2), number(1), {})).blocks[0]);
  if (shape.obstacle == Obstacle::in_a_branch) {
    const ir::OperationId branch = b.if_else(b.binary(Opcode::eq, row, number(0)), {});
    b.set_insertion_block(function.operation(branch).blocks[1]);
    b.yield({});
    b.set_insertion_block(function.operation(branch).blocks[0]);
  }
  b.view_store(function.parameter(2), stored, {row, shape.obstacle == Obstacle::between_chunks ? b.binary(Opcode::add, column, b.program_id(2)) : column});
  if (shape.obstacle == Obstacle::in_a_loop || shape.obstacle == Obstacle::in_a_branch) {
    b.yield({});
    b.set_insertion_block(function.body());
  }
  if (shape.stores > 1) b.view_store(function.parameter(3), b.cast(b.binary(Opcode::mul, sum, b.constant(ElementType::f32, 2.0)), ElementType::bf16), {row, column});
  if (shape.obstacle == Obstacle::atomics) b.create({.opcode = Opcode::atomic, .operands = {function.parameter(4), number(1)}, .attributes = {{ir::AttributeName::kind, std::string("add")}, {ir::AttributeName::order, std::string("release")}, {ir::AttributeName::scope, std::string("gpu")}}}, {Type::scalar(ElementType::i32)});
  b.return_values();
  return function;
}

/// c = a0 b0 + a1 b1 + ..., one tile: as many tensor maps as tiles, and that of c.
ir::Function sum_of_products(int count) {
  std::vector<ir::Parameter> parameters{test::matrix("c", ElementType::bf16, false)};
  for (int i = 0; i < 2 * count; ++i) parameters.push_back(test::matrix(("x" + std::to_string(i)).c_str(), ElementType::bf16, true));
  ir::Function function("sum_of_products", parameters);
  ir::Builder b(function);
  const Value zero = b.constant(ElementType::i32, std::int64_t{0}), step = b.constant(ElementType::i32, std::int64_t{64});
  const ir::OperationId loop = b.for_loop(zero, b.view_size(function.parameter(1), 1), step, {b.splat(Type::tile(ElementType::f32, {64, 64}), 0.0)}, {{ir::AttributeName::stages, std::int64_t{2}}});
  b.set_insertion_block(function.operation(loop).blocks[0]);
  const Value at = b.argument(loop, 0, 0);
  Value sum = b.argument(loop, 0, 1);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    sum = b.dot(b.view_load(function.parameter(1 + 2 * i), {zero, at}, {64, 64}), b.view_load(function.parameter(2 + 2 * i), {at, zero}, {64, 64}), sum);
  }
  b.yield({sum});
  b.set_insertion_block(function.body());
  b.view_store(function.parameter(0), b.cast(b.results(loop)[0], ElementType::bf16), {zero, zero});
  b.return_values();
  return function;
}

CompiledKernel compiled(const Product& shape) { return compile(product(shape), Target::sm_90a(), {.line_info = false, .binary = false}); }

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}
bool says(const CompiledKernel& kernel, const std::string& words) { return kernel.explain().find(words) != std::string::npos; }

struct Matrix {
  int rows, columns;
  std::vector<bf16> numbers;
  Matrix(int r, int c, unsigned seed) : rows(r), columns(c) {
    std::mt19937 random(seed);
    for (int i = 0; i < r * c; ++i) numbers.push_back(bf16(seed == 0 ? -77.0f : static_cast<float>(static_cast<int>(random() % 5) - 2)));
  }
  float at(int row, int column) const { return static_cast<float>(numbers[static_cast<std::size_t>(row * columns + column)]); }
};

/// What a launch leaves in c and d: numbers of elements that are wrong. c and d have `spare` rows behind their last one, which must stay as they are.
std::size_t wrong_elements(const CompiledKernel& kernel, const Product& shape, int rows, int columns, int depth, std::uint32_t workers) {
  constexpr int spare = 3;
  Matrix a(rows, depth, 1), b(depth, columns, 2), c(rows + spare, columns, 0), d(rows + spare, columns, 0);
  std::int32_t flag = 0;
  void *a_base = a.numbers.data(), *b_base = b.numbers.data(), *c_base = c.numbers.data(), *d_base = d.numbers.data(), *flag_base = &flag;
  std::int32_t a_sizes[2] = {rows, depth}, b_sizes[2] = {depth, columns}, c_sizes[2] = {rows, columns};
  std::int64_t a_strides[2] = {depth, 1}, c_strides[2] = {columns, 1};
  std::vector<void*> arguments;
  auto add = [&](void** base, std::int32_t* sizes, std::int64_t* strides) { arguments.insert(arguments.end(), {static_cast<void*>(base), sizes, sizes + 1, strides, strides + 1}); };
  add(&a_base, a_sizes, a_strides), add(&b_base, b_sizes, c_strides), add(&c_base, c_sizes, c_strides), add(&d_base, c_sizes, c_strides);
  arguments.push_back(&flag_base);
  const std::int32_t grid[3] = {(rows + shape.m - 1) / shape.m, (columns + shape.n - 1) / shape.n, 1};
  const std::vector<test::MemoryRange> memory{{a.numbers.data(), a.numbers.size() * 2}, {b.numbers.data(), b.numbers.size() * 2}, {c.numbers.data(), c.numbers.size() * 2}, {d.numbers.data(), d.numbers.size() * 2}};
  test::run_workers(kernel, arguments.data(), workers, grid, memory);
  std::size_t wrong = 0;
  for (int i = 0; i < rows + spare; ++i)
    for (int j = 0; j < columns; ++j) {
      float sum = i < rows ? 0.0f : -77.0f;
      for (int k = 0; i < rows && k < depth; ++k) sum += a.at(i, k) * b.at(k, j);
      wrong += c.at(i, j) != static_cast<float>(bf16(sum));
      wrong += d.at(i, j) != (i < rows && shape.stores > 1 ? static_cast<float>(bf16(2 * sum)) : -77.0f);
    }
  return wrong;
}

}  // namespace

TEST_CASE("the copy engine stores what products end in, and says through what") {
  const CompiledKernel wide = compiled({.m = 128, .n = 256, .k = 64, .warps = 8, .stages = 4});
  CHECK(says(wide, "[store] by the copy engine, in parts of 64 columns, through 2 buffers of 16384 bytes"));
  CHECK(says(wide, "[load] tile<128x64xbf16> by the copy engine, 4 stages"));          // the ring keeps its stages
  CHECK(count(wide.ptx(), "stmatrix.sync.aligned.m8n8.x4") == 16);                     // 256 columns by 16
  CHECK(count(wide.ptx(), "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group") == 4);
  CHECK(count(wide.ptx(), "st.global") == 0);
  CHECK(count(wide.ptx(), "shfl.sync.bfly") == 0);
  const CompiledKernel tall = compiled({.m = 192, .n = 192, .k = 64, .warps = 12, .stages = 4});
  CHECK(says(tall, "through 1 buffer of 24576 bytes"));
  CHECK(count(tall.ptx(), "stmatrix") == 12);
  CHECK(says(compiled({.m = 128, .n = 64, .k = 64, .warps = 4, .stages = 2}), "by the copy engine"));    // two blocks of 64 rows to a warpgroup
}

TEST_CASE("threads store where the copy engine cannot, and it is said why") {
  auto reason = [](const Product& shape, const std::string& words) {
    const CompiledKernel kernel = compiled(shape);
    INFO(words << "\n" << kernel.explain());
    CHECK(says(kernel, "[store] by threads: " + words));
    CHECK(count(kernel.ptx(), "bulk_group") == 0);
    CHECK(count(kernel.ptx(), "stmatrix") == 0);
    CHECK(count(kernel.ptx(), "st.global") > 0);
  };
  const Product usual{.m = 64, .n = 64, .k = 64, .warps = 4, .stages = 2};
  auto with = [&](Obstacle obstacle) {
    Product shape = usual;
    shape.obstacle = obstacle;
    return shape;
  };
  REQUIRE(says(compiled(usual), "[store] by the copy engine"));
  reason(with(Obstacle::unaligned), "the view is not known to be aligned");
  reason(with(Obstacle::between_chunks), "its first column is not known to lie at a multiple of 16 bytes");
  reason(with(Obstacle::read_elsewhere), "the kernel uses the view elsewhere too");
  reason(with(Obstacle::atomics), "the kernel has atomic operations");
  reason(with(Obstacle::in_a_loop), "the store stands in a loop");
  reason(with(Obstacle::in_a_branch), "the store stands in a loop or a branch");
  const Target hopper = Target::sm_90a();
  CHECK(says(compile(sum_of_products(3), hopper, {.binary = false}), "[store] by the copy engine"));
  const CompiledKernel many = compile(sum_of_products(4), hopper, {.binary = false});
  CHECK(many.tensor_maps.size() == 8);
  CHECK(says(many, "[store] by threads: the kernel has 8 tensor maps already"));
  for (const char* mask : {static_cast<const char*>(nullptr), "causal"}) {
    CHECK(says(compile(test::attention(mask, 256, 128, hopper), hopper, {.binary = false}), "[store] by threads: the ring that has its shape has one stage"));
    for (const int dim : {64, 128}) CHECK(says(compile(test::attention(mask, dim, 192, hopper), hopper, {.binary = false}), "[store] by the copy engine, through the stage of a ring"));
  }
  CHECK(says(compile(test::attention(nullptr, 80, 128, hopper), hopper, {.binary = false}), "[store] by threads: its rows are not whole panels"));
  reason({.m = 192, .n = 256, .k = 64, .warps = 12, .stages = 4}, "no stage of a ring has its shape");
  const CompiledKernel floats = compiled(with(Obstacle::f32));
  CHECK_FALSE(says(floats, "[store]"));
  CHECK(count(floats.ptx(), "bulk_group") == 0);
  CHECK_FALSE(compile(product(usual), Target::sm_80(), {.binary = false}).ptx().find("bulk_group") != std::string::npos);
}

TEST_CASE("what the copy engine stores is right, at the edges too") {
  struct Case {
    Product shape;
    int rows, columns, depth;
  };
  const Case cases[] = {
      {{.m = 64, .n = 64, .k = 64, .warps = 4, .stages = 2}, 200, 136, 128},                    // the last tiles lie partly outside, along both axes
      {{.m = 128, .n = 128, .k = 64, .warps = 8, .stages = 2}, 130, 256, 64},                   // a warpgroup's rows lie outside as a whole
      {{.m = 128, .n = 64, .k = 64, .warps = 4, .stages = 3}, 190, 64, 200},                    // two blocks of 64 rows in a warpgroup
      {{.m = 64, .n = 192, .k = 64, .warps = 4, .stages = 2, .stores = 2}, 64, 192, 64},        // two tiles through the same buffers
      {{.m = 64, .n = 128, .k = 64, .warps = 4, .stages = 1}, 64, 128, 0},                      // no ring: a kernel without roles
  };
  for (const Case& each : cases) {
    const CompiledKernel kernel = compiled(each.shape);
    INFO(each.rows << " x " << each.columns << ", tiles of " << each.shape.m << " x " << each.shape.n << "\n" << kernel.explain());
    REQUIRE(says(kernel, "[store] by the copy engine"));
    CHECK(count(kernel.ptx(), "st.global") == 0);
    CHECK(std::count_if(kernel.tensor_maps.begin(), kernel.tensor_maps.end(), [](const TensorMap& map) { return map.writes; }) == each.shape.stores);
    if (!kernel.resident) continue;   // many programs are run by the others
    for (const std::uint32_t workers : {1u, 2u}) CHECK(wrong_elements(kernel, each.shape, each.rows, each.columns, each.depth, workers) == 0);   // the second in the other order
  }
}

TEST_CASE("a store that is not waited for, or written over too early, shows in the emulator") {
  const Product shape{.m = 64, .n = 192, .k = 64, .warps = 4, .stages = 2};
  const CompiledKernel kernel = compiled(shape);
  REQUIRE(wrong_elements(kernel, shape, 128, 192, 64, 1) == 0);
  auto outcome = [&](const std::string& line, const std::string& replacement) {
    CompiledKernel changed = kernel;
    std::string text;
    std::size_t from = 0, replaced = 0;
    for (std::size_t at = kernel.ptx_text.find(line); at != std::string::npos; at = kernel.ptx_text.find(line, from)) {
      text += kernel.ptx_text.substr(from, at - from) + replacement;
      from = at + line.size();
      ++replaced;
    }
    changed.ptx_text = text + kernel.ptx_text.substr(from);
    REQUIRE(replaced > 0);
    std::string all;
    for (const std::uint32_t workers : {1u, 2u}) {
      try {
        all += wrong_elements(changed, shape, 128, 192, 64, workers) ? "wrong numbers; " : "";
      } catch (const std::exception& error) {
        all += error.what();
      }
    }
    return all;
  };
  CHECK(outcome("cp.async.bulk.wait_group.read 1;", "cp.async.bulk.wait_group.read 2;") != "");
  CHECK(outcome("cp.async.bulk.wait_group.read 0;", "") != "");
  CHECK(outcome("cp.async.bulk.commit_group;", "") != "");
}
