// launch(stream, kernel, grid, arguments...): check, pick the variant, pack, hand over to the device.
#pragma once
#include <concepts>
#include <string_view>

#include <flextile/ir/function.hpp>
#include <flextile/runtime/argument.hpp>
#include <flextile/runtime/loaded_kernel.hpp>
#include <flextile/runtime/stream.hpp>

namespace flextile {

/// Programs per axis. A grid with a zero runs nothing. On a GPU x < 2^31, y and z < 65536.
struct Grid {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t z = 1;
};

/// What launch needs of a kernel: a name, its parameters, and a function for given facts about the arguments. Facts are the
/// parameters with `aligned` and `unit_stride` as the arguments have them.
template <class K>
concept KernelLike = requires(const K& kernel, const std::vector<ir::Parameter>& facts) {
  { kernel.name() } -> std::convertible_to<std::string_view>;
  { kernel.trace(facts) } -> std::convertible_to<ir::Function>;
  { kernel.signature() } -> std::convertible_to<const std::vector<ir::Parameter>&>;
};

/// A KernelLike without its type.
struct KernelReference {
  const void* object = nullptr;
  ir::Function (*trace)(const void* object, const std::vector<ir::Parameter>& facts) = nullptr;
  const std::vector<ir::Parameter>* signature = nullptr;
  std::string_view name;
  /// Equal only for kernels that trace to equal functions; 0: unknown, so that every launch traces to find the code.
  std::uint64_t identity = 0;
  const CompileOptions* options = nullptr;   // null: the defaults
};

template <KernelLike K>
KernelReference refer(const K& kernel) {
  KernelReference reference;
  reference.object = &kernel;
  reference.trace = [](const void* object, const std::vector<ir::Parameter>& facts) -> ir::Function {
    return static_cast<const K*>(object)->trace(facts);
  };
  reference.signature = &kernel.signature();
  reference.name = kernel.name();
  if constexpr (requires { { kernel.identity() } -> std::convertible_to<std::uint64_t>; }) reference.identity = kernel.identity();
  if constexpr (requires { { kernel.options() } -> std::convertible_to<const CompileOptions&>; }) reference.options = &kernel.options();
  return reference;
}

/// A number that no other call in this process returns: the identity of a kernel object and of its copies.
std::uint64_t new_kernel_identity();

/// Queues the kernel. The arguments are checked against the kernel's parameters and facts: ArgumentError, and nothing runs.
void launch(const Stream& stream, const LoadedKernel& kernel, Grid grid, const Argument* arguments, std::size_t count);
/// The same with the variant of the kernel that fits the arguments' alignment, compiled on its first use.
void launch(const Stream& stream, const KernelReference& kernel, Grid grid, const Argument* arguments, std::size_t count);
/// The variant that launch would use.
LoadedKernel select(const Device& device, const KernelReference& kernel, const Argument* arguments, std::size_t count);
/// The parameters with the facts that hold for these arguments. Throws ArgumentError where one does not fit.
std::vector<ir::Parameter> argument_facts(const Device& device, std::string_view kernel, const std::vector<ir::Parameter>& signature,
                                          const Argument* arguments, std::size_t count);

/// Checks one argument of a launch. What points at a list of arguments is meant for the overloads above.
template <class A>
concept LaunchArgument = std::is_constructible_v<Argument, const A&> || !std::is_convertible_v<const A&, const Argument*>;
template <class A>
consteval bool is_argument() {
  static_assert(std::is_constructible_v<Argument, const A&>,
                "[launch] a kernel's argument must be a tensor, a number, or nullptr for an absent tensor: copy other memory with from_host");
  return true;
}

/// launch(stream, kernel, Grid{m, n}, x, y, 0.5f): arguments in the order of the kernel's parameters.
template <KernelLike K, LaunchArgument... A>
void launch(const Stream& stream, const K& kernel, Grid grid, const A&... arguments) {
  static_assert((is_argument<A>() && ...));
  if constexpr ((std::is_constructible_v<Argument, const A&> && ...)) {
    const Argument list[sizeof...(A) + 1] = {Argument(arguments)..., Argument()};
    launch(stream, refer(kernel), grid, list, sizeof...(A));
  }
}
template <LaunchArgument... A>
void launch(const Stream& stream, const LoadedKernel& kernel, Grid grid, const A&... arguments) {
  static_assert((is_argument<A>() && ...));
  if constexpr ((std::is_constructible_v<Argument, const A&> && ...)) {
    const Argument list[sizeof...(A) + 1] = {Argument(arguments)..., Argument()};
    launch(stream, kernel, grid, list, sizeof...(A));
  }
}

/// A launch that does not name its stream.
template <class>
inline constexpr bool names_a_stream = false;
template <class K, class... A>
  requires(KernelLike<K> || std::same_as<K, LoadedKernel> || std::same_as<K, Device>)
void launch(const K&, const A&...) {
  static_assert(names_a_stream<K>, "[launch] the first argument is the stream that runs the kernel, such as device.stream(): launch(stream, kernel, grid, arguments...)");
}

/// The same with a whole number of programs along x as the grid.
template <class K, class G, LaunchArgument... A>
  requires((KernelLike<K> || std::same_as<K, LoadedKernel>) && !std::is_convertible_v<const G&, Grid>)
void launch(const Stream& stream, const K& kernel, const G& programs, const A&... arguments) {
  constexpr bool is_count = std::is_integral_v<G> && !std::is_same_v<G, bool>;
  static_assert(is_count, "[launch] the third argument is the grid, Grid{x, y, z} or a whole number of programs; the kernel's arguments follow");
  if constexpr (is_count) launch(stream, kernel, Grid{static_cast<std::int64_t>(programs)}, arguments...);
}

template <KernelLike K, class... A>
  requires(std::is_constructible_v<Argument, const A&> && ...)
LoadedKernel select(const Device& device, const K& kernel, const A&... arguments) {
  const Argument list[sizeof...(A) + 1] = {Argument(arguments)..., Argument()};
  return select(device, refer(kernel), list, sizeof...(A));
}

constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

}  // namespace flextile
