// Forgets a mod's type: its program becomes an interned ir::Function, its captures a list. What comes behind is no template.
#pragma once
#include <flextile/dsl/mod_evaluate.hpp>
#include <flextile/dsl/mod_intern.hpp>
#include <flextile/dsl/mod_ir.hpp>

namespace flextile {

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
  for (std::size_t i = 0; i < leaves.scalars.size(); ++i)
    parameters.push_back({"dynamic" + std::to_string(i), ir::Type::scalar(leaves.scalars[i].element)});
  return ir::Function(kind == ModKind::score ? "score_mod" : "mask_mod", parameters);
}

/// Looks up or makes the fragment; `emit` writes the expression's body.
inline ir::Mod finish_mod(ModCache& cache, ModKind kind, ModLeaves&& leaves, void (*emit)(const void*, const ModLeaves&, ir::Builder&),
                          const void* expression) {
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

template <ModKind Kind, class Node>
void emit_fragment(const void* expression, const ModLeaves& leaves, ir::Builder& builder) {
  ir::Function& function = builder.function();
  constexpr int first = Kind == ModKind::score ? 1 : 0;
  auto parameter = [&](std::size_t i) { return Emitted{function.parameter(i), {}}; };
  IrDomain domain(builder, leaves, first + 4);
  const Node& node = *static_cast<const Node*>(expression);
  Emitted score = parameter(0), b = parameter(first), h = parameter(first + 1), q = parameter(first + 2), kv = parameter(first + 3);
  Emitted result = evaluate(node, domain, score, b, h, q, kv);
  builder.return_values({Kind == ModKind::score ? emit_as(builder, result, ElementType::f32) : emit_truth(builder, result).value});
}

/// A mod as the library's compiled code takes it. A repeated call with the same literals traces nothing.
template <class F>
ir::Mod erase(const F& mod) {
  constexpr ModKind kind = mod_kind<F>();
  auto expression = mod_expression(mod);
  if constexpr (kind == ModKind::none) {
    return {};
  } else {
    if constexpr (kind == ModKind::mask) static_assert(rules::is_a_mask_result<decltype(expression)::mod_code>());
    else static_assert(rules::is_a_score_result<decltype(expression)::mod_code>());
    static ModCache cache;
    ModLeaves leaves;
    expression.visit(leaves);
    return finish_mod(cache, kind, static_cast<ModLeaves&&>(leaves), &emit_fragment<kind, decltype(expression)>, &expression);
  }
}

template <class F>
ir::Mod erase_mask(const F& mod) {
  constexpr int parameters = mod_kind<F>() == ModKind::score ? 5 : 4;
  static_assert(rules::has_mod_arity<F, parameters, 4>());
  return erase(mod);
}
template <class F>
ir::Mod erase_score(const F& mod) {
  constexpr int parameters = mod_kind<F>() == ModKind::mask ? 4 : 5;
  static_assert(rules::has_mod_arity<F, parameters, 5>());
  return erase(mod);
}

}  // namespace flextile
