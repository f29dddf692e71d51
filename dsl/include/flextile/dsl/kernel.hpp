// A kernel: a lambda that captures nothing, with its name. Its parameters' types are the kernel's signature.
#pragma once
#include <boost/hana/basic_tuple.hpp>
#include <boost/hana/for_each.hpp>
#include <boost/hana/type.hpp>
#include <boost/hana/unpack.hpp>
#include <flextile/dsl/function.hpp>
#include <flextile/ir/identity.hpp>

namespace flextile {

/// How a parameter of a kernel's lambda is described in the IR.
template <class T>
struct KernelParameter {
  static ir::Parameter describe() {
    static_assert(rules::is_a_kernel_parameter<T>());
    return {};
  }
};
template <class T>
struct KernelParameter<Pointer<T>> {
  static ir::Parameter describe() { return {"", ir::Type::pointer(element_type_of<T>), std::is_const_v<T>}; }
};
template <class T, int Rank>
struct KernelParameter<TensorView<T, Rank>> {
  static ir::Parameter describe() { return {"", ir::Type::view(element_type_of<T>, Rank), std::is_const_v<T>}; }
};
template <class T>
struct KernelParameter<Scalar<T>> {
  static ir::Parameter describe() { return {"", ir::Type::scalar(element_type_of<T>)}; }
};
template <class T>
struct KernelParameter<Tile<T, Shape<>>> : KernelParameter<Scalar<T>> {};

/// The parameter types of a lambda, as a Hana tuple of types.
template <class Call>
struct CallSignature;
template <class Lambda, class Result, class... Ts>
struct CallSignature<Result (Lambda::*)(Ts...) const> {
  static constexpr auto types = boost::hana::make_basic_tuple(boost::hana::type_c<Ts>...);
};
template <class Lambda>
struct LambdaSignature : CallSignature<void (Lambda::*)() const> {
  static_assert(rules::has_typed_parameters<Lambda>());
};
template <class Lambda>
requires requires { &Lambda::operator(); }
struct LambdaSignature<Lambda> : CallSignature<decltype(&Lambda::operator())> {};

template <class Lambda>
class Kernel {
 public:
  Kernel(std::string_view name, Lambda, TraceOptions options = {}, Where where = Where::current())
      : name_(name), options_(options), where_(where) {
    static_assert(rules::captures_nothing<Lambda>());
    boost::hana::for_each(types, [&](auto type) {
      signature_.push_back(KernelParameter<typename decltype(type)::type>::describe());
      signature_.back().name = "p" + std::to_string(signature_.size() - 1);
    });
  }

  const std::string& name() const { return name_; }
  /// Equal for copies only: a launch that has seen it before does not trace.
  std::uint64_t identity() const { return identity_; }
  /// One entry per parameter of the lambda. Facts are as when nothing is known.
  const std::vector<ir::Parameter>& signature() const { return signature_; }
  ir::Function trace() const { return trace(signature_); }
  /// Traced with facts that the launch has found: same parameters, other aligned and unit_stride.
  ir::Function trace(const std::vector<ir::Parameter>& facts) const {
    if (facts.size() != signature_.size()) {
      throw ArgumentError("flextile: kernel \"" + name_ + "\" has " + std::to_string(signature_.size()) +
                          " parameters, facts are given for " + std::to_string(facts.size()));
    }
    ir::Function function(name_, facts);
    Tracing tracing(function);
    apply_options(tracing.builder, options_, where_);
    boost::hana::unpack(
        types, [&](auto... type) { run<typename decltype(type)::type...>(function, std::make_index_sequence<sizeof...(type)>{}); });
    tracing.builder.return_values();
    return settled(tracing.builder);
  }

 private:
  template <class... Ts, std::size_t... I>
  static void run(const ir::Function& function, std::index_sequence<I...>) {
    if constexpr (std::is_empty_v<Lambda>) Lambda{}(Ts::of(function.parameter(I))...);
  }

  static constexpr auto types = LambdaSignature<Lambda>::types;
  std::string name_;
  TraceOptions options_;
  Where where_;
  std::vector<ir::Parameter> signature_;
  std::uint64_t identity_ = ir::new_identity();
};

/// Names a lambda as a kernel. It is traced when it is first launched, once per variant; that is when wrong options throw.
///
///   inline const auto copy = kernel("copy", [](Pointer<const f32> x, Pointer<f32> y) { store(y, load(x)); });
///   inline const auto wide = kernel("wide", [](Pointer<f32> y) { store(y + arange<8192>(), 0.0f); }, {.num_warps = 8});
template <class Lambda>
Kernel<Lambda> kernel(std::string_view name, Lambda lambda, TraceOptions options = {}, Where where = Where::current()) {
  return Kernel<Lambda>(name, lambda, options, where);
}

}  // namespace flextile
