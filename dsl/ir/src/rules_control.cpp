// Blocks may still be empty while a function is built: what ends a block is checked once it is there.
#include "rules.hpp"

namespace flextile::ir {
namespace {

bool can_be_carried(const Type& type) { return type.has_shape() || type.kind == Type::Kind::token; }

std::string wrong_block_count(const Rule& rule, std::size_t count) {
  std::size_t got = rule.operation.blocks.size();
  return got == count ? "" : rule.broken("has ", count, count == 1 ? " block" : " blocks", ", got ", got);
}

// The block's arguments from `first` on have the types of the results.
std::string wrong_carried_arguments(const Rule& rule, BlockId block, std::size_t first) {
  const std::vector<Value>& arguments = rule.function.block(block).arguments;
  if (arguments.size() != first + rule.results())
    return rule.broken("its block takes ", arguments.size(), " arguments: must be ", first + rule.results());
  for (std::size_t i = 0; i < rule.results(); ++i) {
    const Type& type = rule.function.type(arguments[first + i]);
    if (type != rule.result(i))
      return rule.broken("carried value ", i, " is ", rule.result(i), ", its block's argument is ", type, ": must be equal");
  }
  return "";
}

// The initial values are operands `first`..., of the results' types.
std::string wrong_initial_values(const Rule& rule, std::size_t first) {
  std::size_t count = rule.operands() - first;
  if (count != rule.results()) return rule.broken("has ", count, " initial values and ", rule.results(), " results: must be as many");
  for (std::size_t i = 0; i < count; ++i) {
    const Type& type = rule.operand(first + i);
    if (!can_be_carried(type))
      return rule.broken("carried value ", i, " is ", type, ": only numbers, pointers, tiles of them and tokens can change in a loop");
    if (type != rule.result(i))
      return rule.broken("carried value ", i, " starts as ", type, ", the result is ", rule.result(i), ": must be equal");
  }
  return "";
}

// The block ends in `ending`, whose operands from `first` on have the types of the results.
std::string wrong_ending(const Rule& rule, BlockId block, Opcode ending, std::size_t first, std::string_view role) {
  const Operation* last = terminator_of(rule.function, block);
  if (!last) return "";
  if (last->opcode != ending) return rule.broken("its block must end in ", name(ending), ", ends in ", name(last->opcode));
  if (last->operands.size() != first + rule.results()) {
    return rule.broken("its block passes on ", last->operands.size(), " values: must be ", first + rule.results());
  }
  for (std::size_t i = 0; i < rule.results(); ++i) {
    if (last->operands[first + i].index >= rule.function.value_count()) return rule.broken("its block passes on no value as value ", i);
    const Type& type = rule.function.type(last->operands[first + i]);
    if (type != rule.result(i)) return rule.broken(role, " ", i, " is ", rule.result(i), ", its block passes on ", type, ": must be equal");
  }
  return "";
}

std::string wrong_hint(const Rule& rule, AttributeName hint) {
  if (!rule.operation.attributes.has(hint)) return "";
  std::int64_t value = rule.integer(hint, 0);
  return value >= 1 ? "" : rule.broken(name(hint), " is ", value, ": must be at least 1");
}

}  // namespace

std::string for_rule(const Rule& rule) {
  if (rule.operands() < 3) return rule.broken("takes lower, upper, step, then initial values; got ", rule.operands(), " operands");
  constexpr std::string_view roles[] = {"lower bound", "upper bound", "step"};
  for (int i = 0; i < 3; ++i) {
    const Type& type = rule.operand(i);
    if (!is_scalar_of(type, ElementType::i32) && !is_scalar_of(type, ElementType::i64))
      return rule.broken(roles[i], " is ", type, ": must be i32 or i64");
    if (type != rule.operand(0)) return rule.broken("lower bound is ", rule.operand(0), ", ", roles[i], " is ", type, ": must be equal");
  }
  const Operation* step = rule.function.defining(rule.operation.operands[2]);
  if (step && step->opcode == Opcode::constant && step->attributes.integer(AttributeName::value) < 1) {
    return rule.broken("step is ", step->attributes.integer(AttributeName::value), ": must be at least 1");
  }
  if (std::string wrong = wrong_hint(rule, AttributeName::stages); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_hint(rule, AttributeName::unroll); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_initial_values(rule, 3); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_block_count(rule, 1); !wrong.empty()) return wrong;
  BlockId block = rule.operation.blocks[0];
  if (std::string wrong = wrong_carried_arguments(rule, block, 1); !wrong.empty()) return wrong;
  const Type& index = rule.function.type(rule.function.block(block).arguments[0]);
  if (index != rule.operand(0)) return rule.broken("bounds are ", rule.operand(0), ", the index is ", index, ": must be equal");
  return wrong_ending(rule, block, Opcode::yield, 0, "carried value");
}

std::string while_rule(const Rule& rule) {
  if (std::string wrong = wrong_initial_values(rule, 0); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_block_count(rule, 2); !wrong.empty()) return wrong;
  for (BlockId block : rule.operation.blocks) {
    if (std::string wrong = wrong_carried_arguments(rule, block, 0); !wrong.empty()) return wrong;
  }
  if (std::string wrong = wrong_ending(rule, rule.operation.blocks[0], Opcode::condition, 1, "carried value"); !wrong.empty()) return wrong;
  return wrong_ending(rule, rule.operation.blocks[1], Opcode::yield, 0, "carried value");
}

std::string if_rule(const Rule& rule) {
  const Type& condition = rule.operand(0);
  if (!is_scalar_of(condition, ElementType::i1)) {
    bool tile = condition.is_number() && condition.rank > 0;
    return rule.broken("condition is ", condition, ": must be one i1",
                       tile ? "; a choice per element is select" : "; compare it, for instance with 0");
  }
  if (std::string wrong = wrong_block_count(rule, 2); !wrong.empty()) return wrong;
  for (std::size_t i = 0; i < rule.results(); ++i) {
    if (!can_be_carried(rule.result(i)))
      return rule.broken("result ", i, " is ", rule.result(i), ": only numbers, pointers, tiles of them and tokens");
  }
  for (BlockId block : rule.operation.blocks) {
    std::size_t arguments = rule.function.block(block).arguments.size();
    if (arguments != 0) return rule.broken("its blocks take no arguments, got ", arguments);
    if (std::string wrong = wrong_ending(rule, block, Opcode::yield, 0, "result"); !wrong.empty()) return wrong;
  }
  return "";
}

std::string yield_rule(const Rule& rule) {
  for (std::size_t i = 0; i < rule.operands(); ++i) {
    if (!can_be_carried(rule.operand(i)))
      return rule.broken("value ", i, " is ", rule.operand(i), ": only numbers, pointers, tiles of them and tokens");
  }
  return "";
}

std::string condition_rule(const Rule& rule) {
  if (rule.operands() < 1) return rule.broken("needs an i1");
  const Type& type = rule.operand(0);
  if (!is_scalar_of(type, ElementType::i1)) return rule.broken("condition is ", type, ": must be one i1; compare it, for instance with 0");
  return "";
}

}  // namespace flextile::ir
