// EXPECT: [if] a tile's value is known only when the kernel runs: use where(condition, a, b) per element, or if_(condition, [&] { ... }) for a scalar
#include <flextile/dsl/dsl.hpp>
using namespace flextile;
void f(Scalar<bool> again) {
  while (again) program_id(0);
}
