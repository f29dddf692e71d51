// Rebuilds a Function: the base of every pass. Values of the old function map to values of the new one.
#pragma once
#include <vector>

#include <flextile/ir/builder.hpp>

namespace flextile::ir {

/// Walks `source` in order into a new function. A pass copies what it keeps and emits what it changes:
///
///   Rewriter rewriter(source);
///   rewriter.run([&](OperationId id) {                  // for every operation, outer before inner
///     if (dead(id)) return true;                        // handled: nothing is copied
///     return false;                                     // not handled: copied with its blocks
///   });
///   return rewriter.take();
class Rewriter {
 public:
  explicit Rewriter(const Function& source);

  const Function& source() const { return source_; }
  /// Emits into the new function, at the current place.
  Builder& builder() { return builder_; }
  /// The new value of an old one.
  Value operator[](Value old) const { return map_[old.index]; }
  std::vector<Value> map(const std::vector<Value>& old) const;
  /// Says that uses of `old` become `replacement`.
  void replace(Value old, Value replacement);

  template <class Visit> void run(Visit&& visit) {
    struct Call {
      static bool invoke(void* context, OperationId id) { return (*static_cast<Visit*>(context))(id); }
    };
    visit_ = &Call::invoke;
    context_ = &visit;
    rewrite_block(source_.body());
  }
  /// Copies one operation, its blocks through the visitor.
  OperationId copy(OperationId id);
  /// Rewrites the operations of an old block to the current insertion point (terminator included).
  void rewrite_block(BlockId block);
  Function take();

 private:
  const Function& source_;
  Function result_;
  Builder builder_;
  std::vector<Value> map_;
  bool (*visit_)(void*, OperationId) = nullptr;
  void* context_ = nullptr;
};

}  // namespace flextile::ir
