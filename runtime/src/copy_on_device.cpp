// Strided copies on a GPU: one small kernel in PTX, so that tensors work before and without the compiler.
#include <atomic>
#include <mutex>
#include <string>

#include "copy.hpp"
#include "driver.hpp"

namespace flextile::runtime {
namespace {

constexpr int axes = ir::max_view_rank;
constexpr unsigned threads = 256;
constexpr std::int64_t most_elements = std::int64_t{1} << 30;  // indices in the kernel are 32-bit

/// flextile_copy_<bytes>(destination, source, count, sizes[8], destination strides[8], source strides[8]): thread i copies
/// element i of the row-major box. Axes that are not there come first with size 1. Strides are in bytes.
std::string copy_kernel(int bytes) {
  const std::string width = std::to_string(bytes * 8);
  const std::string register_width = bytes == 1 ? "16" : width;
  std::string text = ".visible .entry flextile_copy_" + std::to_string(bytes) +
                     "(.param .u64 destination, .param .u64 source, .param .u32 count, .param .align 4 .b8 sizes[32],\n"
                     "  .param .align 8 .b8 destination_strides[64], .param .align 8 .b8 source_strides[64])\n{\n"
                     "  .reg .pred %outside;\n  .reg .b32 %index, %threads, %thread, %count, %size, %quotient, %coordinate;\n"
                     "  .reg .b64 %to, %from, %stride, %wide;\n  .reg .b" + register_width + " %value;\n"
                     "  mov.u32 %index, %ctaid.x;\n  mov.u32 %threads, %ntid.x;\n  mov.u32 %thread, %tid.x;\n"
                     "  mad.lo.u32 %index, %index, %threads, %thread;\n  ld.param.u32 %count, [count];\n"
                     "  setp.ge.u32 %outside, %index, %count;\n  @%outside ret;\n"
                     "  ld.param.u64 %to, [destination];\n  ld.param.u64 %from, [source];\n";
  for (int axis = axes - 1; axis >= 0; --axis) {
    if (axis > 0)
      text += "  ld.param.u32 %size, [sizes+" + std::to_string(axis * 4) + "];\n  div.u32 %quotient, %index, %size;\n"
              "  mul.lo.u32 %coordinate, %quotient, %size;\n  sub.u32 %coordinate, %index, %coordinate;\n  mov.u32 %index, %quotient;\n";
    else
      text += "  mov.u32 %coordinate, %index;\n";
    text += "  cvt.u64.u32 %wide, %coordinate;\n";
    for (const char* side : {"destination", "source"}) {
      const char* address = side[0] == 'd' ? "%to" : "%from";
      text += "  ld.param.u64 %stride, [" + std::string(side) + "_strides+" + std::to_string(axis * 8) + "];\n  mad.lo.s64 " + address +
              ", %wide, %stride, " + address + ";\n";
    }
  }
  return text + "  ld.global.b" + width + " %value, [%from];\n  st.global.b" + width + " [%to], %value;\n  ret;\n}\n";
}

struct CopyKernels {
  void* function[4];

  explicit CopyKernels(DeviceState& device) {
    std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n";
    for (int bytes : {1, 2, 4, 8}) text += copy_kernel(bytes);
    RelaxedCapture relaxed;
    void* module = nullptr;
    check(driver()->cuModuleLoadDataEx(&module, text.c_str(), 0, nullptr, nullptr), "cuModuleLoadDataEx",
          [&] { return "for the copy kernels on " + device.properties.name; });
    for (int i = 0; i < 4; ++i)
      check(driver()->cuModuleGetFunction(&function[i], module, ("flextile_copy_" + std::to_string(1 << i)).c_str()), "cuModuleGetFunction");
  }
};

const CopyKernels& copy_kernels(DeviceState& device) {
  static std::mutex mutex;
  static std::atomic<const CopyKernels*> loaded[64];
  std::atomic<const CopyKernels*>& slot = loaded[device.index];
  if (const CopyKernels* ready = slot.load(std::memory_order_acquire)) return *ready;
  std::lock_guard lock(mutex);
  if (!slot.load(std::memory_order_relaxed)) slot.store(new CopyKernels(device), std::memory_order_release);
  return *slot.load(std::memory_order_relaxed);
}

void launch_copy(DeviceState& device, const StridedCopy& plan, std::uint64_t destination, std::uint64_t source) {
  std::uint32_t count = static_cast<std::uint32_t>(plan.elements());
  std::uint32_t sizes[axes];
  std::int64_t to[axes] = {}, from[axes] = {};
  for (std::uint32_t& size : sizes) size = 1;
  for (int axis = 0; axis < plan.rank; ++axis) {
    const int place = axes - plan.rank + axis;
    sizes[place] = static_cast<std::uint32_t>(plan.sizes[axis]);
    to[place] = plan.destination_strides[axis] * plan.element_bytes;
    from[place] = plan.source_strides[axis] * plan.element_bytes;
  }
  const int kind = plan.element_bytes == 8 ? 3 : plan.element_bytes / 2;
  void* arguments[] = {&destination, &source, &count, sizes, to, from};
  check(driver()->cuLaunchKernel(copy_kernels(device).function[kind], (count + threads - 1) / threads, 1, 1, threads, 1, 1, 0,
                                 device.default_stream.native, arguments, nullptr),
        "cuLaunchKernel", [&] { return "copy of " + std::to_string(count) + " elements on " + device.properties.name; });
}

}  // namespace

void copy_on_device(DeviceState& device, const StridedCopy& plan, void* destination, const void* source) {
  if (plan.elements() == 0) return;
  CurrentContext current(device.context);
  const bool dense = plan.rank == 0 || (plan.rank == 1 && plan.destination_strides[0] == 1 && plan.source_strides[0] == 1);
  const auto to = reinterpret_cast<std::uint64_t>(destination), from = reinterpret_cast<std::uint64_t>(source);
  if (dense) {
    check(driver()->cuMemcpyDtoDAsync_v2(to, from, static_cast<std::size_t>(plan.elements()) * plan.element_bytes, device.default_stream.native),
          "cuMemcpyDtoDAsync");
    return;
  }
  if (plan.elements() <= most_elements) return launch_copy(device, plan, to, from);
  int longest = 0;
  for (int axis = 1; axis < plan.rank; ++axis)
    if (plan.sizes[axis] > plan.sizes[longest]) longest = axis;
  StridedCopy lower = plan, upper = plan;
  lower.sizes[longest] = plan.sizes[longest] / 2;
  upper.sizes[longest] -= lower.sizes[longest];
  copy_on_device(device, lower, destination, source);
  copy_on_device(device, upper, reinterpret_cast<void*>(to + lower.sizes[longest] * plan.destination_strides[longest] * plan.element_bytes),
                 reinterpret_cast<const void*>(from + lower.sizes[longest] * plan.source_strides[longest] * plan.element_bytes));
}

}  // namespace flextile::runtime
