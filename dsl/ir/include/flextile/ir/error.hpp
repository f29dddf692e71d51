// The four kinds of failure, each with a sentence that says what is wrong, with the numbers, and what to do.
#pragma once
#include <exception>
#include <string>

namespace flextile {

/// Base of everything flextile throws. `what()` is the whole message.
class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(static_cast<std::string&&>(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// The program or an argument is wrong: shapes, types, sizes, devices, options.
class CompileError : public Error { using Error::Error; };

/// An argument of a call (launch, flex_attention, Tensor, ...) is wrong. Nothing was launched.
class ArgumentError : public Error { using Error::Error; };

/// The driver, the linker or the operating system refused.
class DriverError : public Error { using Error::Error; };

/// A device has not enough memory left for a tensor.
class OutOfMemory : public DriverError { using DriverError::DriverError; };

/// A fault of flextile itself: a pass broke an invariant. Never the user's mistake.
class InternalError : public Error { using Error::Error; };

}  // namespace flextile
