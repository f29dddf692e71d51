// What is wrong with a captured tensor or a plain number in a mod is one sentence, with "flextile: " in front.
#include <flextile/flextile.hpp>

#include "check_kernel.hpp"

using namespace flextile;
using namespace flextile::test;

namespace {

template <class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a captured tensor that is null says so") {
  const Tensor<i32> none;
  const auto one = [none](auto, auto, auto q, auto kv) { return none[q] == kv; };
  const auto two = [none](auto score, auto, auto h, auto q, auto) { return score + none(h, q); };
  const std::string null = "flextile: [capture] the captured tensor is null (it was default-constructed or moved from) and must be a tensor of ";
  CHECK(message_of([&] { erase_mask(one); }) == null + "1 axis, as it is indexed: make it before the mod captures it");
  CHECK(message_of([&] { erase_score(two); }) == null + "2 axes, as it is indexed: make it before the mod captures it");
  CHECK(message_of([&] { one(0, 0, 1, 2) ? void() : void(); }).starts_with(null + "1 axis"));
  CHECK(message_of([&] { evaluate_mask(one, 0, 0, 1, 2); }).starts_with(null + "1 axis"));
  CHECK(message_of([&] { create_block_mask(one, {.q_len = 8, .kv_len = 8}); }).starts_with(null + "1 axis"));
}

TEST_CASE("a captured tensor of another rank, or read outside of itself") {
  const Tensor<i32> row = full<i32>(Device::host(), {3}, 1), empty_row = zeros<i32>(Device::host(), {0}), table = full<i32>(Device::host(), {2, 2}, 1);
  const auto wrong_rank = [table](auto, auto, auto q, auto kv) { return table[q] == kv; };
  const std::string rank = "flextile: [capture] the captured tensor has 2 axes, it is indexed with 1: there must be one index per axis";
  CHECK(message_of([&] { erase_mask(wrong_rank); }) == rank);
  CHECK(message_of([&] { evaluate_mask(wrong_rank, 0, 0, 0, 0); }) == rank);
  const auto read = [](const Tensor<i32>& tensor) { return [tensor](auto, auto, auto q, auto kv) { return tensor[q] == kv; }; };
  CHECK(message_of([&] { evaluate_mask(read(row), 0, 0, 3, 0); }) ==
        "flextile: [capture] index (3) is outside the captured tensor of rank 1 and sizes (3): axis 0 has indices 0 to 2");
  CHECK(message_of([&] { evaluate_mask(read(empty_row), 0, 0, 0, 0); }) ==
        "flextile: [capture] index (0) is outside the captured tensor of rank 1 and sizes (0): axis 0 has no elements");
}

TEST_CASE("an integer divided by 0") {
  const auto halves = [](auto, auto, auto q, auto kv) { return q / kv == 1; };
  CHECK(message_of([&] { evaluate_mask(halves, 0, 0, 7, 0); }) == "flextile: [div] 7 is divided by 0: the divisor of an integer must not be 0");
}
