// Atomic read-modify-write. LLVM's atomicrmw loses order and scope on this target, so these are assembly.
#include <flextile/ir/error.hpp>

#include "nvptx/lowering.hpp"
#include "nvptx/scratch.hpp"

namespace flextile::backend {
namespace {

using ir::AttributeName;

const char* register_constraint(ElementType element) {
  switch (bit_width(element)) {
    case 16: return "h";
    case 64: return "l";
    default: return "r";
  }
}

/// "add.s32", "max.u64", "exch.b32", "add.noftz.bf16": the operation and its type as PTX spells them.
std::string spelling(std::string_view kind, ElementType element) {
  const std::string bits = std::to_string(bit_width(element));
  if (kind == "add") {
    if (element == ElementType::f16 || element == ElementType::bf16) return "add.noftz." + std::string(name(element));
    if (is_float(element)) return "add.f" + bits;
    return bit_width(element) == 64 ? "add.u64" : is_unsigned(element) ? "add.u32" : "add.s32";
  }
  if (kind == "exchange") return "exch.b" + bits;
  if (kind == "and" || kind == "or" || kind == "xor") return std::string(kind) + ".b" + bits;
  return std::string(kind) + (is_unsigned(element) ? ".u" : ".s") + bits;
}

/// Whether the old value is used by anything.
bool is_used(const ir::Function& function, ir::Value value) { return !has_no_use(function, value); }

class Atomic {
 public:
  Atomic(Lowering& l, const ir::Operation& operation)
      : l_(l), operation_(operation), result_(operation.results[0]), element_(l.type(result_).element), exchange_(operation.opcode == ir::Opcode::atomic_cas),
        masked_(!exchange_ && operation.operands.size() > 2), used_(is_used(l.f, result_)) {
    order_ = operation.attributes.string(AttributeName::order);
    scope_ = operation.attributes.string(AttributeName::scope);
    if (order_.empty()) order_ = "relaxed";
    if (scope_.empty()) scope_ = "gpu";
  }

  void run() {
    const bool releases = order_ == "release" || order_ == "acq_rel", acquires = order_ == "acquire" || order_ == "acq_rel";
    if (releases) barrier(l_);   // what all threads wrote comes before
    const Layout& layout = layout_of(l_, result_);
    const bool scalar = l_.type(result_).rank == 0;
    llvm::Value* owns = scalar ? l_.b.CreateICmpEQ(l_.thread, l_.b.getInt32(0)) : owner(l_, layout);
    const int count = register_count(layout);
    Registers old(count);
    const bool shares = owns && used_;
    when(l_, owns, [&] {
      for (int i = 0; i < count; ++i) {
        old[i] = update(i);
        if (shares) l_.b.CreateStore(old[i], slot(layout, i));
      }
    });
    if (shares) {
      barrier(l_);
      for (int i = 0; i < count; ++i) old[i] = l_.b.CreateLoad(word(), slot(layout, i));
    } else if (acquires) {
      barrier(l_);   // what the others wrote is seen by all threads
    }
    Registers& out = l_.of(result_);
    out.clear();
    for (int i = 0; i < count; ++i) {
      llvm::Type* type = element_type(l_, element_);
      out.push_back(used_ ? l_.b.CreateBitCast(old[i], type) : static_cast<llvm::Value*>(llvm::PoisonValue::get(type)));
    }
  }

 private:
  llvm::Type* word() { return l_.b.getIntNTy(bit_width(element_)); }

  llvm::Value* slot(const Layout& layout, int index) {
    const Shape shape = l_.type(result_).shape();
    llvm::Value* number = l_.b.getInt32(0);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      number = l_.b.CreateAdd(l_.b.CreateMul(number, l_.b.getInt32(shape[axis])), coordinate(l_, layout, static_cast<int>(shape.size()), index, static_cast<int>(axis)));
    }
    return shared_address(l_, operation_.attributes.integer(AttributeName::offset), l_.b.CreateMul(number, l_.b.getInt32(8)));
  }

  llvm::Value* operand(int which, int index) {
    llvm::Value* value = l_.of(operation_.operands[which])[index];
    return value->getType()->isPointerTy() ? value : l_.b.CreateBitCast(value, word());
  }

  llvm::Value* update(int index) {
    const std::string kind(operation_.attributes.string(AttributeName::kind)), constraint = register_constraint(element_);
    llvm::Value* predicate = masked_ ? l_.of(operation_.operands[2])[index] : l_.b.getTrue();
    const std::string how = "." + order_ + "." + scope_ + ".global.";
    if (exchange_) {
      return assembly(l_, word(), "atom" + how + "cas.b" + std::to_string(bit_width(element_)) + " $0, [$1], $2, $3;",
                      "=" + constraint + ",l," + constraint + "," + constraint, {operand(0, index), operand(1, index), operand(2, index)}, true);
    }
    // `red` has no acquire forms; exchange is always an `atom`.
    if (!used_ && kind != "exchange" && (order_ == "relaxed" || order_ == "release")) {
      assembly(l_, l_.b.getVoidTy(), "@$0 red" + how + spelling(kind, element_) + " [$1], $2;", "b,l," + constraint,
               {predicate, operand(0, index), operand(1, index)}, true);
      return llvm::Constant::getNullValue(word());
    }
    return assembly(l_, word(), "@$1 atom" + how + spelling(kind, element_) + " $0, [$2], $3;", "=" + constraint + ",b,l," + constraint + ",0",
                    {predicate, operand(0, index), operand(1, index), llvm::Constant::getNullValue(word())}, true);
  }

  Lowering& l_;
  const ir::Operation& operation_;
  ir::Value result_;
  ElementType element_;
  bool exchange_;
  bool masked_;
  bool used_;
  std::string order_;
  std::string scope_;
};

}  // namespace

void lower_atomic(Lowering& l, const ir::Operation& operation) {
  const ElementType element = l.type(operation.results[0]).element;
  if (element == ElementType::bf16 && l.target.sm < 90) {
    throw CompileError("flextile: compile error in kernel \"" + l.f.name + "\"\n  [atomic] bf16 add needs sm_90, the target is " + l.target.name() +
                       "; accumulate in f32");
  }
  Atomic(l, operation).run();
}

}  // namespace flextile::backend
