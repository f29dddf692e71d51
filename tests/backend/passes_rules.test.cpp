// What each machine-independent pass does, on the smallest program that shows it.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <flextile/ir/builder.hpp>
#include <flextile/ir/error.hpp>

#include "../../backend/src/nvptx/nvptx.hpp"
#include "../../backend/src/passes/canonicalise.hpp"
#include "../../backend/src/passes/common_subexpressions.hpp"
#include "../../backend/src/passes/contract.hpp"
#include "../../backend/src/passes/dead_code.hpp"
#include "../../backend/src/passes/loop_invariant.hpp"
#include "../../backend/src/passes/simplify_control.hpp"
#include "../../backend/src/passes/sink.hpp"
#include "support/interpreter.hpp"

using namespace flextile;
using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {

/// A kernel with one output view per element type used, which keeps what is stored alive.
struct Kernel {
  ir::Function function{"k",
                        {{.name = "f", .type = Type::scalar(ElementType::f32)},
                         {.name = "i", .type = Type::scalar(ElementType::i32)},
                         {.name = "x", .type = Type::view(ElementType::f32, 2), .read_only = true},
                         {.name = "out", .type = Type::view(ElementType::f32, 2)},
                         {.name = "ints", .type = Type::view(ElementType::i32, 2)}}};
  ir::Builder builder{function};
  Value f = function.parameter(0), i = function.parameter(1), x = function.parameter(2);

  Value number(double value) { return builder.constant(ElementType::f32, value); }
  Value integer(std::int64_t value) { return builder.constant(ElementType::i32, value); }
  Value zero() { return integer(0); }
  void keep(Value value) {
    const bool real = is_float(builder.type(value).element);
    const Value cast = builder.cast(value, real ? ElementType::f32 : ElementType::i32);
    builder.view_store(function.parameter(real ? 3 : 4), cast, {zero(), zero()});
  }
  /// The IR without its first line, after `pass` and without dead code.
  std::string after(ir::Function (*pass)(const ir::Function&, const Target&), const Target& target = Target::host()) {
    builder.return_values();
    const ir::Function changed = backend::dead_code(pass(function, target), target);
    ir::verify(changed, "test");
    const std::string text = ir::print(changed);
    return text.substr(text.find('\n') + 1);
  }
};

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}
bool contains(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

/// What `x op y` is after canonicalise: the name of the operation that is stored, or "argument".
std::string stored(Kernel& kernel, Value value) {
  kernel.keep(value);
  const ir::Function changed = backend::canonicalise([&] {
    kernel.builder.return_values();
    return kernel.function;
  }(), Target::host());
  for (std::uint32_t id = 0; id < changed.operation_count(); ++id) {
    const ir::Operation& operation = changed.operation(ir::OperationId{id});
    if (operation.opcode != Opcode::view_store) continue;
    const ir::Operation* defining = changed.defining(operation.operands[1]);
    return defining ? std::string(ir::name(defining->opcode)) : "argument";
  }
  return "no store";
}

std::string stored_real(Opcode opcode, double constant) {
  Kernel kernel;
  return stored(kernel, kernel.builder.binary(opcode, kernel.f, kernel.number(constant)));
}
std::string stored_integer(Opcode opcode, std::int64_t constant) {
  Kernel kernel;
  return stored(kernel, kernel.builder.binary(opcode, kernel.i, kernel.integer(constant)));
}

}  // namespace

TEST_CASE("canonicalise: identities of floats hold for -0 and NaN, others are left alone") {
  CHECK(stored_real(Opcode::add, -0.0) == "argument");
  CHECK(stored_real(Opcode::add, 0.0) == "add");             // -0 + 0 is 0
  CHECK(stored_real(Opcode::sub, 0.0) == "argument");
  CHECK(stored_real(Opcode::sub, -0.0) == "sub");
  CHECK(stored_real(Opcode::mul, 1.0) == "argument");
  CHECK(stored_real(Opcode::mul, 0.0) == "mul");             // NaN * 0 is NaN
  CHECK(stored_real(Opcode::div, 1.0) == "argument");
  CHECK(stored_real(Opcode::div, 8.0) == "mul");             // 1 / 8 is exact
  CHECK(stored_real(Opcode::div, 10.0) == "div");
  CHECK(stored_real(Opcode::div, 0.0) == "div");
  Kernel kernel;
  CHECK(stored(kernel, kernel.builder.cast(kernel.builder.binary(Opcode::eq, kernel.f, kernel.f), ElementType::f32)) == "cast");
}

TEST_CASE("canonicalise: identities of integers") {
  CHECK(stored_integer(Opcode::add, 0) == "argument");
  CHECK(stored_integer(Opcode::mul, 1) == "argument");
  CHECK(stored_integer(Opcode::mul, 0) == "constant");
  CHECK(stored_integer(Opcode::div, 1) == "argument");
  CHECK(stored_integer(Opcode::div, 0) == "div");            // undefined stays where the user put it
  CHECK(stored_integer(Opcode::rem, 1) == "constant");
  CHECK(stored_integer(Opcode::bit_and, -1) == "argument");
  CHECK(stored_integer(Opcode::bit_and, 0) == "constant");
  CHECK(stored_integer(Opcode::bit_xor, -1) == "bit_not");
  CHECK(stored_integer(Opcode::shl, 0) == "argument");
  CHECK(stored_integer(Opcode::sub, 5) == "add");
}

TEST_CASE("canonicalise: constants fold with the IR's arithmetic") {
  Kernel kernel;
  auto& builder = kernel.builder;
  kernel.keep(builder.binary(Opcode::add, kernel.integer(0x7fffffff), kernel.integer(1)));                    // wraps
  kernel.keep(builder.binary(Opcode::div, kernel.integer(-7), kernel.integer(2)));                            // toward zero
  kernel.keep(builder.binary(Opcode::rem, kernel.integer(-7), kernel.integer(2)));                            // sign of the dividend
  kernel.keep(builder.cast(builder.binary(Opcode::sub, builder.constant(ElementType::u8, std::int64_t{3}), builder.constant(ElementType::u8, std::int64_t{5})), ElementType::i32));
  kernel.keep(builder.unary(Opcode::round, kernel.number(2.5)));
  kernel.keep(builder.cast(builder.cast(kernel.number(1.0 / 3), ElementType::bf16), ElementType::f32));
  const std::string text = kernel.after(backend::canonicalise);
  CHECK(contains(text, "value = -2147483648}"));
  CHECK(contains(text, "value = -3}"));
  CHECK(contains(text, "value = -1}"));
  CHECK(contains(text, "value = 254}"));
  CHECK(contains(text, "value = 2.0}"));
  CHECK(contains(text, "value = 0.333984375}"));
  CHECK(!contains(text, "cast"));
}

TEST_CASE("canonicalise: work on broadcast tiles is done before the broadcast") {
  Kernel kernel;
  auto& builder = kernel.builder;
  const Value rows = builder.expand_dims(builder.arange(64), 1);
  const Value wide = builder.broadcast(builder.binary(Opcode::mul, rows, kernel.i), {64, 32});
  kernel.keep(builder.binary(Opcode::add, wide, builder.broadcast(kernel.i, {64, 32})));
  const std::string text = kernel.after(backend::canonicalise);
  CHECK(contains(text, ": tile<64x1xi32>\n"));
  CHECK(count(text, "tile<64x32xi32>") == 1);                // the broadcast that is stored
}

TEST_CASE("canonicalise: a tile of positions within one block has the block's number, and its place there") {
  struct Positions {
    std::int64_t factor, start;      // the tile begins at i * factor + start
    int count;
    Opcode opcode;
    std::int64_t size;
    bool alike;                      // the tile lies within one block
  };
  const Positions cases[] = {{128, 0, 128, Opcode::div, 1024, true},    {128, 0, 128, Opcode::rem, 1024, true},  {128, 0, 128, Opcode::div, 128, true},
                             {64, 0, 128, Opcode::div, 1024, false},    {128, 64, 128, Opcode::rem, 1024, false}, {128, 64, 64, Opcode::div, 192, true},
                             {192, 0, 64, Opcode::rem, 64, true},       {192, 0, 128, Opcode::div, 192, false},  {128, 0, 128, Opcode::div, 96, false},
                             {1, 0, 2, Opcode::rem, 2, false},          {16, 48, 16, Opcode::rem, 80, true}};
  for (const Positions& c : cases) {
    Kernel kernel;
    auto& builder = kernel.builder;
    const Value first = builder.binary(Opcode::add, builder.binary(Opcode::mul, kernel.i, kernel.integer(c.factor)), kernel.integer(c.start));
    const Value places = builder.binary(Opcode::add, first, builder.arange(c.count));
    kernel.function.operation(kernel.function.definition(places).operation).attributes.set(ir::AttributeName::position, std::int64_t{1});
    kernel.keep(builder.broadcast(builder.binary(c.opcode, builder.expand_dims(places, 0), kernel.integer(c.size)), {1, c.count}));
    builder.return_values();
    const ir::Function changed = backend::canonicalise(kernel.function, Target::host());
    const std::string text = ir::print(changed), word = std::string(ir::name(c.opcode)) + " ";
    CAPTURE(text);
    CHECK(count(text, word) == 1);
    CHECK(contains(text.substr(text.find(word)).substr(0, text.substr(text.find(word)).find('\n')), ": i32") == c.alike);
    for (std::int32_t i : {0, 1, 2, 3, 7, 8, 9, 1000}) {
      std::vector<std::int32_t> numbers[2];
      for (int k : {0, 1}) {
        auto& out = numbers[k];
        out.assign(static_cast<std::size_t>(c.count), -1);
        float f = 0;
        void *none = nullptr, *base = out.data();
        std::int32_t one = 1, columns = c.count;
        std::int64_t row = c.count, unit = 1;
        std::int32_t start = i;
        void* arguments[] = {&f, &start, &none, &one, &one, &unit, &unit, &none, &one, &one, &unit, &unit, &base, &one, &columns, &row, &unit};
        test::interpret(k == 0 ? kernel.function : changed, arguments, HostProgram{{0, 0, 0}, {1, 1, 1}});
      }
      CHECK(numbers[0] == numbers[1]);
      CHECK(numbers[0].front() == (c.opcode == Opcode::div ? (i * c.factor + c.start) / c.size : (i * c.factor + c.start) % c.size));
    }
  }
}

TEST_CASE("canonicalise: of conditions that must all hold, those on positions stand together") {
  for (const bool left_first : {false, true}) {
    Kernel kernel;
    auto& builder = kernel.builder;
    const Value places = builder.expand_dims(builder.arange(64), 0), read = builder.view_load(kernel.x, {kernel.zero(), kernel.zero()}, {1, 64});
    auto below = [&](int number) { return builder.binary(Opcode::lt, places, kernel.integer(number)); };
    auto is = [&](double number) { return builder.binary(Opcode::eq, read, kernel.number(number)); };
    auto both = [&](Value a, Value b) { return left_first ? builder.binary(Opcode::bit_and, a, b) : builder.binary(Opcode::bit_and, b, a); };
    kernel.keep(both(both(both(below(1), is(1)), both(is(2), below(2))), both(is(3), both(below(3), is(4)))));
    builder.return_values();
    const ir::Function changed = backend::canonicalise(kernel.function, Target::host());
    const auto needs = [&](auto&& again, Value value, Opcode opcode) -> int {
      const ir::Operation* operation = changed.defining(value);
      if (!operation) return 0;
      int found = operation->opcode == opcode;
      for (Value operand : operation->operands) found += again(again, operand, opcode);
      return found;
    };
    int stores = 0;
    for (std::uint32_t id = 0; id < changed.operation_count(); ++id) {
      if (changed.operation({id}).opcode != Opcode::view_store) continue;
      ++stores;
      const ir::Operation& all = *changed.defining(changed.defining(changed.operation({id}).operands[1])->operands[0]);
      REQUIRE(all.opcode == Opcode::bit_and);
      CHECK(needs(needs, all.operands[0], Opcode::lt) == 3);
      CHECK(needs(needs, all.operands[0], Opcode::eq) == 0);
      CHECK(needs(needs, all.operands[1], Opcode::lt) == 0);
      CHECK(needs(needs, all.operands[1], Opcode::eq) == 4);
    }
    CHECK(stores == 1);
  }
}

TEST_CASE("canonicalise: numbers that are no positions are divided one by one") {
  Kernel kernel;   // below 0, division goes up to 0: -1024 / 1024 is -1, -1023 / 1024 is 0
  auto& builder = kernel.builder;
  const Value numbers = builder.binary(Opcode::add, builder.binary(Opcode::mul, kernel.i, kernel.integer(128)), builder.arange(128));
  kernel.keep(builder.expand_dims(builder.binary(Opcode::div, numbers, kernel.integer(1024)), 0));
  const std::string text = kernel.after(backend::canonicalise);
  CHECK(contains(text.substr(text.find("div ")), ": tile<128xi32>"));
}

TEST_CASE("canonicalise: chains of shape operations and conversions") {
  Kernel kernel;
  auto& builder = kernel.builder;
  const Value tile = builder.view_load(kernel.x, {kernel.zero(), kernel.zero()}, {8, 4});
  kernel.keep(builder.transpose(builder.transpose(tile)));
  kernel.keep(builder.reshape(builder.reshape(tile, {32}), {8, 4}));
  kernel.keep(builder.cast(builder.cast(tile, ElementType::f64), ElementType::f32));
  kernel.keep(builder.reshape(builder.reduce("max", builder.reshape(tile, {8, 1, 4}), 1), {8, 4}));
  const std::string text = kernel.after(backend::canonicalise);
  for (const char* gone : {"transpose", "reshape", "cast", "reduce"}) CHECK_FALSE(contains(text, gone));

  Kernel lossy;
  lossy.keep(lossy.builder.cast(lossy.builder.cast(lossy.f, ElementType::bf16), ElementType::f32));
  CHECK(count(lossy.after(backend::canonicalise), "cast") == 2);
  Kernel truth;                                              // "not zero" asks about all 64 bits
  truth.keep(truth.builder.cast(truth.builder.cast(truth.builder.cast(truth.builder.view_stride(truth.x, 0), ElementType::i32), ElementType::i1), ElementType::i32));
  CHECK(count(truth.after(backend::canonicalise), "cast") == 3);
}

TEST_CASE("canonicalise: not (a < b) is a >= b for integers only") {
  Kernel integers;
  integers.keep(integers.builder.unary(Opcode::bit_not, integers.builder.binary(Opcode::lt, integers.i, integers.integer(3))));
  CHECK(contains(integers.after(backend::canonicalise), "ge %1"));
  Kernel reals;
  reals.keep(reals.builder.unary(Opcode::bit_not, reals.builder.binary(Opcode::lt, reals.f, reals.number(3))));
  CHECK(contains(reals.after(backend::canonicalise), "bit_not"));
}

TEST_CASE("canonicalise: constant masks") {
  ir::Function function("k", {{.name = "p", .type = Type::pointer(ElementType::f32)}});
  ir::Builder builder(function);
  const Value pointer = function.parameter(0);
  const Value yes = builder.constant(ElementType::i1, std::int64_t{1}), no = builder.constant(ElementType::i1, std::int64_t{0});
  const Value loaded = builder.load(pointer, no, builder.constant(ElementType::f32, 7.0));
  builder.store(pointer, loaded, yes);
  builder.store(pointer, loaded, no);
  builder.return_values();
  const std::string text = ir::print(backend::dead_code(backend::canonicalise(function, Target::host()), Target::host()));
  CHECK_FALSE(contains(text, "load"));
  CHECK(count(text, "store") == 1);
  CHECK(contains(text, "store %0, %1\n"));
}

TEST_CASE("common_subexpressions: one copy where it is visible, loads while nothing is written") {
  Kernel kernel;
  auto& builder = kernel.builder;
  auto load = [&] { return builder.view_load(kernel.function.parameter(3), {kernel.i, kernel.i}, {4, 4}); };
  kernel.keep(builder.binary(Opcode::add, load(), load()));
  kernel.keep(load());                                       // after a store: read again
  const ir::OperationId branch = builder.if_else(builder.binary(Opcode::lt, kernel.i, kernel.integer(3)), {Type::scalar(ElementType::f32)});
  for (const ir::BlockId block : kernel.function.operation(branch).blocks) {
    builder.set_insertion_block(block);
    builder.yield({builder.unary(Opcode::exp, kernel.f)});
  }
  builder.set_insertion_block(kernel.function.body());
  kernel.keep(builder.results(branch)[0]);
  const std::string text = kernel.after(backend::common_subexpressions);
  CHECK(count(text, "view_load") == 2);
  CHECK(count(text, "exp") == 2);                            // a branch does not see the other one's values
}

TEST_CASE("common_subexpressions: 0 and -0 stay apart") {
  Kernel kernel;
  kernel.keep(kernel.builder.binary(Opcode::div, kernel.f, kernel.number(0.0)));
  kernel.keep(kernel.builder.binary(Opcode::div, kernel.f, kernel.number(-0.0)));
  CHECK(count(kernel.after(backend::common_subexpressions), "div") == 2);
}

TEST_CASE("loop_invariant: moves work, not registers, and no read over a write") {
  auto kernel_with = [](bool writes, const Target& target) {
    Kernel kernel;
    auto& builder = kernel.builder;
    const Value start = builder.splat(Type::tile(ElementType::f32, {64, 64}), 0.0);
    const ir::OperationId loop = builder.for_loop(kernel.zero(), kernel.i, kernel.integer(1), {start});
    const ir::BlockId block = kernel.function.operation(loop).blocks[0];
    builder.set_insertion_block(block);
    const Value loaded = builder.view_load(kernel.function.parameter(3), {kernel.i, kernel.i}, {64, 64});
    const Value scalar = builder.unary(Opcode::exp, kernel.f);
    const Value large = builder.unary(Opcode::sqrt, builder.broadcast(builder.expand_dims(builder.arange(64), 0), {64, 64}));
    const Value quotient = builder.binary(Opcode::div, kernel.i, kernel.i);
    Value sum = builder.binary(Opcode::add, kernel.function.block(block).arguments[1], builder.binary(Opcode::mul, loaded, scalar));
    sum = builder.binary(Opcode::add, builder.binary(Opcode::add, sum, large), quotient);
    if (writes) kernel.keep(sum);
    builder.yield({sum});
    builder.set_insertion_block(kernel.function.body());
    kernel.keep(builder.results(loop)[0]);
    const std::string text = kernel.after(backend::loop_invariant, target);
    return std::pair(text.substr(0, text.find(" = for")), text.substr(text.find(" = for")));
  };
  const auto [before, inside] = kernel_with(false, Target::sm_80());
  CHECK(contains(before, "view_load"));
  CHECK(contains(before, "exp"));
  CHECK(contains(inside, "sqrt"));                           // 32 registers per thread for the whole loop
  CHECK(contains(inside, "div"));                            // i may be 0 when the loop never runs
  const auto [before_writes, inside_writes] = kernel_with(true, Target::host());
  CHECK_FALSE(contains(before_writes, "view_load"));
  CHECK(contains(before_writes, "exp"));
  CHECK(contains(before_writes, "sqrt"));                    // on the host, 16 KiB are cheap to keep
}

TEST_CASE("simplify_control: branches that are decided, loops that run never or once, values that never change") {
  Kernel kernel;
  auto& builder = kernel.builder;
  auto loop = [&](std::int64_t upper, Opcode opcode) {
    const ir::OperationId made = builder.for_loop(kernel.zero(), kernel.integer(upper), kernel.integer(4), {kernel.f, kernel.f});
    const ir::BlockId block = kernel.function.operation(made).blocks[0];
    const std::vector<Value> arguments = kernel.function.block(block).arguments;
    builder.set_insertion_block(block);
    builder.yield({builder.unary(opcode, arguments[1]), arguments[2]});
    builder.set_insertion_block(kernel.function.body());
    for (Value result : builder.results(made)) kernel.keep(result);
  };
  loop(0, Opcode::exp);
  loop(4, Opcode::log);
  loop(8, Opcode::sin);
  const std::string text = kernel.after(backend::simplify_control);
  CHECK_FALSE(contains(text, "exp"));
  CHECK(contains(text, "log"));
  CHECK(count(text, " = for") == 1);
  CHECK(contains(text, "yield"));
  CHECK(count(text, "view_store %3, %0") == 4);              // both results of the first, the second of the others
}

TEST_CASE("dead_code: drops carried values that only feed themselves, keeps effects") {
  Kernel kernel;
  auto& builder = kernel.builder;
  const ir::OperationId made = builder.for_loop(kernel.zero(), kernel.i, kernel.integer(1), {kernel.f, kernel.f, kernel.i});
  const ir::BlockId block = kernel.function.operation(made).blocks[0];
  const std::vector<Value> arguments = kernel.function.block(block).arguments;
  builder.set_insertion_block(block);
  kernel.keep(arguments[2]);
  builder.yield({builder.unary(Opcode::exp, arguments[1]), builder.unary(Opcode::sin, arguments[2]), arguments[0]});
  builder.set_insertion_block(kernel.function.body());
  const std::string text = kernel.after(backend::dead_code);
  CHECK_FALSE(contains(text, "exp"));
  CHECK(contains(text, "sin"));
  CHECK(contains(text, "view_store"));
  CHECK(contains(text, "^(%"));
  CHECK(count(text, "f32):") == 1);                          // index and one carried value
}

TEST_CASE("contract: within one expression, for f32 and f64") {
  auto text_of = [](int product_line, int sum_line, bool used_twice, ElementType element) {
    Kernel kernel;
    auto& builder = kernel.builder;
    const Value a = builder.cast(kernel.f, element);
    builder.set_location("k.cpp", static_cast<std::uint32_t>(product_line));
    const Value product = builder.binary(Opcode::mul, a, a);
    builder.set_location("k.cpp", static_cast<std::uint32_t>(sum_line));
    const Value sum = builder.binary(Opcode::sub, a, product);
    kernel.keep(sum);
    if (used_twice) kernel.keep(product);
    return kernel.after(backend::contract);
  };
  CHECK(contains(text_of(3, 3, false, ElementType::f32), "fma"));
  CHECK(contains(text_of(3, 3, false, ElementType::f64), "fma"));
  CHECK_FALSE(contains(text_of(3, 3, false, ElementType::bf16), "fma"));
  CHECK_FALSE(contains(text_of(3, 4, false, ElementType::f32), "fma"));
  CHECK_FALSE(contains(text_of(3, 3, true, ElementType::f32), "fma"));
}

TEST_CASE("sink: what branches alone use goes into them, not into loops, and not past another use") {
  auto branch = [](Kernel& kernel, auto&& inside) {
    const ir::OperationId id = kernel.builder.if_else(kernel.builder.binary(Opcode::lt, kernel.i, kernel.integer(3)), {});
    const ir::BlockId outer = kernel.builder.insertion_block();
    for (int side = 0; side < 2; ++side) {
      kernel.builder.set_insertion_block(kernel.function.operation(id).blocks[static_cast<std::size_t>(side)]);
      inside(side == 0);
      kernel.builder.yield({});
    }
    kernel.builder.set_insertion_block(outer);
  };
  const auto first_if = [](const std::string& text) { return text.find(" if "); };
  {   // a chain, used in two branches: a copy in each, none in front of them
    Kernel kernel;
    const Value sum = kernel.builder.binary(Opcode::add, kernel.i, kernel.integer(7)), product = kernel.builder.binary(Opcode::mul, sum, sum);
    for (int twice = 0; twice < 2; ++twice) branch(kernel, [&](bool then) { if (then) kernel.keep(product); });
    const std::string text = kernel.after(backend::sink);
    CHECK(count(text, "= mul ") == 2);
    CHECK(count(text, "= add ") == 2);
    CHECK(text.find("= add ") > first_if(text));
  }
  {   // both sides need it
    Kernel kernel;
    const Value sum = kernel.builder.binary(Opcode::add, kernel.i, kernel.integer(7));
    branch(kernel, [&](bool) { kernel.keep(sum); });
    const std::string text = kernel.after(backend::sink);
    CHECK(count(text, "= add ") == 1);
    CHECK(text.find("= add ") < first_if(text));
  }
  {   // also needed behind the branch
    Kernel kernel;
    const Value sum = kernel.builder.binary(Opcode::add, kernel.i, kernel.integer(7));
    branch(kernel, [&](bool then) { if (then) kernel.keep(sum); });
    kernel.keep(sum);
    const std::string text = kernel.after(backend::sink);
    CHECK(count(text, "= add ") == 1);
    CHECK(text.find("= add ") < first_if(text));
  }
  {   // a loop in the branch: in front of the loop, once
    Kernel kernel;
    const Value sum = kernel.builder.binary(Opcode::add, kernel.i, kernel.integer(7));
    branch(kernel, [&](bool then) {
      if (!then) return;
      const ir::BlockId inside = kernel.builder.insertion_block();
      const ir::OperationId loop = kernel.builder.for_loop(kernel.zero(), kernel.i, kernel.integer(1), {});
      kernel.builder.set_insertion_block(kernel.function.operation(loop).blocks[0]);
      kernel.keep(sum);
      kernel.builder.yield({});
      kernel.builder.set_insertion_block(inside);
    });
    const std::string text = kernel.after(backend::sink);
    CHECK(count(text, "= add ") == 1);
    CHECK(text.find("= add ") < first_if(text));
  }
}

TEST_CASE("tile_gathers: rows and columns that count up by one are a tile, others are not") {
  const auto text_of = [](auto&& indices) {
    Kernel kernel;
    ir::Builder& b = kernel.builder;
    const Value rows = b.broadcast(b.expand_dims(b.binary(Opcode::add, b.arange(16), kernel.i), 1), {16, 32}), columns = b.broadcast(b.expand_dims(b.arange(32, 8), 0), {16, 32});
    const std::pair<Value, Value> at = indices(b, rows, columns);
    kernel.keep(b.gather(kernel.x, {at.first, at.second}));
    return kernel.after(backend::tile_gathers, Target::sm_90a());
  };
  const std::string tile = text_of([](ir::Builder&, Value rows, Value columns) { return std::pair(rows, columns); });
  CHECK(contains(tile, "view_load"));
  CHECK_FALSE(contains(tile, "gather"));
  CHECK(contains(tile, "constant {value = 8}"));                        // where the columns start
  const std::string before = text_of([](ir::Builder& b, Value rows, Value columns) { return std::pair(b.binary(Opcode::sub, rows, b.constant(ElementType::i32, std::int64_t{5})), columns); });
  CHECK(contains(before, "view_load"));                                 // 5 rows earlier
  CHECK(contains(before, "constant {value = -5}"));
  const std::string distance = text_of([](ir::Builder& b, Value rows, Value columns) { return std::pair(rows, b.binary(Opcode::sub, columns, rows)); });
  CHECK(contains(distance, "gather"));
  const std::string turned = text_of([](ir::Builder&, Value rows, Value columns) { return std::pair(columns, rows); });
  CHECK(contains(turned, "gather"));
  const std::string strided = text_of([](ir::Builder& b, Value rows, Value columns) { return std::pair(rows, b.binary(Opcode::add, columns, columns)); });
  CHECK(contains(strided, "gather"));
  const std::string one_row = text_of([](ir::Builder& b, Value, Value columns) { return std::pair(b.splat(Type::tile(ElementType::i32, {16, 32}), std::int64_t{3}), columns); });
  CHECK(contains(one_row, "gather"));
}
