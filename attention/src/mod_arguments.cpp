#include "mod_arguments.hpp"

#include <cstring>

namespace flextile::attention {
namespace {

template <class T> T read(std::uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

Argument argument(const ir::ScalarValue& scalar) {
  switch (scalar.element) {
    case ElementType::i1: return Argument(scalar.bits != 0);
    case ElementType::i8: return Argument(read<i8>(scalar.bits));
    case ElementType::i16: return Argument(read<i16>(scalar.bits));
    case ElementType::i32: return Argument(read<i32>(scalar.bits));
    case ElementType::i64: return Argument(read<i64>(scalar.bits));
    case ElementType::u8: return Argument(read<u8>(scalar.bits));
    case ElementType::u16: return Argument(read<u16>(scalar.bits));
    case ElementType::u32: return Argument(read<u32>(scalar.bits));
    case ElementType::u64: return Argument(read<u64>(scalar.bits));
    case ElementType::f8e4m3: return Argument(read<f8e4m3>(scalar.bits));
    case ElementType::f8e5m2: return Argument(read<f8e5m2>(scalar.bits));
    case ElementType::f16: return Argument(read<f16>(scalar.bits));
    case ElementType::bf16: return Argument(read<bf16>(scalar.bits));
    case ElementType::f32: return Argument(read<f32>(scalar.bits));
    case ElementType::f64: return Argument(read<f64>(scalar.bits));
  }
  return Argument();
}

}  // namespace

void append_parameters(std::vector<ir::Parameter>& signature, const ir::Function* fragment, std::size_t skip, const std::string& prefix) {
  if (!fragment) return;
  for (std::size_t i = skip; i < fragment->parameters.size(); ++i) {
    ir::Parameter parameter = fragment->parameters[i];
    parameter.name = prefix + "_" + std::to_string(i - skip + 1);
    parameter.read_only = !parameter.type.is_number();
    signature.push_back(parameter);
  }
}

void append_arguments(std::vector<Argument>& arguments, const ir::Mod& mod) {
  for (const ir::TensorHandle& tensor : mod.tensors) arguments.emplace_back(tensor);
  for (const ir::ScalarValue& scalar : mod.scalars) arguments.push_back(argument(scalar));
}

}  // namespace flextile::attention
