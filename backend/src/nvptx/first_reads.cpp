#include "nvptx/first_reads.hpp"

#include "effects.hpp"

namespace flextile::backend {

FirstReads::FirstReads(ir::Function& function, ir::OperationId loop, ir::BlockId programs_body, const std::set<std::uint32_t>& decides, const std::vector<ir::OperationId>& reads)
    : ProductLoops(function), loop_(function.operation(loop)), decides_(decides), reads_(reads) {
  outer_ = programs_body;
  body_ = loop_.blocks[0];
  location_ = loop_.location;
}

bool FirstReads::collect(Value value) {
  const auto& definition = f_.definition(value);
  const OperationId id = definition.operation;
  if (definition.block == body_) {
    if (!id) return value == f_.block(body_).arguments[0];
    if (!decides_.contains(id.index)) return false;
    slice_.insert(id.index);
    return std::all_of(f_.operation(id).operands.begin(), f_.operation(id).operands.end(), [&](Value operand) { return collect(operand); });
  }
  if (definition.block != outer_ || !id) return true;   // from outside, or one of the program's scalars
  const Operation& operation = f_.operation(id);
  if (f_.type(value).rank > 0 || !operation.blocks.empty() || !ir::has(operation.opcode, ir::pure)) return false;
  slice_.insert(id.index);
  return std::all_of(operation.operands.begin(), operation.operands.end(), [&](Value operand) { return collect(operand); });
}

bool FirstReads::plan() {
  slice_.clear();
  // They come before what the program, or the one before, writes.
  return !reads_.empty() && collect(loop_.operands[0]) && collect(loop_.operands[1]) && std::all_of(reads_.begin(), reads_.end(), [&](OperationId read) {
    return reads_constant_memory(f_, f_.operation(read)) && collect(f_.operation(read).results[0]);
  });
}

auto FirstReads::read(BlockId block, Values names) -> std::vector<Value> {
  for (OperationId id : std::vector<OperationId>(f_.block(outer_).operations)) {
    if (slice_.contains(id.index)) copy(id, block, names);
  }
  const Value lower = renamed(names, loop_.operands[0]);
  const Value runs = make(block, Opcode::lt, {lower, renamed(names, loop_.operands[1])}, Type::scalar(ElementType::i1));
  names[f_.block(body_).arguments[0].index] = lower;
  const BlockId some = f_.add_block(), none = f_.add_block();
  std::vector<Value> values, zeros;
  std::vector<Type> types;
  for (OperationId id : std::vector<OperationId>(f_.block(body_).operations)) {
    if (slice_.contains(id.index)) copy(id, some, names);
  }
  for (OperationId read : reads_) {
    const Value value = f_.operation(read).results[0];
    values.push_back(names.at(value.index));
    types.push_back(f_.type(value));
    const bool floating = is_float(types.back().element);
    zeros.push_back(make(none, Opcode::constant, {}, types.back(), floating ? Attributes{{AttributeName::value, 0.0}} : Attributes{{AttributeName::value, std::int64_t{0}}}));
  }
  f_.append(some, {Opcode::yield, std::move(values), {}, {}, {}, location_}, {});
  f_.append(none, {Opcode::yield, std::move(zeros), {}, {}, {}, location_}, {});
  return f_.operation(f_.append(block, {Opcode::if_, {runs}, {}, {some, none}, {}, location_}, types)).results;
}

auto FirstReads::transform(ir::BlockId programs_block, ir::OperationId& programs) -> std::vector<Value> {
  const Operation before = f_.operation(programs);
  const std::vector<Value> arguments = f_.block(outer_).arguments;
  const OperationId last = f_.block(outer_).operations.back();
  auto scalars = [&](const std::vector<Value>& values) {
    Values names;
    for (std::size_t i = 0; i < arguments.size(); ++i) names[arguments[i].index] = values[i];
    return names;
  };
  /// Makes operations at a block's end and moves them to `at`.
  auto insert = [&](BlockId block, std::size_t at, auto&& fill) {
    const std::size_t count = f_.block(block).operations.size();
    auto result = fill();
    auto& operations = f_.block(block).operations;
    std::rotate(operations.begin() + static_cast<std::ptrdiff_t>(at), operations.begin() + static_cast<std::ptrdiff_t>(count), operations.end());
    return result;
  };

  // For the next program: behind what its scalars come from.
  const std::vector<Value> next = f_.operation(last).operands;
  const auto& inside = f_.block(outer_).operations;
  std::size_t known = 0;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    const Operation& operation = f_.operation(inside[i]);
    if (std::any_of(next.begin(), next.end(), [&](Value value) { return f_.definition(value).operation == inside[i]; }) || operation.opcode == Opcode::ring_release) known = i + 1;
  }
  const std::vector<Value> later = insert(outer_, known, [&] { return read(outer_, scalars(next)); });
  f_.operation(last).operands.insert(f_.operation(last).operands.end(), later.begin(), later.end());

  // For the first one, in front of the loop over programs.
  auto place = [&] {
    const auto& operations = f_.block(programs_block).operations;
    return static_cast<std::size_t>(std::find(operations.begin(), operations.end(), programs) - operations.begin());
  };
  const std::size_t front = place();
  std::vector<Value> operands = before.operands;
  const std::vector<Value> first = insert(programs_block, front, [&] { return read(programs_block, scalars(operands)); });
  operands.insert(operands.end(), first.begin(), first.end());

  std::vector<Value> begun;
  const BlockId test = before.blocks[0];
  std::vector<Type> types;
  for (Value value : before.results) types.push_back(f_.type(value));
  for (OperationId read : reads_) {
    types.push_back(f_.type(f_.operation(read).results[0]));
    const Value handed = f_.add_argument(test, types.back());
    f_.operation(f_.block(test).operations.back()).operands.push_back(handed);
    begun.push_back(f_.add_argument(outer_, types.back()));
  }
  const std::size_t at = place();
  const OperationId made = insert(programs_block, at, [&] { return f_.append(programs_block, {before.opcode, std::move(operands), {}, before.blocks, before.attributes, before.location}, types); });
  std::erase(f_.block(programs_block).operations, programs);
  programs = made;
  return begun;
}

}  // namespace flextile::backend
