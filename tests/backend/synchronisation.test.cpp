// The check of synchronisation: it accepts the reference kernels, and finds every fault that is planted in them.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <flextile/backend/compile.hpp>
#include <flextile/ir/error.hpp>

#include "nvptx/check_synchronisation.hpp"
#include "support/reference_kernels.hpp"
#include "support/synchronisation_mutants.hpp"

using namespace flextile;
using test::attention;
using test::attention_by_distance;
using test::matmul;
using test::softmax;

namespace {

struct Scheduled {
  std::string name;
  ir::Function function;
};

Scheduled scheduled(const std::string& name, const ir::Function& traced, const Target& target) {
  const CompiledKernel kernel = compile(traced, target, {.line_info = false, .keep_stages = true, .binary = false});
  REQUIRE(kernel.stages.back().pass == "check_synchronisation");
  return {name, ir::parse(kernel.stages.back().text)};
}

const std::vector<Scheduled>& reference_kernels() {
  static const std::vector<Scheduled> kernels = [] {
    const Target hopper = Target::sm_90a(), ampere = Target::sm_80();
    std::vector<Scheduled> list;
    list.push_back(scheduled("attention 128 causal, sm_90a", attention("causal", 128, 128, hopper), hopper));
    list.push_back(scheduled("attention 128, sm_90a", attention(nullptr, 128, 128, hopper), hopper));
    list.push_back(scheduled("attention 128 causal, 12 warps, sm_90a", attention("causal", 128, 192, hopper), hopper));
    list.push_back(scheduled("attention 64 causal, sm_90a", attention("causal", 64, 128, hopper), hopper));
    list.push_back(scheduled("attention 256 causal, sm_90a", attention("causal", 256, 128, hopper), hopper));
    list.push_back(scheduled("attention 128 by distance, sm_90a", attention_by_distance(128, 128, hopper), hopper));
    list.push_back(scheduled("attention 128 causal, sm_80", attention("causal", 128, 128, ampere), ampere));
    list.push_back(scheduled("attention 64, sm_80", attention(nullptr, 64, 128, ampere), ampere));
    list.push_back(scheduled("matmul, sm_90a", matmul({.m = 128, .n = 128, .k = 64, .warps = 8, .stages = 3}), hopper));
    list.push_back(scheduled("matmul in bf16, sm_90a", matmul({.m = 128, .n = 256, .k = 64, .warps = 8, .stages = 4, .half = true}), hopper));
    list.push_back(scheduled("matmul in bf16 through one buffer, sm_90a", matmul({.m = 192, .n = 192, .k = 64, .warps = 12, .stages = 4, .half = true}), hopper));
    list.push_back(scheduled("two loops and columns, sm_90a", matmul({.m = 64, .n = 128, .k = 64, .warps = 4, .stages = 2, .twice = true, .columns = true}), hopper));
    list.push_back(scheduled("matmul of tf32, sm_90a", matmul({.m = 128, .n = 128, .k = 32, .warps = 8, .stages = 3, .element = ElementType::f32, .turned = true}), hopper));
    list.push_back(scheduled("matmul of i8, sm_90a", matmul({.m = 64, .n = 128, .k = 128, .warps = 4, .stages = 2, .element = ElementType::i8, .turned = true}), hopper));
    list.push_back(scheduled("matmul, sm_80", matmul({.m = 64, .n = 64, .k = 32, .warps = 4, .stages = 4}), ampere));
    list.push_back(scheduled("two loops and columns, sm_80", matmul({.m = 64, .n = 64, .k = 32, .warps = 4, .stages = 3, .twice = true, .columns = true}), ampere));
    list.push_back(scheduled("columns inside, sm_90a", matmul({.m = 64, .n = 128, .k = 64, .warps = 4, .stages = 2, .inside = true}), hopper));
    list.push_back(scheduled("columns inside, sm_80", matmul({.m = 64, .n = 64, .k = 32, .warps = 4, .stages = 3, .inside = true}), ampere));
    list.push_back(scheduled("softmax, sm_80", softmax(), ampere));
    return list;
  }();
  return kernels;
}

/// The error, or "" where the check accepts the function.
std::string verdict(const ir::Function& function) {
  try {
    backend::check_synchronisation(function, Target::sm_90a());
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

/// Planted where something else orders the same accesses: not a fault.
struct Harmless {
  const char *kernel, *kind;
  std::size_t site;
  bool operator==(const Harmless& other) const { return std::string(kernel) == other.kernel && std::string(kind) == other.kind && site == other.site; }
};
constexpr Harmless harmless[] = {
    // The query's barrier stands in front of a loop that begins with a barrier, and only the loop reads the query.
    {"attention 128 causal, sm_80", "drop a barrier", 0},
    {"attention 128 causal, sm_80", "barrier on some paths", 0},
    {"attention 128 causal, sm_80", "barrier before the async_wait", 0},
    // The second loop's products only add to the sums of the first one's, and its rings have bytes of their own.
    {"two loops and columns, sm_90a", "drop a product_wait", 1},
    // The reduction in the loop has a barrier, behind the reads of the stage.
    {"columns inside, sm_80", "copy before the barrier", 0},
};

}  // namespace

TEST_CASE("the check accepts the reference kernels, in less than 10 ms") {
  for (const Scheduled& kernel : reference_kernels()) {
    CAPTURE(kernel.name);
    double least = 1e9;                                  // of some runs: the machine has other work too
    for (int run = 0; run < 5; ++run) {
      const auto start = std::chrono::steady_clock::now();
      CHECK(verdict(kernel.function) == "");
      least = std::min(least, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    MESSAGE(kernel.name << ": " << least << " ms");
  }
}

TEST_CASE("the check accepts products of any shape: loops of known length, in loops, of any number of stages") {
  for (const Target& target : {Target::sm_80(), Target::sm_90a()}) {
    for (const int stages : {1, 2, 3, 5}) {
      for (const int depth : {0, 64, 128, 192, 256, 448}) {
        for (const bool repeated : {false, true}) {
          for (const bool columns : {false, true}) {
            const test::Matmul shape{.m = 64, .n = 64, .k = 64, .warps = 4, .stages = stages, .twice = columns, .columns = columns, .inside = columns != repeated, .depth = depth, .repeated = repeated};
            INFO(target.name() << ", " << stages << " stages, depth " << depth << ", repeated " << repeated << ", columns " << columns);
            CHECK_NOTHROW(compile(matmul(shape), target, {.line_info = false, .binary = false}));
            if (target == Target::sm_80() || stages == 5 || (depth != 0 && depth != 192)) continue;
            test::Matmul other = shape;
            other.turned = true;
            for (const auto& [element, k] : {std::pair{ElementType::f32, 32}, {ElementType::i8, 128}}) {
              other.element = element, other.k = k;
              CHECK_NOTHROW(compile(matmul(other), target, {.line_info = false, .binary = false}));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("every planted fault is found, and the sentence says which") {
  std::map<std::string, int> found;
  for (const Scheduled& kernel : reference_kernels()) {
    for (const test::Fault& fault : test::all_faults()) {
      for (std::size_t site = 0;; ++site) {
        test::Mutator mutator(kernel.function);
        if (!fault.plant(mutator, site)) break;
        const ir::Function mutant = ir::parse(ir::print(mutator.f));
        INFO(kernel.name << ": " << std::string(fault.kind) << ", place " << site);
        REQUIRE_NOTHROW(ir::verify(mutant, "after a fault was planted"));
        const std::string sentence = verdict(mutant);
        CAPTURE(sentence);
        if (std::find(std::begin(harmless), std::end(harmless), Harmless{kernel.name.c_str(), fault.kind, site}) != std::end(harmless)) {
          CHECK(sentence == "");
          continue;
        }
        CHECK(contains(sentence, "flextile: internal error: ["));
        CHECK(std::any_of(fault.sentences.begin(), fault.sentences.end(), [&](const char* words) { return contains(sentence, words); }));
        ++found[fault.kind];
      }
    }
  }
  for (const test::Fault& fault : test::all_faults()) {
    INFO(std::string(fault.kind));
    CHECK(found[fault.kind] > 0);
  }
  int mutants = 0;
  for (const auto& [kind, count] : found) mutants += count;
  MESSAGE(mutants << " mutants of " << found.size() << " kinds");
  CHECK(mutants >= 900);
}
