#include "argument_checks.hpp"

#include <flextile/ir/error.hpp>

namespace flextile::attention {

std::string describe_device(std::int32_t device) { return device < 0 ? "the host" : "CUDA device " + text(device); }

std::string describe(const ir::TensorHandle& tensor) {
  std::string sizes;
  for (int axis = 0; axis < tensor.rank; ++axis) sizes += (axis ? "x" : "") + text(tensor.sizes[axis]);
  const std::string element(name(tensor.element));
  const char* article = element[0] == 'f' || element[0] == 'i' ? "an " : "a ";   // an f32, an i32, a bf16, a u8
  return article + element + (tensor.rank ? " tensor of " + sizes : std::string(" scalar")) + " on " + describe_device(tensor.device);
}

void refuse(const std::string& caller, const std::string& sentence) { throw ArgumentError("flextile: [" + caller + "] " + sentence); }

}  // namespace flextile::attention
