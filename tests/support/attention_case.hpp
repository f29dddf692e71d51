// One attention call against the loops in attention_reference.hpp, by the accuracy rule: mean error at most 1.1 times
// (f32: 11 times) that of the unfused computation in the same type.
#pragma once
#include <doctest/doctest.h>

#include <string>

#include <flextile/flextile.hpp>

#include "support/attention_reference.hpp"

namespace flextile::tests {

inline std::string describe(const AttentionSizes& s) {
  auto text = [](std::int64_t n) { return std::to_string(n); };
  return "batch " + text(s.batch) + "/" + text(s.kv_batch) + " heads " + text(s.heads) + "/" + text(s.kv_heads) + " lengths " + text(s.q_len) + "/" +
         text(s.kv_len) + " dims " + text(s.dim) + "/" + text(s.value_dim);
}

template <class T> std::vector<double> as_doubles(const Tensor<T>& tensor) {
  std::vector<double> result;
  for (const auto& x : tensor.to_host()) result.push_back(static_cast<double>(static_cast<float>(x)));
  return result;
}

template <class T> struct AttentionInputs {
  AttentionSizes sizes;
  Tensor<T> q, k, v;                        // on the device
  std::vector<double> q_values, k_values, v_values;

  AttentionInputs(const Device& device, const AttentionSizes& s) : sizes(s) {
    q = random_normal<T>(device, {s.batch, s.heads, s.q_len, s.dim}, 11);
    k = random_normal<T>(device, {s.kv_batch, s.kv_heads, s.kv_len, s.dim}, 12);
    v = random_normal<T>(device, {s.kv_batch, s.kv_heads, s.kv_len, s.value_dim}, 13);
    q_values = as_doubles(q), k_values = as_doubles(k), v_values = as_doubles(v);
  }
  /// The same numbers behind other strides: heads inside positions, and gaps at the end of each row.
  void make_strided() {
    for (Tensor<T>* tensor : {&q, &k, &v}) {
      const TensorShape shape = tensor->shape();
      Tensor<T> wide = zeros<T>(tensor->device(), {shape[0], shape[2], shape[1], shape[3] + 3});
      Tensor<T> view = wide.permute({0, 2, 1, 3}).slice(3, 1, shape[3] + 1);
      view.copy_from(TensorRef(*tensor));
      *tensor = view;
    }
  }
};

/// PyTorch's rule for its own kernels: the error may exceed the unfused computation's by 10 (f32) or 1.1 (half types) of it.
template <class T> double allowed_factor() { return std::is_same_v<T, f32> ? 11.0 : 2.1; }

inline bool has_nan(const std::vector<double>& values) {
  for (double x : values)
    if (std::isnan(x)) return true;
  return false;
}

/// A GPU takes tanh in the score mods of half types by tanh.approx: some 11 bits. Nothing else may lose more than f32 does.
template <class T, class Score> bool takes_quick_tanh(const Target& target, const Score& score_mod) {
  if (std::is_same_v<T, f32> || target.kind == Target::Kind::host) return false;
  const ir::Function& mod = *erase_score(score_mod).fragment;
  for (std::uint32_t i = 0; i < mod.operation_count(); ++i)
    if (mod.operation({i}).opcode == ir::Opcode::tanh) return true;
  return false;
}

/// `attended` is what the library gave, by code for `target`; the mods are called with numbers here, so their captures are on the host.
template <class T, class Score, class Mask>
void check_attended(const AttentionInputs<T>& in, const Attended<T>& attended, double scale, const Score& score_mod, const Mask& mask_mod, const Target& target) {
  const AttentionSizes& s = in.sizes;
  const AttentionResult exact = reference_attention(s, in.q_values, in.k_values, in.v_values, scale, score_mod, mask_mod);
  const AttentionResult unfused = baseline_attention<T>(s, in.q_values, in.k_values, in.v_values, scale, score_mod, mask_mod);
  const std::vector<double> out = as_doubles(attended.out);
  REQUIRE(out.size() == exact.out.size());
  CHECK_FALSE(has_nan(out));
  const double allowed = mean_error(exact.out, unfused.out) * allowed_factor<T>() + 1e-7;
  CHECK(mean_error(exact.out, out) <= allowed);
  const double rounding = takes_quick_tanh<T>(target, score_mod) ? 1e-4 : 1e-6;
  if (attended.lse) {
    const std::vector<double> lse = as_doubles(attended.lse);
    CHECK(mean_error(exact.lse, lse) <= mean_error(exact.lse, unfused.lse) * 11 + rounding);
  }
  if (attended.max_scores) {
    const std::vector<double> largest = as_doubles(attended.max_scores);
    CHECK(mean_error(exact.max, largest) <= mean_error(exact.max, unfused.max) * 11 + rounding);
  }
}

/// make_score(device) and make_mask(device) give the mods with their captures on that device.
template <class T, class MakeScore, class MakeMask>
void check_both(const Device& device, const AttentionSizes& s, const MakeScore& make_score, const MakeMask& make_mask, const BlockMaskOptions& blocks = {},
                bool strided = false) {
  CAPTURE(device.name());
  CAPTURE(describe(s));
  CAPTURE(std::string(name(element_type_of<T>)));
  AttentionInputs<T> in(device, s);
  if (strided) in.make_strided();
  const auto score = make_score(device);
  const auto mask_mod = make_mask(device);
  BlockMaskOptions options = blocks;
  options.batch = s.batch, options.heads = s.heads, options.q_len = s.q_len, options.kv_len = s.kv_len, options.device = device;
  const BlockMask mask = create_block_mask(mask_mod, options);
  const auto attended = flex_attention(in.q, in.k, in.v, score, mask, {.return_lse = true, .return_max_scores = true});
  check_attended(in, attended, 1 / std::sqrt(static_cast<double>(s.dim)), make_score(Device::host()), make_mask(Device::host()), device.target());
}

}  // namespace flextile::tests
