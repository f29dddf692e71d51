// What the builder does on its own (promotion, broadcasting) and the sentence for each family of mistakes.
#include <doctest/doctest.h>

#include <flextile/ir/builder.hpp>

#include "ir/sentence.hpp"

using namespace flextile;
using namespace flextile::ir;

namespace {

struct Kernel {
  Function function;
  Builder builder;
  explicit Kernel(std::vector<Parameter> parameters = {}) : function("kernel", std::move(parameters)), builder(function) {}
  Value parameter(std::size_t i) { return function.parameter(i); }
  Value tile(ElementType element, const Shape& shape) { return builder.splat(Type::tile(element, shape), std::int64_t{1}); }
  Value i32(std::int64_t value) { return builder.constant(ElementType::i32, value); }
  std::string type(Value value) { return to_string(builder.type(value)); }
  // The sentence after the first line.
  template <class Call>
  std::string wrong(Call&& call) {
    std::string text = sentence([&] { call(builder); });
    std::string head = "flextile: compile error in kernel \"kernel\"\n  ";
    return text.starts_with(head) ? text.substr(head.size()) : text;
  }
};

}  // namespace

TEST_CASE("binary promotes element types and broadcasts shapes") {
  Kernel k;
  Value column = k.tile(ElementType::i32, {48, 1}), row = k.tile(ElementType::f16, {80}),
        scalar = k.builder.constant(ElementType::f32, 0.5);
  CHECK(k.type(k.builder.binary(Opcode::add, column, row)) == "tile<48x80xf16>");
  CHECK(k.type(k.builder.binary(Opcode::mul, scalar, row)) == "tile<80xf32>");
  CHECK(k.type(k.builder.binary(Opcode::lt, column, scalar)) == "tile<48x1xi1>");
  CHECK(k.type(k.builder.binary(Opcode::add, k.tile(ElementType::i1, {4}), k.tile(ElementType::i1, {4}))) == "tile<4xi32>");
  CHECK(k.type(k.builder.binary(Opcode::bit_and, k.tile(ElementType::i1, {4}), k.tile(ElementType::i1, {}))) == "tile<4xi1>");
  CHECK(k.type(k.builder.binary(Opcode::pow, k.i32(2), k.i32(3))) == "f32");
  CHECK(k.type(k.builder.binary(Opcode::shl, k.tile(ElementType::u8, {4}), k.i32(3))) == "tile<4xu8>");
  CHECK(k.type(k.builder.binary(Opcode::div, k.i32(2), k.i32(3))) == "i32");
  CHECK(k.type(k.builder.select(k.tile(ElementType::i1, {4, 1}), row, k.i32(0))) == "tile<4x80xf16>");
  CHECK(k.type(k.builder.fma(k.tile(ElementType::bf16, {4}), scalar, k.i32(1))) == "tile<4xf32>");
  CHECK(k.type(k.builder.fma(k.i32(1), k.i32(2), k.i32(3))) == "i32");
}

TEST_CASE("math functions on integers are f32, arithmetic ones stay integers") {
  Kernel k;
  Value integers = k.tile(ElementType::i64, {4}), truth = k.tile(ElementType::i1, {4});
  CHECK(k.type(k.builder.unary(Opcode::exp, integers)) == "tile<4xf32>");
  CHECK(k.type(k.builder.unary(Opcode::floor, truth)) == "tile<4xf32>");
  CHECK(k.type(k.builder.unary(Opcode::neg, integers)) == "tile<4xi64>");
  CHECK(k.type(k.builder.unary(Opcode::neg, truth)) == "tile<4xi32>");
  CHECK(k.type(k.builder.unary(Opcode::bit_not, truth)) == "tile<4xi1>");
  CHECK(k.type(k.builder.unary(Opcode::sqrt, k.tile(ElementType::bf16, {4}))) == "tile<4xbf16>");
  CHECK(k.wrong([&](Builder& b) { b.unary(Opcode::bit_not, k.tile(ElementType::f32, {4})); }) ==
        "[bit_not] operand is tile<4xf32>: elements must be integer or i1");
}

TEST_CASE("unlikely takes a condition and leaves it as it is") {
  Kernel k;
  CHECK(k.type(k.builder.unary(Opcode::unlikely, k.tile(ElementType::i1, {4, 1}))) == "tile<4x1xi1>");
  CHECK(k.wrong([&](Builder& b) { b.unary(Opcode::unlikely, k.i32(1)); }) == "[unlikely] condition is i32: must be i1; compare it, for instance with 0");
}

TEST_CASE("pointers take integers and comparisons") {
  Kernel k({{"p", Type::pointer(ElementType::f32)}});
  Value p = k.parameter(0), i = k.builder.arange(64);
  CHECK(k.type(k.builder.binary(Opcode::add, p, i)) == "tile<64xptr<f32>>");
  CHECK(k.type(k.builder.binary(Opcode::add, i, p)) == "tile<64xptr<f32>>");
  CHECK(k.type(k.builder.binary(Opcode::sub, p, k.tile(ElementType::u32, {2, 1}))) == "tile<2x1xptr<f32>>");
  CHECK(k.type(k.builder.binary(Opcode::lt, k.builder.offset(p, i), p)) == "tile<64xi1>");
  CHECK(k.wrong([&](Builder& b) { b.binary(Opcode::mul, p, i); }) ==
        "[mul] left is tile<64xptr<f32>>, right is tile<64xi32>: pointers only take +, - with an integer, and comparisons with pointers");
  CHECK(k.wrong([&](Builder& b) { b.binary(Opcode::add, p, b.constant(ElementType::f32, 1.0)); }) ==
        "[offset] pointer is ptr<f32>, offset is f32: the offset must be i32 or i64");
  CHECK(k.wrong([&](Builder& b) { b.binary(Opcode::eq, p, i); }) ==
        "[eq] left is tile<64xptr<f32>>, right is tile<64xi32>: both must be numbers, or both pointers");
}

TEST_CASE("an error names the kernel and the line") {
  Kernel k;
  k.builder.set_location("samples/flash.cpp", 41);
  std::string text = sentence([&] { k.builder.binary(Opcode::add, k.tile(ElementType::f32, {4}), k.tile(ElementType::f32, {5})); });
  CHECK(text ==
        "flextile: compile error in kernel \"kernel\", samples/flash.cpp:41\n"
        "  [add] left is tile<4xf32>, right is tile<5xf32>: axis 0 has 4 and 5 elements; shapes must be equal, or 1 where they stretch");
}

TEST_CASE("shapes that do not broadcast") {
  Kernel k;
  CHECK(k.wrong([&](Builder& b) {
    b.binary(Opcode::mul, k.tile(ElementType::f32, {4, 5}), k.tile(ElementType::f32, {4}));
  }) == "[mul] left is tile<4x5xf32>, right is tile<4xf32>: shapes 4x5 and 4 must be equal, or 1 where they stretch (axes are matched from "
        "the last)");
  CHECK(k.wrong([&](Builder& b) { b.select(k.tile(ElementType::i1, {3}), k.tile(ElementType::f32, {4}), k.i32(1)); }) ==
        "[select] condition is tile<3xi1>, values are tile<4xf32>: axis 0 has 3 and 4 elements; shapes must be equal, or 1 where they "
        "stretch");
  CHECK(k.wrong([&](Builder& b) { b.select(k.i32(1), k.i32(2), k.i32(3)); }) ==
        "[select] condition is i32: must be i1; compare it, for instance with 0");
  CHECK(k.wrong([&](Builder& b) {
    b.broadcast(k.tile(ElementType::f32, {4}), {3, 5});
  }) == "[broadcast] operand is tile<1x4xf32>, result is tile<3x5xf32>: axis 1 has 4 elements and cannot stretch to 5");
  CHECK(k.wrong([&](Builder& b) {
    b.broadcast(k.tile(ElementType::f32, {4, 4}), {4});
  }) == "[broadcast] operand is tile<4x4xf32>, result is tile<4xf32>: must have the same number of axes, or the operand none");
}

TEST_CASE("constants") {
  Kernel k;
  Value exact = k.builder.constant(ElementType::bf16, 0.1);
  CHECK(k.function.defining(exact)->attributes.number(AttributeName::value) == 0.1);
  CHECK(k.function.defining(k.builder.constant(ElementType::u8, std::int64_t{-1}))->attributes.integer(AttributeName::value) == 255);
  CHECK(k.function.defining(k.builder.constant(ElementType::i32, 3.0))->attributes.integer(AttributeName::value) == 3);
  CHECK(k.wrong([&](Builder& b) { b.constant(ElementType::i32, 1.5); }) == "[constant] 1.500000 is no i32");
  CHECK(k.wrong([&](Builder& b) { b.constant(ElementType::i8, std::int64_t{200}); }) ==
        "[constant] 200 is no i8: values go from -128 to 127");
  CHECK(k.wrong([&](Builder& b) { b.constant(ElementType::i1, std::int64_t{2}); }) == "[constant] 2 is no i1: values go from 0 to 1");
  CHECK(k.wrong([&](Builder& b) { b.splat(Type::pointer(ElementType::f32), std::int64_t{0}); }) ==
        "[constant] result is ptr<f32>: must be a number or a tile of numbers");
  CHECK(k.wrong([&](Builder& b) {
    b.splat(Type::tile(ElementType::f32, {1024, 2048}), 0.0);
  }) == "[constant] result is tile<1024x2048xf32>: it has 2097152 elements, a tile has at most 1048576");
  CHECK(k.wrong([&](Builder& b) {
    b.splat(Type::tile(ElementType::f32, {4, 0}), 0.0);
  }) == "[constant] result is tile<4x0xf32>: axis 1 has 0 elements, must have at least 1");
  CHECK(k.wrong([&](Builder& b) { b.arange(8, 2147483647); }) == "[arange] starts at 2147483647 and has 8 elements: all must be i32");
  CHECK(k.wrong([&](Builder& b) { b.program_id(3); }) == "[program_id] axis is 3: a grid has the axes 0, 1 and 2");
}

TEST_CASE("shape operations") {
  Kernel k;
  Value x = k.tile(ElementType::f32, {48, 80});
  CHECK(k.type(k.builder.transpose(x)) == "tile<80x48xf32>");
  CHECK(k.type(k.builder.expand_dims(x, -1)) == "tile<48x80x1xf32>");
  CHECK(k.type(k.builder.reshape(x, {96, 40})) == "tile<96x40xf32>");
  CHECK(k.type(k.builder.broadcast(k.builder.constant(ElementType::f32, 1.0), {3, 4})) == "tile<3x4xf32>");
  CHECK(k.builder.broadcast(x, {48, 80}) == x);
  CHECK(k.wrong([&](Builder& b) {
    b.reshape(x, {96, 41});
  }) == "[reshape] operand is tile<48x80xf32>, result is tile<96x41xf32>: must have the same number of elements, they have 3840 and 3936");
  CHECK(k.wrong([&](Builder& b) {
    b.reshape(x, {2, 2, 2, 2, 2, 120});
  }) == "[reshape] shape 2x2x2x2x2x120 has 6 axes: a tile has at most 5");
  CHECK(k.wrong([&](Builder& b) {
    b.transpose(x, {0, 0});
  }) == "[transpose] operand is tile<48x80xf32>, permutation names axis 0 twice: must name each axis once");
  CHECK(k.wrong([&](Builder& b) {
    b.transpose(x, {0, 2});
  }) == "[transpose] operand is tile<48x80xf32>, permutation names axis 2: axes go from 0 to 1");
  CHECK(k.wrong([&](Builder& b) { b.transpose(x, {0}); }) == "[transpose] operand is tile<48x80xf32>, permutation has 1 axes: must have 2");
  CHECK(k.wrong([&](Builder& b) { b.expand_dims(x, 4); }) == "[expand_dims] operand is tile<48x80xf32>, axis is 4: must be from 0 to 2");
  CHECK(k.wrong([&](Builder& b) { b.bitcast(x, ElementType::i64); }) ==
        "[bitcast] operand is tile<48x80xf32>, result is tile<48x80xi64>: widths must be equal, they are 32 and 64 bits");
}

TEST_CASE("dot") {
  Kernel k;
  auto dot = [&](Type a, Type b, Type c) {
    return k.wrong([&](Builder& builder) {
      Value left = builder.splat(a, std::int64_t{1}), right = builder.splat(b, std::int64_t{1});
      builder.dot(left, right, builder.splat(c, std::int64_t{0}));
    });
  };
  auto tile = [](ElementType element, int rows, int columns) { return Type::tile(element, {rows, columns}); };
  CHECK(dot(tile(ElementType::bf16, 128, 64), tile(ElementType::bf16, 64, 128), tile(ElementType::f32, 128, 128)) == "no error");
  CHECK(dot(tile(ElementType::i8, 16, 32), tile(ElementType::i8, 32, 8), tile(ElementType::i32, 16, 8)) == "no error");
  CHECK(dot(tile(ElementType::f64, 16, 32), tile(ElementType::f64, 32, 8), tile(ElementType::f64, 16, 8)) == "no error");
  CHECK(dot(tile(ElementType::bf16, 128, 64), tile(ElementType::bf16, 32, 128), tile(ElementType::f32, 128, 128)) ==
        "[dot] left is tile<128x64xbf16>, right is tile<32x128xbf16>: columns of left (64) must equal rows of right (32)");
  CHECK(dot(tile(ElementType::bf16, 128, 64), tile(ElementType::f16, 64, 128), tile(ElementType::f32, 128, 128)) ==
        "[dot] left is tile<128x64xbf16>, right is tile<64x128xf16>: element types must be equal; cast one of them");
  CHECK(dot(Type::tile(ElementType::f32, {64}), tile(ElementType::f32, 64, 8), tile(ElementType::f32, 1, 8)) ==
        "[dot] left is tile<64xf32>, right is tile<64x8xf32>: both must be tiles of two axes");
  CHECK(dot(tile(ElementType::bf16, 16, 32), tile(ElementType::bf16, 32, 8), tile(ElementType::f32, 8, 16)) ==
        "[dot] left is tile<16x32xbf16>, right is tile<32x8xbf16>, accumulator is tile<8x16xf32>: the accumulator's shape must be 16x8");
  CHECK(contains(dot(tile(ElementType::bf16, 16, 32), tile(ElementType::bf16, 32, 8), tile(ElementType::bf16, 16, 8)),
                 "f16, bf16 and f32 accumulate in f32"));
  CHECK(contains(dot(tile(ElementType::i32, 16, 32), tile(ElementType::i32, 32, 8), tile(ElementType::i32, 16, 8)),
                 "i8 and u8 in i32; no other"));
  Value f = k.tile(ElementType::f32, {16, 16});
  CHECK(k.wrong([&](Builder& b) { b.dot(f, f, f, "exact"); }) == "[dot] precision is \"exact\": must be \"tf32\" or \"ieee\"");
}

TEST_CASE("reduce") {
  Kernel k;
  Value x = k.tile(ElementType::f32, {4, 5, 6});
  CHECK(k.type(k.builder.reduce("sum", x, 1)) == "tile<4x6xf32>");
  CHECK(k.type(k.builder.reduce("max", x, -1)) == "f32");
  CHECK(k.type(k.builder.reduce("sum", k.tile(ElementType::i1, {4}), 0)) == "i32");
  CHECK(k.type(k.builder.reduce("or", k.tile(ElementType::i1, {4}), 0)) == "i1");
  CHECK(k.wrong([&](Builder& b) { b.reduce("sum", x, 3); }) == "[reduce] operand is tile<4x5x6xf32>, axis is 3: axes go from 0 to 2");
  CHECK(k.wrong([&](Builder& b) { b.reduce("xor", x, 0); }) ==
        "[reduce] operand is tile<4x5x6xf32>: kind xor needs elements that are integer or i1");
  CHECK(k.wrong([&](Builder& b) { b.reduce("mean", x, 0); }) ==
        "[reduce] kind is \"mean\": must be sum, prod, min, max, and, or, xor or custom");
  CHECK(k.wrong([&](Builder& b) { b.reduce("sum", k.i32(1), 0); }) ==
        "[reduce] operand is i32: must be a tile of numbers with an axis to reduce");

  OperationId custom = k.builder.reduce_custom({x, k.tile(ElementType::i32, {4, 5, 6})}, 0);
  CHECK(k.type(k.builder.results(custom)[1]) == "tile<5x6xi32>");
  k.builder.set_insertion_block(k.function.operation(custom).blocks[0]);
  CHECK(k.function.block(k.builder.insertion_block()).arguments.size() == 4);
  CHECK(k.wrong([&](Builder& b) {
    b.yield({b.argument(custom, 0, 1), b.argument(custom, 0, 0)});
  }) == "[reduce] its block yields i32 as value 0: must be f32");
  CHECK(k.wrong([&](Builder& b) { b.yield({}); }) == "[reduce] its block must yield 2 values, yields 0");
  k.builder.yield({k.builder.argument(custom, 0, 0), k.builder.argument(custom, 0, 1)});
  k.builder.set_insertion_block(k.function.body());
  CHECK(k.wrong([&](Builder& b) {
    b.reduce_custom({x, k.tile(ElementType::f32, {4})}, 0);
  }) == "[reduce] operand 0 is tile<4x5x6xf32>, operand 1 is tile<4xf32>: shapes must be equal");
}

TEST_CASE("memory by pointer") {
  Kernel k({{"p", Type::pointer(ElementType::bf16)}, {"c", Type::pointer(ElementType::i32), true}, {"b", Type::pointer(ElementType::i8)}});
  Value p = k.parameter(0), i = k.builder.arange(64), pointers = k.builder.offset(p, i), mask = k.builder.binary(Opcode::lt, i, k.i32(50));
  CHECK(k.type(k.builder.load(pointers, mask, k.i32(0))) == "tile<64xbf16>");
  CHECK(k.type(k.builder.load(p, mask)) == "tile<64xbf16>");
  k.builder.store(pointers, k.builder.constant(ElementType::bf16, 1.0), mask);
  CHECK(k.wrong([&](Builder& b) { b.load(i); }) == "[load] pointer is tile<64xi32>: must be a pointer or a tile of pointers");
  CHECK(k.wrong([&](Builder& b) { b.load(pointers, i); }) ==
        "[load] pointer is tile<64xptr<bf16>>, mask is tile<64xi32>: the mask must be tile<64xi1>");
  CHECK(k.wrong([&](Builder& b) { b.load(pointers, {}, i); }) ==
        "[load] other is given without a mask: it fills the elements that the mask leaves out");
  CHECK(k.wrong([&](Builder& b) { b.store(pointers, b.constant(ElementType::f32, 1.0)); }) ==
        "[store] pointer is tile<64xptr<bf16>>, value is tile<64xf32>: must be bf16; cast it");
  CHECK(k.wrong([&](Builder& b) { b.store(pointers, k.tile(ElementType::bf16, {32})); }) ==
        "[store] pointer is tile<64xptr<bf16>>, value is tile<32xbf16>: must be tile<64xbf16>");
  CHECK(k.wrong([&](Builder& b) { b.store(b.offset(k.parameter(1), i), i); }) ==
        "[store] parameter \"c\" is read-only: declare it without const to write to it");
  Value integers = k.parameter(2);
  CHECK(k.wrong([&](Builder& b) { b.atomic("add", integers, b.constant(ElementType::i8, std::int64_t{1})); }) ==
        "[atomic] pointer is ptr<i8>: kind add takes i32, i64, u32, u64, f16, bf16, f32 and f64");
  CHECK(k.wrong([&](Builder& b) { b.atomic("max", p, b.constant(ElementType::bf16, 1.0)); }) ==
        "[atomic] pointer is ptr<bf16>: kind max takes i32, i64, u32 and u64");
  CHECK(k.wrong([&](Builder& b) { b.atomic("sub", p, b.constant(ElementType::bf16, 1.0)); }) ==
        "[atomic] kind is \"sub\": must be add, max, min, and, or, xor or exchange");
  CHECK(k.wrong([&](Builder& b) { b.atomic("add", p, b.constant(ElementType::bf16, 1.0), {}, "seq_cst"); }) ==
        "[atomic] order is \"seq_cst\": must be relaxed, acquire, release or acq_rel");
  CHECK(k.wrong([&](Builder& b) { b.atomic("add", p, b.constant(ElementType::bf16, 1.0), {}, "relaxed", "warp"); }) ==
        "[atomic] scope is \"warp\": must be cta, gpu or sys");
  CHECK(k.wrong([&](Builder& b) { b.atomic_cas(p, b.constant(ElementType::bf16, 1.0), b.constant(ElementType::bf16, 2.0)); }) ==
        "[atomic_cas] pointer is ptr<bf16>: elements must be i32, i64, u32, u64, f32 or f64");
  CHECK(k.wrong([&](Builder& b) { b.atomic_cas(k.parameter(1), k.i32(0), k.i32(1)); }) ==
        "[atomic_cas] parameter \"c\" is read-only: declare it without const to write to it");
}

TEST_CASE("memory by view") {
  Kernel k(
      {{"x", Type::view(ElementType::bf16, 2)}, {"c", Type::view(ElementType::bf16, 2), true}, {"s", Type::view(ElementType::f32, 0)}});
  Value x = k.parameter(0), zero = k.i32(0);
  CHECK(k.type(k.builder.view_load(x, {zero, k.builder.constant(ElementType::i8, std::int64_t{1})}, {96})) == "tile<96xbf16>");
  CHECK(k.type(k.builder.view_load(x, {zero, zero}, {})) == "bf16");
  CHECK(k.type(k.builder.gather(x, {k.builder.reshape(k.builder.arange(8), {8, 1}), k.builder.arange(4)})) == "tile<8x4xbf16>");
  CHECK(k.type(k.builder.gather(k.parameter(2), {})) == "f32");
  CHECK(k.type(k.builder.view_stride(x, 1)) == "i64");
  CHECK(k.wrong([&](Builder& b) { b.view_load(x, {zero}, {4}); }) ==
        "[view_load] view is view<2xbf16>, got 1 offset: must be one per axis (2)");
  CHECK(k.wrong([&](Builder& b) {
    b.view_load(x, {zero, b.constant(ElementType::i64, std::int64_t{0})}, {4});
  }) == "[view_load] offset 1 is i64: must be i32");
  CHECK(k.wrong([&](Builder& b) { b.view_load(x, {zero, b.arange(4)}, {4}); }) == "[view_load] offset 1 is tile<4xi32>: must be i32");
  CHECK(k.wrong([&](Builder& b) {
    b.view_load(x, {zero, zero}, {2, 3, 4});
  }) == "[view_load] view is view<2xbf16>, tile is tile<2x3x4xbf16>: the tile has 3 axes, more than the view (2)");
  CHECK(k.wrong([&](Builder& b) { b.view_load(zero, {}, {4}); }) == "[view_load] view is i32: must be a tensor view");
  CHECK(k.wrong([&](Builder& b) {
    b.view_store(x, k.tile(ElementType::f32, {4}), {zero, zero});
  }) == "[view_store] view is view<2xbf16>, tile is tile<4xf32>: element types must be equal; cast the tile");
  CHECK(k.wrong([&](Builder& b) {
    b.view_store(k.parameter(1), k.tile(ElementType::bf16, {4}), {zero, zero});
  }) == "[view_store] parameter \"c\" is read-only: declare it without const to write to it");
  CHECK(k.wrong([&](Builder& b) { b.gather(x, {zero}); }) == "[gather] view is view<2xbf16>, got 1 index: must be one per axis (2)");
  CHECK(k.wrong([&](Builder& b) { b.gather(x, {zero, b.constant(ElementType::f32, 1.0)}); }) == "[gather] index 1 is f32: must be i32");
  CHECK(k.wrong([&](Builder& b) { b.view_size(x, 2); }) == "[view_size] view is view<2xbf16>, axis is 2: axes go from 0 to 1");
}

TEST_CASE("loops and branches") {
  Kernel k({{"n", Type::scalar(ElementType::i32)}, {"flag", Type::scalar(ElementType::i1)}});
  Value n = k.parameter(0), start = k.builder.constant(ElementType::f32, 0.0);
  CHECK(k.wrong([&](Builder& b) { b.for_loop(k.i32(0), n, k.i32(0), {}); }) == "[for] step is 0: must be at least 1");
  CHECK(k.wrong([&](Builder& b) { b.for_loop(start, n, k.i32(1), {}); }) == "[for] lower bound is f32: must be i32 or i64");
  CHECK(k.wrong([&](Builder& b) {
    b.for_loop(k.i32(0), n, k.i32(1), {}, {{AttributeName::stages, std::int64_t{0}}});
  }) == "[for] stages is 0: must be at least 1");
  OperationId wide = k.builder.for_loop(k.i32(0), k.builder.cast(n, ElementType::i64), k.i32(1), {});
  CHECK(k.type(k.builder.argument(wide, 0, 0)) == "i64");

  OperationId loop = k.builder.for_loop(k.i32(0), n, k.i32(1), {start});
  k.builder.set_insertion_block(k.function.operation(loop).blocks[0]);
  CHECK(k.wrong([&](Builder& b) { b.yield({k.tile(ElementType::f32, {4})}); }) ==
        "[for] carried value 0 is f32, its block passes on tile<4xf32>: must be equal");
  CHECK(k.wrong([&](Builder& b) { b.yield({}); }) == "[for] its block passes on 0 values: must be 1");
  CHECK(k.wrong([&](Builder& b) { b.return_values(); }) == "[return] stands in a loop or branch: only the body returns");
  CHECK(k.wrong([&](Builder& b) { b.condition(k.parameter(1), {}); }) == "[for] its block must end in yield, ends in condition");
  k.builder.yield({start});
  CHECK(k.wrong([&](Builder& b) { b.binary(Opcode::add, n, n); }) == "[add] follows yield, which ends its block: nothing can follow");
  k.builder.set_insertion_block(k.function.body());

  CHECK(k.wrong([&](Builder& b) { b.if_else(n, {}); }) == "[if] condition is i32: must be one i1; compare it, for instance with 0");
  CHECK(k.wrong([&](Builder& b) { b.if_else(k.tile(ElementType::i1, {4}), {}); }) ==
        "[if] condition is tile<4xi1>: must be one i1; a choice per element is select");
  OperationId choice = k.builder.if_else(k.parameter(1), {Type::scalar(ElementType::f32)});
  k.builder.set_insertion_block(k.function.operation(choice).blocks[1]);
  CHECK(k.wrong([&](Builder& b) { b.yield({n}); }) == "[if] result 0 is f32, its block passes on i32: must be equal");
  k.builder.set_insertion_block(k.function.body());

  OperationId loop2 = k.builder.while_loop({n});
  k.builder.set_insertion_block(k.function.operation(loop2).blocks[0]);
  CHECK(k.wrong([&](Builder& b) { b.condition(n, {n}); }) ==
        "[condition] condition is i32: must be one i1; compare it, for instance with 0");
  CHECK(k.wrong([&](Builder& b) { b.yield({n}); }) == "[while] its block must end in condition, ends in yield");
  k.builder.set_insertion_block(k.function.body());
  CHECK(k.wrong([&](Builder& b) { b.yield({}); }) == "[yield] stands in the body, which ends in return");
}

TEST_CASE("values that are none or of another function are refused") {
  Kernel k;
  CHECK(k.wrong([&](Builder& b) { b.binary(Opcode::add, k.i32(1), Value{}); }) == "[add] right is no value of this kernel");
  CHECK(k.wrong([&](Builder& b) { b.unary(Opcode::exp, Value{12345}); }) == "[exp] operand is no value of this kernel");
  CHECK(k.wrong([&](Builder& b) { b.yield({Value{}}); }) == "[yield] operand 0 is no value of this function");
  CHECK(k.wrong([&](Builder& b) { b.create({.opcode = Opcode::add, .operands = {k.i32(1)}}, {Type::scalar(ElementType::i32)}); }) ==
        "[add] takes 2 operands, got 1");
  CHECK(k.wrong([&](Builder& b) { b.create({.opcode = Opcode::neg, .operands = {k.i32(1)}}, {}); }) == "[neg] gives 1 result, got 0");
}

TEST_CASE("shared memory and asynchronous copies") {
  Kernel k({{"x", Type::view(ElementType::f16, 2)}});
  Value zero = k.i32(0);
  auto one = [&](Operation operation, std::vector<Type> types) {
    return k.wrong([&](Builder& b) { b.create(std::move(operation), types); });
  };
  OperationId id = k.builder.create({.opcode = Opcode::alloc_shared}, {Type::shared(ElementType::f16, {32, 64}, 2)});
  Value buffer = k.builder.results(id)[0];
  CHECK(one({.opcode = Opcode::alloc_shared, .attributes = {{AttributeName::swizzle, std::int64_t{48}}}},
            {Type::shared(ElementType::f16, {32, 64}, 2)}) == "[alloc_shared] swizzle is 48: must be 0, 32, 64 or 128 bytes");
  CHECK(one({.opcode = Opcode::shared_load, .operands = {buffer, k.i32(2)}}, {Type::tile(ElementType::f16, {32, 64})}) ==
        "[shared_load] buffer is shared<2x32x64xf16>, stage is 2: must be from 0 to 1");
  CHECK(one({.opcode = Opcode::shared_load, .operands = {buffer, zero}}, {Type::tile(ElementType::f16, {64, 32})}) ==
        "[shared_load] buffer is shared<2x32x64xf16>, result is tile<64x32xf16>: must be tile<32x64xf16> or fewer columns of it");
  const Value window = k.builder.results(k.builder.create({.opcode = Opcode::alloc_shared}, {Type::shared(ElementType::f16, {128}, 2)}))[0];
  auto along = [&](std::int64_t diagonals, std::vector<Value> operands, const Type& type) {
    return one({.opcode = Opcode::shared_load, .operands = std::move(operands), .attributes = {{AttributeName::diagonals, diagonals}}}, {type});
  };
  k.builder.create({.opcode = Opcode::shared_load, .operands = {window, zero, zero}, .attributes = {{AttributeName::diagonals, std::int64_t{1}}}}, {Type::tile(ElementType::f16, {64, 65})});
  CHECK(along(2, {window, zero, zero}, Type::tile(ElementType::f16, {64, 64})) == "[shared_load] diagonals is 2: must be 1 or -1");
  CHECK(along(1, {window, zero}, Type::tile(ElementType::f16, {64, 64})) == "[shared_load] takes 3 operands; got 2");
  CHECK(along(-1, {window, zero, zero}, Type::tile(ElementType::f16, {64, 66})) ==
        "[shared_load] buffer is shared<2x128xf16>, result is tile<64x66xf16>: the stage must have a number for each of the tile's diagonals");
  CHECK(one({.opcode = Opcode::shared_store, .operands = {buffer, zero, zero}}, {}) ==
        "[shared_store] buffer is shared<2x32x64xf16>, value is i32: must be tile<32x64xf16>");
  CHECK(one({.opcode = Opcode::async_copy, .operands = {buffer, zero, k.parameter(0), zero}}, {Type::token()}) ==
        "[async_copy] view is view<2xf16>, got 1 offsets: must be one per axis (2)");
  CHECK(one({.opcode = Opcode::async_wait, .operands = {zero}}, {}) == "[async_wait] operand 0 is i32: must be token");
  CHECK(one({.opcode = Opcode::turn, .attributes = {{AttributeName::kind, std::string("skip")}}}, {}) == "[turn] kind is \"skip\": must be open, take, pass or close");
  CHECK(one({.opcode = Opcode::product_wait, .operands = {zero}}, {Type::scalar(ElementType::i32)}) == "[product_wait] operand is i32: must be the result of a dot with async, or of a loop that carries one");
  CHECK(one({.opcode = Opcode::product_wait, .operands = {zero, zero}}, {Type::scalar(ElementType::i32)}) == "[product_wait] what comes first is i32: must be a tile of f32");
  CHECK(one({.opcode = Opcode::product_wait, .operands = {zero, zero, zero}}, {Type::scalar(ElementType::i32)}) ==
        "[product_wait] takes and gives one value or none, and may take a tile that comes first; got 3 operands and 1 results");
  CHECK(one({.opcode = Opcode::ring_wait, .operands = {buffer, zero}}, {}) ==
        "[ring_wait] buffer has no barriers: must come from alloc_shared with barriers");
  id = k.builder.create({.opcode = Opcode::alloc_shared, .attributes = {{AttributeName::barriers, std::int64_t{1}}}}, {Type::shared(ElementType::f16, {32, 64}, 2)});
  Value ring = k.builder.results(id)[0];
  CHECK(one({.opcode = Opcode::ring_release, .operands = {ring, buffer}}, {}) == "[ring_release] turn is shared<2x32x64xf16>: must be i32");
  CHECK(one({.opcode = Opcode::ring_release, .operands = {ring, zero}}, {}) == "[ring_release] has 0 blocks: must be one");
  CHECK(one({.opcode = Opcode::ring_refill, .operands = {buffer, zero}, .blocks = {k.function.add_block()}}, {}) ==
        "[ring_refill] buffer has no barriers: must come from alloc_shared with barriers");
  CHECK(one({.opcode = Opcode::ring_refill, .operands = {ring, zero}}, {}) == "[ring_refill] has 0 blocks: must be one");
  CHECK(one({.opcode = Opcode::ring_start, .operands = {zero}, .blocks = {k.function.add_block()}}, {}) == "[ring_start] buffer is i32: must be a shared buffer");
  CHECK(one({.opcode = Opcode::bulk_copy, .operands = {ring, zero, k.parameter(0), zero}}, {}) ==
        "[bulk_copy] view is view<2xf16>, got 1 offsets: must be one per axis (2)");
  CHECK(one({.opcode = Opcode::bulk_copy, .operands = {ring, zero, k.parameter(0), zero, zero}, .attributes = {{AttributeName::precision, std::string("ieee")}}}, {}) ==
        "[bulk_copy] precision is \"ieee\": must be \"tf32\"");
  CHECK(one({.opcode = Opcode::bulk_copy, .operands = {ring, zero, k.parameter(0), zero, zero}, .attributes = {{AttributeName::precision, std::string("tf32")}}}, {})
            .find("f32 alone is rounded to tf32") != std::string::npos);
  CHECK(one({.opcode = Opcode::bulk_copy, .operands = {ring, zero, zero, zero}}, {}) == "[bulk_copy] view is i32: must be a tensor view");
  CHECK(one({.opcode = Opcode::roles, .blocks = {k.function.add_block()}}, {}) ==
        "[roles] has 1 blocks and 0 register budgets: must be as many");
}

TEST_CASE("tiles that the copy engine stores") {
  Kernel k({{"x", Type::view(ElementType::f16, 2)}, {"fixed", Type::view(ElementType::f16, 2), true}, {"wide", Type::view(ElementType::f32, 2)}});
  Value zero = k.i32(0), tile = k.tile(ElementType::f16, {64, 128}), rows = k.tile(ElementType::f16, {32, 64});
  auto buffer = [&](ElementType element, const Shape& shape) { return k.builder.results(k.builder.create({.opcode = Opcode::alloc_shared}, {Type::shared(element, shape, 1)}))[0]; };
  auto one = [&](Operation operation) {
    return k.wrong([&](Builder& b) { b.create(std::move(operation), {}); });
  };
  const Value half = buffer(ElementType::f16, {64, 64}), full = buffer(ElementType::f16, {64, 128}), floats = buffer(ElementType::f32, {64, 64}), few = buffer(ElementType::f16, {32, 64});
  CHECK(one({.opcode = Opcode::matrix_store, .operands = {half, zero, tile}, .attributes = {{AttributeName::start, std::int64_t{64}}}}) == "no error");
  CHECK(one({.opcode = Opcode::matrix_store, .operands = {full, zero, tile}}) == "no error");
  CHECK(one({.opcode = Opcode::matrix_store, .operands = {half, zero, tile}, .attributes = {{AttributeName::start, std::int64_t{80}}}}) ==
        "[matrix_store] buffer is shared<1x64x64xf16>, value is tile<64x128xf16>: columns 80 to 144 must be the value's");
  CHECK(one({.opcode = Opcode::matrix_store, .operands = {half, zero, rows}}) == "[matrix_store] buffer is shared<1x64x64xf16>, value is tile<32x64xf16>: must be a tile of as many rows");
  CHECK(one({.opcode = Opcode::matrix_store, .operands = {floats, zero, tile}}) == "[matrix_store] buffer is shared<1x64x64xf32>: a stage must be a matrix of 16-bit numbers");
  CHECK(one({.opcode = Opcode::matrix_store, .operands = {few, zero, rows}}) ==
        "[matrix_store] buffer is shared<1x32x64xf16>, a program has 4 warps: each of its warpgroups takes a multiple of 64 rows");
  CHECK(one({.opcode = Opcode::bulk_store, .operands = {half, zero, k.parameter(0), zero, zero}}) == "no error");
  CHECK(one({.opcode = Opcode::bulk_store, .operands = {half, zero, k.parameter(0), zero}}) == "[bulk_store] view is view<2xf16>, got 1 offsets: must be one per axis (2)");
  CHECK(one({.opcode = Opcode::bulk_store, .operands = {half, zero, k.parameter(1), zero, zero}}) == "[bulk_store] parameter \"fixed\" is read-only: declare it without const to write to it");
  CHECK(one({.opcode = Opcode::bulk_store, .operands = {half, zero, k.parameter(2), zero, zero}}) == "[bulk_store] buffer is shared<1x64x64xf16>, view is view<2xf32>: element types must be equal");
  CHECK(one({.opcode = Opcode::bulk_wait, .attributes = {{AttributeName::pending, std::int64_t{-1}}}}) == "[bulk_wait] pending is -1: must be at least 0");
}

TEST_CASE("scalars that roles hand over, and the programs that they take") {
  Kernel k;
  Value zero = k.i32(0), wide = k.builder.constant(ElementType::i64, std::int64_t{1});
  const Type i32 = Type::scalar(ElementType::i32);
  auto one = [&](Operation operation, std::vector<Type> types) {
    return k.wrong([&](Builder& b) { b.create(std::move(operation), types); });
  };
  auto buffer_of = [&](Type type) {
    return k.builder.results(k.builder.create({.opcode = Opcode::alloc_shared, .attributes = {{AttributeName::barriers, std::int64_t{1}}}}, {type}))[0];
  };
  Value ring = buffer_of(Type::shared(ElementType::i32, {2}, 2)), tiles = buffer_of(Type::shared(ElementType::f16, {32, 64}, 2));
  CHECK(one({.opcode = Opcode::ring_put, .operands = {ring}}, {}) == "[ring_put] takes a buffer and a turn; got 1 operands");
  CHECK(one({.opcode = Opcode::ring_put, .operands = {ring, wide, zero}}, {}) == "[ring_put] turn is i64: must be i32");
  CHECK(one({.opcode = Opcode::ring_put, .operands = {zero, zero, zero}}, {}) == "[ring_put] buffer is i32: must be a shared buffer");
  CHECK(one({.opcode = Opcode::ring_put, .operands = {ring, zero, k.builder.arange(4)}}, {}) == "[ring_put] a value is tile<4xi32>: must be a scalar");
  CHECK(one({.opcode = Opcode::ring_put, .operands = {ring, zero, zero, wide}}, {}) == "[ring_put] buffer is shared<2x2xi32>: a stage must be i32, 3 of them at least");
  CHECK(one({.opcode = Opcode::ring_get, .operands = {ring, zero}}, {i32, i32, i32}) == "[ring_get] buffer is shared<2x2xi32>: a stage must be i32, 3 of them at least");
  CHECK(one({.opcode = Opcode::ring_get, .operands = {tiles, zero}}, {i32}) == "[ring_get] buffer is shared<2x32x64xf16>: a stage must be i32, 1 of them at least");
  CHECK(one({.opcode = Opcode::take_program}, {Type::scalar(ElementType::i64)}) == "[take_program] result is i64: must be i32");
  CHECK(one({.opcode = Opcode::worker_id}, {Type::scalar(ElementType::i64)}) == "[worker_id] result is i64: must be i32");
  CHECK(one({.opcode = Opcode::num_workers}, {Type::tile(ElementType::i32, {2})}) == "[num_workers] result is tile<2xi32>: must be i32");
  CHECK(one({.opcode = Opcode::ring_put, .operands = {ring, zero, wide}}, {}) == "no error");
  CHECK(one({.opcode = Opcode::ring_get, .operands = {ring, zero}}, {i32, i32}) == "no error");
}
