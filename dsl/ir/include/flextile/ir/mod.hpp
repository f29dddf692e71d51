// A score_mod or mask_mod behind its type: what the library's compiled code sees of a user's lambda.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <flextile/ir/function.hpp>
#include <flextile/ir/tensor_handle.hpp>

namespace flextile::ir {

/// A value for a scalar parameter of a kernel or a mod.
struct ScalarValue {
  ElementType element = ElementType::i32;
  std::uint64_t bits = 0;                 // the value's bytes, low end first
  bool operator==(const ScalarValue&) const = default;
};

/// The fragment's parameters are, in order: `score` (f32; score mods only), b, h, q, kv (i32), then one view per
/// distinct captured tensor, then one scalar per dynamic(x). Its one result is the new score (f32) or i1.
struct Mod {
  const Function* fragment = nullptr;     // interned: lives as long as the program. Null: no mod
  std::uint64_t key = 0;                  // hash of the fragment's text: equal mods have equal keys
  std::vector<TensorHandle> tensors;      // one per view parameter
  std::vector<ScalarValue> scalars;       // one per scalar parameter
  bool reads_batch = false;               // the fragment uses b
  bool reads_head = false;                // the fragment uses h

  explicit operator bool() const { return fragment != nullptr; }
};

}  // namespace flextile::ir
