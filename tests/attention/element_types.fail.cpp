// EXPECT: [flex_attention] query, key and value must have one element type
#include <flextile/flextile.hpp>
using namespace flextile;
void f(const Tensor<bf16>& q, const Tensor<f16>& k) { flex_attention(q, k, q); }
