// A fragment written on scalars becomes tile code that does no more work than its operands' shapes ask for.
#include <doctest/doctest.h>

#include <flextile/ir/builder.hpp>

#include "ir/sentence.hpp"

using namespace flextile;
using namespace flextile::ir;

namespace {

// A kernel with rows tile<8x1xi32>, columns tile<1x16xi32> and a view, that inlines one fragment.
struct Kernel {
  Function function{"kernel", {{"docs", Type::view(ElementType::i32, 1)}, {"n", Type::scalar(ElementType::i32)}}};
  Builder builder{function};
  Value docs = function.parameter(0), n = function.parameter(1);
  Value rows = builder.reshape(builder.arange(8), {8, 1}), columns = builder.reshape(builder.arange(16), {1, 16});
  Value row_mask = builder.binary(Opcode::lt, rows, n), column_mask = builder.binary(Opcode::lt, columns, n);

  std::string type(Value value) { return to_string(builder.type(value)); }
  std::string finish() {
    builder.return_values();
    verify(function, "after inlining");
    return print(function);
  }
  int count(Opcode opcode) {
    int result = 0;
    for (std::uint32_t i = 0; i < function.operation_count(); ++i) result += function.operation(OperationId{i}).opcode == opcode;
    return result;
  }
  const Operation& only(Opcode opcode) {
    for (std::uint32_t i = 0; i < function.operation_count(); ++i) {
      if (function.operation(OperationId{i}).opcode == opcode) return function.operation(OperationId{i});
    }
    FAIL("no ", std::string(name(opcode)));
    return function.operation(OperationId{0});
  }
};

const char* document_mask = R"(file 1 "mask.cpp"
func @document(%0 "q": i32, %1 "kv": i32, %2 "docs": view<1xi32>) num_warps(4) {
  %3 = gather %2, %0 : i32 loc(1:4)
  %4 = gather %2, %1 : i32 loc(1:4)
  %5 = eq %3, %4 : i1 loc(1:4)
  %6 = ge %0, %1 : i1 loc(1:5)
  %7 = bit_and %5, %6 : i1 loc(1:5)
  return %7
})";

}  // namespace

TEST_CASE("what depends on rows alone stays a column of rows") {
  Kernel k;
  k.builder.set_location("kernel.cpp", 1);
  std::vector<Value> results = k.builder.inline_call(parse(document_mask), {k.rows, k.columns, k.docs}, {k.row_mask, k.column_mask});
  CHECK(k.type(results.at(0)) == "tile<8x16xi1>");
  std::vector<std::string> gathered;
  for (std::uint32_t i = 0; i < k.function.operation_count(); ++i) {
    const Operation& operation = k.function.operation(OperationId{i});
    if (operation.opcode != Opcode::gather) continue;
    gathered.push_back(k.type(operation.results[0]));
    CHECK(operation.attributes.integer(AttributeName::has_mask) == 1);
    CHECK(operation.operands.back() == (gathered.size() == 1 ? k.row_mask : k.column_mask));
    CHECK(k.function.files.at(operation.location.file) == "mask.cpp");
    CHECK(operation.location.line == 4);
  }
  CHECK(gathered == std::vector<std::string>{"tile<8x1xi32>", "tile<1x16xi32>"});
  CHECK(k.function.files.at(k.builder.location.file) == "kernel.cpp");
  k.finish();
}

TEST_CASE("on scalars a fragment is copied") {
  Kernel k;
  CHECK(k.type(k.builder.inline_call(parse(document_mask), {k.n, k.n, k.docs}).at(0)) == "i1");
  CHECK_FALSE(k.only(Opcode::gather).attributes.has(AttributeName::has_mask));
  k.finish();
}

TEST_CASE("one mask of the full shape is reduced for a gather that depends on rows alone") {
  Kernel k;
  Value full = k.builder.binary(Opcode::bit_and, k.row_mask, k.column_mask);
  k.builder.inline_call(parse(document_mask), {k.rows, k.columns, k.docs}, full);
  CHECK(k.count(Opcode::reduce) == 2);
  const Operation& gather = k.only(Opcode::gather);
  CHECK(k.type(gather.operands.back()) == "tile<8x1xi1>");
  k.finish();
}

TEST_CASE("a gather that depends on both takes the conjunction of both masks, and of its own") {
  Kernel k;
  Function fragment = parse(R"(func @f(%0: i32, %1: i32, %2: view<1xi32>) num_warps(4) {
  %3 = sub %0, %1 : i32
  %4 = ge %3, %1 : i1
  %5 = gather %2, %3, %4 {has_mask = 1} : i32
  return %5
})");
  Value result = k.builder.inline_call(fragment, {k.rows, k.columns, k.docs}, {k.row_mask, k.column_mask}).at(0);
  CHECK(k.type(result) == "tile<8x16xi32>");
  CHECK(k.count(Opcode::bit_and) == 2);
  k.finish();
}

TEST_CASE("a scalar that a loop carries widens to what the body makes of it") {
  Kernel k;
  Function fragment = parse(R"(func @fold(%0 "q": i32, %1 "kv": i32, %2 "docs": view<1xi32>, %3 "n": i32) num_warps(4) {
  %4 = constant {value = 0} : i32
  %5 = constant {value = 1} : i32
  %6, %7, %8 = for %4, %3, %5, %4, %4, %5 : i32, i32, i32 {
  ^(%9: i32, %10: i32, %11: i32, %12: i32):
    %13 = add %10, %11 : i32
    %14 = gather %2, %9 : i32
    %15 = add %11, %0 : i32
    %16 = mul %12, %14 : i32
    yield %13, %15, %16
  }
  %17 = add %6, %1 : i32
  return %6, %7, %8, %17
})");
  std::vector<Value> results = k.builder.inline_call(fragment, {k.rows, k.columns, k.docs, k.n}, {k.row_mask, k.column_mask});
  CHECK(k.type(results.at(0)) == "tile<8x1xi32>");  // through a chain of two carried values
  CHECK(k.type(results.at(1)) == "tile<8x1xi32>");
  CHECK(k.type(results.at(2)) == "i32");
  CHECK(k.type(results.at(3)) == "tile<8x16xi32>");
  CHECK(k.only(Opcode::gather).attributes.has(AttributeName::has_mask) == false);
  k.finish();
}

TEST_CASE("a loop whose bound differs between elements runs to the largest, and each element stops at its own") {
  Kernel k;
  Function fragment = parse(R"(func @fold(%0 "q": i32, %1 "docs": view<1xi32>) num_warps(4) {
  %2 = constant {value = 0} : i32
  %3 = constant {value = 1} : i32
  %4 = for %2, %0, %3, %2 : i32 {
  ^(%5: i32, %6: i32):
    %7 = gather %1, %5 : i32
    %8 = add %6, %7 : i32
    yield %8
  }
  %9 = for %0, %0, %3, %2 : i32 {
  ^(%10: i32, %11: i32):
    %12 = gather %1, %10 : i32
    yield %12
  }
  return %4, %9
})");
  std::vector<Value> results = k.builder.inline_call(fragment, {k.rows, k.docs});
  CHECK(k.type(results.at(0)) == "tile<8x1xi32>");
  CHECK(k.type(results.at(1)) == "tile<8x1xi32>");
  std::string text = k.finish();
  CHECK(contains(text, "kind = \"max\""));
  // The index of the first loop is one number: its gather reads one element, if any element of the tile is still in the loop.
  const Operation& gather = k.only(Opcode::gather);
  CHECK(k.type(gather.results[0]) == "i32");
  CHECK(k.type(gather.operands.back()) == "i1");
  CHECK(k.count(Opcode::select) == 2);
}

TEST_CASE("a choice per element selects, a choice by one condition branches") {
  Function fragment = parse(R"(func @f(%0: i1, %1: i32, %2: view<1xi32>) num_warps(4) {
  %3 = if %0 : i32 {
    %4 = gather %2, %1 : i32
    yield %4
  } {
    %5 = constant {value = 7} : i32
    yield %5
  }
  return %3
})");
  Kernel k;
  Value result = k.builder.inline_call(fragment, {k.row_mask, k.columns, k.docs}).at(0);
  CHECK(k.type(result) == "tile<8x16xi32>");
  CHECK(k.count(Opcode::if_) == 0);
  CHECK(k.type(k.only(Opcode::gather).operands.back()) == "tile<1x16xi1>");
  k.finish();

  Kernel scalar;
  Value flag = scalar.builder.binary(Opcode::lt, scalar.n, scalar.n);
  result = scalar.builder.inline_call(fragment, {flag, scalar.columns, scalar.docs}).at(0);
  CHECK(scalar.type(result) == "tile<1x16xi32>");
  CHECK(scalar.count(Opcode::if_) == 1);
  scalar.finish();
}

TEST_CASE("a while loop whose condition stays one number is lifted") {
  Kernel k;
  Function fragment = parse(R"(func @f(%0: i32, %1: i32) num_warps(4) {
  %2, %3 = while %0, %0 : i32, i32 {
  ^(%4: i32, %5: i32):
    %6 = lt %4, %0 : i1
    condition %6, %4, %5
  } {
  ^(%7: i32, %8: i32):
    %9 = add %8, %1 : i32
    yield %7, %9
  }
  return %2, %3
})");
  std::vector<Value> results = k.builder.inline_call(fragment, {k.n, k.rows});
  CHECK(k.type(results.at(0)) == "i32");
  CHECK(k.type(results.at(1)) == "tile<8x1xi32>");
  CHECK(contains(sentence([&] {
                   k.builder.inline_call(fragment, {k.rows, k.n});
                 }),
                 "[while] in fragment \"f\" cannot be inlined: its condition became a tile of shape 8x1"));
}

TEST_CASE("a masked load by pointer is lifted and fills with 0") {
  Kernel k;
  Function fragment = parse(R"(func @f(%0: i32, %1: view<1xi32>) num_warps(4) {
  %2 = view_base %1 : ptr<i32>
  %3 = offset %2, %0 : ptr<i32>
  %4 = load %3 : i32
  return %4
})");
  CHECK(k.type(k.builder.inline_call(fragment, {k.rows, k.docs}, k.row_mask).at(0)) == "tile<8x1xi32>");
  CHECK(k.only(Opcode::load).operands.size() == 3);
  k.finish();
}

TEST_CASE("wrong calls") {
  Kernel k;
  Function fragment = parse(document_mask);
  auto wrong = [&](auto call) { return sentence([&] { call(k.builder); }); };
  CHECK(contains(wrong([&](Builder& b) { b.inline_call(fragment, {k.rows}); }), "[inline] fragment \"document\" takes 3 arguments, got 1"));
  CHECK(contains(wrong([&](Builder& b) {
                   b.inline_call(fragment, {k.rows, b.cast(k.columns, ElementType::f32), k.docs});
                 }),
                 "argument 1 (kv) is tile<1x16xf32>: must be i32 or a tile of it"));
  CHECK(contains(wrong([&](Builder& b) {
                   b.inline_call(fragment, {k.rows, k.columns, k.rows});
                 }),
                 "argument 2 (docs) is tile<8x1xi32>: must be view<1xi32>"));
  CHECK(contains(wrong([&](Builder& b) {
                   b.inline_call(fragment, {k.rows, Value{}, k.docs});
                 }),
                 "argument 1 (kv) is no value of this kernel"));
  CHECK(contains(wrong([&](Builder& b) {
                   b.inline_call(fragment, {k.rows, k.columns, k.docs}, k.rows);
                 }),
                 "has a mask that is tile<8x1xi32>: must be i1"));
  CHECK(contains(wrong([&](Builder& b) {
                   b.inline_call(fragment, {b.arange(8), b.arange(9), k.docs});
                 }),
                 "mask.cpp:4\n  [eq] in fragment \"document\" cannot be inlined: shapes 8 and 9 must be equal"));
  CHECK(contains(
      wrong([&](Builder& b) {
        b.inline_call(parse("func @f(%0: ptr<i32>, %1: i32) num_warps(4) {\n store %0, %1\n return\n}"), {b.view_base(k.docs), k.n});
      }),
      "[store] in fragment \"f\" cannot be inlined: a fragment computes values"));
  CHECK(contains(
      wrong([&](Builder& b) { b.inline_call(parse("func @f() num_warps(4) {\n %1 = arange {start = 0} : tile<4xi32>\n return\n}"), {}); }),
      "[arange] in fragment \"f\" cannot be inlined: its result is tile<4xi32>; a fragment is written on scalars"));
  CHECK(contains(wrong([&](Builder& b) { b.inline_call(k.function, {k.docs, k.n}); }), "cannot be inlined into itself"));
  CHECK(contains(wrong([&](Builder& b) { b.inline_call(Function("f", {}), {}); }), "is broken: the body is empty"));
}
