// Everything of attention.
#pragma once
#include <flextile/attention/block_mask.hpp>
#include <flextile/attention/catalogue.hpp>
#include <flextile/attention/compile.hpp>
#include <flextile/attention/flex_attention.hpp>
#include <flextile/attention/select_attention.hpp>
#include <flextile/attention/tune_attention.hpp>
