// Memory on the host: edges, strides, masks, atomics, the bounds-checked mode, and modules in many threads.
#include <atomic>
#include <thread>

#include "host_run.hpp"

using namespace flextile;
using ir::Opcode;
using ir::Type;
using ir::Value;

namespace {

Value i32_constant(ir::Builder& b, std::int64_t value) { return b.constant(ElementType::i32, value); }

/// out[i, j] = x[i + 1, j - 2] + 1 with a tile of `rows` x `columns`; the fill is 9.
ir::Function shifted_copy(ElementType element, int rows, int columns, bool unit_stride) {
  ir::Function function("shifted", {{.name = "x", .type = Type::view(element, 2), .unit_stride = unit_stride},
                                    {.name = "out", .type = Type::view(element, 2), .unit_stride = unit_stride}});
  ir::Builder b(function);
  const Value tile = b.view_load(function.parameter(0), {i32_constant(b, 1), i32_constant(b, -2)}, {rows, columns}, 9);
  const Value one = is_float(element) ? b.constant(element, 1.0) : b.constant(element, std::int64_t{1});
  b.view_store(function.parameter(1), b.binary(Opcode::add, tile, one), {i32_constant(b, 0), i32_constant(b, 0)});
  b.return_values();
  return function;
}

template <class T> void check_shifted(int size, int rows, int columns, std::int64_t column_stride) {
  CAPTURE(size);
  CAPTURE(columns);
  CAPTURE(column_stride);
  const int height = 5;
  const std::vector<std::int64_t> strides{size * column_stride + 3, column_stride};
  std::vector<T> x(static_cast<std::size_t>(height * strides[0] + 1), T(1)), got(x.size(), T(0)), expected(x.size(), T(0));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = T(static_cast<float>(i % 50));
  const ir::Function function = shifted_copy(element_type_of<T>, rows, columns, column_stride == 1);
  test::Arguments ours, reference;
  ours.view(x.data(), {height, size}, strides).view(got.data(), {height, size}, strides);
  reference.view(x.data(), {height, size}, strides).view(expected.data(), {height, size}, strides);
  test::run_host(function, ours);
  test::run_interpreter(function, reference);
  test::check_close(got, expected, 0);
}

}  // namespace

TEST_CASE("views at their edges, with any stride and any size") {
  for (const int size : {0, 1, 3, 48, 80, 96, 127}) {
    check_shifted<float>(size, 4, 64, 1);
    check_shifted<float>(size, 7, 33, 2);
    check_shifted<bf16>(size, 4, 80, 1);
  }
  check_shifted<f16>(127, 4, 96, 1);
  check_shifted<double>(30, 3, 20, 1);
  check_shifted<std::int8_t>(100, 4, 128, 1);
  check_shifted<std::uint16_t>(40, 4, 48, 3);
  check_shifted<std::int64_t>(17, 6, 16, 1);
}

TEST_CASE("masked loads and stores touch nothing outside") {
  ir::Function function("add", {{.name = "x", .type = Type::pointer(ElementType::f32)},
                                {.name = "out", .type = Type::pointer(ElementType::f32)},
                                {.name = "n", .type = Type::scalar(ElementType::i32)}});
  ir::Builder b(function);
  const Value i = b.binary(Opcode::add, b.binary(Opcode::mul, b.program_id(0), i32_constant(b, 100)), b.arange(100));
  const Value inside = b.binary(Opcode::lt, i, function.parameter(2));
  const Value sum = b.binary(Opcode::add, b.load(b.offset(function.parameter(0), i), inside), b.constant(ElementType::f32, 1.0));
  b.store(b.offset(function.parameter(1), i), sum, inside);
  b.return_values();
  for (const int n : {0, 1, 99, 100, 101, 250, 300}) {
    CAPTURE(n);
    const std::vector<float> x = test::random_floats(static_cast<std::size_t>(n), 1);
    std::vector<float> out(310, -5), expected = out;
    for (int k = 0; k < n; ++k) expected[static_cast<std::size_t>(k)] = x[static_cast<std::size_t>(k)] + 1;
    test::Arguments arguments;
    arguments.pointer(x.data()).pointer(out.data()).scalar(n);
    test::run_host(function, arguments, 3);
    CHECK(out == expected);
  }
}

namespace {

/// out[i] = table[index[i], i mod 4], masked by index[i] != 3.
ir::Function gather_kernel() {
  ir::Function function("pick", {{.name = "table", .type = Type::view(ElementType::f32, 2)},
                                 {.name = "index", .type = Type::view(ElementType::i32, 1), .unit_stride = true},
                                 {.name = "out", .type = Type::view(ElementType::f32, 1), .unit_stride = true}});
  ir::Builder b(function);
  b.set_location("pick.cpp", 17);
  const Value index = b.view_load(function.parameter(1), {i32_constant(b, 0)}, {20});
  const Value column = b.binary(Opcode::rem, b.arange(20), i32_constant(b, 4));
  const Value mask = b.binary(Opcode::ne, index, i32_constant(b, 3));
  b.view_store(function.parameter(2), b.gather(function.parameter(0), {index, column}, mask), {i32_constant(b, 0)});
  b.return_values();
  return function;
}

}  // namespace

TEST_CASE("gather reads neither masked-off nor outside elements, the checked mode names them") {
  const std::vector<float> table = test::random_floats(12, 5);
  std::vector<std::int32_t> index{0, 1, 2, 3, 2, 1, 0, 0, 1, 2, 3, 2, 1, 0, 0, 1, 2, 1, 2, 0};
  std::vector<float> out(20, -1);
  test::Arguments arguments;
  arguments.view(table.data(), {3, 4}).view(index.data(), {20}).view(out.data(), {20});
  CompileOptions checked;
  checked.bounds_checked = true;
  for (const CompileOptions& options : {CompileOptions{}, checked}) {
    test::run_host(gather_kernel(), arguments, 1, options);
    for (std::size_t i = 0; i < 20; ++i) CHECK(out[i] == (index[i] == 3 ? 0 : table[static_cast<std::size_t>(index[i]) * 4 + i % 4]));
  }
  index[13] = -7;
  test::run_host(gather_kernel(), arguments);
  CHECK(out[13] == 0);
  std::string sentence;
  try {
    test::run_host(gather_kernel(), arguments, 1, checked);
  } catch (const ArgumentError& error) {
    sentence = error.what();
  }
  CHECK(sentence == "flextile: argument error in kernel \"pick\", pick.cpp:17\n"
                    "  [gather] index -7 on axis 0 is outside tensor \"table\", whose size there is 3");
}

TEST_CASE("atomics of every type, from many threads") {
  const auto kernel = [](ElementType element, const char* kind) {
    ir::Function function("count", {{.name = "sum", .type = Type::pointer(element)}});
    ir::Builder b(function);
    const Value cells = b.offset(b.broadcast(function.parameter(0), {8}), b.binary(Opcode::rem, b.arange(8), i32_constant(b, 2)));
    const Value amount = is_float(element) ? b.splat(Type::tile(element, {8}), 1.0) : b.splat(Type::tile(element, {8}), std::int64_t{1});
    b.atomic(kind, cells, amount, b.binary(Opcode::lt, b.arange(8), i32_constant(b, 6)));
    b.return_values();
    return function;
  };
  const auto check = [&]<class T>(T) {
    CAPTURE(std::string(name(element_type_of<T>)));
    const HostModule module(compile(kernel(element_type_of<T>, "add"), Target::host()));
    alignas(16) T sum[2] = {T(0), T(0)};
    test::Arguments arguments;
    arguments.pointer(&sum[0]);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const HostProgram program{{0, 0, 0}, {1, 1, 1}};
        for (int i = 0; i < 10; ++i) module.entry()(arguments.data(), &program);
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(test::as_double(sum[0]) == 120);
    CHECK(test::as_double(sum[1]) == 120);
  };
  check(std::int32_t{}), check(std::uint64_t{}), check(0.0f), check(0.0), check(bf16{}), check(f16{});
}

TEST_CASE("modules load from bytes alone, in many threads, and unload") {
  const CompiledKernel compiled = compile(shifted_copy(ElementType::f32, 4, 64, true), Target::host());
  CompiledKernel from_disk;
  from_disk.kernel_name = compiled.kernel_name, from_disk.target = compiled.target, from_disk.binary = compiled.binary;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        HostModule first(from_disk);
        HostModule module(std::move(first));
        std::vector<float> x(5 * 64, 2), out(5 * 64, 0);
        test::Arguments arguments;
        arguments.view(x.data(), {5, 64}).view(out.data(), {5, 64});
        const HostProgram program{{0, 0, 0}, {1, 1, 1}};
        module.entry()(arguments.data(), &program);
        right += out[0] == 10 && out[2] == 3;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 20);
}

TEST_CASE("a module says what it cannot load") {
  CompiledKernel empty;
  empty.kernel_name = "nothing";
  CHECK_THROWS_AS(HostModule{empty}, InternalError);
  empty.binary = "no object file";
  CHECK_THROWS_AS(HostModule{empty}, InternalError);
  empty.target = Target::sm_80();
  CHECK_THROWS_AS(HostModule{empty}, InternalError);
}

TEST_CASE("debug information names the source line") {
  CompileOptions options;
  const CompiledKernel with = compile(gather_kernel(), Target::host(), options);
  CHECK(with.llvm_ir().find("DIFile(filename: \"pick.cpp\"") != std::string::npos);
  CHECK(with.llvm_ir().find("line: 17") != std::string::npos);
  options.line_info = false;
  CHECK(compile(gather_kernel(), Target::host(), options).llvm_ir().find("DIFile") == std::string::npos);
}

TEST_CASE("user-defined reductions along any axis") {
  for (const int axis : {0, 1}) {
    const int rows = 13, columns = 21;
    const int kept = axis == 0 ? columns : rows;
    ir::Function function("argmax", {{.name = "x", .type = Type::view(ElementType::f32, 2)},
                                     {.name = "largest", .type = Type::view(ElementType::f32, 1)},
                                     {.name = "where", .type = Type::view(ElementType::i32, 1)}});
    ir::Builder b(function);
    const Value zero = i32_constant(b, 0);
    const Value x = b.view_load(function.parameter(0), {zero, zero}, {rows, columns});
    const Value index = b.broadcast(b.expand_dims(b.arange(axis == 0 ? rows : columns), 1 - axis), {rows, columns});
    const ir::OperationId reduce = b.reduce_custom({x, index}, axis);
    const ir::BlockId outer = b.insertion_block();
    b.set_insertion_block(function.operation(reduce).blocks[0]);
    const Value left = b.argument(reduce, 0, 0), left_at = b.argument(reduce, 0, 1), right = b.argument(reduce, 0, 2), right_at = b.argument(reduce, 0, 3);
    const Value first = b.binary(Opcode::ge, left, right);
    b.yield({b.select(first, left, right), b.select(first, left_at, right_at)});
    b.set_insertion_block(outer);
    b.view_store(function.parameter(1), b.results(reduce)[0], {zero});
    b.view_store(function.parameter(2), b.results(reduce)[1], {zero});
    b.return_values();
    const std::vector<float> input = test::random_floats(static_cast<std::size_t>(rows * columns), 9);
    std::vector<float> largest(static_cast<std::size_t>(kept));
    std::vector<std::int32_t> where(largest.size());
    test::Arguments arguments;
    arguments.view(input.data(), {rows, columns}).view(largest.data(), {kept}).view(where.data(), {kept});
    test::run_host(function, arguments);
    for (int i = 0; i < kept; ++i) {
      int best = 0;
      const auto value = [&](int j) { return input[static_cast<std::size_t>(axis == 0 ? j * columns + i : i * columns + j)]; };
      for (int j = 1; j < (axis == 0 ? rows : columns); ++j) {
        if (value(j) > value(best)) best = j;
      }
      CAPTURE(axis);
      CAPTURE(i);
      CHECK(largest[static_cast<std::size_t>(i)] == value(best));
      CHECK(where[static_cast<std::size_t>(i)] == best);
    }
  }
}
