// A kernel of one program as PTX, run by the emulator in both orders and compared with the plain interpreter.
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include <doctest/doctest.h>
#include <flextile/ir/builder.hpp>

#include "interpreter.hpp"
#include "run_ptx.hpp"

namespace flextile::test {

using ir::Builder;
using ir::Shape;
using ir::Type;
using ir::Value;

/// A dense tensor as a view argument: base, sizes, strides.
struct TestTensor {
  ElementType element;
  Shape shape;
  std::vector<std::uint64_t> bytes;      // 8-byte words: aligned for everything
  void* base = nullptr;
  std::vector<std::int32_t> sizes;
  std::vector<std::int64_t> strides;

  TestTensor(ElementType type, Shape extents, unsigned seed, bool ones = false) : element(type), shape(std::move(extents)) {
    std::int64_t count = 1;
    strides.assign(shape.size(), 1);
    for (int axis = static_cast<int>(shape.size()) - 1; axis >= 0; --axis) {
      strides[axis] = count;
      count *= shape[axis];
    }
    sizes.assign(shape.begin(), shape.end());
    bytes.assign(static_cast<std::size_t>(count * byte_size(type) / 8 + 4), 0);
    base = reinterpret_cast<void*>((reinterpret_cast<std::uint64_t>(bytes.data()) + 15) / 16 * 16);
    std::mt19937 random(seed);
    for (std::int64_t i = 0; i < count; ++i) {
      const int whole = static_cast<int>(random() % 33) - 16;
      write_element(type, reinterpret_cast<std::uint64_t>(base) + static_cast<std::uint64_t>(i * byte_size(type)), {ones ? 1 : whole, ones ? 1.0 : whole / 8.0});
    }
  }
  TestTensor(const TestTensor&) = delete;
  MemoryRange range() const { return {base, bytes.size() * 8 - 16}; }
  double at(std::int64_t i) const {
    const Number n = read_element(element, reinterpret_cast<std::uint64_t>(base) + static_cast<std::uint64_t>(i * byte_size(element)));
    return is_float(element) ? n.real : static_cast<double>(n.integer);
  }
  std::int64_t count() const { return shape.empty() ? 1 : strides[0] * shape[0]; }
};

inline void add_view(std::vector<void*>& arguments, TestTensor& tensor) {
  arguments.push_back(&tensor.base);
  for (std::int32_t& size : tensor.sizes) arguments.push_back(&size);
  for (std::int64_t& stride : tensor.strides) arguments.push_back(&stride);
}

struct Case {
  std::vector<std::pair<ElementType, Shape>> inputs;
  std::pair<ElementType, Shape> output;
  int num_warps = 4;
  double tolerance = 1e-5;
  bool aligned = true;
  Target target = Target::sm_80();
  const char* uses = "";                 // what the PTX must contain
};

inline ir::Parameter view_parameter(const char* name, const std::pair<ElementType, Shape>& tensor, bool read_only, bool aligned) {
  const bool rows = (tensor.second.empty() ? 1 : tensor.second.back()) * byte_size(tensor.first) % 16 == 0 || tensor.second.size() < 2;
  return {.name = name, .type = Type::view(tensor.first, static_cast<int>(tensor.second.size())), .read_only = read_only, .aligned = aligned && rows, .unit_stride = aligned};
}

/// Builds a kernel whose body gets the builder and the views (output last), runs it both ways and compares the output.
template <class Body> void agree(const Case& c, Body body) {
  std::vector<ir::Parameter> parameters;
  constexpr const char* names[] = {"a", "b", "c", "d"};
  for (std::size_t i = 0; i < c.inputs.size(); ++i) parameters.push_back(view_parameter(names[i], c.inputs[i], true, c.aligned));
  parameters.push_back(view_parameter("out", c.output, false, c.aligned));
  ir::Function function("kernel", parameters);
  function.num_warps = c.num_warps;
  Builder builder(function);
  std::vector<Value> views;
  for (std::size_t i = 0; i < parameters.size(); ++i) views.push_back(function.parameter(i));
  body(builder, views);
  builder.return_values();

  std::vector<std::unique_ptr<TestTensor>> inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) inputs.push_back(std::make_unique<TestTensor>(c.inputs[i].first, c.inputs[i].second, static_cast<unsigned>(i + 1)));
  TestTensor got(c.output.first, c.output.second, 9), expected(c.output.first, c.output.second, 9);
  std::vector<void*> ours, reference;
  std::vector<MemoryRange> memory{got.range()};
  for (auto& input : inputs) {
    add_view(ours, *input);
    add_view(reference, *input);
    memory.push_back(input->range());
  }
  add_view(ours, got);
  add_view(reference, expected);
  const HostProgram program{{0, 0, 0}, {1, 1, 1}};
  interpret(function, reference.data(), program);
  const CompiledKernel kernel = compile(function, c.target, {.line_info = false, .binary = false});
  CHECK(kernel.ptx_text.find(c.uses) != std::string::npos);
  const std::vector<std::uint64_t> initial = got.bytes;
  for (bool last_warp_first : {false, true}) {
    std::copy(initial.begin(), initial.end(), got.bytes.begin());
    run_ptx(kernel, ours.data(), program, memory, last_warp_first);
    double worst = 0;
    for (std::int64_t i = 0; i < got.count(); ++i) {
      const double a = got.at(i), b = expected.at(i);
      if (std::isnan(a) && std::isnan(b)) continue;
      const double error = a == b ? 0 : std::fabs(a - b) / std::max(1.0, std::fabs(b));
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
    CHECK(worst <= c.tolerance);
  }
}

inline Value zero(Builder& b) { return b.constant(ElementType::i32, std::int64_t{0}); }
inline Value load(Builder& b, Value view, const Shape& shape) { return b.view_load(view, std::vector<Value>(shape.size(), zero(b)), shape); }
inline void store(Builder& b, Value view, Value value) { b.view_store(view, value, std::vector<Value>(b.type(value).rank, zero(b))); }

}  // namespace flextile::test
