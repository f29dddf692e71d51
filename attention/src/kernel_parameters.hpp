// The parameters of a kernel whose signature is a list: declared and taken in order.
#pragma once
#include <vector>

#include <flextile/dsl/dsl.hpp>

namespace flextile::attention {

class KernelParameters {
 public:
  KernelParameters(Parameters& declared, const std::vector<ir::Parameter>& facts) : declared_(declared), facts_(facts) {}

  AnyView view() {
    const ir::Parameter& p = facts_[taken_++];
    return declared_.view(p.name, p.type.element, p.type.rank, {p.read_only, p.aligned, p.unit_stride});
  }
  /// A view that may be aligned or not: lengths that change its alignment compile nothing.
  AnyView loose_view() {
    const ir::Parameter& p = facts_[taken_++];
    return declared_.view(p.name, p.type.element, p.type.rank, {p.read_only, false, p.unit_stride});
  }
  AnyPointer pointer() {
    const ir::Parameter& p = facts_[taken_++];
    return declared_.pointer(p.name, p.type.element, {.read_only = p.read_only});
  }
  AnyTile scalar() {
    const ir::Parameter& p = facts_[taken_++];
    return declared_.scalar(p.name, p.type.element);
  }
  /// The next `count` parameters, views and numbers, as arguments for call(). Captured matrices, and the vectors of which
  /// `is_fetched(number)` holds, are read in tiles or windows: whether they are aligned decides how, and may compile a second kernel.
  template <class IsFetched> std::vector<CallArgument> some(std::size_t count, IsFetched is_fetched) {
    std::vector<CallArgument> values;
    for (std::size_t i = 0; i < count; ++i) {
      const ir::Type& type = facts_[taken_].type;
      if (type.is_view()) values.emplace_back(type.rank >= 2 || is_fetched(i) ? view() : loose_view());
      else values.emplace_back(scalar());
    }
    return values;
  }
  std::vector<CallArgument> rest() {
    return some(facts_.size() - taken_, [](std::size_t) { return false; });
  }

 private:
  Parameters& declared_;
  const std::vector<ir::Parameter>& facts_;
  std::size_t taken_ = 0;
};

/// Arguments of a mod: [score,] b, h, q, kv, then what it captured.
inline std::vector<CallArgument> with(std::vector<CallArgument> indices, const std::vector<CallArgument>& captured) {
  indices.insert(indices.end(), captured.begin(), captured.end());
  return indices;
}

}  // namespace flextile::attention
