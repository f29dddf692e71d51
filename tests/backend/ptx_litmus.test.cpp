// Fences, commits, bytes and arrivals in the PTX of the reference kernels: they are there, and each that is taken out is missed.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <flextile/backend/compile.hpp>

#include "support/ptx_litmus.hpp"
#include "support/reference_kernels.hpp"
#include "support/run_ptx.hpp"

using namespace flextile;
using test::attention;
using test::attention_by_distance;
using test::matmul;

namespace {

struct Compiled {
  std::string name;
  CompiledKernel kernel;
};

const std::vector<Compiled>& kernels() {
  static const std::vector<Compiled> list = [] {
    const Target hopper = Target::sm_90a();
    std::vector<Compiled> result;
    auto add = [&](const char* name, const ir::Function& function) { result.push_back({name, compile(function, hopper, {.line_info = false, .binary = false})}); };
    add("attention 128 causal", attention("causal", 128, 128, hopper));
    add("attention 128", attention(nullptr, 128, 128, hopper));
    add("attention 128 causal, 12 warps", attention("causal", 128, 192, hopper));
    add("attention 64 causal", attention("causal", 64, 128, hopper));
    add("attention 256 causal", attention("causal", 256, 128, hopper));
    add("attention 128 by distance", attention_by_distance(128, 128, hopper));
    add("matmul", matmul({.m = 128, .n = 128, .k = 64, .warps = 8, .stages = 3}));
    add("matmul in bf16", matmul({.m = 128, .n = 256, .k = 64, .warps = 8, .stages = 4, .half = true}));
    add("two loops and columns", matmul({.m = 64, .n = 128, .k = 64, .warps = 4, .stages = 2, .twice = true, .columns = true}));
    add("columns inside", matmul({.m = 64, .n = 128, .k = 64, .warps = 4, .stages = 2, .inside = true}));
    add("matmul of tf32", matmul({.m = 128, .n = 128, .k = 32, .warps = 8, .stages = 3, .element = ElementType::f32, .turned = true}));
    add("matmul of i8", matmul({.m = 128, .n = 128, .k = 128, .warps = 8, .stages = 3, .element = ElementType::i8, .turned = true}));
    add("i8, two loops and columns", matmul({.m = 64, .n = 128, .k = 128, .warps = 4, .stages = 2, .twice = true, .columns = true, .element = ElementType::i8, .turned = true}));
    add("wgmma of i8 tiles by cp.async", matmul({.m = 64, .n = 128, .k = 128, .warps = 4, .stages = 1, .element = ElementType::i8, .turned = true}));
    add("wgmma of tiles by cp.async", matmul({.m = 64, .n = 128, .k = 64, .warps = 4, .stages = 1}));
    return result;
  }();
  return list;
}

std::vector<std::string> complaints(const CompiledKernel& kernel, const std::string& ptx) {
  CompiledKernel changed = kernel;
  changed.ptx_text = ptx;
  return test::PtxLitmus(changed).complaints();
}

/// A line of the text that holds `words` becomes `replacement`, "" for none: what is taken out, and what must be said.
struct Fault {
  const char *kind, *words;
  std::string (*replacement)(const std::string& line);
  const char* sentences;     // one of them, with | in between
};

std::string nothing(const std::string&) { return ""; }
std::string twice(const std::string& line) { return line + "\n" + line; }
template <int from, int to> std::string other_number(const std::string& line) {
  std::string result = line;
  const std::size_t at = line.rfind(std::to_string(from));
  return at == std::string::npos ? line : result.replace(at, std::to_string(from).size(), std::to_string(to));
}
std::string half_the_bytes(const std::string& line) {
  const std::size_t at = line.rfind(' ') + 1;
  return line.substr(0, at) + std::to_string(std::stoi(line.substr(at)) / 2) + ";";
}
std::string another_count(const std::string& line) { return line.substr(0, line.rfind(' ') + 1) + "2;"; }

constexpr const char* too_early = "before its wgmma is waited for|while more than one batch is in flight|a ring is made while";

const Fault faults[] = {
    {"drop fence.mbarrier_init", "fence.mbarrier_init", nothing, "no fence.mbarrier_init stands between"},
    {"drop the ring's fence.proxy.async", "fence.proxy.async", nothing, "no fence.proxy.async"},
    {"drop wgmma.fence", "wgmma.fence", nothing, "no wgmma.fence stands before the first wgmma"},
    {"drop commit_group", "wgmma.commit_group", nothing, ""},
    {"drop wait_group", "wgmma.wait_group", nothing, too_early},
    {"wait for one batch less: 0", "wgmma.wait_group.sync.aligned 0", other_number<0, 1>, too_early},
    {"wait for one batch less: 1", "wgmma.wait_group.sync.aligned 1", other_number<1, 2>, too_early},
    {"drop expect_tx", "expect_tx", nothing, "a copy stands behind no expect_tx"},
    {"expect_tx twice", "expect_tx", twice, "whose copies bring 0"},
    {"half the bytes", "expect_tx", half_the_bytes, "whose copies bring"},
    {"drop a copy", "shared::cluster.global", nothing, "whose copies bring"},
    {"a copy twice", "shared::cluster.global", twice, "whose copies bring"},
    {"drop a warpgroup's barrier", "bar.sync %r", nothing, "no barrier stands between"},
    {"drop a store's commit_group", "cp.async.bulk.commit_group", nothing, "a bulk store is not committed"},
    {"drop a store's wait_group", "cp.async.bulk.wait_group", nothing, "a bulk store may still be reading"},
    {"go on where a try_wait fails", "bra $wait_", nothing, "a try_wait is not tried again"},
    {"another number of arrivals", "mbarrier.init", another_count, "neither one arrival nor one of each warp"},
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool says_one_of(const std::string& text, const std::string& sentences) {
  std::istringstream in(sentences);
  for (std::string words; std::getline(in, words, '|');) {
    if (text.find(words) != std::string::npos) return true;
  }
  return sentences.empty();
}

/// The wait for a batch that another one follows directly, whose wait covers both: a dot of several batches.
bool is_covered(const std::vector<std::string>& lines, std::size_t wait) {
  for (std::size_t i = wait + 1; i < std::min(wait + 60, lines.size()); ++i) {
    if (lines[i].find("wgmma.fence") != std::string::npos) return true;
    if (lines[i].find("bra") != std::string::npos || lines[i].find("mbarrier") != std::string::npos) return false;
  }
  return false;
}

/// With cp.async each barrier has a fence; the last one in front of a wgmma orders all that landed before.
bool another_fence_follows(const std::vector<std::string>& lines, std::size_t fence) {
  for (std::size_t i = fence + 1; i < lines.size(); ++i) {
    if (lines[i].find("fence.proxy.async") != std::string::npos) return true;
    if (lines[i].find("wgmma.fence") != std::string::npos) return false;
  }
  return false;
}

/// Taking it out is no fault.
bool is_harmless(const std::vector<std::string>& lines, std::size_t at) {
  if (lines[at].find("bar.sync %r") != std::string::npos && lines[at].find(", 128;") == std::string::npos) return true;   // of turns to start products
  if (lines[at].find("wgmma.wait_group") != std::string::npos) return is_covered(lines, at);
  return lines[at].find("fence.proxy.async") != std::string::npos && another_fence_follows(lines, at);
}

}  // namespace

TEST_CASE("the PTX of the reference kernels has its fences") {
  for (const Compiled& each : kernels()) {
    CAPTURE(each.name);
    CHECK(each.kernel.ptx().find("wgmma.mma_async") != std::string::npos);
    for (const std::string& sentence : complaints(each.kernel, each.kernel.ptx())) FAIL_CHECK(sentence);
  }
}

TEST_CASE("what is taken out of the PTX is missed") {
  int mutants = 0;
  for (const Compiled& each : kernels()) {
    const std::vector<std::string> lines = lines_of(each.kernel.ptx());
    for (const Fault& fault : faults) {
      for (std::size_t at = 0; at < lines.size(); ++at) {
        if (lines[at].find(fault.words) == std::string::npos || is_harmless(lines, at)) continue;
        std::string text;
        for (std::size_t i = 0; i < lines.size(); ++i) text += (i == at ? fault.replacement(lines[i]) : lines[i]) + "\n";
        INFO(each.name << ": " << std::string(fault.kind) << " at line " << at << ": " << lines[at].substr(0, 120));
        const std::vector<std::string> said = complaints(each.kernel, text);
        std::string all;
        for (const std::string& sentence : said) all += sentence.substr(0, 200) + "\n";
        CAPTURE(all);
        CHECK_FALSE(said.empty());
        CHECK(says_one_of(all, fault.sentences));
        ++mutants;
      }
    }
  }
  CHECK(mutants > 400);
  MESSAGE(mutants << " mutants of " << std::size(faults) << " kinds");
}

namespace {

/// What the emulator makes of the product of 64 x k and k x 64 numbers, by so many workers for four programs, with this text: "", "wrong numbers" or what was thrown.
std::string outcome(const CompiledKernel& kernel, int k, std::uint32_t workers) {
  constexpr int m = 64, n = 64;
  const int pitch = std::max(k, 64);         // of rows in memory
  std::vector<bf16> a(static_cast<std::size_t>(m * pitch)), b(static_cast<std::size_t>(pitch * n));
  std::vector<float> c(m * n, -1), expected(m * n, 0);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = bf16(static_cast<float>(static_cast<int>(i * 7919 % 5) - 2));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = bf16(static_cast<float>(static_cast<int>(i * 104729 % 7) - 3));
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      for (int x = 0; x < k; ++x) expected[static_cast<std::size_t>(i * n + j)] += static_cast<float>(a[static_cast<std::size_t>(i * pitch + x)]) * static_cast<float>(b[static_cast<std::size_t>(x * n + j)]);
  void *a_base = a.data(), *b_base = b.data(), *c_base = c.data();
  std::int32_t a_sizes[2] = {m, k}, b_sizes[2] = {k, n}, c_sizes[2] = {m, n};
  std::int64_t a_strides[2] = {pitch, 1}, b_strides[2] = {n, 1}, c_strides[2] = {n, 1};
  void* arguments[] = {&a_base,       &a_sizes[0],   &a_sizes[1],   &a_strides[0], &a_strides[1], &b_base,       &b_sizes[0],  &b_sizes[1],
                       &b_strides[0], &b_strides[1], &c_base,       &c_sizes[0],   &c_sizes[1],   &c_strides[0], &c_strides[1]};
  try {
    test::run_workers(kernel, arguments, workers, {4, 1, 1}, {{a.data(), a.size() * 2}, {b.data(), b.size() * 2}, {c.data(), c.size() * 4}});
  } catch (const std::exception& error) {
    return error.what();
  }
  return c == expected ? "" : "wrong numbers";
}

}  // namespace

TEST_CASE("a wait for the other phase shows in the emulator") {
  const CompiledKernel kernel = compile(matmul({.m = 64, .n = 64, .k = 64, .warps = 4, .stages = 2}), Target::sm_90a(), {.line_info = false, .binary = false});
  constexpr int depths[] = {320, 64, 0};     // turns of a program: more than there are stages, fewer, and none
  for (const int depth : depths) {
    for (const std::uint32_t workers : {1u, 2u}) REQUIRE(outcome(kernel, depth, workers) == "");   // the second in the other order
  }
  const std::vector<std::string> lines = lines_of(kernel.ptx());
  int waits = 0;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    const std::size_t parity = lines[at].rfind(", ");
    if (lines[at].find("mbarrier.try_wait.parity") == std::string::npos) continue;
    ++waits;
    CompiledKernel changed = kernel;
    changed.ptx_text.clear();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (i + 1 == at) changed.ptx_text += "\txor.b32 %other_phase, " + lines[at].substr(parity + 2, lines[at].size() - parity - 3) + ", 1;\n";   // in front of its label
      changed.ptx_text += (i == at ? lines[i].substr(0, parity) + ", %other_phase;" : lines[i]) + "\n";
    }
    CAPTURE(lines[at]);
    std::string all;
    for (const int depth : depths) all += outcome(changed, depth, 1) + outcome(changed, depth, 2);
    CHECK(all != "");
  }
  CHECK(waits >= 4);
}
