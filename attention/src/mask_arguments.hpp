// What can be wrong with the arguments of create_block_mask and from_kv_blocks.
#pragma once
#include <string>

#include <flextile/attention/attention_config.hpp>
#include <flextile/attention/block_mask.hpp>

namespace flextile::attention {

/// The tile that options give; what they leave 0 is that of `other`.
template <class Options> MaskBlock given_block(const Options& options, MaskBlock other = {}) {
  return {options.q_block ? options.q_block : other.q, options.kv_block ? options.kv_block : other.kv};
}

/// Lengths from 1 to 2^31 - 1, blocks from 8 to 256 or 0, positive batch and heads.
void check_mask_options(const BlockMaskOptions& options, const std::string& caller);
/// The mod's captured tensors must be where the mask is.
void check_mod_device(const ir::Mod& mod, const Device& device, const std::string& caller);

}  // namespace flextile::attention
