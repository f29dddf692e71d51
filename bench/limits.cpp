// The limits that rows are compared with, measured in this run.
#include "bench.hpp"
#include "host_limits.hpp"
#include "vendor.hpp"

namespace bench {

using namespace flextile;

void limits(Run& run) {
  if (run.device.is_host()) {
    const int threads = host_threads();
    const std::string note = std::to_string(threads) + (threads == 1 ? " thread" : " threads");
    run.peak_tflops = host_multiply_add_peak(threads);
    run.copy_gbps = host_copy_bandwidth(threads);
    if (run.report.wants("cpu/limit/multiply-add")) run.report.add({.name = "cpu/limit/multiply-add/f32", .tflops = run.peak_tflops, .note = note});
    if (run.report.wants("cpu/limit/copy")) run.report.add({.name = "cpu/limit/copy", .gbps = run.copy_gbps, .note = note});
    return;
  }
  const std::int64_t bytes = run.quick ? 16 << 20 : std::int64_t(4) << 30;
  const Tensor<i32> from = zeros<i32>(run.device, {bytes / 4}), to = empty_like(from);
  const double copy = median_ms(run, [&] { to.copy_from(from); });
  run.copy_gbps = 2.0 * bytes / copy / 1e6;
  if (run.report.wants("copy4GiB")) run.report.add({.name = "copy4GiB", .ms = copy, .gbps = run.copy_gbps});
  const int size = run.quick ? 1024 : 8192;
  if (const auto multiply = cublas_matmul(run.device, size)) {
    const double product = median_ms(run, multiply);   // as every row: calls queued one behind the other
    run.peak_tflops = 2.0 * size * size * size / product / 1e9;
    if (run.report.wants("gemm8192/cublas")) run.report.add({.name = "gemm8192/cublas", .ms = product, .tflops = run.peak_tflops});
  } else {
    run.report.failed("gemm8192/cublas", "no libcublas is found; rows show no share of the limit");
  }
}

}  // namespace bench
