#include <flextile/attention/block_mask.hpp>

#include "argument_checks.hpp"
#include "suitable_tiles.hpp"
#include "tile_table.hpp"

namespace flextile {

std::int32_t BlockMask::device_index() const { return device_.index(); }

std::int64_t BlockMask::visible_tiles() const {
  std::int64_t sum = 0;
  if (!empty())
    for (i32 count : rows_.counts.to_host()) sum += count;
  return sum;
}

double BlockMask::sparsity() const {
  const auto all = static_cast<double>(batch_ * heads_ * q_tiles() * kv_tiles());
  return empty() ? 0 : 100 * (1 - static_cast<double>(visible_tiles()) / all);
}

Tensor<i32> BlockMask::to_dense() const {
  if (empty()) attention::refuse("to_dense", "the mask was never built: make it with create_block_mask");
  const attention::TileTable table(rows_);
  std::vector<i32> dense(table.row_count() * kv_tiles());
  for (std::int64_t row = 0; row < table.row_count(); ++row)
    table.for_each(row, [&](std::int64_t column, bool) { dense[row * kv_tiles() + column] = 1; });
  return from_host<i32>(Device::host(), dense, {batch_, heads_, q_tiles(), kv_tiles()});
}

BlockMask BlockMask::to(const Device& device) const {
  if (empty() || device == device_) return *this;
  check_fresh("to");
  BlockMask copy = *this;
  copy.device_ = device;
  if (other_tiles_) copy.other_tiles_ = std::make_shared<BlockMask::OtherTiles>();
  for (ir::TensorHandle& tensor : copy.mod_.tensors) {
    const bool learnable = tensor.learnable;
    tensor = TensorRef(tensor).to(device).handle();
    tensor.learnable = learnable;
  }
  for (TileLists* lists : {&copy.rows_, &copy.columns_}) {
    lists->starts = lists->starts.to(device);
    lists->counts = lists->counts.to(device);
    lists->order = lists->order.to(device);
    lists->entries = lists->entries.to(device);
  }
  copy.remember_versions();
  return copy;
}

void BlockMask::remember_versions() {
  versions_.clear();
  for (const ir::TensorHandle& tensor : mod_.tensors) versions_.push_back(version(tensor));
}

void BlockMask::check_fresh(const char* caller) const {
  for (std::size_t i = 0; i < versions_.size(); ++i)
    if (version(mod_.tensors[i]) != versions_[i])
      attention::refuse(caller, "block_mask is stale: captured tensor " + std::to_string(i) + " of its mask_mod, " + attention::describe(mod_.tensors[i]) +
                                    ", was written after the mask was built: build the mask again with create_block_mask");
}

}  // namespace flextile
