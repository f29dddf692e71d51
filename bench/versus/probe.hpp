// The hand-scheduled forward kernels of the project's probes, as cubins in a folder: what the compiler's kernels are measured
// against. Only measurements use them.
#pragma once
#include <string>
#include <vector>

#include <flextile/flextile.hpp>

namespace versus {

/// A line of FOLDER/probes.txt: name dim causal rows columns threads shared_bytes persistent shortest longest; the kernel is
/// FOLDER/name.cubin, meant for sequences of shortest to longest positions.
struct Probe {
  std::string name;
  int dim = 0;
  bool causal = false;
  int rows = 0, columns = 0, threads = 0, shared_bytes = 0;
  bool persistent = false;
  int shortest = 0, longest = 0;
};

/// Throws std::string where the list cannot be read.
std::vector<Probe> probes_in(const std::string& folder);

/// A loaded probe with its arguments: [batch * heads, length, dim] bf16 tensors.
class ProbeRun {
 public:
  using Tensor = flextile::Tensor<flextile::bf16>;
  ProbeRun(const std::string& folder, const Probe& probe, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out);
  void launch(const flextile::Stream& stream);

 private:
  struct alignas(64) Map {
    unsigned char bytes[128];
  };
  Map map(const Tensor& tensor, int box_rows) const;

  Probe probe_;
  Tensor q_, k_, v_, out_;
  flextile::Tensor<flextile::f32> lse_;
  flextile::Tensor<flextile::i32> counter_;
  void* function_ = nullptr;
  Map maps_[4];
  int heads_ = 0, length_ = 0, blocks_ = 0, section_ = 1, programs_ = 0;
};

}  // namespace versus
