// EXPECT: 5 parameters
#include <flextile/flextile.hpp>
using namespace flextile;
void f(const Tensor<bf16>& q) {
  flex_attention(q, q, q, [](auto, auto, auto q_index, auto kv) { return q_index >= kv; });
}
