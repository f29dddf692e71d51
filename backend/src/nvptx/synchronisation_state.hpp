// What check_synchronisation knows at a place of a kernel: of what threads, the copy engine and the matrix units may still be
// doing with shared memory.
#pragma once
#include <cstdint>
#include <vector>

#include "nvptx/affine.hpp"

namespace flextile::backend {

/// Who may rely on what a warpgroup's threads did to their rows: each thread on its own part; fenced, of writes: the copy engine, once the
/// warpgroup has met; all threads of the warpgroup and the copy engine.
enum class Reach { thread, fenced, warpgroup };

/// Bytes that an operation reads or writes: stage turn % stages of a buffer, or scratch space.
struct Access {
  ir::OperationId by;
  ir::Value buffer;            // none: scratch space
  std::int64_t first = 0;      // of all stages
  std::int64_t end = 0;
  std::int64_t stages = 1;
  bool any_stage = true;       // which stage it is is not known
  Affine turn{};
  bool own_rows = false;       // each warpgroup touches rows of its own
  Reach reach = Reach::thread;
  /// The same bytes, whoever it is.
  bool operator==(const Access& other) const {
    return buffer == other.buffer && first == other.first && end == other.end && any_stage == other.any_stage && turn == other.turn && own_rows == other.own_rows && reach == other.reach;
  }
};
/// They may touch the same byte.
bool overlap(const Access& a, const Access& b);
/// What touches b's bytes touches a's.
bool covers(const Access& a, const Access& b);

/// A copy by cp.async. It does nothing unless guard > 0.
struct Copy {
  Access to;
  bool guarded = false;
  Affine guard{};
  std::int64_t newer = 0;      // copies that were started after it, at least
  bool operator==(const Copy&) const = default;
};

/// A product of a warpgroup that is not waited for yet.
struct Product {
  ir::OperationId dot;
  std::int64_t newer = 0;      // batches that were started after it, at least
  std::vector<Access> reads{};
  bool operator==(const Product&) const = default;
};

/// A store by the copy engine that may not have read shared memory yet.
struct Storing {
  Access from;
  std::int64_t newer = 0;      // stores that were started after it, at least
  bool operator==(const Storing&) const = default;
};

/// A ring of the copy engine. Turns come in order: those below `filled` are started, where they exist; those below `waited`
/// have landed; those below `released` are given back.
struct Ring {
  bool running = false;
  Affine filled{}, waited{}, released{};
  Affine released_at_take{};   // when this warpgroup's turn to start products began
  bool produced = false;       // the producer's warps fill it, at any time: a turn may be waited for once the one `stages` before is released
  bool bounded = false;        // a turn exists where bound - slope * turn > 0; else always
  Affine bound{};
  std::int64_t slope = 0;
  bool operator==(const Ring&) const = default;
};

enum class Turns { closed, open, ours };

struct State {
  Facts facts{};
  // What may be: sets that grow where paths meet.
  std::vector<Access> reads{}, writes{};   // of threads, since the last barrier
  std::vector<Copy> copies{};              // not waited for
  std::vector<Product> products{};         // not waited for
  std::vector<Storing> storing{};          // not waited for
  // What is: parts that hold on every path, or are told apart.
  std::vector<Copy> filled{};              // stages that hold a tile
  std::vector<Access> outgoing{};          // what threads wrote for the copy engine to store, and how far it has come
  std::vector<Ring> rings{};
  Turns turns = Turns::closed;
  bool closing = false;                    // some warpgroup may not have closed its turns yet

  void add(std::vector<Access>& list, const Access& access);
  void add(const Copy& copy);
  void add(const Product& product);
  void add(const Storing& store);
  /// Takes in another path's state; their rings and turns must be equal.
  void merge(const State& other);
  bool same_rings(const State& other) const { return rings == other.rings && turns == other.turns; }
  /// What holds here also describes the other state.
  bool includes(const State& other) const;

  /// Calls `visit` for each number that may change from iteration to iteration.
  template <class Visit> void for_each_number(Visit visit) {
    for (std::vector<Access>* list : {&reads, &writes, &outgoing}) {
      for (Access& access : *list) visit(access.turn);
    }
    for (Storing& store : storing) visit(store.from.turn);
    for (std::vector<Copy>* list : {&copies, &filled}) {
      for (Copy& copy : *list) visit(copy.to.turn), visit(copy.guard);
    }
    for (Product& product : products) {
      for (Access& read : product.reads) visit(read.turn);
    }
    for (Ring& ring : rings) visit(ring.filled), visit(ring.waited), visit(ring.released), visit(ring.released_at_take);
  }
  /// One order for equal sets.
  void sort();
  /// How each number changed since `earlier`, in the order of for_each_number; false if anything else did, or one by an unknown.
  bool changed_since(const State& earlier, std::vector<std::int64_t>& steps) const;
  /// Each number moved on by its step, `count` times.
  State moved(const std::vector<std::int64_t>& steps, const Affine& count) const;
  /// With `value` in the place of `atom`.
  State with(Atom atom, const Affine& value) const;
  /// Forgets which stages were touched: what may be going on anywhere in a buffer, and nothing that surely is.
  void forget_stages();
};

}  // namespace flextile::backend
