// Forgets a mod's type: its program becomes an interned ir::Function, its captures a list. What comes behind is no template.
#pragma once
#include <string>

#include <flextile/dsl/mod_number.hpp>
#include <flextile/ir/mod.hpp>

namespace flextile {

enum class ModKind { none, score, mask };

using ScoreLeaf = LeafNode<ModLeaf::score>;
using BatchLeaf = LeafNode<ModLeaf::batch>;
using HeadLeaf = LeafNode<ModLeaf::head>;
using QueryLeaf = LeafNode<ModLeaf::query>;
using KeyLeaf = LeafNode<ModLeaf::key>;

/// What a callable is, by the number of its parameters.
template <class F> consteval ModKind mod_kind() {
  if constexpr (std::is_invocable_v<const F&, ScoreLeaf, BatchLeaf, HeadLeaf, QueryLeaf, KeyLeaf>) return ModKind::score;
  else if constexpr (std::is_invocable_v<const F&, BatchLeaf, HeadLeaf, QueryLeaf, KeyLeaf>) return ModKind::mask;
  else return ModKind::none;
}

/// The expression of a mod: the lambda called with leaves.
template <class F> auto mod_expression(const F& mod) {
  if constexpr (mod_kind<F>() == ModKind::score) return as_node(mod(ScoreLeaf{}, BatchLeaf{}, HeadLeaf{}, QueryLeaf{}, KeyLeaf{}));
  else if constexpr (mod_kind<F>() == ModKind::mask) return as_node(mod(BatchLeaf{}, HeadLeaf{}, QueryLeaf{}, KeyLeaf{}));
  else {
    static_assert(rules::is_a_mod<F>());
    return NumberNode<bool>(false);
  }
}

/// What a score mod makes of a score, computed with plain numbers as the compiled form does: in f32, with i32 indices.
template <class F> float evaluate_score(const F& mod, float score, std::int32_t b, std::int32_t h, std::int32_t q, std::int32_t kv) {
  auto key = bind<KeyLeaf>(kv, EmptyEnvironment{});
  auto query = bind<QueryLeaf>(q, key);
  auto head = bind<HeadLeaf>(h, query);
  auto batch = bind<BatchLeaf>(b, head);
  NumberDomain domain;
  return host::convert<float>(mod_expression(mod).evaluate(domain, bind<ScoreLeaf>(score, batch)));
}

/// Whether a mask mod shows kv to q.
template <class F> bool evaluate_mask(const F& mod, std::int32_t b, std::int32_t h, std::int32_t q, std::int32_t kv) {
  auto key = bind<KeyLeaf>(kv, EmptyEnvironment{});
  auto query = bind<QueryLeaf>(q, key);
  auto head = bind<HeadLeaf>(h, query);
  NumberDomain domain;
  return domain.truth(mod_expression(mod).evaluate(domain, bind<BatchLeaf>(b, head)));
}

/// What one call of a mod adds to its type: literals, captured tensors, dynamic scalars, and which of them are the same.
class ModLeaves {
 public:
  std::vector<std::uint64_t> key;            ///< literals, identity pattern
  std::vector<ir::TensorHandle> tensors;     ///< distinct ones
  std::vector<ir::ScalarValue> scalars;      ///< distinct ones
  /// The parameter of each occurrence in the expression, by the node's address.
  std::vector<std::pair<const void*, int>> tensor_of, scalar_of;

  void number(const Number& value) {
    std::uint64_t bits = 0;
    if (value.floating) __builtin_memcpy(&bits, &value.real, sizeof bits);
    else bits = static_cast<std::uint64_t>(value.integer);
    key.push_back(bits);
  }
  template <class T> void scalar(const DynamicNode<T>& node) {
    std::size_t index = 0;
    while (index < identities_.size() && identities_[index] != node.identity) ++index;
    if (index == identities_.size()) {
      identities_.push_back(node.identity);
      ir::ScalarValue value{element_type_of<T>, 0};
      __builtin_memcpy(&value.bits, &node.value, sizeof(T));
      scalars.push_back(value);
    }
    add(scalar_of, &node, index);
  }
  template <class T, class... I> void capture(const CaptureNode<T, I...>& node, int indices) { tensor(&node, node.handle, indices); }

 private:
  static bool same(const ir::TensorHandle& a, const ir::TensorHandle& b) {
    return a.storage() == b.storage() && a.data == b.data && a.element == b.element && a.rank == b.rank && a.device == b.device && a.sizes == b.sizes && a.strides == b.strides;
  }
  void tensor(const void* node, const ir::TensorHandle& handle, int indices) {
    if (handle.rank != indices) {
      throw ArgumentError("[capture] the captured tensor has " + std::to_string(handle.rank) + " axes, it is indexed with " + std::to_string(indices) + ": there must be one index per axis");
    }
    std::size_t index = 0;
    while (index < tensors.size() && !same(tensors[index], handle)) ++index;
    if (index == tensors.size()) tensors.push_back(handle);
    else tensors[index].learnable |= handle.learnable;
    add(tensor_of, node, index);
  }
  void add(std::vector<std::pair<const void*, int>>& places, const void* node, std::size_t index) {
    places.push_back({node, static_cast<int>(index)});
    key.push_back(index);
  }
  std::vector<std::uint64_t> identities_;
};

/// Evaluation into the IR, on scalars.
class IrDomain {
 public:
  IrDomain(ir::Builder& builder, const ModLeaves& leaves, int first_tensor) : builder_(builder), leaves_(leaves), first_tensor_(first_tensor) {}

  template <class T> Emitted number(T value) const { return {{}, Number(value)}; }
  template <class T> Emitted scalar(const DynamicNode<T>& node) const {
    return {builder_.function().parameter(first_tensor_ + leaves_.tensors.size() + place(leaves_.scalar_of, &node)), {}};
  }
  template <Opcode opcode, int Computing> Emitted unary(const Emitted& a) const { return emit_unary(builder_, opcode, a); }
  template <Opcode opcode, int Computing> Emitted binary(const Emitted& a, const Emitted& b) const { return emit_binary(builder_, opcode, a, b); }
  template <int Code> Emitted fma(const Emitted& a, const Emitted& b, const Emitted& c) const { return emit_fma(builder_, a, b, c); }
  template <int Code> Emitted select(const Emitted& condition, const Emitted& a, const Emitted& b) const { return emit_select(builder_, condition, a, b); }
  template <int Code> Emitted cast(const Emitted& a) const { return {emit_as(builder_, a, static_cast<ElementType>(Code == floating_literal ? element_code<f32> : Code)), {}}; }
  Emitted truth(const Emitted& a) const { return emit_truth(builder_, a); }
  template <class T, class... Nodes, class... I> Emitted capture(const CaptureNode<T, Nodes...>& node, const I&... index) const {
    ir::Value view = builder_.function().parameter(first_tensor_ + place(leaves_.tensor_of, &node));
    Emitted element{builder_.gather(view, {emit_as(builder_, index, ElementType::i32)...}), {}};
    return cast<CaptureNode<T, Nodes...>::mod_code>(element);
  }
  /// Short loops are unrolled: the passes then see constants.
  template <class Body> Emitted repeat(int count, Emitted value, Body&& body) const {
    constexpr int unrolled = 16;
    if (count <= unrolled) {
      for (std::int64_t i = 0; i < count; ++i) value = body(Emitted{{}, Number(static_cast<std::int32_t>(i))}, value);
      return value;
    }
    ir::Value lower = builder_.constant(ElementType::i32, std::int64_t{0});
    ir::Value upper = builder_.constant(ElementType::i32, std::int64_t{count});
    ir::OperationId loop = builder_.for_loop(lower, upper, builder_.constant(ElementType::i32, std::int64_t{1}), {value.value});
    ir::BlockId outside = builder_.insertion_block();
    builder_.set_insertion_block(builder_.function().operation(loop).blocks[0]);
    Emitted next = body(Emitted{builder_.argument(loop, 0, 0), {}}, Emitted{builder_.argument(loop, 0, 1), {}});
    builder_.yield({next.value});
    builder_.set_insertion_block(outside);
    return {builder_.results(loop)[0], {}};
  }

 private:
  static std::size_t place(const std::vector<std::pair<const void*, int>>& places, const void* node) {
    for (const auto& [address, index] : places) {
      if (address == node) return static_cast<std::size_t>(index);
    }
    throw InternalError("flextile: internal error: a leaf of a mod was not collected before it was emitted");
  }
  ir::Builder& builder_;
  const ModLeaves& leaves_;
  int first_tensor_;
};

/// A fragment that lives as long as the program. Equal texts are one fragment.
struct InternedFragment {
  ir::Function function;
  std::string text;
  std::uint64_t key;
  InternedFragment* next;
};

/// The one fragment with this function's text.
inline const InternedFragment* intern(ir::Function function) {
  static InternedFragment* fragments = nullptr;
  std::string text = print(function);
  std::uint64_t key = 14695981039346656037ull;   // FNV-1a
  for (char character : text) key = (key ^ static_cast<unsigned char>(character)) * 1099511628211ull;
  InternedFragment* fresh = nullptr;
  InternedFragment* head = __atomic_load_n(&fragments, __ATOMIC_ACQUIRE);
  for (;;) {
    for (InternedFragment* known = head; known; known = known->next) {
      if (known->key == key && known->text == text) {
        delete fresh;
        return known;
      }
    }
    if (!fresh) fresh = new InternedFragment{static_cast<ir::Function&&>(function), text, key, nullptr};
    fresh->next = head;
    if (__atomic_compare_exchange_n(&fragments, &head, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return fresh;
  }
}

/// The fragments of one mod type, by what its calls add. Entries are never removed, so readers need no lock.
class ModCache {
 public:
  struct Entry {
    std::vector<std::uint64_t> key;
    const InternedFragment* fragment;
    bool reads_batch, reads_head;
    Entry* next;
  };
  const Entry* find(const std::vector<std::uint64_t>& key) const {
    for (Entry* entry = __atomic_load_n(&head_, __ATOMIC_ACQUIRE); entry; entry = entry->next) {
      if (entry->key == key) return entry;
    }
    return nullptr;
  }
  const Entry* add(Entry&& entry) {
    Entry* fresh = new Entry(static_cast<Entry&&>(entry));
    fresh->next = __atomic_load_n(&head_, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&head_, &fresh->next, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    return fresh;
  }

 private:
  Entry* head_ = nullptr;
};

/// Whether any operation reads the value.
inline bool is_read(const ir::Function& function, ir::Value value) {
  for (std::uint32_t id = 0; id < function.operation_count(); ++id) {
    for (ir::Value operand : function.operation({id}).operands) {
      if (operand == value) return true;
    }
  }
  return false;
}

/// The fragment's parameters, as ir::Mod describes them.
inline ir::Function declare_fragment(ModKind kind, const ModLeaves& leaves) {
  std::vector<ir::Parameter> parameters;
  if (kind == ModKind::score) parameters.push_back({"score", ir::Type::scalar(ElementType::f32)});
  for (const char* name : {"b", "h", "q", "kv"}) parameters.push_back({name, ir::Type::scalar(ElementType::i32)});
  for (std::size_t i = 0; i < leaves.tensors.size(); ++i) {
    parameters.push_back({"capture" + std::to_string(i), ir::Type::view(leaves.tensors[i].element, leaves.tensors[i].rank), true});
  }
  for (std::size_t i = 0; i < leaves.scalars.size(); ++i) parameters.push_back({"dynamic" + std::to_string(i), ir::Type::scalar(leaves.scalars[i].element)});
  return ir::Function(kind == ModKind::score ? "score_mod" : "mask_mod", parameters);
}

/// Looks up or makes the fragment; `emit` writes the expression's body.
inline ir::Mod finish_mod(ModCache& cache, ModKind kind, ModLeaves&& leaves, void (*emit)(const void*, const ModLeaves&, ir::Builder&), const void* expression) {
  const ModCache::Entry* entry = cache.find(leaves.key);
  if (!entry) {
    ir::Function function = declare_fragment(kind, leaves);
    ir::Builder builder(function);
    emit(expression, leaves, builder);
    std::size_t first = kind == ModKind::score ? 1 : 0;
    bool batch = is_read(function, function.parameter(first)), head = is_read(function, function.parameter(first + 1));
    entry = cache.add({leaves.key, intern(static_cast<ir::Function&&>(function)), batch, head, nullptr});
  }
  ir::Mod mod;
  mod.fragment = &entry->fragment->function;
  mod.key = entry->fragment->key;
  mod.tensors = static_cast<std::vector<ir::TensorHandle>&&>(leaves.tensors);
  mod.scalars = static_cast<std::vector<ir::ScalarValue>&&>(leaves.scalars);
  mod.reads_batch = entry->reads_batch;
  mod.reads_head = entry->reads_head;
  return mod;
}

template <ModKind Kind, class Node> void emit_fragment(const void* expression, const ModLeaves& leaves, ir::Builder& builder) {
  ir::Function& function = builder.function();
  constexpr int first = Kind == ModKind::score ? 1 : 0;
  auto key = bind<KeyLeaf>(Emitted{function.parameter(first + 3), {}}, EmptyEnvironment{});
  auto query = bind<QueryLeaf>(Emitted{function.parameter(first + 2), {}}, key);
  auto head = bind<HeadLeaf>(Emitted{function.parameter(first + 1), {}}, query);
  auto batch = bind<BatchLeaf>(Emitted{function.parameter(first), {}}, head);
  IrDomain domain(builder, leaves, first + 4);
  const Node& node = *static_cast<const Node*>(expression);
  if constexpr (Kind == ModKind::score) {
    Emitted score = node.evaluate(domain, bind<ScoreLeaf>(Emitted{function.parameter(0), {}}, batch));
    builder.return_values({emit_as(builder, score, ElementType::f32)});
  } else {
    builder.return_values({emit_truth(builder, node.evaluate(domain, batch)).value});
  }
}

/// A mod as the library's compiled code takes it. A repeated call with the same literals traces nothing.
template <class F> ir::Mod erase(const F& mod) {
  constexpr ModKind kind = mod_kind<F>();
  auto expression = mod_expression(mod);
  if constexpr (kind == ModKind::none) {
    return {};
  } else {
    static ModCache cache;
    ModLeaves leaves;
    expression.visit(leaves);
    return finish_mod(cache, kind, static_cast<ModLeaves&&>(leaves), &emit_fragment<kind, decltype(expression)>, &expression);
  }
}

template <class F> ir::Mod erase_mask(const F& mod) {
  static_assert(rules::has_mod_arity<F, mod_kind<F>() == ModKind::score ? 5 : 4, 4>());
  return erase(mod);
}
template <class F> ir::Mod erase_score(const F& mod) {
  static_assert(rules::has_mod_arity<F, mod_kind<F>() == ModKind::mask ? 4 : 5, 5>());
  return erase(mod);
}

}  // namespace flextile
