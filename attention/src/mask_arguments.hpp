// What can be wrong with the arguments of create_block_mask and from_kv_blocks.
#pragma once
#include <string>

#include <flextile/attention/block_mask.hpp>

namespace flextile::attention {

/// Lengths from 1 to 2^31 - 1, blocks from 8 to 256, positive batch and heads.
void check_mask_options(const BlockMaskOptions& options, const std::string& caller);
/// The mod's captured tensors must be where the mask is.
void check_mod_device(const ir::Mod& mod, const Device& device, const std::string& caller);

}  // namespace flextile::attention
