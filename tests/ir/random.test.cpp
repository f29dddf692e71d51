// Random calls of the builder with random values: each either builds or throws a CompileError, and what was built is right.
#include <doctest/doctest.h>

#include <flextile/ir/builder.hpp>
#include <flextile/ir/error.hpp>
#include <flextile/ir/rewriter.hpp>

using namespace flextile;
using namespace flextile::ir;

namespace {

class RandomCalls {
 public:
  explicit RandomCalls(std::uint64_t seed) : state_(seed * 2862933555777941757u + 3037000493u) {
    for (std::size_t i = 0; i < function_.parameters.size(); ++i) values_.push_back(function_.parameter(i));
  }

  int built() const { return built_; }

  Function run(int calls) {
    for (int i = 0; i < calls; ++i) attempt();
    while (!open_.empty()) close();
    builder_.return_values();
    return function_;
  }

 private:
  std::size_t random(std::size_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>((state_ >> 33) % below);
  }
  int extent() {
    constexpr int extents[] = {1, 4, 4, 48, 0, -3, 2000000};
    return extents[random(random(8) == 0 ? 7 : 4)];
  }
  Shape shape() {
    Shape result;
    for (std::size_t rank = random(random(10) == 0 ? 8 : 3); rank > 0; --rank) result.push_back(extent());
    return result;
  }
  ElementType element() { return static_cast<ElementType>(random(element_type_count)); }
  Value value() {
    std::size_t kind = random(60);
    if (kind == 0) return Value{};
    if (kind == 1) return Value{static_cast<std::uint32_t>(random(100000))};
    return values_[random(values_.size())];
  }
  std::vector<Value> pick(std::size_t most) {
    std::vector<Value> result;
    for (std::size_t count = random(most + 1); count > 0; --count) result.push_back(values_[random(values_.size())]);
    return result;
  }
  std::string_view kind() {
    constexpr std::string_view kinds[] = {"sum", "prod", "min", "max", "and", "or", "xor", "add", "exchange", "custom", ""};
    return kinds[random(std::size(kinds))];
  }
  int axis() { return static_cast<int>(random(6)) - 2; }

  // Ends the innermost open block with what it carries.
  void close() {
    auto [operation, part, outside, values] = open_.back();
    const std::vector<Value> carried = function_.block(builder_.insertion_block()).arguments;
    std::size_t first = function_.operation(operation).opcode == Opcode::for_ ? 1 : 0;
    std::vector<Value> passed(carried.begin() + static_cast<std::ptrdiff_t>(first), carried.end());
    bool condition = function_.operation(operation).opcode == Opcode::while_ && part == 0;
    if (condition) {
      builder_.condition(builder_.constant(ElementType::i1, std::int64_t{0}), passed);
    } else {
      builder_.yield(passed);
    }
    values_.resize(values);
    if (static_cast<std::size_t>(part) + 1 < function_.operation(operation).blocks.size()) {
      open_.back().part = part + 1;
      enter(operation, part + 1);
    } else {
      open_.pop_back();
      builder_.set_insertion_block(outside);
      keep(function_.operation(operation).results);
    }
  }
  void enter(OperationId operation, int part) {
    BlockId block = function_.operation(operation).blocks[static_cast<std::size_t>(part)];
    builder_.set_insertion_block(block);
    keep(function_.block(block).arguments);
  }
  void open(OperationId operation) {
    open_.push_back({operation, 0, builder_.insertion_block(), values_.size()});
    enter(operation, 0);
  }
  void keep(const std::vector<Value>& values) { values_.insert(values_.end(), values.begin(), values.end()); }

  void attempt() {
    try {
      call();
      ++built_;
    } catch (const CompileError&) {
    }
  }

  void call() {
    Builder& b = builder_;
    switch (random(28)) {
      case 0:
        return keep({b.splat(Type::tile(element(), shape()), static_cast<std::int64_t>(random(300)))});
      case 1:
        return keep({b.constant(element(), static_cast<double>(random(100)) / 2)});
      case 2:
        return keep({b.arange(extent(), static_cast<std::int64_t>(random(9)))});
      case 3:
        return keep({b.unary(static_cast<Opcode>(static_cast<std::size_t>(Opcode::neg) + random(17)), value())});
      case 4:
      case 5:
      case 6:
        return keep({b.binary(static_cast<Opcode>(static_cast<std::size_t>(Opcode::add) + random(19)), value(), value())});
      case 7:
        return keep({b.fma(value(), value(), value())});
      case 8:
        return keep({b.select(value(), value(), value())});
      case 9:
        return keep({b.cast(value(), element())});
      case 10:
        return keep({b.bitcast(value(), element())});
      case 11:
        return keep({b.offset(value(), value())});
      case 12:
        return keep({b.broadcast(value(), shape())});
      case 13:
        return keep({b.expand_dims(value(), axis())});
      case 14:
        return keep({b.reshape(value(), shape())});
      case 15:
        return keep({b.transpose(value(), random(2) ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{axis(), axis()})});
      case 16:
        return keep({b.load(value(), random(2) ? value() : Value{}, random(2) ? value() : Value{})});
      case 17:
        return b.store(value(), value(), random(2) ? value() : Value{});
      case 18:
        return keep({b.view_load(value(), pick(3), shape())});
      case 19:
        return b.view_store(value(), value(), pick(3));
      case 20:
        return keep({b.gather(value(), pick(3), random(2) ? value() : Value{})});
      case 21:
        return keep({random(2) ? b.view_size(value(), axis()) : random(2) ? b.view_stride(value(), axis()) : b.view_base(value())});
      case 22:
        return keep(
            {random(2) ? b.atomic(kind(), value(), value(), random(2) ? value() : Value{}) : b.atomic_cas(value(), value(), value())});
      case 23:
        return keep({b.dot(value(), value(), value())});
      case 24:
        return keep({b.reduce(kind(), value(), axis())});
      case 25:
        if (open_.size() > 3) return close();
        return open(random(2) ? b.for_loop(value(), value(), value(), pick(2)) : b.while_loop(pick(2)));
      case 26:
        return open_.size() > 3 ? close() : open(b.if_else(value(), {}));
      default:
        return any_operation();
    }
  }

  // Anything but what ends a block, as a pass or a text could ask for it.
  void any_operation() {
    Operation operation{.opcode = static_cast<Opcode>(random(opcode_count)), .operands = pick(4)};
    if (has(operation.opcode, terminator) || has(operation.opcode, regions)) return;
    if (random(2)) operation.attributes.set(AttributeName::axis, static_cast<std::int64_t>(axis()));
    if (random(4) == 0) operation.attributes.set(AttributeName::has_mask, std::string("yes"));
    std::vector<Type> types;
    for (Value like : pick(1)) types.push_back(builder_.type(like));
    keep(builder_.results(builder_.create(std::move(operation), types)));
  }

  struct Open {
    OperationId operation;
    int part;
    BlockId outside;
    std::size_t values;  // how many were visible outside
  };

  Function function_{"random",
                     {{"n", Type::scalar(ElementType::i32)},
                      {"p", Type::pointer(ElementType::f32)},
                      {"q", Type::pointer(ElementType::i32)},
                      {"v", Type::view(ElementType::f32, 2)},
                      {"w", Type::view(ElementType::i32, 7), true},
                      {"flag", Type::scalar(ElementType::i1)}}};
  Builder builder_{function_};
  std::vector<Value> values_;
  std::vector<Open> open_;
  std::uint64_t state_;
  int built_ = 0;
};

}  // namespace

TEST_CASE("random calls build right functions or throw, and every such function survives text and rewriting") {
  int built = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomCalls calls(seed);
    Function function = calls.run(150);
    built += calls.built();
    verify(function, "after random calls");
    std::string text = print(function);
    REQUIRE(print(parse(text)) == text);
    Rewriter rewriter(function);
    rewriter.run([](OperationId) { return false; });
    REQUIRE(print(rewriter.take()) == text);
  }
  CHECK(built > 5000);
}
