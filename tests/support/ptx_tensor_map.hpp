// What the emulator takes for a tensor map, and what the copy engine does with one: boxes of a tensor go to shared memory and back.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "tf32.hpp"

namespace flextile::test {

/// Stands for a CUtensorMap: as large and as aligned, and ours to read. Axes are innermost first.
struct alignas(64) EmulatedTensorMap {
  std::uint64_t base = 0;
  std::int32_t element_bytes = 0;
  std::int32_t rank = 0;
  std::array<std::int32_t, 5> sizes{};
  std::array<std::int32_t, 5> box{};         // extents
  std::array<std::int64_t, 5> strides{};     // bytes; the first is element_bytes
  std::int32_t swizzle = 0;                  // bytes: 0, 32, 64 or 128
  bool tf32 = false;                         // f32 elements are rounded on their way

  std::int64_t row_bytes() const { return std::int64_t{box[0]} * element_bytes; }
  std::int64_t rows() const {
    std::int64_t result = 1;
    for (int axis = 1; axis < rank; ++axis) result *= box[axis];
    return result;
  }
  std::int64_t box_bytes() const { return rows() * row_bytes(); }

  /// What the driver demands of a map.
  void check() const {
    auto fail = [](const std::string& what) { throw std::runtime_error("tensor map: " + what); };
    if (rank < 1 || rank > 5) fail("rank is " + std::to_string(rank) + ": must be from 1 to 5");
    if (base % 16 != 0) fail("the tensor's address must be a multiple of 16");
    if (strides[0] != element_bytes) fail("the innermost axis has stride " + std::to_string(strides[0]) + " bytes: must be one element");
    for (int axis = 1; axis < rank; ++axis)
      if (strides[axis] % 16 != 0 || strides[axis] < 0) fail("stride " + std::to_string(strides[axis]) + " bytes: must be a multiple of 16");
    for (int axis = 0; axis < rank; ++axis)
      if (box[axis] < 1 || box[axis] > 256) fail("box extent " + std::to_string(box[axis]) + ": must be from 1 to 256");
    if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128) fail("swizzle " + std::to_string(swizzle) + ": must be 0, 32, 64 or 128 bytes");
    if (tf32 && element_bytes != 4) fail("elements of " + std::to_string(element_bytes) + " bytes rounded to tf32");
    if (row_bytes() % 16 != 0) fail("rows of the box have " + std::to_string(row_bytes()) + " bytes: must be a multiple of 16");
    if (swizzle != 0 && row_bytes() != swizzle) fail("rows of the box have " + std::to_string(row_bytes()) + " bytes: must be the swizzle's " + std::to_string(swizzle));
  }

  /// Where the swizzle puts the byte at `address` of shared memory: bits 4 and up change with bits 7 and up.
  std::uint64_t swizzled(std::uint64_t address) const {
    const std::uint64_t chunks = swizzle == 0 ? 0 : static_cast<std::uint64_t>(swizzle) / 16 - 1;
    return address ^ (address >> 7 & chunks) << 4;
  }
  /// Alignment of a box in shared memory: the pattern's period.
  std::uint64_t alignment() const { return std::max<std::uint64_t>(128, 8 * static_cast<std::uint64_t>(swizzle)); }

  /// Writes the box at `corner` to `target` of `shared`, zero outside the tensor. `readable(address, bytes)` checks and gives a pointer.
  template <class Readable>
  void copy_box(const std::array<std::int32_t, 5>& corner, std::uint8_t* shared, std::uint64_t target, Readable&& readable) const {
    for_each_row(corner, [&](std::int64_t row, std::uint64_t address, std::size_t first, std::size_t bytes) {
      std::array<std::uint8_t, 256 * 8> line{};      // a row of 256 elements of 8 bytes at most
      if (bytes > 0) std::memcpy(line.data() + first, readable(address, bytes), bytes);
      for (std::int64_t byte = 0; tf32 && byte < row_bytes(); byte += 4) {
        std::uint32_t element;
        std::memcpy(&element, line.data() + byte, 4);
        element = rounded_to_tf32(element);
        std::memcpy(line.data() + byte, &element, 4);
      }
      for (std::int64_t byte = 0; byte < row_bytes(); byte += 16) std::memcpy(shared + place(target, row, byte), line.data() + byte, 16);
    });
  }

  /// Writes the box from `source` of `shared` to the tensor; what lies outside is dropped.
  template <class Writable>
  void store_box(const std::array<std::int32_t, 5>& corner, const std::uint8_t* shared, std::uint64_t source, Writable&& writable) const {
    for_each_row(corner, [&](std::int64_t row, std::uint64_t address, std::size_t first, std::size_t bytes) {
      std::array<std::uint8_t, 256 * 8> line{};
      for (std::int64_t byte = 0; byte < row_bytes(); byte += 16) std::memcpy(line.data() + byte, shared + place(source, row, byte), 16);
      if (bytes > 0) std::memcpy(writable(address, bytes), line.data() + first, bytes);
    });
  }

 private:
  std::uint64_t place(std::uint64_t start, std::int64_t row, std::int64_t byte) const { return swizzled(start + static_cast<std::uint64_t>(row * row_bytes() + byte)); }

  /// `visit(row, address, first, bytes)`: so many bytes of the row, from its byte `first` on, are the tensor's, at `address`.
  template <class Visit> void for_each_row(const std::array<std::int32_t, 5>& corner, Visit&& visit) const {
    if (std::int64_t{corner[0]} * element_bytes % 16 != 0) throw std::runtime_error("tensor map: a box begins at element " + std::to_string(corner[0]) + " of its rows: must be a multiple of 16 bytes");
    const std::int64_t from = std::clamp<std::int64_t>(-std::int64_t{corner[0]}, 0, box[0]);
    const std::int64_t to = std::clamp<std::int64_t>(std::int64_t{sizes[0]} - corner[0], from, box[0]);
    for (std::int64_t row = 0; row < rows(); ++row) {
      bool inside = from < to;
      std::int64_t rest = row, distance = (corner[0] + from) * element_bytes;
      for (int axis = 1; axis < rank; ++axis) {
        const std::int64_t at = corner[axis] + rest % box[axis];
        rest /= box[axis];
        inside = inside && at >= 0 && at < sizes[axis];
        distance += at * strides[axis];
      }
      visit(row, base + static_cast<std::uint64_t>(distance), static_cast<std::size_t>(from * element_bytes), inside ? static_cast<std::size_t>((to - from) * element_bytes) : 0);
    }
  }
};
static_assert(sizeof(EmulatedTensorMap) == 128 && alignof(EmulatedTensorMap) == 64);

}  // namespace flextile::test
