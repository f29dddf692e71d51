// Loads and stores of tiles: by pointer, by view, by index.
#include <algorithm>
#include <map>
#include <numeric>

#include <flextile/ir/error.hpp>

#include "nvptx/access.hpp"
#include "nvptx/exact_sums.hpp"
#include "nvptx/lowering.hpp"

#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace flextile::backend {
namespace {

using ir::AttributeName;
using ir::Opcode;

/// The thread that stores a scalar, or one of the copies of a tile's element.
llvm::Value* storing_thread(Lowering& l, ir::Value value) {
  if (l.type(value).rank == 0) return l.b.CreateICmpEQ(l.thread, l.b.getInt32(0));
  return owner(l, layout_of(l, value));
}

llvm::Value* all_of(Lowering& l, const Registers& masks) {
  llvm::Value* result = nullptr;
  for (llvm::Value* mask : masks) result = both(l, result, mask);
  return result;
}

/// Elements per access of a tile of pointers.
int pointer_run(Lowering& l, ir::Value pointer, ElementType element) {
  const int rank = l.type(pointer).rank;
  if (rank == 0) return 1;
  const IndexFacts& facts = l.facts[pointer.index];
  const auto known = std::gcd<std::int64_t>(std::gcd(facts.run, facts.divisor), 16 / byte_size(element));
  return register_run(layout_of(l, pointer), rank - 1, static_cast<int>(known));
}

Registers slice(const Registers& all, int first, int count) { return {all.begin() + first, all.begin() + first + count}; }

void lower_load(Lowering& l, const ir::Operation& operation) {
  const ir::Value pointer = operation.operands[0], result = operation.results[0];
  const ElementType element = l.type(pointer).element;
  const std::string_view cache = operation.attributes.string(AttributeName::cache);
  const int count = register_count(layout_of(l, result)), run = pointer_run(l, pointer, element);
  const bool masked = operation.operands.size() > 1, filled = operation.operands.size() > 2;
  const bool even = masked && run > 1 && l.facts[operation.operands[1].index].constancy % run == 0;
  Registers& out = l.of(result);
  out.clear();
  for (int i = 0; i < count; i += run) {
    llvm::Value* address = l.of(pointer)[i];
    const Registers other = filled ? slice(l.of(operation.operands[2]), i, run) : Registers{};
    const Registers masks = masked ? slice(l.of(operation.operands[1]), i, run) : Registers{};
    Registers loaded = load_run(l, address, element, run, even ? masks[0] : all_of(l, masks), other, cache);
    if (masked && run > 1 && !even) {   // the run crosses the mask's edge: one by one
      llvm::Value* whole = all_of(l, masks);
      for (int k = 0; k < run; ++k) {
        llvm::Value* alone = l.b.CreateAnd(masks[k], l.b.CreateNot(whole));
        const Registers single = load_run(l, l.of(pointer)[i + k], element, 1, alone, filled ? Registers{other[k]} : Registers{}, cache);
        loaded[k] = l.b.CreateSelect(whole, loaded[k], single[0]);
      }
    }
    out.insert(out.end(), loaded.begin(), loaded.end());
  }
}

void lower_store(Lowering& l, const ir::Operation& operation) {
  const ir::Value pointer = operation.operands[0], value = operation.operands[1];
  const ElementType element = l.type(pointer).element;
  const std::string_view cache = operation.attributes.string(AttributeName::cache);
  const int count = register_count(layout_of(l, value)), run = pointer_run(l, pointer, element);
  const bool masked = operation.operands.size() > 2;
  const bool even = masked && l.facts[operation.operands[2].index].constancy % run == 0;
  when(l, storing_thread(l, value), [&] {
    for (int i = 0; i < count; i += run) {
      const Registers values = slice(l.of(value), i, run);
      const Registers masks = masked ? slice(l.of(operation.operands[2]), i, run) : Registers{};
      llvm::Value* whole = even ? masks[0] : all_of(l, masks);
      store_run(l, l.of(pointer)[i], element, values, whole, cache);
      for (int k = 0; masked && run > 1 && !even && k < run; ++k) {
        store_run(l, l.of(pointer)[i + k], element, {values[k]}, l.b.CreateAnd(masks[k], l.b.CreateNot(whole)), cache);
      }
    }
  });
}

/// Addresses and bounds of a tile at offsets in a view.
class ViewWindow {
 public:
  ViewWindow(Lowering& l, const ir::Operation& operation, ir::Value tile, std::size_t first_offset)
      : l_(l), view_(l.views.at(operation.operands[0].index)), layout_(layout_of(l, tile)), shape_(l.type(tile).shape()),
        element_(l.type(tile).element), lead_(view_.sizes.size() - shape_.size()) {
    llvm::Type* i64 = l.b.getInt64Ty();
    llvm::Value* elements = l.b.getInt64(0);
    std::int64_t divisor = 1 << 20;
    for (std::size_t axis = 0; axis < view_.sizes.size(); ++axis) {
      const ir::Value offset_value = operation.operands[first_offset + axis];
      llvm::Value* offset = l.scalar(offset_value);
      if (axis < lead_) {
        allowed_ = both(l, allowed_, l.b.CreateICmpULT(offset, view_.sizes[axis]));
      } else {
        llvm::Value* start = offset;
        offset = l.b.CreateAdd(start, thread_offset(l, layout_, static_cast<int>(axis - lead_)));
        thread_.push_back(offset);
        llvm::Value* last = l.b.CreateAdd(start, l.b.getInt32(shape_[axis - lead_] - 1));
        inside_ = both(l, inside_, l.b.CreateAnd(l.b.CreateICmpSGE(start, l.b.getInt32(0)), l.b.CreateICmpSLT(last, view_.sizes[axis])));
      }
      if (axis + 1 == view_.sizes.size()) divisor = l.facts[offset_value.index].divisor;
      elements = l.b.CreateAdd(elements, l.b.CreateMul(l.b.CreateSExt(offset, i64), view_.strides[axis]));
    }
    unit_ = element_ == ElementType::i1 ? l.b.getInt8Ty() : element_type(l, element_);
    base_ = l.b.CreateGEP(unit_, view_.base, elements);
    inside_ = both(l, inside_, allowed_);
    const int rank = static_cast<int>(shape_.size());
    if (rank > 0 && view_.unit_stride && view_.aligned) {
      run_ = register_run(layout_, rank - 1, static_cast<int>(std::gcd<std::int64_t>(divisor, 16 / byte_size(element_))));
    }
  }

  /// Elements per access where the whole tile is inside.
  int run() const { return run_; }
  /// The whole tile is inside: one condition for all threads.
  llvm::Value* inside() const { return inside_; }
  /// Where rows end at multiples of 16 bytes, so does what is inside: an access is inside or not, as its first element is.
  bool ends_between_runs() const { return view_.sizes.size() >= 2; }

  /// Rows follow one another by adding the same few products of a stride: nothing per row is worth keeping over a loop.
  llvm::Value* address(int index) {
    Shape offset = at(index);
    const int last = shape_.empty() ? 0 : offset.back();
    if (!offset.empty()) offset.back() = 0;
    llvm::Value* row = row_address(offset);
    if (last == 0) return row;
    return l_.b.CreateGEP(unit_, row, product(static_cast<int>(shape_.size()) - 1, last));
  }

  /// Whether the element of this register is inside.
  llvm::Value* bound(int index) {
    const Shape offset = at(index);
    llvm::Value* result = allowed_;
    for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
      llvm::Value*& condition = bounds_[{static_cast<int>(axis), offset[axis]}];
      if (!condition) condition = l_.b.CreateICmpULT(l_.b.CreateAdd(thread_[axis], l_.b.getInt32(offset[axis])), view_.sizes[lead_ + axis]);
      result = both(l_, result, condition);
    }
    return result;
  }

  /// What was computed in a block that does not dominate what follows.
  void forget() {
    products_.clear();
    rows_.clear();
    bounds_.clear();
  }

 private:
  llvm::Value* product(int axis, int offset) {
    llvm::Value*& result = products_[{axis, offset}];
    if (!result) result = l_.b.CreateMul(view_.strides[lead_ + axis], l_.b.getInt64(offset));
    return result;
  }

  /// From the row before it along the first axis that has one.
  llvm::Value* row_address(const Shape& offset) {
    llvm::Value*& result = rows_[offset];
    if (result) return result;
    result = base_;
    for (std::size_t axis = 0; axis + 1 < offset.size(); ++axis) {
      Shape before = offset;
      int distance = 0;
      for (const auto& [known, address] : rows_) {
        Shape same = known;
        same[axis] = offset[axis];
        if (address && same == offset && known[axis] < offset[axis] && (distance == 0 || offset[axis] - known[axis] < distance)) {
          distance = offset[axis] - known[axis];
          before = known;
        }
      }
      if (distance > 0) return result = l_.b.CreateGEP(unit_, rows_[before], product(static_cast<int>(axis), distance));
    }
    for (std::size_t axis = 0; axis + 1 < offset.size(); ++axis) {
      if (offset[axis] != 0) result = l_.b.CreateGEP(unit_, result, product(static_cast<int>(axis), offset[axis]));
    }
    return result;
  }

  Shape at(int index) const { return digit_offset(layout_.registers, index, static_cast<int>(shape_.size())); }

  Lowering& l_;
  const ViewParts& view_;
  const Layout& layout_;
  Shape shape_;
  ElementType element_;
  std::size_t lead_;
  llvm::Type* unit_ = nullptr;
  llvm::Value* base_ = nullptr;
  llvm::Value* inside_ = nullptr;
  llvm::Value* allowed_ = nullptr;
  Registers thread_;
  int run_ = 1;
  std::map<std::pair<int, int>, llvm::Value*> products_;
  std::map<Shape, llvm::Value*> rows_;
  std::map<std::pair<int, int>, llvm::Value*> bounds_;
};

/// Runs `fast` when `condition` (the same in all threads) holds, else `slow`; both yield as many values, which are merged.
template <class Fast, class Slow> Registers either(Lowering& l, llvm::Value* condition, Fast&& fast, Slow&& slow) {
  llvm::LLVMContext& context = l.b.getContext();
  auto* first = llvm::BasicBlock::Create(context, "inside", l.kernel);
  auto* second = llvm::BasicBlock::Create(context, "edge", l.kernel);
  auto* after = llvm::BasicBlock::Create(context, "joined", l.kernel);
  l.b.CreateCondBr(condition, first, second);
  l.b.SetInsertPoint(first);
  Registers a = fast();
  first = l.b.GetInsertBlock();
  l.b.CreateBr(after);
  l.b.SetInsertPoint(second);
  Registers b = slow();
  second = l.b.GetInsertBlock();
  l.b.CreateBr(after);
  l.b.SetInsertPoint(after);
  Registers result;
  for (std::size_t i = 0; i < a.size(); ++i) {
    llvm::PHINode* phi = l.b.CreatePHI(a[i]->getType(), 2);
    phi->addIncoming(a[i], first);
    phi->addIncoming(b[i], second);
    result.push_back(phi);
  }
  return result;
}

void lower_view_load(Lowering& l, const ir::Operation& operation) {
  const ir::Value result = operation.results[0];
  const ElementType element = l.type(result).element;
  const int count = register_count(layout_of(l, result));
  const double fill = operation.attributes.number(AttributeName::other);
  llvm::Type* type = element_type(l, element);
  llvm::Value* other = is_float(element) ? float_constant(l, element, fill) : llvm::ConstantInt::get(type, static_cast<std::int64_t>(fill), true, true);
  ViewWindow window(l, operation, result, 1);
  auto load_all = [&](int run, bool bounded) {
    window.forget();
    Registers loaded;
    for (int i = 0; i < count; i += run) {
      for (llvm::Value* value : load_run(l, window.address(i), element, run, bounded ? window.bound(i) : nullptr, Registers(run, other), "")) loaded.push_back(value);
    }
    window.forget();
    return loaded;
  };
  if (!window.inside()) l.of(result) = load_all(1, false);   // a view without axes
  else if (window.run() == 1) l.of(result) = load_all(1, true);
  else l.of(result) = either(l, window.inside(), [&] { return load_all(window.run(), false); }, [&] { return load_all(window.ends_between_runs() ? window.run() : 1, true); });
}

void lower_view_store(Lowering& l, const ir::Operation& operation) {
  const ir::Value value = operation.operands[1];
  const ElementType element = l.type(value).element;
  const int count = register_count(layout_of(l, value));
  ViewWindow window(l, operation, value, 2);
  auto store_all = [&](int run, bool bounded) {
    window.forget();
    for (int i = 0; i < count; i += run) {
      store_run(l, window.address(i), element, slice(l.of(value), i, run), bounded ? window.bound(i) : nullptr, "");
    }
    window.forget();
    return Registers{};
  };
  when(l, storing_thread(l, value), [&] {
    if (!window.inside()) store_all(1, false);
    else if (window.run() == 1 || window.ends_between_runs()) store_all(window.run(), true);
    else either(l, window.inside(), [&] { return store_all(window.run(), false); }, [&] { return store_all(1, true); });
  });
}

/// Addresses and bounds of elements at computed indices in a view.
class Gathered {
 public:
  Gathered(Lowering& l, const ir::Operation& operation) : l_(l), operation_(operation), view_(l.views.at(operation.operands[0].index)) {
    const ElementType element = l.type(operation.results[0]).element;
    unit_ = element == ElementType::i1 ? l.b.getInt8Ty() : element_type(l, element);
    masked_ = operation.attributes.integer(AttributeName::has_mask) != 0;
    axes_ = operation.operands.size() - 1 - (masked_ ? 1 : 0);
    const int rank = l.type(operation.results[0]).rank;
    if (rank == 0 || axes_ == 0 || !view_.unit_stride || !view_.aligned) return;   // else neighbouring columns of one row
    const IndexFacts& last = l.facts[operation.operands[axes_].index];
    std::int64_t known = std::gcd<std::int64_t>(std::gcd(last.run, last.divisor), 16 / byte_size(element));
    for (std::size_t i = 1; i < axes_; ++i) known = std::gcd(known, l.facts[operation.operands[i].index].constancy);
    if (masked_) known = std::gcd(known, l.facts[operation.operands.back().index].constancy);
    run_ = register_run(layout_of(l, operation.results[0]), rank - 1, static_cast<int>(known));
  }

  /// Elements per access where all of them are inside.
  int run() const { return run_; }

  llvm::Value* address(int register_index) {
    llvm::Value* elements = l_.b.getInt64(0);
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      elements = l_.b.CreateAdd(elements, l_.b.CreateMul(l_.b.CreateSExt(index(axis, register_index), l_.b.getInt64Ty()), view_.strides[axis]));
    }
    return l_.b.CreateGEP(unit_, view_.base, elements);
  }

  /// What decides the element of a register: equal for registers that read the same one, as along the diagonals of table[q - kv].
  std::vector<std::pair<llvm::Value*, std::int64_t>> place(int register_index) {
    std::vector<std::pair<llvm::Value*, std::int64_t>> result{{mask(register_index), 0}};
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      const WithNumber at = split_number(index(axis, register_index));
      result.emplace_back(at.rest, at.value());
    }
    return result;
  }

  llvm::Value* mask(int register_index) { return masked_ ? l_.of(operation_.operands.back())[register_index] : nullptr; }

  /// Whether `count` elements from this register on are inside the view; null where it has no axes.
  llvm::Value* inside(int register_index, int count) {
    llvm::Value* result = nullptr;
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      llvm::Value* last = index(axis, register_index + (axis + 1 == axes_ ? count - 1 : 0));   // runs start at multiples of their length
      result = both(l_, result, l_.b.CreateICmpULT(last, view_.sizes[axis]));
    }
    return result;
  }

 private:
  llvm::Value* index(std::size_t axis, int register_index) { return l_.of(operation_.operands[1 + axis])[register_index]; }

  Lowering& l_;
  const ir::Operation& operation_;
  const ViewParts& view_;
  llvm::Type* unit_ = nullptr;
  std::size_t axes_ = 0;
  bool masked_ = false;
  int run_ = 1;
};

/// Elements outside of the view are 0.
void lower_gather(Lowering& l, const ir::Operation& operation) {
  const ir::Value result = operation.results[0];
  const ElementType element = l.type(result).element;
  const int count = register_count(layout_of(l, result));
  Gathered gathered(l, operation);
  auto load_all = [&](int run, bool bounded) {
    Registers loaded;
    std::map<std::vector<std::pair<llvm::Value*, std::int64_t>>, Registers> known;   // once for all registers that read the same
    for (int i = 0; i < count; i += run) {
      Registers& values = known[gathered.place(i)];
      if (values.empty()) {
        llvm::Value* predicate = both(l, gathered.mask(i), bounded ? gathered.inside(i, 1) : nullptr);
        values = load_run(l, gathered.address(i), element, run, predicate, {}, "");
      }
      loaded.insert(loaded.end(), values.begin(), values.end());
    }
    return loaded;
  };
  const int run = gathered.run();
  if (run == 1) {
    l.of(result) = load_all(1, true);
    return;
  }
  llvm::Value* inside = nullptr;
  for (int i = 0; i < count; i += run) inside = both(l, inside, gathered.inside(i, run));
  l.of(result) = either(l, inside, [&] { return load_all(run, false); }, [&] { return load_all(1, true); });
}

}  // namespace

void lower_memory(Lowering& l, const ir::Operation& operation) {
  const std::int64_t axis = operation.attributes.integer(AttributeName::axis);
  switch (operation.opcode) {
    case Opcode::load: return lower_load(l, operation);
    case Opcode::store: return lower_store(l, operation);
    case Opcode::view_load: return lower_view_load(l, operation);
    case Opcode::view_store: return lower_view_store(l, operation);
    case Opcode::gather: return lower_gather(l, operation);
    case Opcode::view_size: l.of(operation.results[0]) = {l.views.at(operation.operands[0].index).sizes[axis]}; return;
    case Opcode::view_stride: l.of(operation.results[0]) = {l.views.at(operation.operands[0].index).strides[axis]}; return;
    case Opcode::view_base: l.of(operation.results[0]) = {l.views.at(operation.operands[0].index).base}; return;
    default: throw InternalError("flextile: internal error: [" + std::string(ir::name(operation.opcode)) + "] is no access to memory");
  }
}

}  // namespace flextile::backend
