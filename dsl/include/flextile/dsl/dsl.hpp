// The language: everything that a kernel or a mod is written with.
#pragma once
#include <flextile/dsl/atomic.hpp>
#include <flextile/dsl/control_flow.hpp>
#include <flextile/dsl/dot.hpp>
#include <flextile/dsl/kernel.hpp>
#include <flextile/dsl/mod.hpp>
#include <flextile/dsl/reduce.hpp>
#include <flextile/dsl/shape_operations.hpp>
