// The variables FLEXTILE_... of the environment: one way to read them, and one sentence for a value that they may not have.
#pragma once
#include <cstdlib>
#include <string>

#include <flextile/ir/error.hpp>

namespace flextile::ir {

/// The variable's value; "" where it is not set.
inline std::string environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

/// flextile: FLEXTILE_THREADS is "many" and must be <what>
inline std::string environment_sentence(const char* variable, const std::string& what) {
  return "flextile: " + std::string(variable) + " is \"" + environment(variable) + "\" and must be " + what;
}

[[noreturn]] inline void refuse_environment(const char* variable, const std::string& what) {
  throw ArgumentError(environment_sentence(variable, what));
}

/// A variable that is 0 or 1; `otherwise` where it is not set or empty. `zero` and `one` say what the values do.
inline bool environment_switch(const char* variable, bool otherwise, const char* zero, const char* one) {
  const std::string value = environment(variable);
  if (value != "" && value != "0" && value != "1") refuse_environment(variable, "0 (" + std::string(zero) + ") or 1 (" + one + ")");
  return value.empty() ? otherwise : value == "1";
}

}  // namespace flextile::ir
