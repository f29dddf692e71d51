// Loops with two products that are not attention's: what is computed before the late one is waited for.
#include <string>

#include <doctest/doctest.h>

#include <flextile/backend/compile.hpp>
#include <flextile/dsl/dsl.hpp>

using namespace flextile;

namespace {

/// sum over keys of weights . v / sum of weights, with `total` summed as `summed` says, for 128 rows.
template <class Sum>
CompiledKernel two_products(int warps, const ir::Shape& shape, Sum&& summed) {
  ir::Function function = trace("two_products", [&](Parameters& p) {
    const ElementType half = ElementType::bf16, f32_type = ElementType::f32;
    const auto matrix = [&](const char* name, ElementType element) { return p.view(name, element, 2, {.aligned = true, .unit_stride = true}); };
    AnyView q = matrix("q", half), k = matrix("k", half), v = matrix("v", half), out = matrix("out", f32_type);
    AnyTile row = program_id(0) * 128, rows = load(q, {row, 0}, {128, 128});
    AnyVar acc = full(f32_type, {128, 128}, 0.0f), total = full(f32_type, shape, 0.0f);
    for (auto i : range(0, k.size(0), 128, {.stages = 2})) {
      AnyTile weights = exp2(dot(rows, trans(load(k, {i, 0}, {128, 128}))));
      total = total + summed(weights);
      acc = dot(cast(weights, half), load(v, {i, 0}, {128, 128}), acc * 0.5f);
    }
    AnyTile divisor = shape.size() == 1 ? expand_dims(total, 1) : AnyTile(total);
    store(out, acc / divisor, {row, 0});
  }, {.num_warps = warps});
  for (int i : {0, 1, 2}) function.parameters[static_cast<std::size_t>(i)].read_only = true;
  return compile(function, Target::sm_90a(), {.line_info = false, .binary = false});
}

int votes(const CompiledKernel& kernel) {
  int count = 0;
  for (std::size_t at = 0; (at = kernel.ptx().find("0f7F7FFFFF", at)) != std::string::npos; ++at) ++count;
  return count;
}

}  // namespace

TEST_CASE("two warpgroups wait for a late product behind half of the rows' sums, where rows are summed") {
  const auto by_row = [](const AnyTile& x) { return sum(x, 1); };
  const auto in_all = [](const AnyTile& x) { return sum(sum(x, 1), 0); };
  const auto in_pairs = [](const AnyTile& x) { return sum(reshape(sum(reshape(x, {128 * 64, 2}), 1), {128 * 64}), 0); };
  CHECK(votes(two_products(8, {128}, by_row)) == 1);
  CHECK(votes(two_products(4, {128}, by_row)) == 0);
  CHECK(votes(two_products(8, {}, in_all)) == 1);       // one number for all has no rows; its parts have
  CHECK(votes(two_products(8, {}, in_pairs)) == 0);
  CHECK(votes(two_products(4, {}, in_all)) == 0);
}
