// Small kernels for the runtime's tests, built with ir::Builder: KernelLike objects without the front end.
#pragma once
#include <atomic>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include <flextile/ir/builder.hpp>
#include <flextile/runtime/runtime.hpp>

namespace flextile::test {

/// out[i] = x[i] + y[i] * factor for i < n, 128 elements a program.
struct AddScaled {
  std::vector<ir::Parameter> parameters = {{"x", ir::Type::pointer(ElementType::f32), true}, {"y", ir::Type::pointer(ElementType::f32), true},
                                           {"out", ir::Type::pointer(ElementType::f32)}, {"n", ir::Type::scalar(ElementType::i32)},
                                           {"factor", ir::Type::scalar(ElementType::f32)}};
  std::string kernel_name = "add_scaled";
  std::uint64_t id = new_kernel_identity();
  mutable std::atomic<int> traces{0};

  const std::string& name() const { return kernel_name; }
  const std::vector<ir::Parameter>& signature() const { return parameters; }
  std::uint64_t identity() const { return id; }
  ir::Function trace(const std::vector<ir::Parameter>& facts) const {
    ++traces;
    ir::Function function(kernel_name, facts);
    ir::Builder b(function);
    const ir::Value first = b.binary(ir::Opcode::mul, b.program_id(0), b.constant(ElementType::i32, std::int64_t{128}));
    const ir::Value index = b.binary(ir::Opcode::add, first, b.arange(128));
    const ir::Value inside = b.binary(ir::Opcode::lt, index, function.parameter(3));
    const ir::Value x = b.load(b.offset(function.parameter(0), index), inside), y = b.load(b.offset(function.parameter(1), index), inside);
    const ir::Value sum = b.binary(ir::Opcode::add, x, b.binary(ir::Opcode::mul, y, function.parameter(4)));
    b.store(b.offset(function.parameter(2), index), sum, inside);
    b.return_values();
    return function;
  }
};

/// to(m, n) = from(m, n) + program ids, by views of any strides; a 4x16 tile a program.
struct CopyView {
  std::vector<ir::Parameter> parameters = {{"from", ir::Type::view(ElementType::i32, 2), true}, {"to", ir::Type::view(ElementType::i32, 2)}};
  std::uint64_t id = new_kernel_identity();

  std::string_view name() const { return "copy_view"; }
  const std::vector<ir::Parameter>& signature() const { return parameters; }
  std::uint64_t identity() const { return id; }
  ir::Function trace(const std::vector<ir::Parameter>& facts) const {
    ir::Function function("copy_view", facts);
    ir::Builder b(function);
    const auto start = [&](int axis, std::int64_t size) {
      return b.binary(ir::Opcode::mul, b.program_id(axis), b.constant(ElementType::i32, size));
    };
    const std::vector<ir::Value> offsets = {start(0, 4), start(1, 16)};
    b.view_store(function.parameter(1), b.view_load(function.parameter(0), offsets, {4, 16}), offsets);
    b.return_values();
    return function;
  }
};

/// The devices that run kernels: the fake driver of the tests does not.
inline bool runs_kernels(const Device& device) { return device.is_host() || device.properties().name.substr(0, 8) != "Fake GPU"; }

inline std::vector<Device> devices_that_run() {
  std::vector<Device> devices;
  for (const Device& device : Device::all())
    if (runs_kernels(device)) devices.push_back(device);
  return devices;
}

/// Released memory is kept for the next tensor: not so where FLEXTILE_MEMORY_CACHE=0 turns that off.
inline bool keeps_memory() {
  const char* setting = std::getenv("FLEXTILE_MEMORY_CACHE");
  return !setting || std::string(setting) != "0";
}

/// The message of what `action` throws as E; "" if nothing.
template <class E, class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

#define CHECK_SENTENCE(E, part, ...)                                                     \
  do {                                                                                   \
    const std::string sentence = flextile::test::message_of<E>([&] { __VA_ARGS__; });    \
    CHECK_MESSAGE(sentence.find(std::string(part)) != std::string::npos, "the sentence: " << sentence); \
  } while (false)

}  // namespace flextile::test
