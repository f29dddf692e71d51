// Everything of the runtime: devices, streams, tensors, kernels, launches. DLPack has its own header, dlpack.hpp.
#pragma once
#include <flextile/runtime/autotune.hpp>
#include <flextile/runtime/device.hpp>
#include <flextile/runtime/graph.hpp>
#include <flextile/runtime/kernel_family.hpp>
#include <flextile/runtime/launch.hpp>
#include <flextile/runtime/loaded_kernel.hpp>
#include <flextile/runtime/random.hpp>
#include <flextile/runtime/stream.hpp>
#include <flextile/runtime/tensor.hpp>
