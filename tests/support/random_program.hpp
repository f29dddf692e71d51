// Kernels made of random operations, loops and branches, for comparing what passes and back ends make of them.
//
// Parameters: x view<2xf32>, k view<1xi32> (read only), out view<2xf32> (written), n i32, s f32. Every value that is left
// at the end is stored: value i as f32 in rows 4 i to 4 i + 3 of `out`, six columns.
#pragma once
#include <random>

#include <flextile/ir/builder.hpp>
#include <flextile/ir/error.hpp>

namespace flextile::test {

class RandomProgram {
 public:
  static constexpr int rows = 4, columns = 6, stored_values = 24;

  explicit RandomProgram(unsigned seed)
      : random_(seed),
        function_("random_" + std::to_string(seed), {{.name = "x", .type = ir::Type::view(ElementType::f32, 2), .read_only = true},
                                                     {.name = "k", .type = ir::Type::view(ElementType::i32, 1), .read_only = true},
                                                     {.name = "out", .type = ir::Type::view(ElementType::f32, 2)},
                                                     {.name = "n", .type = ir::Type::scalar(ElementType::i32)},
                                                     {.name = "s", .type = ir::Type::scalar(ElementType::f32)}}),
        builder_(function_) {
    pool_ = {function_.parameter(3), function_.parameter(4), builder_.program_id(0), builder_.arange(columns), builder_.arange(rows, 3)};
    load();
    fill(30, 2);
    store_all();
    builder_.return_values();
  }

  const ir::Function& function() const { return function_; }

 private:
  using Value = ir::Value;
  using Opcode = ir::Opcode;

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  Value any() { return pool_[static_cast<std::size_t>(below(static_cast<int>(pool_.size())))]; }
  template <class T> T one_of(std::initializer_list<T> list) { return list.begin()[below(static_cast<int>(list.size()))]; }
  Value of_type(const ir::Type& type, Value otherwise) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      if (const Value value = any(); builder_.type(value) == type) return value;
    }
    return otherwise;
  }
  ElementType element() {
    return one_of({ElementType::i1, ElementType::i8, ElementType::i32, ElementType::i64, ElementType::u8, ElementType::u32, ElementType::f8e4m3, ElementType::f8e5m2,
                   ElementType::f16, ElementType::bf16, ElementType::f32, ElementType::f64});
  }
  Value constant() {
    const ElementType type = element();
    if (is_float(type)) return builder_.splat(ir::Type::tile(type, shape()), one_of({0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 8.0, -3.25, 100.0}));
    if (type == ElementType::i1) return builder_.splat(ir::Type::tile(type, shape()), std::int64_t{below(2)});
    return builder_.splat(ir::Type::tile(type, shape()), one_of<std::int64_t>({0, 1, 2, 3, 4, 7, 16, 100}));
  }
  ir::Shape shape() { return one_of<ir::Shape>({{}, {columns}, {rows, 1}, {1, columns}, {rows, columns}}); }
  Value scalar(std::int64_t value) { return builder_.constant(ElementType::i32, value); }
  void load() { pool_.push_back(builder_.view_load(function_.parameter(0), {scalar(below(4)), scalar(below(3) - 1)}, {rows, columns}, 0.5)); }

  /// Appends up to `count` operations; what breaks a rule is left out.
  void fill(int count, int depth) {
    for (int i = 0; i < count; ++i) {
      try {
        step(depth);
      } catch (const CompileError&) {
      }
    }
  }

  void step(int depth) {
    switch (below(depth > 0 ? 17 : 14)) {
      case 0: return pool_.push_back(constant());
      case 1:
        return pool_.push_back(builder_.unary(
            one_of({Opcode::neg, Opcode::unlikely, Opcode::abs, Opcode::bit_not, Opcode::floor, Opcode::ceil, Opcode::round, Opcode::trunc, Opcode::sqrt}), any()));
      case 2:
      case 3:
        return pool_.push_back(
            builder_.binary(one_of({Opcode::add, Opcode::sub, Opcode::mul, Opcode::div, Opcode::rem, Opcode::min, Opcode::max}), any(), any()));
      case 4: return pool_.push_back(builder_.binary(one_of({Opcode::bit_and, Opcode::bit_or, Opcode::bit_xor}), any(), any()));
      case 5: return pool_.push_back(builder_.binary(one_of({Opcode::shl, Opcode::shr}), any(), builder_.constant(ElementType::i8, std::int64_t{below(7)})));
      case 6:
        return pool_.push_back(builder_.binary(one_of({Opcode::eq, Opcode::ne, Opcode::lt, Opcode::le, Opcode::gt, Opcode::ge}), any(), any()));
      case 7: return pool_.push_back(builder_.select(any(), any(), any()));
      case 8: return pool_.push_back(builder_.cast(any(), element()));
      case 9: return pool_.push_back(builder_.bitcast(any(), one_of({ElementType::i32, ElementType::f32, ElementType::u8})));
      case 10: return pool_.push_back(below(2) ? builder_.broadcast(any(), shape()) : builder_.expand_dims(any(), below(2)));
      case 11: return pool_.push_back(below(2) ? builder_.reshape(any(), {columns, rows}) : builder_.transpose(any()));
      case 12: return pool_.push_back(builder_.reduce(one_of({"sum", "max", "min"}), any(), below(2)));
      case 13: return memory();
      case 14: return branch(depth);
      case 15: return loop(depth);
      default: return while_loop(depth);
    }
  }

  void memory() {
    const int row = 4 * stored_values + 4 * below(2);       // rows that store_all leaves alone
    if (below(3) == 0) return load();
    if (below(2) == 0) return pool_.push_back(builder_.view_load(function_.parameter(2), {scalar(row), scalar(0)}, {rows, columns}));
    if (below(2) == 0) {
      Value index = builder_.binary(Opcode::bit_and, builder_.cast(any(), ElementType::i32), scalar(7));
      if (below(2) == 0) index = builder_.binary(Opcode::sub, builder_.binary(Opcode::mul, index, scalar(3)), scalar(4));   // some are outside
      return pool_.push_back(builder_.gather(function_.parameter(1), {index}, below(2) ? builder_.binary(Opcode::lt, index, scalar(below(9))) : Value{}));
    }
    store(any(), row);
  }
  void store(Value value, int row) {
    const Value number = builder_.cast(value, ElementType::f32);
    builder_.view_store(function_.parameter(2), builder_.broadcast(number, {rows, columns}), {scalar(row), scalar(0)});
  }
  void store_all() {
    for (int i = 0, count = static_cast<int>(pool_.size()); i < stored_values && i < count; ++i) {
      try {
        store(pool_[static_cast<std::size_t>(count - 1 - i)], 4 * i);
      } catch (const CompileError&) {
      }
    }
  }

  /// Fills a block that sees the pool and `arguments`; returns one value per type to pass on.
  std::vector<Value> body(ir::BlockId block, const std::vector<Value>& arguments, const std::vector<Value>& carried, int depth) {
    const std::vector<Value> outer = pool_;
    builder_.set_insertion_block(block);
    pool_.insert(pool_.end(), arguments.begin(), arguments.end());
    fill(8, depth - 1);
    std::vector<Value> passed;
    for (std::size_t i = 0; i < carried.size(); ++i) passed.push_back(of_type(builder_.type(carried[i]), carried[i]));
    pool_ = outer;
    return passed;
  }
  void finish(ir::BlockId after, ir::OperationId made) {
    builder_.set_insertion_block(after);
    for (Value result : builder_.results(made)) pool_.push_back(result);
  }
  std::vector<Value> some() {
    std::vector<Value> values;
    for (int i = below(3); i >= 0; --i) values.push_back(any());
    return values;
  }

  void branch(int depth) {
    const ir::BlockId here = builder_.insertion_block();
    const Value truth = builder_.constant(ElementType::i1, std::int64_t{below(2)});
    const Value condition = of_type(ir::Type::scalar(ElementType::i1), below(2) ? truth : builder_.binary(Opcode::lt, function_.parameter(3), scalar(5)));
    const std::vector<Value> carried = some();
    std::vector<ir::Type> types;
    for (Value value : carried) types.push_back(builder_.type(value));
    const ir::OperationId made = builder_.if_else(condition, types);
    for (int side = 0; side < 2; ++side) builder_.yield(body(function_.operation(made).blocks[static_cast<std::size_t>(side)], {}, carried, depth));
    finish(here, made);
  }
  void loop(int depth) {
    const ir::BlockId here = builder_.insertion_block();
    const Value upper = below(2) ? scalar(below(4)) : builder_.binary(Opcode::bit_and, function_.parameter(3), scalar(3));
    const std::vector<Value> carried = some();
    const ir::OperationId made = builder_.for_loop(scalar(below(2)), upper, scalar(1 + below(2)), carried);
    const ir::BlockId block = function_.operation(made).blocks[0];
    const std::vector<Value> arguments = function_.block(block).arguments;
    builder_.yield(body(block, arguments, {arguments.begin() + 1, arguments.end()}, depth));
    finish(here, made);
  }
  void while_loop(int depth) {
    const ir::BlockId here = builder_.insertion_block();
    std::vector<Value> carried = some();
    carried.insert(carried.begin(), scalar(0));
    const ir::OperationId made = builder_.while_loop(carried);
    const ir::BlockId test = function_.operation(made).blocks[0], block = function_.operation(made).blocks[1];
    builder_.set_insertion_block(test);
    const std::vector<Value> tested = function_.block(test).arguments;
    builder_.condition(builder_.binary(Opcode::lt, tested[0], scalar(3)), tested);
    const std::vector<Value> arguments = function_.block(block).arguments;
    std::vector<Value> passed = body(block, arguments, arguments, depth);
    passed[0] = builder_.binary(Opcode::add, arguments[0], scalar(1));
    builder_.yield(passed);
    finish(here, made);
  }

  std::mt19937 random_;
  ir::Function function_;
  ir::Builder builder_;
  std::vector<Value> pool_;
};

/// Memory for a RandomProgram and its arguments as HostEntry takes them.
class RandomArguments {
 public:
  static constexpr int height = 4 * RandomProgram::stored_values + 8;

  explicit RandomArguments(unsigned seed) : out(static_cast<std::size_t>(height) * 6, 0.0f) {
    std::mt19937 random(seed);
    for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 200) - 100) / 8;
    for (std::int32_t& value : k) value = static_cast<std::int32_t>(random() % 20) - 5;
    n = static_cast<std::int32_t>(random() % 9);
    s = static_cast<float>(random() % 16) / 4 - 2;
  }
  RandomArguments(const RandomArguments&) = delete;

  float x[7 * 6];
  std::int32_t k[8];
  std::vector<float> out;
  std::int32_t n;
  float s;

  void* const* pointers() {
    out_base_ = out.data();
    return pointers_;
  }

 private:
  float* x_base_ = x;
  std::int32_t* k_base_ = k;
  float* out_base_ = nullptr;
  std::int32_t x_sizes_[2] = {7, 6}, k_sizes_[1] = {8}, out_sizes_[2] = {height, 6};
  std::int64_t x_strides_[2] = {6, 1}, k_strides_[1] = {1}, out_strides_[2] = {6, 1};
  void* pointers_[15] = {&x_base_,      &x_sizes_[0],   &x_sizes_[1],   &x_strides_[0],   &x_strides_[1], &k_base_, &k_sizes_[0], &k_strides_[0],
                         &out_base_, &out_sizes_[0], &out_sizes_[1], &out_strides_[0], &out_strides_[1], &n,       &s};
};

}  // namespace flextile::test
