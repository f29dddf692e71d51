// Runs traced kernels in the plain interpreter.
#pragma once
#include <doctest/doctest.h>

#include <flextile/dsl/dsl.hpp>
#include <string>
#include <vector>

#include "support/interpreter.hpp"

namespace flextile::test {

template <class T>
Contents pointer_to(std::vector<T>& values) {
  Contents contents;
  contents.elements = {{static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(values.data())), 0}};
  return contents;
}
/// A row-major view.
template <class T>
Contents view_of(std::vector<T>& values, std::vector<std::int64_t> sizes) {
  Contents contents;
  contents.base = reinterpret_cast<std::uint64_t>(values.data());
  contents.strides.resize(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) contents.strides[axis] = stride, stride *= sizes[axis];
  contents.sizes = sizes;
  return contents;
}
inline Contents number(std::int64_t value) { return {{{value, static_cast<double>(value)}}, 0, {}, {}}; }

/// Verified, printed and parsed again, then run for every program of the grid.
inline void run(const ir::Function& function, const std::vector<Contents>& arguments, int programs = 1, int columns = 1) {
  ir::verify(function, "trace");
  std::string text = print(function);
  CHECK(print(ir::parse(text)) == text);
  for (int x = 0; x < programs; ++x) {
    for (int y = 0; y < columns; ++y) interpret(function, arguments, {{x, y, 0}, {programs, columns, 1}});
  }
}

/// The sentence of the CompileError that tracing throws.
template <class Body>
std::string trace_error(Body&& body) {
  try {
    trace("wrong", [&](Parameters& p) { body(p); });
  } catch (const CompileError& error) {
    return error.what();
  }
  return "no error";
}
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace flextile::test
