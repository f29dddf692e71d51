// The function that is being traced on this thread, and its variables.
#pragma once
#include <flextile/ir/builder.hpp>
#include <flextile/ir/error.hpp>
#include <flextile/ir/identity.hpp>
#include <source_location>

namespace flextile {

using Where = std::source_location;

/// One trace. A variable is a slot that holds its current value; loops and branches merge the slots that changed.
class Tracing {
 public:
  ir::Builder builder;
  const std::uint64_t identity = ir::new_identity();
  std::vector<ir::Value> slots;
  /// The variable that each slot was last given to: a slot is reused after the loop or branch that its variable was made in.
  std::vector<std::uint64_t> owners;

  explicit Tracing(ir::Function& function) : builder(function), outer_(current_) { current_ = this; }
  Tracing(const Tracing&) = delete;
  ~Tracing() { current_ = outer_; }

  static Tracing& current() {
    if (!current_)
      throw CompileError(
          "flextile: compile error: no kernel is being traced: tiles exist only inside a kernel's lambda or flextile::trace");
    return *current_;
  }
  /// A slot for a new variable of this trace, and a number that no other variable has.
  std::uint64_t make_variable(ir::Value value) {
    slots.push_back(value);
    owners.resize(slots.size());
    return owners.back() = ir::new_identity();
  }

 private:
  Tracing* outer_;
  static inline thread_local Tracing* current_ = nullptr;
};

/// A value as tiles, pointers and views hold it: it can be used only in the trace that made it.
class TracedValue {
 public:
  TracedValue(ir::Value value) : value_(value), trace_(Tracing::current().identity) {}
  ir::Value get() const {
    Tracing& tracing = Tracing::current();
    if (tracing.identity != trace_) {
      tracing.builder.fail("[scope] a tile, pointer or view that another trace made is used: a trace uses its own parameters and what it makes of them");
    }
    return value_;
  }

 private:
  ir::Value value_;
  std::uint64_t trace_;
};

/// The current builder, set to the user's line.
inline ir::Builder& builder_at(const Where& where) {
  ir::Builder& builder = Tracing::current().builder;
  builder.set_location(where.file_name(), where.line());
  return builder;
}

inline ir::Builder& builder_here() { return Tracing::current().builder; }

}  // namespace flextile
