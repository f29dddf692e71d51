// BlockMask: which tiles, in which lists, for any block, length and device.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include <flextile/attention/attention_config.hpp>

#include <string>

#include "support/attention_reference.hpp"

using namespace flextile;
using namespace flextile::tests;

namespace {

/// The class of every tile by evaluating every position: 0 absent, 1 partial, 2 full.
template <class Mask> std::vector<int> classes_by_loops(const BlockMask& mask, const Mask& mask_mod) {
  const auto [batch, heads, q_len, kv_len] = mask.shape();
  std::vector<int> classes;
  for (int b = 0; b < batch; ++b)
    for (int h = 0; h < heads; ++h)
      for (std::int64_t row = 0; row < mask.q_tiles(); ++row)
        for (std::int64_t column = 0; column < mask.kv_tiles(); ++column) {
          std::int64_t visible = 0, all = 0;
          for (int q = int(row * mask.q_block()); q < std::min<std::int64_t>(q_len, (row + 1) * mask.q_block()); ++q)
            for (int kv = int(column * mask.kv_block()); kv < std::min<std::int64_t>(kv_len, (column + 1) * mask.kv_block()); ++kv, ++all)
              visible += plain(mask_mod(b, h, q, kv)) ? 1 : 0;
          classes.push_back(visible == 0 ? 0 : visible == all ? 2 : 1);
        }
  return classes;
}

/// The classes that lists say; checks that each list ascends.
std::vector<int> classes_of(const TileLists& lists, std::int64_t width) {
  const auto starts = lists.starts.to_host();
  const auto counts = lists.counts.to_host(), entries = lists.entries.to_host();
  std::vector<int> classes(counts.size() * width);
  for (std::size_t row = 0; row < counts.size(); ++row)
    for (std::int32_t i = 0; i < counts[row]; ++i) {
      const std::int32_t entry = entries[starts[row] + i];
      REQUIRE(entry / 2 < width);
      if (i) CHECK(entry / 2 > entries[starts[row] + i - 1] / 2);
      classes[row * width + entry / 2] = entry % 2 ? 1 : 2;
    }
  return classes;
}

std::vector<int> transposed(const std::vector<int>& classes, std::int64_t groups, std::int64_t rows, std::int64_t columns) {
  std::vector<int> result;
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t column = 0; column < columns; ++column)
      for (std::int64_t row = 0; row < rows; ++row) result.push_back(classes[(g * rows + row) * columns + column]);
  return result;
}

template <class Mask> void check_lists(const Mask& mask_mod, const BlockMaskOptions& options) {
  CAPTURE(options.device->name());
  CAPTURE(options.q_len);
  CAPTURE(options.kv_len);
  CAPTURE(options.q_block);
  CAPTURE(options.kv_block);
  const BlockMask mask = create_block_mask(mask_mod, options);
  const std::vector<int> expected = classes_by_loops(mask, mask_mod);
  CHECK(classes_of(mask.rows(), mask.kv_tiles()) == expected);
  const auto [batch, heads, q_len, kv_len] = mask.shape();
  CHECK(classes_of(mask.columns(), mask.q_tiles()) == transposed(expected, batch * heads, mask.q_tiles(), mask.kv_tiles()));
  std::int64_t visible = 0;
  for (int kind : expected) visible += kind != 0;
  CHECK(mask.visible_tiles() == visible);
  const auto dense = mask.to_dense().to_host();
  for (std::size_t i = 0; i < dense.size(); ++i) CHECK((dense[i] == 1) == (expected[i] != 0));
}

}  // namespace

TEST_CASE("a mask's tiles may be chosen for a head dim") {
  const Device device = Device::best();
  for (const std::int64_t length : {500, 4700}) {   // of which blocks of 192 rows suit the second
    const BlockMask mask = create_block_mask(masks::causal, {.q_len = length, .kv_len = length, .head_dim = 128, .device = device});
    const MaskBlock block = best_mask_block(ElementType::bf16, 128, device.target(), length);
    CHECK(mask.q_block() == block.q);
    CHECK(mask.kv_block() == block.kv);
  }
  CHECK_THROWS_AS(create_block_mask(masks::causal, {.q_len = 500, .kv_len = 500, .head_dim = 257, .device = device}), ArgumentError);
}

TEST_CASE("lists agree with evaluating every position") {
  for (const Device& device : Device::all()) {
    const auto per_head = [](auto b, auto h, auto q, auto kv) { return q - kv <= 20 * h && kv - q <= 30 * b; };
    const int blocks[][2] = {{128, 128}, {8, 8}, {16, 200}, {256, 64}, {100, 36}, {13, 17}};
    for (const auto& [q_block, kv_block] : blocks) {
      check_lists(masks::causal, {.q_len = 300, .kv_len = 300, .q_block = q_block, .kv_block = kv_block, .device = device});
      check_lists(per_head, {.batch = 2, .heads = 3, .q_len = 130, .kv_len = 257, .q_block = q_block, .kv_block = kv_block, .device = device});
    }
    check_lists(masks::sliding_window(5), {.q_len = 1, .kv_len = 1, .device = device});
    check_lists(masks::prefix_lm(40), {.q_len = 3, .kv_len = 1000, .q_block = 8, .kv_block = 32, .device = device});
    check_lists(masks::neighbourhood(16, 16, 5, 5), {.q_len = 256, .kv_len = 256, .q_block = 32, .kv_block = 32, .device = device});
  }
}

TEST_CASE("a ragged tile is full when every existing score is visible") {
  for (const Device& device : Device::all()) {
    const BlockMask mask = create_block_mask([](auto, auto, auto, auto kv) { return kv >= 0; }, {.q_len = 130, .kv_len = 200, .device = device});
    CHECK(classes_of(mask.rows(), 2) == std::vector<int>{2, 2, 2, 2});
    CHECK(mask.sparsity() == 0);
  }
}

TEST_CASE("batch and heads count only where the mod reads them") {
  for (const Device& device : Device::all()) {
    const BlockMaskOptions options{.batch = 4, .heads = 6, .q_len = 64, .kv_len = 64, .device = device};
    CHECK(create_block_mask(masks::causal, options).shape() == std::array<std::int64_t, 4>{1, 1, 64, 64});
    CHECK(create_block_mask([](auto, auto h, auto q, auto kv) { return q - kv < h; }, options).shape() == std::array<std::int64_t, 4>{1, 6, 64, 64});
    CHECK(create_block_mask([](auto b, auto, auto q, auto kv) { return q - kv < b; }, options).shape() == std::array<std::int64_t, 4>{4, 1, 64, 64});
    CHECK(create_block_mask([](auto b, auto, auto q, auto kv) { return q - kv < b; }, options).numel() == 4 * 64 * 64);
  }
}

TEST_CASE("65,536 positions in tiles of 128") {
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    const BlockMaskOptions options{.q_len = 65536, .kv_len = 65536, .device = device};
    CHECK(create_block_mask(masks::causal, options).visible_tiles() == 131328);
    CHECK(create_block_mask([](auto, auto, auto q, auto kv) { return q >= kv && q - kv < 1024; }, options).visible_tiles() == 4572);
    CHECK(create_block_mask(masks::chunked(1024), options).visible_tiles() == 2304);
  }
}

TEST_CASE("a table above 16 MiB is packed") {
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    // 2,300 x 2,300 tiles of 8 x 8: 21 MB at a fixed pitch.
    const auto window = [](auto, auto, auto q, auto kv) { return q - kv < 12 && kv - q < 5; };
    const BlockMask mask = create_block_mask(window, {.q_len = 18400, .kv_len = 18396, .q_block = 8, .kv_block = 8, .device = device});
    CHECK(mask.rows().packed);
    CHECK(mask.columns().packed);
    CHECK(mask.rows().entries.elements() == mask.visible_tiles());
    CHECK(mask.columns().entries.elements() == mask.visible_tiles());
    const auto starts = mask.rows().starts.to_host();
    const auto entries = mask.rows().entries.to_host(), counts = mask.rows().counts.to_host();
    for (const std::int64_t row : {0, 1, 2, 1000, 2298, 2299}) {
      std::vector<i32> expected;
      for (std::int64_t column = 0; column < 2300; ++column) {
        std::int64_t visible = 0, all = 0;
        if (column < row - 3 || column > row + 2) continue;
        for (std::int64_t q = row * 8; q < row * 8 + 8; ++q)
          for (std::int64_t kv = column * 8; kv < std::min<std::int64_t>(18396, column * 8 + 8); ++kv, ++all) visible += window(0, 0, q, kv);
        if (visible) expected.push_back(static_cast<i32>(2 * column + (visible < all)));
      }
      CHECK(std::vector<i32>(entries.begin() + starts[row], entries.begin() + starts[row] + counts[row]) == expected);
    }
    // Chunks of 455 rows of tiles give the same lists.
    const BlockMask in_chunks =
        create_block_mask(window, {.q_len = 18400, .kv_len = 18396, .q_block = 8, .kv_block = 8, .workspace = 1 << 20, .device = device});
    CHECK(in_chunks.rows().entries.to_host() == entries);
    CHECK(in_chunks.rows().starts.to_host() == starts);
    CHECK(in_chunks.columns().entries.to_host() == mask.columns().entries.to_host());
    CHECK(in_chunks.columns().counts.to_host() == mask.columns().counts.to_host());
  }
}

TEST_CASE("rows with most tiles come first, close ones stay neighbours") {
  for (const Device& device : Device::all()) {
    CAPTURE(device.name());
    const Tensor<i32> ids = document_ids(Device::host(), 3000, 4, 300).to(device);
    const BlockMask mask = create_block_mask([ids](auto, auto h, auto q, auto kv) { return q >= kv && (ids[q] == ids[kv] || h == 1); },
                                             {.heads = 3, .q_len = 3000, .kv_len = 3000, .q_block = 16, .kv_block = 16, .device = device});
    for (const TileLists* lists : {&mask.rows(), &mask.columns()}) {
      const std::vector<i32> counts = lists->counts.to_host();
      const std::vector<i64> starts = lists->starts.to_host(), order = lists->order.to_host();
      const std::size_t rows = counts.size() / 3;
      for (std::size_t head = 0; head < 3; ++head) {
        std::vector<i32> expected(rows);
        for (std::size_t i = 0; i < rows; ++i) expected[i] = static_cast<i32>(rows - 1 - i);   // of close ones the last first
        auto half_octave = [&](i32 row) {
          const i32 count = counts[head * rows + row];
          const int octave = count ? std::ilogb(count) : -1;
          return count ? 2 * octave + (count * 2 >= 3 << octave) : -2;
        };
        std::stable_sort(expected.begin(), expected.end(), [&](i32 a, i32 b) { return half_octave(a) > half_octave(b); });
        for (std::size_t i = 0; i < rows; ++i) {
          const i64* listing = &order[3 * (head * rows + i)];
          const std::size_t row = head * rows + static_cast<std::size_t>(expected[i]);
          CHECK(listing[0] == expected[i]);
          CHECK(listing[1] == counts[row]);
          CHECK(listing[2] == starts[row]);
        }
      }
    }
  }
}

TEST_CASE("little memory: the same lists in chunks of rows and of heads") {
  for (const Device& device : Device::all()) {
    const auto per_head = [](auto b, auto h, auto q, auto kv) { return q - kv <= 20 * h && kv - q <= 30 * b; };
    check_lists(per_head, {.batch = 2, .heads = 3, .q_len = 290, .kv_len = 257, .q_block = 8, .kv_block = 8, .workspace = 1024, .device = device});
    check_lists(per_head, {.batch = 3, .heads = 5, .q_len = 130, .kv_len = 100, .q_block = 8, .kv_block = 8, .workspace = 1024, .device = device});
  }
}

TEST_CASE("PyTorch's tables, out and in again") {
  for (const Device& device : Device::all()) {
    const auto per_head = [](auto, auto h, auto q, auto kv) { return q >= kv && q - kv < 30 + 50 * h; };
    const BlockMaskOptions options{.heads = 2, .q_len = 200, .kv_len = 180, .q_block = 32, .kv_block = 16, .device = device};
    const BlockMask mask = create_block_mask(per_head, options);
    const KvBlocks tables = mask.to_kv_blocks();
    CHECK(tables.kv_num_blocks.shape() == TensorShape{1, 2, 7});
    CHECK(tables.kv_indices.shape() == TensorShape{1, 2, 7, 12});
    CHECK(tables.q_num_blocks.shape() == TensorShape{1, 2, 12});
    CHECK(tables.q_indices.shape() == TensorShape{1, 2, 12, 7});
    const BlockMask again = BlockMask::from_kv_blocks(tables, per_head, options);
    CHECK(again.shape() == mask.shape());
    CHECK(classes_of(again.rows(), 12) == classes_of(mask.rows(), 12));
    CHECK(classes_of(again.columns(), 7) == classes_of(mask.columns(), 7));
    const KvBlocks second = again.to_kv_blocks();
    CHECK(second.full_kv_indices.to_host() == tables.full_kv_indices.to_host());
    CHECK(second.full_q_num_blocks.to_host() == tables.full_q_num_blocks.to_host());
  }
}

TEST_CASE("tables alone: lengths follow from the tiles, order is free") {
  KvBlocks tables;
  tables.kv_num_blocks = from_host<i32>(Device::host(), {2, 1}, {1, 1, 2});
  tables.kv_indices = from_host<i32>(Device::host(), {2, 0, -7, 1, 99, 99}, {1, 1, 2, 3});     // past the count: anything
  const BlockMask mask = BlockMask::from_kv_blocks(tables);
  CHECK(mask.shape() == std::array<std::int64_t, 4>{1, 1, 256, 384});
  CHECK(classes_of(mask.rows(), 3) == std::vector<int>{1, 0, 1, 0, 1, 0});
}

TEST_CASE("the picture") {
  const BlockMask mask = create_block_mask(masks::causal, {.q_len = 512, .kv_len = 512, .device = Device::host()});
  const std::string expected =
      "BlockMask of 1 x 1 x 512 x 512 (batch, heads, queries, keys), tiles of 128 x 128\n"
      "  10 of 16 tiles are visited (6 full, 4 partial); 37.50 % are skipped\n"
      "  +...\n  #+..\n  ##+.\n  ###+\n"
      "  # full   + partial   . skipped\n";
  CHECK(mask.to_string() == expected);
  CHECK(mask.to_string(2).find("  +.\n  #+\n") != std::string::npos);
  CHECK(BlockMask().to_string() == "BlockMask that was never built\n");
}

TEST_CASE("a copy on another device") {
  for (const Device& device : Device::all()) {
    const Tensor<i32> ids = document_ids(Device::host(), 300, 2, 50);
    const BlockMask mask = create_block_mask(masks::document(ids), {.q_len = 300, .kv_len = 300});
    CHECK(mask.device() == Device::host());
    const BlockMask copy = mask.to(device);
    CHECK(copy.device() == device);
    CHECK(classes_of(copy.rows(), 3) == classes_of(mask.rows(), 3));
    copy.check_fresh("test");
  }
}
