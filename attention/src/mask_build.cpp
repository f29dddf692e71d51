// build_block_mask: classify all tiles, then list the visible ones, in bounded memory beside the result.
//
// The tile classes of as many rows of tiles as fit into the workspace are a chunk. Small tables have a fixed pitch: one pass
// over the chunks fills them and nothing waits. Larger ones are packed: a first pass counts, the host adds up where the
// lists start (the one synchronisation), and a second pass fills. Classes are kept between the passes where one chunk
// holds them all, else computed again.
#include <algorithm>

#include <flextile/attention/attention_config.hpp>
#include <flextile/runtime/launch.hpp>

#include "argument_checks.hpp"
#include "kernel_families.hpp"
#include "mask_arguments.hpp"
#include "mask_kernels.hpp"
#include "mod_arguments.hpp"
#include "suitable_tiles.hpp"
#include "tile_table.hpp"

namespace flextile {
namespace attention {
namespace {

template <class Kernel> const KernelFamily& family_of(const Kernel& kernel, const char* name) {
  static auto& families = *new KernelFamilies<Kernel>;      // lives as long as the process: kernels may run until its end
  return families.get(kernel, [&] {
    return KernelFamily(name, kernel.signature(), [kernel](const std::vector<ir::Parameter>& facts) { return kernel.trace(facts); });
  });
}

/// What is being built.
struct Build {
  const ir::Mod& mod;
  std::int64_t batch, heads, q_len, kv_len;
  std::int64_t rows, columns;               // tiles
  ClassifyKernel classify;
  Stream stream;
};

/// A range of batch-head groups, and of the rows of each.
struct Chunk {
  std::int64_t first_group, groups, first_row, rows;
};

std::vector<Chunk> chunks_of(const Build& build, std::int64_t chunk_bytes) {
  const std::int64_t groups = build.batch * build.heads, group_bytes = build.rows * build.columns;
  std::vector<Chunk> chunks;
  if (group_bytes <= chunk_bytes) {
    const std::int64_t step = std::max<std::int64_t>(1, chunk_bytes / group_bytes);
    for (std::int64_t g = 0; g < groups; g += step) chunks.push_back({g, std::min(step, groups - g), 0, build.rows});
  } else {
    const std::int64_t step = std::max<std::int64_t>(1, chunk_bytes / build.columns);
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t r = 0; r < build.rows; r += step) chunks.push_back({g, 1, r, std::min(step, build.rows - r)});
  }
  return chunks;
}

void classify(const Build& build, const Chunk& chunk, const TensorRef& classes) {
  const std::int64_t programs_per_row = ceil_div(build.columns, build.classify.tiles_per_program());
  std::vector<Argument> arguments = {Argument(classes), Argument(static_cast<i32>(build.heads)), Argument(static_cast<i32>(build.q_len)),
                                     Argument(static_cast<i32>(build.kv_len)), Argument(static_cast<i32>(chunk.first_group)),
                                     Argument(static_cast<i32>(chunk.first_row))};
  append_arguments(arguments, build.mod);
  const KernelFamily& family = family_of(build.classify, "classify_tiles");
  launch(build.stream, family, Grid{programs_per_row * chunk.rows * chunk.groups}, arguments.data(), arguments.size());
}

/// Classes of a chunk as [groups, lists, tiles], and which lists and tiles these are.
struct ListedClasses {
  TensorRef classes;
  std::int64_t first_list, first_tile, total_lists;
};

ListedClasses by_row(const Build& build, const Chunk& chunk, const TensorRef& classes) { return {classes, chunk.first_row, 0, build.rows}; }
ListedClasses by_column(const Build& build, const Chunk& chunk, const TensorRef& classes) {
  return {classes.transpose(1, 2), 0, chunk.first_row, build.columns};
}

void compact(const Build& build, const Chunk& chunk, const ListedClasses& listed, const TileLists& lists, std::int64_t pitch, bool count_only) {
  const CompactKernel kernel{.count_only = count_only, .packed = lists.packed};
  const Argument arguments[] = {Argument(listed.classes), Argument(lists.starts), Argument(lists.counts), Argument(lists.entries),
                                Argument(pitch), Argument(static_cast<i32>(chunk.first_group)), Argument(static_cast<i32>(listed.first_list)),
                                Argument(static_cast<i32>(listed.first_tile)), Argument(static_cast<i32>(listed.total_lists))};
  launch(build.stream, family_of(kernel, count_only ? "count_tiles" : "list_tiles"), Grid{chunk.groups * listed.classes.size(1)}, arguments,
         std::size(arguments));
}

TensorRef classes_for(const Build& build, const Chunk& chunk) {
  return empty(ElementType::u8, build.stream.device(), {chunk.groups, chunk.rows, build.columns});
}

/// Where each list starts when they follow one another; the sum of the counts is the last value.
std::vector<i64> packed_starts(const std::vector<i32>& counts, i64& total) {
  std::vector<i64> starts;
  starts.reserve(counts.size());
  total = 0;
  for (i32 count : counts) starts.push_back(total), total += count;
  return starts;
}

}  // namespace

void build_lists(const ir::Mod& mod, const BlockMask& mask, std::int64_t workspace, TileLists& rows, TileLists* columns) {
  const auto [batch, heads, q_len, kv_len] = mask.shape();
  const Device device = mask.device();
  const Build build{mod, batch, heads, q_len, kv_len, mask.q_tiles(), mask.kv_tiles(), {mod.fragment, mask.q_block(), mask.kv_block()}, device.stream()};
  const std::int64_t groups = batch * heads;
  const bool packed = groups * build.rows * build.columns * 4 > pitched_bytes;
  struct Listing {
    TileLists* lists;
    std::int64_t count, pitch;
    ListedClasses (*view)(const Build&, const Chunk&, const TensorRef&);
  };
  std::vector<Listing> listings = {{&rows, build.rows, build.columns, by_row}};
  if (columns) listings.push_back({columns, build.columns, build.rows, by_column});
  for (const Listing& listing : listings) {
    listing.lists->packed = packed;
    listing.lists->starts = empty<i64>(device, {batch, heads, listing.count});
    listing.lists->counts = zeros<i32>(device, {batch, heads, listing.count});
  }
  const std::vector<Chunk> chunks = chunks_of(build, workspace);
  TensorRef classes = classes_for(build, chunks.front());
  auto visit = [&](bool count_only, bool known) {
    for (const Chunk& chunk : chunks) {
      const TensorRef part = classes.slice(0, 0, chunk.groups).slice(1, 0, chunk.rows);
      if (!known) classify(build, chunk, part);
      for (const Listing& listing : listings) compact(build, chunk, listing.view(build, chunk, part), *listing.lists, listing.pitch, count_only);
    }
  };

  if (packed) {
    const Tensor<i32> nothing = zeros<i32>(device, {1});
    for (const Listing& listing : listings) listing.lists->entries = nothing;
    visit(true, false);
  }
  for (const Listing& listing : listings) {
    i64 total = groups * build.rows * build.columns;
    if (packed) {
      listing.lists->starts.copy_from(packed_starts(listing.lists->counts.to_host(), total));
      listing.lists->counts.fill(0);
    }
    listing.lists->entries = empty<i32>(device, {std::max<i64>(total, 1)});
  }
  visit(false, packed && chunks.size() == 1);
  for (const Listing& listing : listings) order_lists(*listing.lists);
}

void order_lists(TileLists& lists) {
  const TensorRef counts = lists.counts;
  const Device device = counts.device();
  lists.order = empty<i64>(device, {counts.size(0), counts.size(1), counts.size(2), 3});
  const std::int64_t groups = counts.size(0) * counts.size(1), rows = counts.size(2);
  const Argument arguments[] = {Argument(lists.starts), Argument(lists.counts), Argument(lists.order), Argument(static_cast<i32>(rows))};
  launch(device.stream(), family_of(OrderKernel{}, "order_lists"), Grid{groups * ceil_div(rows, OrderKernel::lists_per_program)}, arguments, std::size(arguments));
}

}  // namespace attention

BlockMask build_block_mask(ir::Mod mod, const BlockMaskOptions& options) {
  const std::string caller = "create_block_mask";
  attention::check_mask_options(options, caller);
  BlockMask mask;
  mask.device_ = options.device ? *options.device : mod.tensors.empty() ? Device::best() : TensorRef(mod.tensors.front()).device();
  const MaskBlock block = options.head_dim == 0 ? attention::given_block(options) : best_mask_block(options.element, options.head_dim, mask.device_.target(), options.q_len);
  mask.batch_ = mod.reads_batch ? options.batch : 1;
  mask.heads_ = mod.reads_head ? options.heads : 1;
  mask.q_len_ = options.q_len, mask.kv_len_ = options.kv_len;
  mask.q_block_ = block.q, mask.kv_block_ = block.kv;
  attention::check_mod_device(mod, mask.device_, caller);
  mask.mod_ = static_cast<ir::Mod&&>(mod);
  mask.remember_versions();
  attention::build_lists(mask.mod_, mask, options.workspace, mask.rows_, &mask.columns_);
  const bool left_open = !options.head_dim && !options.q_block && !options.kv_block;
  if (left_open && attention::may_take_other_tiles(mask.mod_)) mask.other_tiles_ = std::make_shared<BlockMask::OtherTiles>();
  return mask;
}

}  // namespace flextile
