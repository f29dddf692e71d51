// What host kernels call: scratch memory and the report of an index outside its tensor.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace flextile::backend::host {

/// The symbol of a kernel's entry in its object file.
std::string entry_symbol(std::string_view kernel_name);

/// This thread's scratch area, at least `bytes` long, 4096-byte aligned; it stays until the thread ends or asks for more.
extern "C" void* flextile_host_scratch(std::int64_t bytes);

/// Throws ArgumentError. Unwinds through the kernel.
extern "C" [[noreturn]] void flextile_host_fault(const char* kernel, const char* file, std::int32_t line, const char* operation, const char* tensor,
                                                 std::int32_t axis, std::int64_t index, std::int64_t size);

}  // namespace flextile::backend::host
