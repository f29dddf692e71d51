// Which lists of a mask's tiles attention takes on a device like an H200: the fake driver (support/fake_cuda.cpp) built with FAKE_CAPABILITY=90.
#include <string>
#include <vector>

#include <flextile/flextile.hpp>

#include "runtime/fake_driver.hpp"
#include "support/cache_folder.hpp"

using namespace flextile;
using test::ask, test::fake_symbol, test::is_fake;

namespace {

std::string launched;       // kernels' names, and of flex_attention the bytes of shared memory, by which tiles are told apart

void watch(const char* name, const unsigned*, const unsigned*, unsigned shared, void**) {
  const std::string kernel = name;
  launched += (launched.empty() ? "" : " ") + kernel + (kernel == "flex_attention" ? ":" + std::to_string(shared) : "");
}

/// What `body` launches.
template <class Body> std::string launches_of(const Body& body) {
  const auto set = reinterpret_cast<void (*)(decltype(&watch))>(fake_symbol("fake_cuda_watch"));
  launched.clear();
  set(&watch);
  body();
  set(nullptr);
  return launched;
}

void events_are_done(bool done) { reinterpret_cast<void (*)(int)>(fake_symbol("fake_cuda_events_are_done"))(done); }

std::string named(const LoadedKernel& kernel) { return "flex_attention:" + std::to_string(kernel.compiled().resource_usage.shared_memory); }

/// 48 heads of 2,050 rows at head dim 64, of which 128x80 suit best.
struct Case {
  Device device = Device::cuda(0);
  Tensor<bf16> q = zeros<bf16>(device, {1, 48, 2050, 64});
  /// Launches in tiles of 128x80, and in halves of 128x128.
  std::string best = named(select_flex_attention(q, q, q, create_block_mask(masks::causal, {.q_len = 2050, .kv_len = 2050, .kv_block = 80, .device = device})));
  std::string own = named(select_flex_attention(q, q, q, create_block_mask(masks::sliding_window(200), {.q_len = 2050, .kv_len = 2050, .device = device})));
  template <class Mask> BlockMask mask(const Mask& mod) const { return create_block_mask(mod, {.q_len = 2050, .kv_len = 2050, .device = device}); }
  std::string call(const BlockMask& mask, const AttentionOptions& options = {}) const {
    return launches_of([&] { flex_attention(q, q, q, mask, options); });
  }
};

const std::string build = "classify_tiles list_tiles order_lists ";     // of rows

}  // namespace

TEST_CASE("fake Hopper: a mask of long rows is listed once in the tiles that suit the head dim, at the first call") {
  if (!is_fake()) return;
  const Case c;
  REQUIRE(c.device.target() == Target::sm_90a());
  REQUIRE(c.best != c.own);
  const BlockMask mask = c.mask(masks::causal), copy = mask;
  CHECK(c.call(mask) == build + c.best);
  CHECK(c.call(mask) == c.best);
  CHECK(c.call(copy) == c.best);
  CHECK(named(select_flex_attention(c.q, c.q, c.q, mask)) == c.best);
  const test::CacheFolder folder;                                       // of what is tuned
  CHECK(tune_flex_attention(c.q, c.q, c.q, mask).problem.find(" in tiles of 128x80, ") != std::string::npos);
  CHECK(c.call(mask, {.block_m = 128}) == c.own);                       // who sets a schedule sets it for the mask's own tiles
  CHECK(c.call(create_block_mask(masks::causal, {.q_len = 2050, .kv_len = 2050, .q_block = 128, .device = c.device})) == c.own);
  const Tensor<bf16> wide = zeros<bf16>(c.device, {1, 48, 2050, 192});
  CHECK(launches_of([&] { flex_attention(wide, wide, wide, mask); }).find("classify") == std::string::npos);   // the same tiles
  const Tensor<bf16> there = zeros<bf16>(Device::cuda(1), {1, 48, 2050, 64});
  const BlockMask moved = mask.to(Device::cuda(1));
  CHECK(launches_of([&] { flex_attention(there, there, there, moved); }) == build + c.best);
}

TEST_CASE("fake Hopper: masks, lengths and mods for which the mask's own tiles are better") {
  if (!is_fake()) return;
  const Case c;
  CHECK(c.call(c.mask(masks::sliding_window(200))) == c.own);
  CHECK(c.call(c.mask([](auto, auto, auto q, auto kv) { return q / 500 == kv / 500; })) == c.own);
  const Tensor<i32> ids = zeros<i32>(c.device, {2050});
  CHECK(c.call(c.mask([ids](auto, auto, auto q, auto kv) { return q >= kv && ids[q] == ids[kv]; })) == c.own);
  CHECK(c.call(c.mask([ids](auto, auto, auto, auto kv) { return kv < ids[0]; })) == c.own);                        // made anew at each step
  CHECK(c.call(c.mask([n = dynamic(900)](auto, auto, auto q, auto kv) { return q + n >= kv; })) == c.own);         // and so
  const BlockMask mask = c.mask(masks::causal);
  CHECK(c.call(BlockMask::from_kv_blocks(mask.to_kv_blocks(), masks::causal, {.q_len = 2050, .kv_len = 2050, .device = c.device})) == c.own);
  const auto builds = [](const std::string& launches) { return launches.find("classify") != std::string::npos; };
  const Tensor<bf16> table = zeros<bf16>(c.device, {2050, 2056});
  CHECK_FALSE(builds(launches_of([&] { flex_attention(c.q, c.q, c.q, [table](auto score, auto, auto, auto q, auto kv) { return score + table(q, kv); }, mask); })));
  const Tensor<bf16> few = zeros<bf16>(c.device, {1, 8, 2050, 64});                        // about a program for each multiprocessor
  CHECK(launches_of([&] { flex_attention(few, few, few, mask); }) == c.own);
  const Tensor<bf16> brief = zeros<bf16>(c.device, {1, 48, 1024, 64});
  const BlockMask small = create_block_mask(masks::causal, {.q_len = 1024, .kv_len = 1024, .device = c.device});
  CHECK_FALSE(builds(launches_of([&] { flex_attention(brief, brief, brief, small); })));
  CHECK(c.call(mask) == build + c.best);
}

TEST_CASE("fake Hopper: other tiles are built before whatever uses them, and never while a stream is captured") {
  if (!is_fake()) return;
  const Case c;
  const Stream stream = Stream::create(c.device), own = c.device.stream();
  const BlockMask mask = c.mask(masks::causal);
  const auto captured = [&](const Stream& where) {
    return launches_of([&] { Graph::capture(where, [&] { flex_attention(c.q, c.q, c.q, mask, {.stream = &where}); }); });
  };
  const auto waits = [&](const Stream& where) {
    const std::size_t before = ask("fake_cuda_waits");
    c.call(mask, {.stream = &where});
    return ask("fake_cuda_waits") - before;
  };
  CHECK(captured(stream) == c.own);
  CHECK(captured(own) == c.own);
  events_are_done(false);
  CHECK(c.call(mask, {.stream = &stream}) == build + c.best);
  const std::size_t pending = waits(stream);
  CHECK(captured(stream) == c.best);                // waits on the host: what was queued outside of the graph is no part of it
  CHECK(waits(stream) + 1 == pending);
  events_are_done(true);
  CHECK(captured(stream) == c.best);
}

TEST_CASE("fake Hopper: a call within a capture of the caller's, in any mode") {
  if (!is_fake()) return;
  const Case c;
  const auto begin = reinterpret_cast<int (*)(void*, int)>(fake_symbol("cuStreamBeginCapture_v2"));
  const auto end = reinterpret_cast<int (*)(void*, void**)>(fake_symbol("cuStreamEndCapture"));
  const auto destroy = reinterpret_cast<int (*)(void*)>(fake_symbol("cuGraphDestroy"));
  for (const int mode : {0, 1, 2}) {
    CAPTURE(mode);
    const Stream stream = Stream::create(c.device);
    const BlockMask mask = c.mask(masks::causal);
    events_are_done(false);                         // so that the next call asks again
    c.call(mask, {.stream = &stream});
    events_are_done(true);
    REQUIRE(begin(stream.native(), mode) == 0);
    CHECK(c.call(mask, {.stream = &stream}) == c.best);
    void* graph = nullptr;
    CHECK(end(stream.native(), &graph) == 0);
    CHECK(destroy(graph) == 0);
  }
}
