// 8-bit floats on every target: casts bit by bit, moves that keep every pattern, products in whatever instruction there is.
#include <array>
#include <bit>

#include "../support/agree.hpp"
#include "host_run.hpp"

using namespace flextile;
using ir::Builder;
using ir::Opcode;
using ir::Type;
using ir::Value;
using test::agree;

namespace {

constexpr ElementType float8_types[] = {ElementType::f8e4m3, ElementType::f8e5m2};

std::uint8_t bits_of(ElementType element, float value) { return element == ElementType::f8e4m3 ? f8e4m3(value).bits : f8e5m2(value).bits; }
float float_of(ElementType element, std::uint8_t bits) {
  f8e4m3 a;
  f8e5m2 b;
  a.bits = b.bits = bits;
  return element == ElementType::f8e4m3 ? static_cast<float>(a) : static_cast<float>(b);
}

/// Floats around every number of the format and every middle between two, and those that are none.
std::vector<float> interesting_floats(ElementType element) {
  std::vector<float> values{0.0f, -0.0f, 1e-30f, std::numeric_limits<float>::denorm_min(), 448.0f, 449.0f, 464.0f, 480.0f, 57344.0f, 61440.0f, 65536.0f, 1e30f, INFINITY, NAN};
  std::vector<float> numbers;
  for (int bits = 0; bits < 0x80; ++bits) {
    if (const float x = float_of(element, static_cast<std::uint8_t>(bits)); std::isfinite(x)) numbers.push_back(x);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const float x = numbers[i], middle = i + 1 < numbers.size() ? x + (numbers[i + 1] - x) / 2 : x;
    for (const float at : {x, middle}) values.insert(values.end(), {at, std::nextafter(at, 1e9f), std::nextafter(at, -1.0f)});
  }
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  while (values.size() % 128 != 0) values.push_back(0);
  return values;
}

struct Buffers {
  std::vector<std::uint8_t> narrow;
  std::vector<float> wide;
};

/// Runs `function` (views: narrow, wide) on a target.
void run(const ir::Function& function, const Target& target, Buffers& buffers) {
  test::Arguments arguments;
  arguments.view(buffers.narrow.data(), {static_cast<std::int32_t>(buffers.narrow.size())}).view(buffers.wide.data(), {static_cast<std::int32_t>(buffers.wide.size())});
  if (!target.is_gpu()) return test::run_host(function, arguments);
  test::run_ptx(compile(function, target, {.line_info = false, .binary = false}), arguments.data(), {{0, 0, 0}, {1, 1, 1}},
                {{buffers.narrow.data(), buffers.narrow.size()}, {buffers.wide.data(), 4 * buffers.wide.size()}});
}

template <class Body> ir::Function kernel(ElementType element, Body body) {
  ir::Function function("convert", {{.name = "narrow", .type = Type::view(element, 1), .unit_stride = true}, {.name = "wide", .type = Type::view(ElementType::f32, 1), .unit_stride = true}});
  Builder builder(function);
  body(builder, function.parameter(0), function.parameter(1), builder.constant(ElementType::i32, std::int64_t{0}));
  builder.return_values();
  return function;
}

const Target targets[] = {Target::host(), Target::sm_80(), Target::cuda(89), Target::sm_90a()};

}  // namespace

TEST_CASE("8-bit floats: f32 becomes the same bits on every target, and every pattern becomes the same f32") {
  for (const ElementType element : float8_types) {
    const std::vector<float> floats = interesting_floats(element);
    const int count = static_cast<int>(floats.size());
    for (const Target& target : targets) {
      CAPTURE(name(element));
      CAPTURE(target.name());
      Buffers to{std::vector<std::uint8_t>(floats.size()), floats};
      run(kernel(element, [&](Builder& b, Value narrow, Value wide, Value zero) { b.view_store(narrow, b.cast(b.view_load(wide, {zero}, {count}), element), {zero}); }), target, to);
      int wrong = 0;
      for (std::size_t i = 0; i < floats.size(); ++i) {
        if (to.narrow[i] == bits_of(element, floats[i]) || ++wrong > 3) continue;
        FAIL_CHECK(floats[i] << " becomes " << static_cast<int>(to.narrow[i]) << ", and must become " << static_cast<int>(bits_of(element, floats[i])));
      }
      CHECK(wrong == 0);

      Buffers from{std::vector<std::uint8_t>(256), std::vector<float>(256)};
      for (int i = 0; i < 256; ++i) from.narrow[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
      run(kernel(element, [&](Builder& b, Value narrow, Value wide, Value zero) { b.view_store(wide, b.cast(b.view_load(narrow, {zero}, {256}), ElementType::f32), {zero}); }), target, from);
      for (int i = 0; i < 256; ++i) {
        const float expected = float_of(element, static_cast<std::uint8_t>(i)), got = from.wide[static_cast<std::size_t>(i)];
        if (std::isnan(expected) ? !std::isnan(got) : std::bit_cast<std::uint32_t>(got) != std::bit_cast<std::uint32_t>(expected)) FAIL_CHECK("pattern " << i << " becomes " << got);
      }
    }
  }
}

TEST_CASE("8-bit floats: copies keep every pattern, infinities and NaN too") {
  for (const ElementType element : float8_types) {
    for (const Target& target : targets) {
      CAPTURE(name(element));
      CAPTURE(target.name());
      Buffers buffers{std::vector<std::uint8_t>(512), std::vector<float>(4)};
      for (int i = 0; i < 256; ++i) buffers.narrow[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
      run(kernel(element, [&](Builder& b, Value narrow, Value, Value zero) {
            const Value x = b.view_load(narrow, {zero}, {256});
            const Value chosen = b.select(b.binary(Opcode::lt, b.arange(256), b.constant(ElementType::i32, std::int64_t{128})), x, b.view_load(narrow, {zero}, {256}));
            b.view_store(narrow, chosen, {b.constant(ElementType::i32, std::int64_t{256})});
          }), target, buffers);
      for (int i = 0; i < 256; ++i) {
        const bool signals = element == ElementType::f8e5m2 && (i & 0x7f) == 0x7d && !target.is_gpu();   // becomes a quiet NaN in f32
        if (!signals && buffers.narrow[static_cast<std::size_t>(256 + i)] != i) FAIL_CHECK("pattern " << i << " becomes " << static_cast<int>(buffers.narrow[static_cast<std::size_t>(256 + i)]));
      }
    }
  }
}

TEST_CASE("8-bit floats: an infinity of f8e5m2 that went through a wider type comes back as the largest number") {
  for (const Target& target : targets) {
    CAPTURE(target.name());
    Buffers buffers{std::vector<std::uint8_t>(256, 0xfc), std::vector<float>(4)};
    run(kernel(ElementType::f8e5m2, [&](Builder& b, Value narrow, Value, Value zero) {
          b.view_store(narrow, b.cast(b.cast(b.view_load(narrow, {zero}, {128}), ElementType::f16), ElementType::f8e5m2), {zero});
        }), target, buffers);
    CHECK(buffers.narrow[0] == 0xfb);
    CHECK(buffers.narrow[128] == 0xfc);
  }
}

TEST_CASE("8-bit floats: casts from and to every element type") {
  for (const ElementType element : float8_types) {
    for (int other = 0; other < element_type_count; ++other) {
      const auto type = static_cast<ElementType>(other);
      for (const Target& target : {Target::sm_80(), Target::sm_90a()}) {
        CAPTURE(name(element));
        CAPTURE(name(type));
        for (const int count : {96, 33}) {               // in pairs and one by one
          agree({.inputs = {{element, {count}}}, .output = {type, {count}}, .num_warps = 1, .tolerance = 0, .target = target}, [&](Builder& b, auto& v) { test::store(b, v[1], b.cast(test::load(b, v[0], {count}), type)); });
          agree({.inputs = {{type, {count}}}, .output = {element, {count}}, .num_warps = 1, .tolerance = 0, .target = target}, [&](Builder& b, auto& v) { test::store(b, v[1], b.cast(test::load(b, v[0], {count}), element)); });
        }
      }
    }
  }
}

TEST_CASE("8-bit floats: products as f16 below sm_89, by mma.sync from there on, of any shape") {
  for (const ElementType element : float8_types) {
    for (const Target& target : {Target::sm_80(), Target::cuda(89), Target::sm_90a()}) {
      for (const auto& [m, n, k, warps] : {std::array{16, 8, 32, 1}, {48, 80, 96, 2}, {64, 112, 64, 4}, {5, 7, 3, 4}, {32, 16, 48, 4}}) {
        for (const bool turned : {false, true}) {
          CAPTURE(name(element));
          CAPTURE(target.name());
          CAPTURE(m);
          CAPTURE(turned);
          const bool eight = target.sm >= 89 && k % 32 == 0;
          const char* uses = m == 5 ? "fma.rn.f32" : !eight ? "mma.sync.aligned.m16n8k16.row.col.f32.f16" : element == ElementType::f8e4m3 ? "mma.sync.aligned.m16n8k32.row.col.f32.e4m3" : "mma.sync.aligned.m16n8k32.row.col.f32.e5m2";
          const ir::Shape right = turned ? ir::Shape{n, k} : ir::Shape{k, n};
          agree({.inputs = {{element, {m, k}}, {element, right}}, .output = {ElementType::f32, {m, n}}, .num_warps = warps, .tolerance = 1e-4, .target = target, .uses = uses}, [&](Builder& b, auto& v) {
            Value y = test::load(b, v[1], right);
            if (turned) y = b.transpose(y);
            test::store(b, v[2], b.dot(test::load(b, v[0], {m, k}), y, b.splat(Type::tile(ElementType::f32, {m, n}), 1.0)));
          });
        }
      }
    }
  }
}

TEST_CASE("8-bit floats: tiles change their shape and place, constants are rounded") {
  for (const ElementType element : float8_types) {
    for (const Target& target : {Target::sm_80(), Target::sm_90a()}) {
      agree({.inputs = {{element, {48, 80}}}, .output = {element, {80, 48}}, .tolerance = 0, .target = target}, [&](Builder& b, auto& v) { test::store(b, v[1], b.transpose(test::load(b, v[0], {48, 80}))); });
      agree({.inputs = {{element, {20, 24}}}, .output = {element, {32, 32}}, .tolerance = 0, .target = target}, [&](Builder& b, auto& v) {
        const Value zero = b.constant(ElementType::i32, std::int64_t{0});
        const Value x = b.view_load(v[0], {zero, zero}, {32, 32}, 1.3);
        const Value small = b.binary(Opcode::lt, b.cast(x, ElementType::f32), b.constant(ElementType::f32, 0.0));
        test::store(b, v[1], b.select(small, b.splat(Type::tile(element, {32, 32}), 500.0), x));
      });
    }
  }
}
