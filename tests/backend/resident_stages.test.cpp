// Kernels whose programs stay on the device compute the same after every pass: with one worker for each program, which takes no
// other, and with one worker that takes all of them, so that rings go on from program to program.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <flextile/backend/compile.hpp>

#include "support/interpreter.hpp"
#include "support/reference_kernels.hpp"

using namespace flextile;
using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {

/// Flattened arguments, as HostEntry takes them.
class Arguments {
 public:
  template <class T> void add_view(std::vector<T>& data, const std::vector<std::int64_t>& sizes) {
    add_pointer(data);
    for (std::int64_t size : sizes) values_.push_back(static_cast<std::uint64_t>(size));
    std::vector<std::int64_t> strides(sizes.size(), 1);
    for (std::size_t axis = sizes.size() - 1; axis-- > 0;) strides[axis] = strides[axis + 1] * sizes[axis + 1];
    for (std::int64_t stride : strides) values_.push_back(static_cast<std::uint64_t>(stride));
  }
  template <class T> void add_pointer(std::vector<T>& data) { values_.push_back(reinterpret_cast<std::uint64_t>(data.data())); }
  void add(float number) { values_.push_back(std::bit_cast<std::uint32_t>(number)); }
  void add(std::int32_t number) { values_.push_back(static_cast<std::uint32_t>(number)); }
  std::vector<void*> pointers() {
    std::vector<void*> result;
    for (std::uint64_t& value : values_) result.push_back(&value);
    return result;
  }

 private:
  std::vector<std::uint64_t> values_;
};

std::vector<bf16> small_numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<bf16> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(bf16(static_cast<float>(static_cast<int>(random() % 5) - 2)));
  return result;
}

/// What a run writes.
struct Outputs {
  std::vector<float>& numbers;
  std::vector<bf16>* tile = nullptr;
  void clear() const {
    std::fill(numbers.begin(), numbers.end(), -77.0f);
    if (tile) std::fill(tile->begin(), tile->end(), bf16(-77.0f));
  }
  std::vector<float> all() const {
    std::vector<float> result = numbers;
    for (std::size_t i = 0; tile && i < tile->size(); ++i) result.push_back(static_cast<float>((*tile)[i]));
    return result;
  }
};

/// Numbers may differ by `tolerance`. `says`: words of the explanation.
void check_stages(const ir::Function& traced, Arguments& arguments, const Outputs& outputs, const std::array<std::int32_t, 3>& grid, float tolerance, const char* says = "") {
  const CompiledKernel compiled = compile(traced, Target::sm_90a(), {.line_info = false, .keep_stages = true, .binary = false});
  REQUIRE(compiled.resident);
  CHECK(compiled.explain().find(says) != std::string::npos);
  const std::vector<void*> pointers = arguments.pointers();
  auto run = [&](const ir::Function& function, bool alone) {
    outputs.clear();
    test::interpret_grid(function, pointers.data(), grid, alone);
    return outputs.all();
  };
  const std::vector<float> expected = run(traced, false);
  std::string before;
  int resident = 0;
  for (const Stage& stage : compiled.stages) {
    if (stage.text == before) continue;
    before = stage.text;
    const ir::Function function = ir::parse(stage.text);
    const bool stays = stage.text.find("roles") != std::string::npos;
    if (!stays) continue;      // stages_agree.test.cpp runs those
    ++resident;
    for (const bool alone : {false, true}) {
      INFO("after " << stage.pass << (alone ? ", one worker for all programs" : ", a worker for each program"));
      const std::vector<float> actual = run(function, alone);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < actual.size(); ++i) wrong += !(actual[i] == expected[i] || std::fabs(actual[i] - expected[i]) <= tolerance);   // a row that sees nothing has -inf
      CHECK(wrong == 0);
    }
  }
  CHECK(resident >= 4);
}

/// c = a b, 64 x `n` for each program of a grid of two axes; in f32, or, by the copy engine, in bf16.
ir::Function product(int n, bool half) {
  ir::Function function("product", {test::matrix("a", ElementType::bf16, true), test::matrix("b", ElementType::bf16, true), test::matrix("c", half ? ElementType::bf16 : ElementType::f32, false)});
  function.num_warps = 4;
  ir::Builder builder(function);
  auto number = [&](std::int64_t value) { return builder.constant(ElementType::i32, value); };
  const Value row = builder.binary(Opcode::mul, builder.program_id(0), number(64)), column = builder.binary(Opcode::mul, builder.program_id(1), number(n));
  const ir::OperationId loop = builder.for_loop(number(0), builder.view_size(function.parameter(0), 1), number(64), {builder.splat(Type::tile(ElementType::f32, {64, n}), 0.0)},
                                                {{ir::AttributeName::stages, std::int64_t{2}}});
  builder.set_insertion_block(function.operation(loop).blocks[0]);
  const Value at = builder.argument(loop, 0, 0);
  const Value a = builder.view_load(function.parameter(0), {row, at}, {64, 64}), b = builder.view_load(function.parameter(1), {at, column}, {64, n});
  builder.yield({builder.dot(a, b, builder.argument(loop, 0, 1))});
  builder.set_insertion_block(function.body());
  const Value sum = builder.results(loop)[0];
  builder.view_store(function.parameter(2), half ? builder.cast(sum, ElementType::bf16) : sum, {row, column});
  builder.return_values();
  return function;
}

/// What the branch between the two products of a loop is decided by, and what the sum becomes before the second one.
struct Choice {
  enum class By { index, entry, entry_of_entry } by;
  enum class Update { add, by_the_same, by_entry } update;
  bool listed;       // the tiles too
  bool writes = false;   // each program writes the entries that it reads, and other ones when it is done
  bool own_list = false; // each program has entries of its own
};
constexpr std::int32_t all_entries[] = {5, 2, 8, 7, 0, 11};

/// As attention: s = q k^T, changed on one side of a branch, and out += s v. Entries are in memory.
ir::Function two_products(const Choice& choice) {
  constexpr int m = 64, n = 64;
  ir::Function function("two_products", {test::matrix("q", ElementType::bf16, true), test::matrix("k", ElementType::bf16, true), test::matrix("v", ElementType::bf16, true),
                                         test::matrix("out", ElementType::f32, false), {.name = "entries", .type = Type::pointer(ElementType::i32), .read_only = !choice.writes},
                                         {.name = "steps", .type = Type::scalar(ElementType::i32)}});
  function.num_warps = 4;
  ir::Builder b(function);
  auto number = [&](std::int64_t value) { return b.constant(ElementType::i32, value); };
  const Value zero = number(0), row = b.binary(Opcode::mul, b.program_id(0), number(m));
  const Value entries = choice.writes || choice.own_list ? b.offset(function.parameter(4), b.binary(Opcode::mul, b.program_id(0), number(std::size(all_entries)))) : function.parameter(4);
  auto write = [&](std::int32_t change) {
    for (std::size_t i = 0; choice.writes && i < std::size(all_entries); ++i) b.store(b.offset(entries, number(static_cast<std::int64_t>(i))), number(all_entries[i] ^ change));
  };
  write(0);
  const Value q = b.view_load(function.parameter(0), {row, zero}, {m, n});
  const ir::OperationId loop = b.for_loop(zero, function.parameter(5), number(1), {b.splat(Type::tile(ElementType::f32, {m, n}), 0.0)}, {{ir::AttributeName::stages, std::int64_t{2}}});
  b.set_insertion_block(function.operation(loop).blocks[0]);
  const Value i = b.argument(loop, 0, 0);
  auto entry_at = [&](Value at) { return b.load(b.offset(entries, at)); };
  const Value entry = entry_at(i);
  const Value at = b.binary(Opcode::mul, choice.listed ? b.binary(Opcode::shr, entry, number(1)) : i, number(n));
  const Value k = b.view_load(function.parameter(1), {at, zero}, {n, n}), v = b.view_load(function.parameter(2), {at, zero}, {n, n});
  const Value s = b.dot(q, b.transpose(k), b.splat(Type::tile(ElementType::f32, {m, n}), 0.0));
  const Value decides = choice.by == Choice::By::index ? i : choice.by == Choice::By::entry ? entry : entry_at(b.binary(Opcode::shr, entry, number(1)));
  const Value odd = b.binary(Opcode::ne, b.binary(Opcode::bit_and, decides, number(1)), zero);
  const ir::OperationId branch = b.if_else(odd, {b.type(s)});
  const ir::BlockId here = b.insertion_block();
  b.set_insertion_block(function.operation(branch).blocks[0]);
  b.yield({b.select(b.binary(Opcode::ge, b.expand_dims(b.arange(m), 1), b.expand_dims(b.binary(Opcode::add, at, b.arange(n)), 0)), s, b.constant(ElementType::f32, -2.0))});
  b.set_insertion_block(function.operation(branch).blocks[1]);
  b.yield({s});
  b.set_insertion_block(here);
  const Value small = b.cast(b.binary(Opcode::max, b.binary(Opcode::min, b.results(branch)[0], b.constant(ElementType::f32, 3.0)), b.constant(ElementType::f32, -3.0)), ElementType::bf16);
  const Value sum = b.argument(loop, 0, 1);
  auto sign = [&](Value condition) { return b.select(condition, sum, b.unary(Opcode::neg, sum)); };
  const Value before = choice.update == Choice::Update::add ? b.binary(Opcode::add, sum, b.constant(ElementType::f32, 0.5)) : sign(choice.update == Choice::Update::by_the_same ? odd : b.binary(Opcode::gt, entry, number(3)));
  b.yield({b.dot(small, v, before)});
  b.set_insertion_block(function.body());
  b.view_store(function.parameter(3), b.results(loop)[0], {row, zero});
  write(1);
  b.return_values();
  return function;
}

void check_two_products(const Choice& choice, std::int32_t steps) {
  constexpr std::int64_t rows = 128, columns = 64, tiles = 6;
  std::vector<bf16> q = small_numbers(rows * columns, 1), k = small_numbers(tiles * 64 * columns, 2), v = small_numbers(tiles * 64 * columns, 3);
  std::vector<float> out(rows * columns);
  std::vector<std::int32_t> entries(std::begin(all_entries), std::end(all_entries));
  entries.insert(entries.end(), std::begin(all_entries), std::end(all_entries));
  for (std::int32_t& entry : entries) entry ^= choice.writes ? 1 : 0;
  Arguments arguments;
  arguments.add_view(q, {rows, columns});
  arguments.add_view(k, {tiles * 64, columns});
  arguments.add_view(v, {tiles * 64, columns});
  arguments.add_view(out, {rows, columns});
  arguments.add_pointer(entries);
  arguments.add(steps);
  check_stages(two_products(choice), arguments, {out}, {2, 1, 1}, 0);
}

void check_product(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  std::vector<bf16> a = small_numbers(static_cast<std::size_t>(rows * depth), 1), b = small_numbers(static_cast<std::size_t>(depth * columns), 2);
  std::vector<float> c(static_cast<std::size_t>(rows * columns));
  Arguments arguments;
  arguments.add_view(a, {rows, depth});
  arguments.add_view(b, {depth, columns});
  arguments.add_view(c, {rows, columns});
  check_stages(product(64, false), arguments, {c}, {static_cast<std::int32_t>((rows + 63) / 64), static_cast<std::int32_t>((columns + 63) / 64), 1}, 0);
}

/// Tiles of 64 x `n` that the copy engine stores.
void check_stored_product(int n, std::int64_t rows, std::int64_t columns, std::int64_t depth, const char* says) {
  std::vector<bf16> a = small_numbers(static_cast<std::size_t>(rows * depth), 1), b = small_numbers(static_cast<std::size_t>(depth * columns), 2), c(static_cast<std::size_t>(rows * columns));
  std::vector<float> none;
  Arguments arguments;
  arguments.add_view(a, {rows, depth});
  arguments.add_view(b, {depth, columns});
  arguments.add_view(c, {rows, columns});
  check_stages(product(n, true), arguments, {none, &c}, {static_cast<std::int32_t>((rows + 63) / 64), static_cast<std::int32_t>((columns + n - 1) / n), 1}, 0, says);
}

/// `tiles`: how many tiles of keys each row of query tiles sees; empty: all of them, without a list. `parts`: in so many steps each.
/// `documents`: the mask reads them, and every other tile is partly hidden. `biased`: by distance.
void check_attention(const std::vector<int>& tiles, std::int64_t q_len, std::int64_t kv_len, int stages, int parts = 1, bool documents = false, bool biased = false) {
  constexpr std::int64_t dim = 64, block = 64;
  const ir::Mod mask = named_mask(documents ? "document" : "causal");
  const AttentionCompileOptions options{.dim = dim, .element = ElementType::bf16, .q_block = block, .kv_block = block, .return_lse = true, .block_m = block, .block_n = static_cast<int>(block) / parts, .num_warps = 4, .stages = stages};
  std::vector<bf16> biases = small_numbers(2 * 400, 6);
  const ir::Mod score = test::bias_by_distance(zeros<bf16>(Device::host(), {2, 400}));
  const ir::Function traced = trace_attention(biased ? &score : nullptr, tiles.empty() ? nullptr : &mask, options, Target::sm_90a());
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < std::max(q_len, kv_len); ++i) ids.push_back(static_cast<std::int32_t>(i / 50));
  std::vector<bf16> q = small_numbers(static_cast<std::size_t>(q_len * dim), 3), k = small_numbers(static_cast<std::size_t>(kv_len * dim), 4), v = small_numbers(static_cast<std::size_t>(kv_len * dim), 5);
  std::vector<bf16> attended(static_cast<std::size_t>(q_len * dim));
  std::vector<float> lse(static_cast<std::size_t>(q_len));
  std::vector<std::int64_t> order;
  std::vector<std::int32_t> entries;
  for (std::size_t row = 0; row < tiles.size(); ++row) {
    order.insert(order.end(), {static_cast<std::int64_t>(row), tiles[row], static_cast<std::int64_t>(entries.size())});
    for (int i = 0; i < tiles[row]; ++i) entries.push_back(2 * i + (documents ? i % 2 == 0 : i + 1 == tiles[row] && i == static_cast<int>(row)));   // the diagonal is partly hidden
  }
  Arguments arguments;
  arguments.add_view(q, {1, 1, q_len, dim});
  arguments.add_view(k, {1, 1, kv_len, dim});
  arguments.add_view(v, {1, 1, kv_len, dim});
  arguments.add_view(attended, {1, 1, q_len, dim});
  arguments.add_view(lse, {1, 1, q_len});
  if (!tiles.empty()) {
    arguments.add_view(order, {1, 1, static_cast<std::int64_t>(tiles.size()), 3});
    arguments.add_pointer(entries);
  }
  arguments.add(0.125f);
  arguments.add(std::int32_t{1});   // heads at once
  arguments.add(static_cast<std::int32_t>(tiles.size() / 4));   // blocks that come last
  if (biased) arguments.add_view(biases, {2, 400});
  if (documents) arguments.add_view(ids, {static_cast<std::int64_t>(ids.size())});
  check_stages(traced, arguments, {lse, &attended}, {static_cast<std::int32_t>((q_len + block - 1) / block), 1, 1}, 0.02f, "[store] by the copy engine, through the stage of a ring");
}

}  // namespace

TEST_CASE("every stage of a product computes the same: a grid of two axes, in bands") {
  check_product(600, 128, 64);      // 10 x 2 programs: a band of 8 and one of 2
  check_product(200, 192, 190);     // turns of three steps, the last one partly outside
  check_product(130, 64, 0);        // no steps at all
}

TEST_CASE("every stage of a product that the copy engine stores computes the same: pieces through one buffer, and through two in turn") {
  check_stored_product(64, 200, 136, 128, "through 1 buffer of");     // the last tiles lie partly outside
  check_stored_product(192, 130, 392, 64, "through 2 buffers of");    // three pieces: the next tile begins with the buffer that the last one ends with
  check_stored_product(128, 130, 128, 0, "through 2 buffers of");     // no steps at all
}

TEST_CASE("every stage of two products computes the same, whatever decides the branch between them and what the sum becomes") {
  for (const Choice::By by : {Choice::By::index, Choice::By::entry, Choice::By::entry_of_entry}) {
    for (const Choice::Update update : {Choice::Update::add, Choice::Update::by_the_same, Choice::Update::by_entry}) {
      for (const bool listed : {false, true}) {
        for (const std::int32_t steps : {0, 1, 2, 3, 5}) {
          INFO("decided by " << static_cast<int>(by) << ", update " << static_cast<int>(update) << ", listed " << listed << ", " << steps << " steps");
          check_two_products({by, update, listed}, steps);
        }
      }
    }
  }
}

TEST_CASE("nothing is read ahead that a program writes first: every stage of two products computes the same") {
  for (const Choice::By by : {Choice::By::entry, Choice::By::entry_of_entry}) {
    for (const std::int32_t steps : {0, 1, 2, 5}) {
      INFO("decided by " << static_cast<int>(by) << ", " << steps << " steps");
      check_two_products({by, Choice::Update::add, false, true}, steps);
    }
  }
  // A list of tiles that the program writes is no producer's to read.
  const CompiledKernel kernel = compile(two_products({Choice::By::entry, Choice::Update::add, true, true}), Target::sm_90a(), {.line_info = false, .binary = false});
  CHECK_FALSE(kernel.resident);
  CHECK(kernel.explain().find("memory that nobody writes") != std::string::npos);
}

TEST_CASE("every stage of two products computes the same: lists at pointers that depend on the program") {
  for (const std::int32_t steps : {0, 1, 2, 5}) {
    CAPTURE(steps);
    check_two_products({Choice::By::entry, Choice::Update::add, true, false, true}, steps);
  }
}

TEST_CASE("every stage of attention computes the same: all tiles") {
  check_attention({}, 130, 300, 2);
  check_attention({}, 100, 60, 3);
}

TEST_CASE("every stage of attention computes the same: rows that list no tile, one, two, three and five") {
  check_attention({0, 1, 2, 3, 5, 0}, 380, 300, 2);
  check_attention({5, 0, 0, 1}, 256, 320, 3);
  check_attention({0, 0}, 100, 64, 2);
}

TEST_CASE("every stage of attention computes the same: a mask that reads documents, before the products, and tiles in one part and in two") {
  for (const int parts : {1, 2}) {
    CAPTURE(parts);
    check_attention({2, 0, 1, 5, 3, 4}, 380, 300, 2, parts, true);
    check_attention({1, 0}, 100, 64, 3, parts, true);
  }
}

TEST_CASE("every stage of attention computes the same: a bias by distance, of which windows are fetched") {
  check_attention({}, 130, 150, 2, 1, false, true);
  check_attention({2, 0, 1, 3}, 190, 180, 3, 1, false, true);
  check_attention({1, 2, 3}, 190, 180, 2, 2, true, true);
}

TEST_CASE("what a program writes first no producer fetches, a query read behind its loop too stays out of the rings") {
  auto number = [](ir::Builder& b, std::int64_t x) { return b.constant(ElementType::i32, x); };
  for (const bool written : {false, true}) {
    ir::Function function("k", {test::matrix("b", ElementType::bf16, true), test::matrix("w", ElementType::bf16, !written), test::matrix("c", ElementType::f32, false)});
    function.num_warps = 4;
    ir::Builder b(function);
    const Value zero = number(b, 0);
    if (written) b.view_store(function.parameter(1), b.splat(Type::tile(ElementType::bf16, {64, 192}), 1.0), {zero, zero});
    const Value q = b.view_load(function.parameter(1), {zero, zero}, {64, 64});
    const ir::OperationId loop = b.for_loop(zero, number(b, 192), number(b, 64), {b.splat(Type::tile(ElementType::f32, {64, 64}), 0.0)}, {{ir::AttributeName::stages, std::int64_t{2}}});
    b.set_insertion_block(function.operation(loop).blocks[0]);
    const Value at = b.argument(loop, 0, 0);
    const Value left = written ? b.view_load(function.parameter(1), {zero, at}, {64, 64}) : q;
    b.yield({b.dot(left, b.view_load(function.parameter(0), {at, zero}, {64, 64}), b.argument(loop, 0, 1))});
    b.set_insertion_block(function.body());
    const Value behind = b.dot(q, b.view_load(function.parameter(0), {zero, zero}, {64, 64}), b.results(loop)[0]);
    b.view_store(function.parameter(2), behind, {zero, zero});
    b.return_values();
    const CompiledKernel kernel = compile(function, Target::sm_90a(), {.line_info = false, .binary = false});
    if (written) CHECK(kernel.explain().find("the kernel may write what the loop reads") != std::string::npos);
    CHECK_FALSE((written && kernel.resident));
  }
}
