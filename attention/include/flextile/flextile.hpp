// Everything of flextile: kernels, tensors, launches, attention.
#pragma once
#include <flextile/attention/attention.hpp>
#include <flextile/backend/compile.hpp>
#include <flextile/dsl/dsl.hpp>
#include <flextile/dsl/mod.hpp>
#include <flextile/runtime/runtime.hpp>
