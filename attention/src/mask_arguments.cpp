#include "mask_arguments.hpp"

#include "argument_checks.hpp"

namespace flextile::attention {
namespace {

constexpr std::int64_t most = 0x7fffffff;

void check_range(const std::string& caller, const char* option, std::int64_t value, std::int64_t lo, std::int64_t hi) {
  if (value < lo || value > hi)
    refuse(caller, std::string(option) + " is " + text(value) + ": it must be from " + text(lo) + " to " + text(hi));
}

}  // namespace

void check_mask_options(const BlockMaskOptions& options, const std::string& caller) {
  check_range(caller, "batch", options.batch, 1, most);
  check_range(caller, "heads", options.heads, 1, most);
  check_range(caller, "q_len", options.q_len, 1, longest);
  check_range(caller, "kv_len", options.kv_len, 1, longest);
  if (options.q_block) check_range(caller, "q_block", options.q_block, 8, 256);
  if (options.kv_block) check_range(caller, "kv_block", options.kv_block, 8, 256);
  check_range(caller, "head_dim", options.head_dim, 0, 256);
  check_range(caller, "workspace", options.workspace, 1024, std::int64_t(1) << 40);
  if (options.batch * options.heads > most)
    refuse(caller, "batch times heads is " + text(options.batch * options.heads) + ": it must be at most " + text(most));
}

void check_mod_device(const ir::Mod& mod, const Device& device, const std::string& caller) {
  for (std::size_t i = 0; i < mod.tensors.size(); ++i)
    if (mod.tensors[i].device != device.index())
      refuse(caller, "captured tensor " + text(static_cast<std::int64_t>(i)) + " of mask_mod is " + describe(mod.tensors[i]) +
                         ", the mask is made on " + describe_device(device.index()) + ": captured tensors must be there too");
}

}  // namespace flextile::attention
