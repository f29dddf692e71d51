// KernelFamily: a kernel made at run time from a function of facts, in all its alignment variants.
#pragma once
#include <utility>

#include <flextile/runtime/launch.hpp>

namespace flextile {

/// A KernelLike that owns the callable that makes its function. Cheap to move, not copied.
///
///   KernelFamily family("attention", signature, [config](const std::vector<ir::Parameter>& facts) { return build(config, facts); });
///   launch(stream, family, grid, arguments, count);
class KernelFamily {
 public:
  template <class Make>
    requires std::is_invocable_r_v<ir::Function, const Make&, const std::vector<ir::Parameter>&>
  KernelFamily(std::string name, std::vector<ir::Parameter> signature, Make make, CompileOptions options = {})
      : name_(std::move(name)), signature_(std::move(signature)), options_(std::move(options)), identity_(new_kernel_identity()),
        make_(new Make(std::move(make))),
        call_([](const void* object, const std::vector<ir::Parameter>& facts) -> ir::Function { return (*static_cast<const Make*>(object))(facts); }),
        destroy_([](void* object) { delete static_cast<Make*>(object); }) {}
  KernelFamily(KernelFamily&& other) noexcept
      : name_(std::move(other.name_)), signature_(std::move(other.signature_)), options_(std::move(other.options_)), identity_(other.identity_),
        make_(std::exchange(other.make_, nullptr)), call_(other.call_), destroy_(other.destroy_) {}
  KernelFamily& operator=(KernelFamily&& other) noexcept {
    std::swap(name_, other.name_), std::swap(signature_, other.signature_), std::swap(options_, other.options_);
    std::swap(identity_, other.identity_), std::swap(make_, other.make_), std::swap(call_, other.call_), std::swap(destroy_, other.destroy_);
    return *this;
  }
  ~KernelFamily() {
    if (make_) destroy_(make_);
  }

  const std::string& name() const { return name_; }
  const std::vector<ir::Parameter>& signature() const { return signature_; }
  const CompileOptions& options() const { return options_; }
  std::uint64_t identity() const { return identity_; }
  ir::Function trace(const std::vector<ir::Parameter>& facts) const { return call_(make_, facts); }

 private:
  std::string name_;
  std::vector<ir::Parameter> signature_;
  CompileOptions options_;
  std::uint64_t identity_ = 0;
  void* make_ = nullptr;
  ir::Function (*call_)(const void*, const std::vector<ir::Parameter>&) = nullptr;
  void (*destroy_)(void*) = nullptr;
};

inline void launch(const Stream& stream, const KernelFamily& family, Grid grid, const Argument* arguments, std::size_t count) {
  launch(stream, refer(family), grid, arguments, count);
}

}  // namespace flextile
