#include "argument_check.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace flextile::runtime {
namespace {

std::string number_text(const Argument& argument) {
  std::string text;
  if (argument.kind == Argument::Kind::real)
    text = std::to_string(argument.real);
  else if (argument.element == ElementType::u64)
    text = std::to_string(static_cast<std::uint64_t>(argument.integer));
  else
    text = std::to_string(argument.integer);
  return text + " (" + std::string(name(argument.element)) + ")";
}

std::string argument_text(const Argument& argument) {
  if (argument.kind == Argument::Kind::none) return "missing";
  if (argument.kind != Argument::Kind::tensor) return number_text(argument);
  return argument.tensor ? to_string(TensorRef(*argument.tensor)) : "null";
}

std::string parameter_text(const ir::Parameter& parameter) {
  const std::string element(name(parameter.type.element));
  if (parameter.type.is_view()) {
    const int rank = parameter.type.rank;
    return "a tensor of " + std::to_string(rank) + (rank == 1 ? " axis of " : " axes of ") + element;
  }
  if (parameter.type.is_pointer()) return "a tensor of " + element;
  return "a number, " + element;
}

/// Cold: builds the sentence.
[[noreturn]] void refuse(std::string_view kernel, std::size_t index, const ir::Parameter& parameter, const Argument& argument,
                         const std::string& reason) {
  throw ArgumentError("flextile: launch of kernel \"" + std::string(kernel) + "\": argument " + std::to_string(index) + " (" + parameter.name + ") is " +
                      argument_text(argument) + " and must be " + parameter_text(parameter) + ": " + reason);
}

bool is_aligned_address(const void* address) { return (reinterpret_cast<std::uintptr_t>(address) & 15) == 0; }

/// Whether the copy engine can step by so many elements, and by whole 16 bytes. Repetition by stride 0 is nothing that it promises.
bool is_aligned_stride(std::int64_t stride, std::int64_t bytes) {
  constexpr std::int64_t limit = std::int64_t{1} << 40;
  return stride > 0 && stride < limit && stride * bytes < limit && (stride * bytes & 15) == 0;   // no division: each launch asks
}

struct Packer {
  std::string_view kernel;
  int device;
  PackedArguments& packed;

  template <class T>
  void push(T value) {
    std::memcpy(&packed.values[packed.count], &value, sizeof value);
    packed.pointers[packed.count] = &packed.values[packed.count];
    ++packed.count;
  }

  void tensor(std::size_t index, const ir::Parameter& parameter, const Argument& argument) {
    if (argument.kind != Argument::Kind::tensor) refuse(kernel, index, parameter, argument, "a number is no tensor");
    const ir::TensorHandle* tensor = argument.tensor;
    if (!tensor && parameter.type.is_pointer()) {
      packed.facts |= AlignmentClass{1} << (2 * index);
      return push<void*>(nullptr);
    }
    if (!tensor) refuse(kernel, index, parameter, argument, "it is null");
    if (tensor->element != parameter.type.element) refuse(kernel, index, parameter, argument, "the element type differs");
    const bool is_view = parameter.type.is_view();
    if (is_view && tensor->rank != parameter.type.rank)
      refuse(kernel, index, parameter, argument, "it has " + std::to_string(tensor->rank) + (tensor->rank == 1 ? " axis" : " axes"));
    if (!tensor->data && TensorRef(*tensor).elements() > 0) refuse(kernel, index, parameter, argument, "its address is null");
    if (!tensor->data && tensor->rank == 0) refuse(kernel, index, parameter, argument, "it was default-constructed");
    if (tensor->device != device)
      refuse(kernel, index, parameter, argument, "the stream is of " + std::string(device < 0 ? "host" : "cuda:" + std::to_string(device)) +
                                                     "; move the tensor with .to(device)");
    if (tensor->read_only && !parameter.read_only) refuse(kernel, index, parameter, argument, "the kernel writes it, and it is read-only");
    push(tensor->data);
    if (is_view) view(index, parameter, argument, *tensor);
    if (is_view ? is_aligned(*tensor) : is_aligned_address(tensor->data)) packed.facts |= AlignmentClass{1} << (2 * index);
  }

  /// Sizes and strides.
  void view(std::size_t index, const ir::Parameter& parameter, const Argument& argument, const ir::TensorHandle& tensor) {
    const int rank = tensor.rank;
    for (int axis = 0; axis < rank; ++axis) {
      const std::int64_t size = tensor.sizes[static_cast<std::size_t>(axis)];
      if (size > std::numeric_limits<std::int32_t>::max())
        refuse(kernel, index, parameter, argument, "axis " + std::to_string(axis) + " has more than 2147483647 elements");
      push(static_cast<std::int32_t>(size));
    }
    for (int axis = 0; axis < rank; ++axis) push(tensor.strides[static_cast<std::size_t>(axis)]);
    if (has_unit_stride(tensor)) packed.facts |= AlignmentClass{2} << (2 * index);
  }

  void number(std::size_t index, const ir::Parameter& parameter, const Argument& argument) {
    if (argument.kind != Argument::Kind::integer && argument.kind != Argument::Kind::real)
      refuse(kernel, index, parameter, argument, "a tensor is no number");
    const ElementType element = parameter.type.element;
    if (is_float(element)) return real(element, argument);
    if (argument.kind == Argument::Kind::real) refuse(kernel, index, parameter, argument, "it would lose its fraction");
    const std::int64_t value = argument.integer;
    const bool huge = argument.element == ElementType::u64 && value < 0;   // beyond i64
    const int bits = bit_width(element);
    bool fits = true;
    if (element == ElementType::i1)
      fits = value == 0 || value == 1;
    else if (is_unsigned(element))
      fits = huge ? bits == 64 : value >= 0 && (bits == 64 || value >> bits == 0);
    else
      fits = !huge && (bits == 64 || (value >= -(std::int64_t{1} << (bits - 1)) && value < std::int64_t{1} << (bits - 1)));
    if (!fits) refuse(kernel, index, parameter, argument, "it does not fit");
    push(value);  // little-endian: the low bytes come first
  }

  void real(ElementType element, const Argument& argument) {
    double value = argument.real;
    if (argument.kind == Argument::Kind::integer)
      value = argument.element == ElementType::u64 ? static_cast<double>(static_cast<std::uint64_t>(argument.integer))
                                                   : static_cast<double>(argument.integer);
    packed.values[packed.count] = 0;
    if (element == ElementType::f64) return push(value);
    if (element == ElementType::f32) return push(static_cast<float>(value));
    if (element == ElementType::f16) return push(f16(static_cast<float>(value)).bits);
    if (element == ElementType::f8e4m3) return push(f8e4m3(static_cast<float>(value)).bits);
    if (element == ElementType::f8e5m2) return push(f8e5m2(static_cast<float>(value)).bits);
    push(bf16(static_cast<float>(value)).bits);
  }
};

}  // namespace

void pack_arguments(std::string_view kernel, int device, const std::vector<ir::Parameter>& parameters, const Argument* arguments,
                    std::size_t count, PackedArguments& packed) {
  if (count != parameters.size()) {
    std::string names;
    for (const ir::Parameter& parameter : parameters) names += (names.empty() ? "" : ", ") + parameter.name;
    throw ArgumentError("flextile: launch of kernel \"" + std::string(kernel) + "\": " + std::to_string(count) +
                        (count == 1 ? " argument is" : " arguments are") + " given and it has " + std::to_string(parameters.size()) +
                        (parameters.size() == 1 ? " parameter" : " parameters") + " (" + names + ")");
  }
  if (count > most_parameters)
    throw ArgumentError("flextile: launch of kernel \"" + std::string(kernel) + "\": it has " + std::to_string(count) + " parameters and may have at most " +
                        std::to_string(most_parameters));
  Packer packer{kernel, device, packed};
  for (std::size_t i = 0; i < count; ++i) {
    const ir::Parameter& parameter = parameters[i];
    if (parameter.type.is_view() || parameter.type.is_pointer())
      packer.tensor(i, parameter, arguments[i]);
    else
      packer.number(i, parameter, arguments[i]);
  }
}

AlignmentClass required_facts(const std::vector<ir::Parameter>& parameters) {
  AlignmentClass facts = 0;
  for (std::size_t i = 0; i < parameters.size() && i < most_parameters; ++i)
    facts |= AlignmentClass{parameters[i].aligned * 1u + parameters[i].unit_stride * 2u} << (2 * i);
  return facts;
}

std::vector<ir::Parameter> with_facts(std::vector<ir::Parameter> parameters, AlignmentClass facts) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const unsigned bits = static_cast<unsigned>(facts >> (2 * i)) & 3;
    parameters[i].aligned = bits & 1;
    parameters[i].unit_stride = bits & 2;
  }
  return parameters;
}

void require_facts(std::string_view kernel, const std::vector<ir::Parameter>& parameters, AlignmentClass required, AlignmentClass facts,
                   const Argument* arguments) {
  const AlignmentClass missing = required & ~facts;
  for (std::size_t i = 0; missing && i < parameters.size(); ++i) {
    const unsigned bits = static_cast<unsigned>(missing >> (2 * i)) & 3;
    if (bits & 2) refuse(kernel, i, parameters[i], arguments[i], "this variant of the kernel needs stride 1 along the last axis");
    if (bits & 1)
      refuse(kernel, i, parameters[i], arguments[i],
             "this variant of the kernel needs an address, strides and a last extent of multiples of 16 bytes, the strides above 0 and below 2^40 bytes");
  }
}

}  // namespace flextile::runtime

namespace flextile {

bool is_aligned(const ir::TensorHandle& tensor) {
  const std::int64_t bytes = byte_size(tensor.element);
  bool aligned = true, is_empty = false;
  for (std::uint32_t axis = 0; axis < tensor.rank; ++axis) {
    is_empty = is_empty || tensor.sizes[axis] == 0;
    if (axis + 1 < tensor.rank && tensor.sizes[axis] > 1) aligned = aligned && runtime::is_aligned_stride(tensor.strides[axis], bytes);
  }
  return runtime::is_aligned_address(tensor.data) && (aligned || is_empty) && (tensor.rank < 2 || tensor.sizes[tensor.rank - 1] * bytes % 16 == 0);
}

bool has_unit_stride(const ir::TensorHandle& tensor) {
  return tensor.rank == 0 || tensor.strides[tensor.rank - 1] == 1 || tensor.sizes[tensor.rank - 1] <= 1;
}

}  // namespace flextile
