// A checked problem → the forward kernel for it → its launch.
#pragma once
#include <flextile/attention/flex_attention.hpp>
#include <flextile/runtime/kernel_family.hpp>

#include "attention_problem.hpp"
#include "forward_kernel.hpp"

namespace flextile::attention {

/// The options, of a call or of compile_flex_attention, set a part of what tuning chooses.
template <class Options> bool sets_schedule(const Options& options) { return options.block_m || options.block_n || options.num_warps || options.stages; }

/// The kernel for a problem, in the configuration that the options and the library's table choose.
ForwardKernel kernel_of(const AttentionProblem& problem, const AttentionOptions& options, const Target& target);

/// Makes the outputs on the query's device and queues the kernel, which may have any configuration that divides the mask's tiles. ArgumentError where the
/// grid would have too many programs.
AttendedRef launch_forward(const AttentionProblem& problem, const AttentionOptions& options, const Device& device, const ForwardKernel& kernel,
                           const KernelFamily& family);

}  // namespace flextile::attention
