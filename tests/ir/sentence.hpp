// The sentence that a call fails with.
#pragma once
#include <flextile/ir/error.hpp>
#include <string>

namespace flextile {

/// what() of the CompileError that `call` throws; "no error" where it throws none.
template <class Call>
std::string sentence(Call&& call) {
  try {
    call();
  } catch (const CompileError& error) {
    return error.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace flextile
