// What is baked into a fragment and what is an argument; what is traced again and what is not.
#include <thread>

#include "check_mod.hpp"

using namespace flextile;
using namespace flextile::test;

namespace {

template <class A, class B>
auto same_as(const A& a, const B& b) {
  return [=](auto, auto, auto q, auto kv) { return a[q] == b[kv]; };
}
auto windowed(int window) {
  return [window](auto, auto, auto q, auto kv) { return q - kv < window; };
}

std::string sentence(void (*act)()) {
  try {
    act();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "no error";
}
bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("literals are part of the key, captured values are not") {
  ir::Mod a = erase_mask(windowed(3)), b = erase_mask(windowed(3)), c = erase_mask(windowed(4));
  CHECK(a.fragment == b.fragment);
  CHECK(a.key == b.key);
  CHECK(a.key != c.key);
  CHECK(a.tensors.empty());
  auto one = vector_of<i32>({1, 2}), two = vector_of<i32>({5, 6, 7});
  ir::Mod first = erase_mask(same_as(one, one)), second = erase_mask(same_as(two, two));
  CHECK(first.fragment == second.fragment);
  CHECK(first.tensors.size() == 1);
  CHECK(second.tensors[0].sizes[0] == 3);
}

TEST_CASE("a[q] == a[kv] is not a[q] == b[kv]") {
  auto a = vector_of<i32>({1, 2}), b = vector_of<i32>({1, 2});
  ir::Mod same = erase_mask(same_as(a, a)), different = erase_mask(same_as(a, b));
  CHECK(same.fragment != different.fragment);
  CHECK(same.key != different.key);
  CHECK(same.tensors.size() == 1);
  CHECK(different.tensors.size() == 2);
}

TEST_CASE("equal programs of different lambdas are one fragment") {
  ir::Mod a = erase_mask([](auto, auto, auto q, auto kv) { return q >= kv; });
  ir::Mod b = erase_mask([](auto, auto, auto query, auto key) { return query >= key; });
  CHECK(a.fragment == b.fragment);
  CHECK_FALSE(a.reads_batch);
  CHECK_FALSE(a.reads_head);
  ir::Mod c = erase_mask([](auto b, auto h, auto q, auto) { return b + h > q; });
  CHECK(c.reads_batch);
  CHECK(c.reads_head);
}

TEST_CASE("dynamic scalars are arguments") {
  auto mask = [](int window) { return [w = dynamic(window)](auto, auto, auto q, auto kv) { return q - kv < w && kv - q < w; }; };
  ir::Mod a = erase_mask(mask(3)), b = erase_mask(mask(100));
  CHECK(a.fragment == b.fragment);
  REQUIRE(a.scalars.size() == 1);  // used twice, passed once
  CHECK(a.scalars[0].element == ElementType::i32);
  CHECK(a.scalars[0].bits == 3);
  CHECK(b.scalars[0].bits == 100);
  check_mask("dynamic", mask(3), {1, 1, 8, 8}, [](int, int, int q, int k) { return q - k < 3 && k - q < 3; });
  auto scaled = [](auto x) { return [s = dynamic(x)](auto score, auto, auto, auto, auto) { return score * s; }; };
  ir::Mod c = erase_score(scaled(0.5));
  CHECK(c.scalars[0].element == ElementType::f32);
  check_score("dynamic factor", scaled(0.5), {1, 1, 4, 4}, [](double s, int, int, int, int) { return s * 0.5; });
}

TEST_CASE("learnable marks the captured tensor, also where it is captured twice") {
  auto bias = vector_of<f32>({1, 2, 3});
  ir::Mod mod = erase_score([bias = learnable(bias)](auto score, auto, auto, auto q, auto kv) { return score + bias[q] * bias[kv]; });
  REQUIRE(mod.tensors.size() == 1);
  CHECK(mod.tensors[0].learnable);
  ir::Mod plain = erase_score([bias](auto score, auto, auto, auto q, auto kv) { return score + bias[q] * bias[kv]; });
  CHECK_FALSE(plain.tensors[0].learnable);
}

TEST_CASE("a mod keeps its tensors alive, and lets them go") {
  auto tensor = vector_of<i32>({1, 2, 3});
  int before = tensor.owners();
  {
    ir::Mod mod = erase_mask(same_as(tensor, tensor));
    CHECK(tensor.owners() > before);
  }
  CHECK(tensor.owners() == before);
}

TEST_CASE("nodes of numbers and host tensors are their value") {
  auto table = vector_of<i32>({4, 5, 6});
  auto flags = vector_of<bool>({true, false});
  int index = 1;
  bool equal = table[index] == 5;
  CHECK(equal);
  int value = table[0] * 2 + table[2];
  CHECK(value == 14);
  float quotient = table[0] / 8.0f;
  CHECK(quotient == 0.5f);
  int truncated = -table[1] / 2;
  CHECK(truncated == -2);
  if (flags[1]) FAIL("flags[1] is false");
  table.at(0) = 40;  // read when asked, not when written down
  CHECK(static_cast<int>(table[0]) == 40);
}

TEST_CASE("bad indices are told with rank, sizes and index") {
  std::string outside = sentence([] { static_cast<void>(static_cast<int>(vector_of<i32>({1, 2, 3})[7])); });
  CHECK(contains(outside, "index (7)"));
  CHECK(contains(outside, "rank 1"));
  CHECK(contains(outside, "sizes (3)"));
  CHECK(contains(sentence([] { static_cast<void>(static_cast<int>(vector_of<i32>({1, 2, 3})[-1])); }), "index (-1)"));
  std::string rank = sentence([] {
    HostTensor<i32> matrix({2, 2}, {1, 2, 3, 4});
    static_cast<void>(erase_mask([matrix](auto, auto, auto q, auto) { return matrix[q] > 0; }));
  });
  CHECK(contains(rank, "has 2 axes, it is indexed with 1"));
  CHECK(contains(sentence([] { static_cast<void>(static_cast<int>(vector_of<i32>({1})[0] / vector_of<i32>({0})[0])); }), "divided by 0"));
}

TEST_CASE("many threads erase one mod") {
  std::vector<ir::Mod> mods(8 * 16);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&mods, t] {
      for (int i = 0; i < 16; ++i) mods[t * 16 + i] = erase_mask(windowed(1000 + i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 1; t < 8; ++t) {
    for (int i = 0; i < 16; ++i) CHECK(mods[t * 16 + i].fragment == mods[i].fragment);
  }
  CHECK(mods[0].fragment != mods[1].fragment);
}

TEST_CASE("constants beside a mod's nodes need no capture") {
  const int T = 3;
  check_mask(
      "constant", [](auto, auto, auto q, auto kv) { return q + T >= kv && T - 3 <= min(kv, T); }, {1, 1, 9, 9},
      [](int, int, int q, int k) { return q + 3 >= k; });
}
