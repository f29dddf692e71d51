#include <algorithm>
#include <flextile/ir/function.hpp>
#include <utility>

namespace flextile::ir {

Function::Function(std::string function_name, std::vector<Parameter> function_parameters)
    : name(std::move(function_name)), parameters(std::move(function_parameters)), files{""} {
  BlockId body = add_block();
  for (const Parameter& parameter : parameters) add_argument(body, parameter.type);
}

const Operation* Function::defining(Value value) const {
  OperationId id = definition(value).operation;
  return id ? &operation(id) : nullptr;
}

void Function::set_layout(Value value, const Layout& layout) {
  auto place = std::find(layouts.begin(), layouts.end(), layout);
  values_[value.index].layout = static_cast<int>(place - layouts.begin());
  if (place == layouts.end()) layouts.push_back(layout);
}

BlockId Function::add_block() {
  blocks_.emplace_back();
  return BlockId{static_cast<std::uint32_t>(blocks_.size() - 1)};
}

Value Function::add_argument(BlockId id, const Type& type) {
  Value value{static_cast<std::uint32_t>(values_.size())};
  std::vector<Value>& arguments = block(id).arguments;
  values_.push_back({type, {{}, id, static_cast<std::uint32_t>(arguments.size())}, -1});
  arguments.push_back(value);
  return value;
}

OperationId Function::append(BlockId id, Operation operation, const std::vector<Type>& result_types) {
  OperationId result{static_cast<std::uint32_t>(operations_.size())};
  operation.results.clear();
  for (const Type& type : result_types) {
    operation.results.push_back(Value{static_cast<std::uint32_t>(values_.size())});
    values_.push_back({type, {result, id, static_cast<std::uint32_t>(operation.results.size() - 1)}, -1});
  }
  operations_.push_back(std::move(operation));
  block(id).operations.push_back(result);
  return result;
}

void Function::move(OperationId operation, BlockId from, BlockId to) {
  std::vector<OperationId>& source = block(from).operations;
  source.erase(std::find(source.begin(), source.end(), operation));
  block(to).operations.push_back(operation);
  for (Value result : operations_[operation.index].results) values_[result.index].definition.block = to;
}

std::uint32_t Function::file(std::string_view path) {
  if (files.empty()) files.emplace_back();
  auto place = std::find(files.begin(), files.end(), path);
  if (place == files.end()) place = files.insert(files.end(), std::string(path));
  return static_cast<std::uint32_t>(place - files.begin());
}

}  // namespace flextile::ir
