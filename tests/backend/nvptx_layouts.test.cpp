// The algebra of layouts: every element is covered, and derived layouts say the same as the operation does.
#include <set>

#include <doctest/doctest.h>

#include "../../backend/src/nvptx/layouts.hpp"

using namespace flextile::backend;

namespace {

const std::vector<Shape> shapes = {{1}, {3}, {32}, {80}, {1000}, {1, 1}, {4, 6}, {16, 8}, {48, 112}, {96, 1}, {1, 176}, {128, 64}, {192, 80}, {2, 3, 20}};

/// The thread's element in `layout` at every register, for all threads, equals `expected(coordinate in original)`.
template <class Map> void check_derived(const Layout& original, const Shape& from, const Layout& derived, const Shape& to, int warps, Map expected) {
  bool right = covers(derived, to, warps);
  for (int warp = 0; warp < warps; ++warp) {
    for (int lane = 0; lane < 32; lane += 9) {
      std::set<Shape> found;
      for (int i = 0; i < register_count(derived); ++i) found.insert(coordinates(derived, static_cast<int>(to.size()), i, lane, warp));
      for (int i = 0; i < register_count(original); ++i) {
        const Shape wanted = expected(coordinates(original, static_cast<int>(from.size()), i, lane, warp));
        right = right && found.contains(wanted);
      }
    }
  }
  CHECK(right);
}

}  // namespace

TEST_CASE("blocked layouts cover every element, whatever the extents") {
  for (const Shape& shape : shapes)
    for (int warps : {1, 2, 4, 8, 12})
      for (int vector : {1, 2, 4, 8}) {
        const Layout layout = blocked_layout(shape, warps, vector);
        CAPTURE(to_string(layout));
        CHECK(covers(layout, shape, warps));
        CHECK(layout == canonical(layout));
      }
  CHECK(to_string(blocked_layout({1024}, 4, 4)) == "registers[4:1@0, 2:512@0] lanes[32:4@0] warps[4:128@0]");
}

TEST_CASE("matrix layouts cover their tiles and agree with the instruction's fragments") {
  for (int m : {16, 48, 64, 128})
    for (int n : {8, 24, 64, 80, 176})
      for (int warps : {1, 2, 4, 8})
        for (bool rows_only : {false, true}) {
          const WarpGrid grid = warp_grid(m, n, warps, rows_only);
          CHECK(warps % (grid.rows * grid.columns) == 0);
          CHECK(covers(accumulator_layout(m, n, warps, grid), {m, n}, warps));
          for (int packed : {1, 2, 4}) {
            CHECK(covers(left_operand_layout(m, 64, warps, grid, packed), {m, 64}, warps));
            CHECK(covers(right_operand_layout(64, n, warps, grid, packed), {64, n}, warps));
          }
        }
  CHECK(to_string(accumulator_layout(16, 8, 1, {1, 1})) == "registers[2:1@1, 2:8@0] lanes[4:2@1, 8:1@0] warps[]");
  const Layout left = left_operand_layout(16, 16, 1, {1, 1}, 2);   // lane 5 is row 1, columns 2 and 3 of each quarter
  CHECK(coordinates(left, 2, 0, 5, 0) == Shape{1, 2});
  CHECK(coordinates(left, 2, 2, 5, 0) == Shape{9, 2});
  CHECK(coordinates(left, 2, 4, 5, 0) == Shape{1, 10});
  CHECK(coordinates(left, 2, 7, 5, 0) == Shape{9, 11});
}

TEST_CASE("derived layouts follow the operation") {
  for (const Shape& shape : shapes) {
    const int rank = static_cast<int>(shape.size());
    for (int warps : {1, 4}) {
      std::vector<Layout> layouts = {blocked_layout(shape, warps, 4)};
      if (shape[0] <= 4) layouts.push_back(replicated_layout(shape, warps));
      if (rank == 2 && shape[0] % 16 == 0 && shape[1] % 8 == 0) layouts.push_back(accumulator_layout(shape[0], shape[1], warps, warp_grid(shape[0], shape[1], warps, false)));
      for (const Layout& layout : layouts) {
        CAPTURE(to_string(layout));
        for (int axis = 0; axis < rank; ++axis) {
          Shape reduced = shape;
          reduced.erase(reduced.begin() + axis);
          check_derived(layout, shape, reduced_layout(layout, axis), reduced, warps, [&](Shape at) { at.erase(at.begin() + axis); return at; });
          Shape stretched = shape;
          stretched[axis] = 1;
          check_derived(layout, shape, projected_layout(layout, stretched), stretched, warps, [&](Shape at) { at[axis] = 0; return at; });
          Shape longer = shape;
          longer.insert(longer.begin() + axis, 1);
          check_derived(layout, shape, with_axis(layout, axis), longer, warps, [&](Shape at) { at.insert(at.begin() + axis, 0); return at; });
          CHECK(without_axis(with_axis(layout, axis), axis) == layout);
        }
        std::vector<std::int64_t> turned;
        Shape turned_shape;
        for (int axis = rank - 1; axis >= 0; --axis) {
          turned.push_back(axis);
          turned_shape.push_back(shape[axis]);
        }
        check_derived(layout, shape, transposed_layout(layout, turned), turned_shape, warps, [](Shape at) { return Shape(at.rbegin(), at.rend()); });
        CHECK(untransposed_layout(transposed_layout(layout, turned), turned) == layout);
      }
    }
  }
}

TEST_CASE("reshaping keeps the row-major order, or says that it cannot") {
  const Layout layout = blocked_layout({8, 32}, 2, 4);
  const auto flat = reshaped_layout(layout, {8, 32}, {256});
  REQUIRE(flat);
  check_derived(layout, {8, 32}, *flat, {256}, 2, [](Shape at) { return Shape{at[0] * 32 + at[1]}; });
  const auto back = reshaped_layout(*flat, {256}, {8, 32});
  REQUIRE(back);
  check_derived(*flat, {256}, *back, {8, 32}, 2, [](Shape at) { return Shape{at[0] / 32, at[0] % 32}; });
  CHECK_FALSE(reshaped_layout(blocked_layout({6, 4}, 1, 4), {6, 4}, {4, 6}));
}

TEST_CASE("a score's accumulator is the left operand of the next matmul without moving an element") {
  const WarpGrid grid = warp_grid(128, 64, 8, true);
  const Layout accumulator = accumulator_layout(128, 64, 8, grid), left = left_operand_layout(128, 64, 8, grid, 2);
  const std::vector<int> map = register_map(accumulator, {128, 64}, left, {128, 64}, {}, 8);
  REQUIRE(static_cast<int>(map.size()) == register_count(left));
  bool same = true;
  for (int warp = 0; warp < 8; ++warp)
    for (int lane = 0; lane < 32; ++lane)
      for (std::size_t i = 0; i < map.size(); ++i)
        same = same && coordinates(accumulator, 2, map[i], lane, warp) == coordinates(left, 2, static_cast<int>(i), lane, warp);
  CHECK(same);
  // Lanes hold other elements in a blocked layout: registers alone cannot do it.
  CHECK(register_map(blocked_layout({128, 64}, 8, 4), {128, 64}, left, {128, 64}, {}, 8).empty());
}

TEST_CASE("what many lanes would read each reads a part of, and one lane's register is another's") {
  // A row of column numbers beside a matrix instruction's sums, in every width that such a tile has.
  for (const int columns : {64, 80, 96, 128, 176}) {
    const Shape shape{1, columns};
    const Layout wanted = projected_layout(accumulator_layout(128, columns, 8, warp_grid(128, columns, 8, true)), shape);
    const std::optional<Layout> read = layout_of_shared_reads(wanted);
    CAPTURE(columns);
    REQUIRE(read);
    CHECK(covers(*read, shape, 8));
    CHECK(register_count(wanted) - register_count(*read) >= 8);
    const std::optional<LaneMove> move = lane_move(*read, wanted, shape);
    REQUIRE(move);
    REQUIRE(static_cast<int>(move->source.size()) == register_count(wanted));
    bool same = true;
    for (int warp = 0; warp < 8; ++warp)
      for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < register_count(wanted); ++i) {
          const LaneMove::Source source = move->source[static_cast<std::size_t>(i)];
          same = same && coordinates(wanted, 2, i, lane, warp) == coordinates(*read, 2, source.reg, (lane & move->kept) | (source.lane & ~move->kept), warp);
        }
    CHECK(same);
  }
  // Rows: two registers, whose reads are not worth a shuffle. Sums themselves: nobody else holds them.
  const Layout sums = accumulator_layout(128, 64, 8, warp_grid(128, 64, 8, true));
  CHECK_FALSE(layout_of_shared_reads(projected_layout(sums, {128, 1})));
  CHECK_FALSE(layout_of_shared_reads(sums));
  CHECK_FALSE(lane_move(blocked_layout({128, 64}, 8, 4), sums, {128, 64}));
}
