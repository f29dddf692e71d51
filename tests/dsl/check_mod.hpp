// Checks a mod in every form that it has: with plain numbers, evaluated, and as the IR fragment, interpreted.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "host_tensor.hpp"
#include "support/interpreter.hpp"

namespace flextile::test {

inline Number run_fragment(const ir::Mod& mod, const std::vector<Number>& indices) {
  std::vector<Contents> arguments;
  for (const Number& index : indices) arguments.push_back({{index}, 0, {}, {}});
  for (const ir::TensorHandle& tensor : mod.tensors) {
    Contents view;
    view.base = reinterpret_cast<std::uint64_t>(tensor.data);
    view.sizes.assign(tensor.sizes.begin(), tensor.sizes.begin() + tensor.rank);
    view.strides.assign(tensor.strides.begin(), tensor.strides.begin() + tensor.rank);
    arguments.push_back(view);
  }
  for (const ir::ScalarValue& scalar : mod.scalars) {
    std::uint64_t bits = scalar.bits;
    arguments.push_back({{read_element(scalar.element, reinterpret_cast<std::uint64_t>(&bits))}, 0, {}, {}});
  }
  return interpret(*mod.fragment, arguments, {}).at(0).elements.at(0);
}

/// The fragment is right IR, and its text comes back.
inline void check_fragment(const ir::Mod& mod) {
  REQUIRE(mod.fragment != nullptr);
  ir::verify(*mod.fragment, "erase");
  std::string text = print(*mod.fragment);
  CHECK(print(ir::parse(text)) == text);
}

struct Extents {
  int batches = 1, heads = 1, queries = 1, keys = 1, step = 1;
};

template <class Mod, class Oracle>
void check_mask(const char* name, const Mod& mod, Extents extents, Oracle&& oracle) {
  INFO(std::string(name));
  ir::Mod erased = erase_mask(mod);
  check_fragment(erased);
  int wrong_plain = 0, wrong_evaluated = 0, wrong_fragment = 0, shown = 0, all = 0;
  for (int b = 0; b < extents.batches; ++b)
    for (int h = 0; h < extents.heads; ++h)
      for (int q = 0; q < extents.queries; q += extents.step)
        for (int k = 0; k < extents.keys; k += extents.step) {
          bool expected = oracle(b, h, q, k);
          bool plain = mod(b, h, q, k);
          wrong_plain += plain != expected;
          wrong_evaluated += evaluate_mask(mod, b, h, q, k) != expected;
          wrong_fragment += (run_fragment(erased, {{b}, {h}, {q}, {k}}).integer != 0) != expected;
          shown += expected, ++all;
        }
  CHECK(wrong_plain == 0);
  CHECK(wrong_evaluated == 0);
  CHECK(wrong_fragment == 0);
  if (extents.queries * extents.keys > 1) CHECK_MESSAGE((shown > 0 && shown < all), "the example shows some and hides some");
}

template <class Mod, class Oracle>
void check_score(const char* name, const Mod& mod, Extents extents, Oracle&& oracle) {
  INFO(std::string(name));
  ir::Mod erased = erase_score(mod);
  check_fragment(erased);
  double worst_plain = 0, worst_evaluated = 0;
  int different = 0;
  for (int b = 0; b < extents.batches; ++b)
    for (int h = 0; h < extents.heads; ++h)
      for (int q = 0; q < extents.queries; q += extents.step)
        for (int k = 0; k < extents.keys; k += extents.step) {
          float score = 0.37f * static_cast<float>(q) - 0.21f * static_cast<float>(k) + 0.5f;
          double expected = oracle(score, b, h, q, k);
          float plain = mod(score, b, h, q, k);
          float evaluated = evaluate_score(mod, score, b, h, q, k);
          double scale = 1 + std::fabs(expected);
          worst_plain = std::max(worst_plain, std::fabs(plain - expected) / scale);
          worst_evaluated = std::max(worst_evaluated, std::fabs(evaluated - expected) / scale);
          double fragment = run_fragment(erased, {{0, score}, {b}, {h}, {q}, {k}}).real;
          different += std::fabs(fragment - evaluated) > 4e-7 * scale;
        }
  CHECK(worst_plain < 3e-6);
  CHECK(worst_evaluated < 3e-6);
  CHECK(different == 0);
}

}  // namespace flextile::test
