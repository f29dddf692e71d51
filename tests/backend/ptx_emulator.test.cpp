// The emulator itself, with kernels written by hand: a producer thread fills a ring of two stages by tensor map copies, four
// consumer warps sum the boxes. Each fault that such a kernel can have must show in one of the emulator's two orders.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../support/run_ptx.hpp"

using namespace flextile;
using ir::Type;

namespace {

/// What differs between the kernels. The defaults are right.
struct Ring {
  bool synchronised = true;                // all threads wait for the initialised mbarriers
  bool acquires = true, waits = true;      // the producer for the release, the consumers for the copy
  bool tries_again = true;                 // both, when a try_wait fails
  bool releases = true, early = false;     // early: before the stage is read
  int acquire_parity = 1, wait_parity = 0; // of the first turn
  int bytes = 1024;                        // that a phase expects
  std::string target = "shl.b32 %r10, %r4, 10;";
  std::string copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r10], [%rd2, {%r12, %r11}], [%r9];";
  std::string finish = "bar.sync 1, 128;"; // of the consumers
  int row = 0, column = 0;                 // where the first box begins; each turn 8 rows further
};

std::string wait(const Ring& ring, int label, const std::string& mbarrier, const std::string& parity) {
  const std::string again = ring.tries_again ? "\t@!%landed bra $wait_" + std::to_string(label) + ";\n" : "";
  return "{\n\t.reg .pred %landed;\n$wait_" + std::to_string(label) + ":\n\tmbarrier.try_wait.parity.shared::cta.b64 %landed, [" + mbarrier + "], " + parity + ";\n" + again +
         "\t}\n";
}

/// Stages of 8 x 32 f32 at 0 and 1024, mbarriers: full at 2048 and 2056, empty at 2064 and 2072.
std::string text(const Ring& ring) {
  const std::string release = R"(
	bar.warp.sync -1;
	mov.u32 %r20, %laneid;
	setp.eq.s32 %p5, %r20, 0;
	@%p5 mbarrier.arrive.shared::cta.b64 _, [%r8];
)";
  const std::string turn = R"(
	setp.ge.s32 %p4, %r3, %r2;
	@%p4 bra $LEAVE;
	and.b32 %r4, %r3, 1;
	shr.u32 %r5, %r3, 1;
	shl.b32 %r7, %r4, 3;
	add.s32 %r9, %r7, 2048;
	add.s32 %r8, %r7, 2064;
)";
  auto leave_to = [&](const std::string& label) {
    std::string result = turn;
    return result.replace(result.find("$LEAVE"), 6, label);
  };
  return R"(
.visible .entry ring(
	.param .u64 .ptr .global .align 1 ring_param_0,
	.param .u32 ring_param_1,
	.param .u32 ring_param_2,
	.param .u64 ring_param_3,
	.param .u64 ring_param_4,
	.param .u64 .ptr .global .align 1 ring_param_5,
	.param .u32 ring_param_6,
	.param .align 64 .b8 ring_param_7[128]
)
.reqntid 256
{
	mov.u32 %r1, %tid.x;
	ld.param.b32 %r2, [ring_param_6];
	ld.param.b64 %rd3, [ring_param_5];
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra $ready;
	mbarrier.init.shared::cta.b64 [shared_memory+2048], 1;
	mbarrier.init.shared::cta.b64 [shared_memory+2056], 1;
	mov.b32 %r13, 4;
	mbarrier.init.shared::cta.b64 [shared_memory+2064], %r13;
	mbarrier.init.shared::cta.b64 [shared_memory+2072], %r13;
	fence.mbarrier_init.release.cluster;
$ready:
)" + std::string(ring.synchronised ? "	bar.sync 0;\n" : "") + R"(
	mov.b32 %r3, 0;
	setp.lt.u32 %p2, %r1, 128;
	@%p2 bra $consumer;
	setmaxnreg.dec.sync.aligned.u32 40;
	setp.ge.u32 %p2, %r1, 160;
	@%p2 bra $end;
	elect.sync %r21|%p3, -1;
	@!%p3 bra $end;
	mov.b64 %rd1, ring_param_7;
	cvta.param.u64 %rd2, %rd1;
	prefetch.tensormap [%rd2];
$produce:
)" + leave_to("$end") + "	add.s32 %r6, %r5, " + std::to_string(ring.acquire_parity) + ";\n" + (ring.acquires ? wait(ring, 1, "%r8", "%r6") : "") +
         "	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], " + std::to_string(ring.bytes) + ";\n" + ring.target + R"(
	shl.b32 %r11, %r3, 3;
	add.s32 %r11, %r11, )" + std::to_string(ring.row) + ";\n	mov.b32 %r12, " + std::to_string(ring.column) + ";\n" + ring.copy + R"(
	add.s32 %r3, %r3, 1;
	bra.uni $produce;
$consumer:
	setmaxnreg.inc.sync.aligned.u32 232;
	shl.b32 %r14, %r1, 2;
	shr.u32 %r15, %r14, 7;
	and.b32 %r15, %r15, 7;
	shl.b32 %r15, %r15, 4;
	xor.b32 %r14, %r14, %r15;
	mov.b32 %r16, 0f00000000;
	mov.b32 %r17, 0f00000000;
$consume:
)" + leave_to("$sum") + "	add.s32 %r6, %r5, " + std::to_string(ring.wait_parity) + ";\n" + (ring.waits ? wait(ring, 2, "%r9", "%r6") : "") + (ring.early ? release : "") + R"(
	shl.b32 %r10, %r4, 10;
	add.s32 %r10, %r10, %r14;
	ld.shared.b32 %r18, [%r10];
	xor.b32 %r10, %r10, 64;
	ld.shared.b32 %r19, [%r10+512];
	add.rn.f32 %r16, %r16, %r18;
	add.rn.f32 %r17, %r17, %r19;
)" + (ring.releases && !ring.early ? release : "") + R"(
	add.s32 %r3, %r3, 1;
	bra.uni $consume;
$sum:
)" + ring.finish + R"(
	mul.wide.u32 %rd4, %r1, 4;
	add.s64 %rd4, %rd3, %rd4;
	st.global.b32 [%rd4], %r16;
	st.global.b32 [%rd4+512], %r17;
$end:
	ret;
}
)";
}

constexpr int turns = 5, rows = 37, columns = 44, pitch = 48;

struct Result {
  bool right = false;
  std::string thrown;
  bool says(const std::string& part) const { return thrown.find(part) != std::string::npos; }
};

Result run(const Ring& ring, bool at_once) {
  std::vector<float> x(rows * pitch), out(256, -1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1021);
  CompiledKernel kernel;
  kernel.ptx_text = text(ring);
  kernel.parameters = {{.name = "x", .type = Type::view(ElementType::f32, 2)}, {.name = "out", .type = Type::pointer(ElementType::f32)}, {.name = "n", .type = Type::scalar(ElementType::i32)}};
  kernel.tensor_maps = {{.parameter = 0, .box = {8, 32}, .swizzle = 128}};
  kernel.resource_usage.shared_memory = 2080;
  float *base = x.data(), *result = out.data();
  std::int32_t sizes[2] = {rows, columns}, count = turns;
  std::int64_t strides[2] = {pitch, 1};
  void* arguments[] = {&base, &sizes[0], &sizes[1], &strides[0], &strides[1], &result, &count};
  try {
    test::run_ptx(kernel, arguments, {{0, 0, 0}, {1, 1, 1}}, {{x.data(), 4 * x.size()}, {out.data(), 4 * out.size()}}, at_once);
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
  std::vector<float> expected(256, 0);
  for (int turn = 0; turn < turns; ++turn)
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 32; ++j) {
        const int row = ring.row + 8 * turn + i, column = ring.column + j;
        if (row >= 0 && row < rows && column >= 0 && column < columns) expected[static_cast<std::size_t>(32 * i + j)] += x[static_cast<std::size_t>(row * pitch + column)];
      }
  return {out == expected, ""};
}

constexpr bool late = false, at_once = true;
bool noticed(const Ring& ring, bool order) { return !run(ring, order).right; }

void check_deadlock(const Ring& ring, bool order, const std::string& part) {
  const Result result = run(ring, order);
  CAPTURE(result.thrown);
  CHECK(result.says("deadlock:"));
  CHECK(result.says(part));
}

void check_throws(const Ring& ring, const std::string& part) {
  for (const bool order : {late, at_once}) {
    const Result result = run(ring, order);
    CAPTURE(result.thrown);
    CHECK(result.says(part));
  }
}

}  // namespace

TEST_CASE("a ring between a producer thread and consumer warps gives the right numbers in both orders") {
  for (const bool order : {late, at_once}) {
    CAPTURE(order);
    for (const Ring& ring : {Ring{}, Ring{.row = -3, .column = 20}, Ring{.row = -11, .column = -28}, Ring{.row = 100, .column = 0}, Ring{.row = 0, .column = 44}}) {
      CAPTURE(ring.row);
      CAPTURE(ring.column);
      const Result result = run(ring, order);
      CAPTURE(result.thrown);
      CHECK(result.right);
    }
  }
}

TEST_CASE("the emulator notices waits that are missing or for the wrong parity") {
  CHECK(noticed({.waits = false}, late));
  CHECK(noticed({.acquires = false}, at_once));
  CHECK(noticed({.tries_again = false}, late));
  CHECK(noticed({.tries_again = false}, at_once));
  CHECK(noticed({.wait_parity = 1}, late));
  CHECK(noticed({.wait_parity = 1}, at_once));
  for (const bool order : {late, at_once}) check_deadlock({.acquire_parity = 0}, order, "warp 4 waits for parity 0 of the mbarrier at shared address 2064, whose phase 0 lacks 4 of 4 arrivals");
  CHECK(run({.synchronised = false}, at_once).says("the mbarrier at shared address 2064 is used before it is initialised"));
}

TEST_CASE("the emulator notices releases that are missing or too early") {
  for (const bool order : {late, at_once}) {
    check_deadlock({.releases = false}, order, "warps 0, 1, 2, 3 wait for parity 1 of the mbarrier at shared address 2048");
    check_deadlock({.releases = false}, order, "warp 4 waits for parity 0 of the mbarrier at shared address 2064, whose phase 0 lacks 4 of 4 arrivals and 0 bytes");
  }
  const Result result = run({.early = true}, at_once);
  CAPTURE(result.thrown);
  CHECK(result.thrown.empty());
  CHECK_FALSE(result.right);
}

TEST_CASE("the emulator notices a phase that expects too few or too many bytes") {
  check_deadlock({.bytes = 2048}, late, "and 1024 bytes");
  check_deadlock({.bytes = 2048}, at_once, "and 1024 bytes");
  const std::string copy = Ring{}.copy;
  CHECK(noticed({.bytes = 512}, late));
  CHECK(noticed({.bytes = 0}, late));
  CHECK(noticed({.copy = copy + "\n" + copy}, at_once));
}

TEST_CASE("the emulator refuses copies that the copy engine can't do") {
  check_throws({.target = "add.s32 %r10, %r4, 64;"}, "must be a multiple of 1024");
  check_throws({.column = -30}, "a box begins at element -30 of its rows: must be a multiple of 16 bytes");
  check_throws({.target = "mov.b32 %r10, 2048;"}, "a box of 1024 bytes ends outside shared memory");
  check_throws({.copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r10], [%rd3, {%r12, %r11}], [%r9];"}, "the address is no tensor map's");
  check_throws({.copy = "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r10], [%rd2, {%r12, %r11, %r11}], [%r9];"},
               "3 coordinates for a tensor map of 2 axes");
  check_throws({.copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r10], [%rd2, {%r12, %r11}], [%r10];"},
               "the mbarrier at shared address 0 is used before it is initialised");
  check_throws({.copy = "ld.param.b64 %rd5, [ring_param_7];"}, "ld.param reads a tensor map");
  check_throws({.copy = "mov.b64 %rd5, ring_param_5;"}, "the address of a parameter that is no tensor map");
  check_throws({.copy = "st.shared.b64 [shared_memory+2064], %rd2;"}, "the mbarrier at shared address 2064 was overwritten");
}

TEST_CASE("the emulator's barriers are for the threads that they name") {
  for (const bool order : {late, at_once}) {
    CHECK(run({.finish = "barrier.sync 3, 128;"}, order).right);
    CHECK(run({.finish = "bar.sync 0;"}, order).right);                 // the producer's threads have ended
    CHECK(run({.finish = "setp.lt.u32 %p6, %r1, 64;\n@%p6 bar.sync 1, 64;\n@!%p6 bar.sync 2, 64;"}, order).right);
    check_deadlock({.finish = "bar.sync 1, 160;"}, order, "warps 0, 1, 2, 3 wait at barrier 1 of 160 threads");
  }
  check_throws({.finish = "bar.sync 1, 64;"}, "threads come to barrier 1 of 64");
  check_throws({.finish = "bar.sync 16, 128;"}, "barrier 16: must be from 0 to 15");
  check_throws({.finish = "bar.sync 1, 100;"}, "a barrier of 100 threads: must be a multiple of 32");
  check_throws({.finish = "setp.lt.u32 %p6, %r1, 64;\n@%p6 setmaxnreg.dec.sync.aligned.u32 232;"}, "setmaxnreg was executed by 2 warps of a warpgroup");
}

TEST_CASE("a wgmma reads shared memory until the warp has waited for it") {
  // 64 x 8 = 64 x 16 of ones . 16 x 8 of ones. `between` comes before the wait and `after` behind it.
  auto sums = [](const std::string& between, const std::string& after, bool order) {
    test::PtxEmulator emulator(R"(
.visible .entry product(
	.param .u64 .ptr .global .align 1 product_param_0
)
.reqntid 128
{
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 3;
	mov.b64 %rd1, 0x3f803f803f803f80;
	mov.b64 %rd2, 0;
	st.shared.b64 [%r2], %rd1;
	bar.sync 0;
	mov.b32 %r3, 0x3f803f80;
	mov.b64 %rd3, 0x4000004000000000;
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r4,%r5,%r6,%r7}, {%r3,%r3,%r3,%r3}, %rd3, 0, 1, 1, 0;
	wgmma.commit_group.sync.aligned;
)" + between + "\n" + after + R"(
	ld.param.b64 %rd4, [product_param_0];
	mul.wide.u32 %rd5, %r1, 16;
	add.s64 %rd4, %rd4, %rd5;
	st.global.v4.b32 [%rd4], {%r4, %r5, %r6, %r7};
	ret;
}
)");
    std::vector<float> out(64 * 8, -1);
    emulator.allow(out.data(), 4 * out.size());
    emulator.run({1, 1, 1}, {reinterpret_cast<std::uint64_t>(out.data())}, 1024, order);
    return out;
  };
  const std::vector<float> expected(64 * 8, 16);
  const std::string clear = "bar.sync 0;\nst.shared.b64 [%r2], %rd2;\nbar.sync 0;", wait = "wgmma.wait_group.sync.aligned 0;";
  for (const bool order : {late, at_once}) CHECK(bool(sums(wait, clear, order) == expected));
  CHECK(bool(sums(clear, wait, late) == expected));
  CHECK_FALSE(bool(sums(clear, wait, at_once) == expected));
  CHECK_FALSE(bool(sums("wgmma.wait_group.sync.aligned 1;", "mov.b32 %r8, %r4;\nwgmma.wait_group.sync.aligned 0;\nmov.b32 %r4, %r8;", at_once) == expected));
  CHECK_THROWS_WITH(sums("", "", at_once), "a warp ends before it has waited for its wgmma");
}
