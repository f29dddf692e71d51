// The matrix instructions of PtxEmulator: ldmatrix, stmatrix, mma and wgmma.
#pragma once

namespace flextile::test {

inline void PtxEmulator::ldmatrix(const Instruction& i, const std::vector<int>& active) {
  whole_warp(active);
  const int count = static_cast<int>(i.operands[0].items.size());
  const bool transposed = has(i, "trans");
  std::array<std::array<std::array<std::uint16_t, 8>, 8>, 4> matrices{};
  for (int m = 0; m < count; ++m)
    for (int row = 0; row < 8; ++row) {
      const Operand& at = i.operands[1];
      const std::uint64_t address = (at.slot >= 0 ? reg(active[8 * m + row], at.slot) : 0) + at.value;
      std::memcpy(matrices[m][row].data(), shared(address & 0xffffffff, 16), 16);
    }
  for (int lane = 0; lane < 32; ++lane)
    for (int m = 0; m < count; ++m) {
      std::uint64_t word = 0;
      for (int k = 0; k < 2; ++k) {
        const int a = lane / 4, b = lane % 4 * 2 + k;
        word |= static_cast<std::uint64_t>(transposed ? matrices[m][b][a] : matrices[m][a][b]) << (16 * k);
      }
      reg(active[lane], i.operands[0].items[m].slot) = word;
    }
}

inline void PtxEmulator::stmatrix(const Instruction& i, const std::vector<int>& active) {
  whole_warp(active);
  if (!has(i, "b16") || !has(i, "m8n8") || has(i, "trans")) throw std::runtime_error("unknown kind of stmatrix");
  const Operand& at = i.operands[0];
  for (std::size_t m = 0; m < i.operands[1].items.size(); ++m)
    for (int lane = 0; lane < 32; ++lane) {
      const std::uint64_t address = shared_address(active[8 * m + static_cast<std::size_t>(lane / 4)], at);
      if (address % 16 != 0) throw std::runtime_error("a row of a matrix at shared address " + std::to_string(address) + ": must be a multiple of 16");
      const auto word = static_cast<std::uint32_t>(get(active[lane], i.operands[1].items[m]));
      std::memcpy(shared(address + static_cast<std::uint64_t>(lane % 4) * 4, 4), &word, 4);
    }
}

inline void PtxEmulator::mma(const Instruction& i, const std::vector<int>& active) {
  whole_warp(active);
  const std::string shape = i.parts[2], type = i.parts[i.parts.size() - 3];
  const int depth = std::stoi(shape.substr(shape.find('k') + 1)), packed = type == "tf32" ? 1 : 32 / bits_of(type);
  const bool floating = type[0] != 's' && type[0] != 'u';
  if (is_float8_type(type) && depth != 32) throw std::runtime_error("no mma of 8-bit floats has this shape");
  double a[16][32], b[32][8];
  auto element = [&](std::uint64_t word, int k) {
    if (type == "tf32") return number(word & 0xffffe000u, "f32");
    return number(word >> (32 / packed * k), type);
  };
  for (int lane = 0; lane < 32; ++lane)
    for (int k = 0; k < packed; ++k) {
      for (int r = 0; r < 4; ++r) a[lane / 4 + 8 * (r % 2)][lane % 4 * packed + k + 4 * packed * (r / 2)] = element(get(active[lane], i.operands[1].items[r]), k);
      for (int r = 0; r < 2; ++r) b[lane % 4 * packed + k + 4 * packed * r][lane / 4] = element(get(active[lane], i.operands[2].items[r]), k);
    }
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < 4; ++r) {
      const int row = lane / 4 + 8 * (r / 2), column = lane % 4 * 2 + r % 2;
      const std::uint64_t c = get(active[lane], i.operands[3].items[r]);
      double sum = floating ? number(c, "f32") : number(c, "s32");
      for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k][column];
      reg(active[lane], i.operands[0].items[r].slot) = floating ? float_bits(sum, "f32") : cut(static_cast<std::uint64_t>(static_cast<std::int64_t>(sum)), 32);
    }
}

inline void PtxEmulator::wgmma(const Instruction& i, const std::vector<int>& active) {
  whole_warp(active);
  const std::string& what = i.parts[0];
  Products& products = products_.at(static_cast<std::size_t>(active[0] / 32));
  if (what == "commit_group") {
    products.groups.push_back(std::move(products.open));
    products.open.clear();
  } else if (what == "wait_group") {
    for (; products.groups.size() > get(active[0], i.operands[0]); products.groups.pop_front())
      for (const Product& product : products.groups.front()) multiply(product);
  } else if (what == "mma_async") {
    Product product{&i, active[0], {}, get(active[0], i.operands[2])};
    const Operand& left = i.operands[1];
    if (left.kind == Operand::vector) {
      for (int lane = 0; lane < 32; ++lane)
        for (int r = 0; r < 4; ++r) product.left[4 * lane + r] = get(active[lane], left.items[r]);
    } else {
      product.left[0] = get(active[0], left);
    }
    if (at_once_) products.open.push_back(product);
    else multiply(product);
  } else if (what != "fence") {
    throw std::runtime_error("unknown operation of wgmma");
  }
}

/// A warp's 16 rows of a warpgroup's product. Operands in shared memory lie in panels of 128 bytes with the 128-byte swizzle; a
/// step of K is 32 bytes. Of f32 the upper 19 bits count: what is below is cut off.
inline void PtxEmulator::multiply(const Product& product) {
  const Instruction& i = *product.instruction;
  const std::string type = i.parts.back(), shape = i.parts[3], sum_type = i.parts[4];
  const bool tf32 = type == "tf32", floating = sum_type == "f32", half = type == "bf16" || type == "f16";
  const int columns = std::stoi(shape.substr(shape.find('n') + 1)), depth = std::stoi(shape.substr(shape.find('k') + 1));
  const int bytes = tf32 ? 4 : bits_of(type) / 8, packed = 4 / bytes;
  if (depth * bytes != 32) throw std::runtime_error("no wgmma has this shape for elements of " + std::to_string(bytes) + " bytes");
  if (columns % 8 != 0 || columns > 256 || (!floating && columns > 32 && columns % 16 != 0)) throw std::runtime_error("no wgmma has so many columns");
  const bool left_in_registers = i.operands[1].kind == Operand::vector;
  // D, A, B, scale-d; of floats two factors; of 16-bit operands in shared memory whether each is transposed.
  const std::size_t expected = std::size_t{4} + (floating ? 2 : 0) + (half ? left_in_registers ? 1 : 2 : 0);
  if (i.operands.size() != expected) throw std::runtime_error("a wgmma of " + type + " has " + std::to_string(expected) + " operands");
  const int first_row = product.first_thread / 32 % 4 * 16;
  const bool b_transposed = half && i.operands.back().value == 1;
  struct Panels {
    std::uint64_t start, panel, group;
    explicit Panels(std::uint64_t bits) : start((bits & 0x3fff) << 4), panel((bits >> 16 & 0x3fff) << 4), group((bits >> 32 & 0x3fff) << 4) {
      if (bits >> 62 != 1) throw std::runtime_error("a matrix descriptor without the 128-byte swizzle");
    }
    static std::uint64_t swizzled(std::uint64_t address) { return address ^ (address >> 7 & 7) << 4; }
    std::uint64_t at(int row, int byte) const { return swizzled(start + row / 8 * group + row % 8 * 128 + byte); }
    std::uint64_t transposed_at(int row, int k) const { return swizzled(start + row / 64 * panel + k / 8 * group + k % 8 * 128 + row % 64 * 2); }
  };
  auto value = [&](std::uint64_t bits) { return tf32 ? number(bits & 0xffffe000u, "f32") : number(cut(bits, 8 * bytes), type); };
  auto element = [&](std::uint64_t address) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, shared(address, static_cast<std::size_t>(bytes)), static_cast<std::size_t>(bytes));
    return value(bits);
  };
  double a[16][32];
  if (left_in_registers) {
    for (int lane = 0; lane < 32; ++lane)
      for (int r = 0; r < 4; ++r)
        for (int k = 0; k < packed; ++k)
          a[lane / 4 + 8 * (r % 2)][lane % 4 * packed + k + 4 * packed * (r / 2)] = value(product.left[4 * lane + r] >> (8 * bytes * k));
  } else {
    const Panels panels(product.left[0]);
    for (int row = 0; row < 16; ++row)
      for (int k = 0; k < depth; ++k) a[row][k] = element(panels.at(first_row + row, bytes * k));
  }
  const Panels panels(product.right);
  for (int column = 0; column < columns; ++column) {
    double b[32];
    for (int k = 0; k < depth; ++k) b[k] = element(b_transposed ? panels.transposed_at(column, k) : panels.at(column, bytes * k));
    for (int row = 0; row < 16; ++row) {
      const int lane = row % 8 * 4 + column % 8 / 2, item = column / 8 * 4 + row / 8 * 2 + column % 2;
      std::uint64_t& place = reg(product.first_thread + lane, i.operands[0].items[item].slot);
      double sum = i.operands[3].value ? number(place, sum_type == "s32" ? "s32" : "f32") : 0;   // scale-d
      for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k];
      place = floating ? float_bits(sum, "f32") : cut(static_cast<std::uint64_t>(static_cast<std::int64_t>(sum)), 32);
    }
  }
}

}  // namespace flextile::test
