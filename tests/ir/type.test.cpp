#include <doctest/doctest.h>

#include <flextile/ir/attributes.hpp>
#include <flextile/ir/layout.hpp>
#include <flextile/ir/type.hpp>

#include "ir/sentence.hpp"

using namespace flextile;
using namespace flextile::ir;

TEST_CASE("types print as in every error") {
  CHECK(to_string(Type::scalar(ElementType::f32)) == "f32");
  CHECK(to_string(Type::tile(ElementType::bf16, {128, 64})) == "tile<128x64xbf16>");
  CHECK(to_string(Type::pointer(ElementType::f32)) == "ptr<f32>");
  CHECK(to_string(Type::pointer(ElementType::f32, {1024})) == "tile<1024xptr<f32>>");
  CHECK(to_string(Type::view(ElementType::bf16, 2)) == "view<2xbf16>");
  CHECK(to_string(Type::shared(ElementType::bf16, {64, 128}, 3)) == "shared<3x64x128xbf16>");
  CHECK(to_string(Type::shared(ElementType::bf16, {64, 128}, 1)) == "shared<1x64x128xbf16>");
  CHECK(to_string(Type::token()) == "token");
  CHECK(to_string(Type{}) == "none");
  CHECK(to_string(Shape{}) == "scalar");
  CHECK(to_string(Shape{128, 64}) == "128x64");
}

TEST_CASE("elements are counted without overflow") {
  CHECK(Type::scalar(ElementType::f32).elements() == 1);
  CHECK(Type::tile(ElementType::f32, {48, 80}).elements() == 3840);
  CHECK(Type::view(ElementType::f32, 4).elements() == 1);
  CHECK(Type::tile(ElementType::f32, {2147483647, 2147483647, 2147483647}).elements() > max_tile_elements);
}

TEST_CASE("too many axes is an error, not an overrun") {
  CHECK(contains(sentence([] { Type::tile(ElementType::f32, {1, 1, 1, 1, 1, 1}); }), "at most 5 axes; 1x1x1x1x1x1 has 6"));
  CHECK(contains(sentence([] { Type::view(ElementType::f32, 9); }), "0 to 8 axes, got 9"));
}

TEST_CASE("broadcasting is right-aligned and extents of 1 stretch") {
  Shape shape;
  CHECK((broadcast_shapes({}, {4, 5}, shape) && shape == Shape{4, 5}));
  CHECK((broadcast_shapes({4, 1}, {1, 5}, shape) && shape == Shape{4, 5}));
  CHECK((broadcast_shapes({5}, {4, 1}, shape) && shape == Shape{4, 5}));
  CHECK((broadcast_shapes({1}, {3, 1, 7}, shape) && shape == Shape{3, 1, 7}));
  shape = {9};
  CHECK_FALSE(broadcast_shapes({4}, {5}, shape));
  CHECK_FALSE(broadcast_shapes({4, 5}, {4}, shape));
  CHECK(shape == Shape{9});
}

TEST_CASE("attributes are sorted by name, replaced and erased") {
  Attributes attributes{{AttributeName::kind, std::string("sum")}, {AttributeName::axis, std::int64_t{1}}};
  CHECK(attributes == Attributes{{AttributeName::axis, std::int64_t{1}}, {AttributeName::kind, std::string("sum")}});
  attributes.set(AttributeName::axis, std::int64_t{2});
  CHECK(attributes.integer(AttributeName::axis) == 2);
  CHECK(attributes.number(AttributeName::axis) == 2.0);
  CHECK(attributes.string(AttributeName::axis).empty());
  CHECK(attributes.string(AttributeName::kind) == "sum");
  CHECK(attributes.integer(AttributeName::kind, -7) == -7);
  CHECK(attributes.list(AttributeName::permutation).empty());
  attributes.erase(AttributeName::axis);
  CHECK_FALSE(attributes.has(AttributeName::axis));
  CHECK(attributes.integer(AttributeName::axis, 5) == 5);
}

TEST_CASE("layouts print as size:stride@axis") {
  Layout layout{{{2, 1, 1}, {2, 0, 8}}, {{4, 1, 2}, {8, 0, 1}}, {{4, -1, 0}}};
  CHECK(to_string(layout) == "registers[2:1@1, 2:8@0] lanes[4:2@1, 8:1@0] warps[4:*]");
}
