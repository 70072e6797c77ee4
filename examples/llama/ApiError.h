//===- ApiError.h - an error that a client is told ------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_APIERROR_H
#define KILN_EXAMPLES_LLAMA_APIERROR_H

#include "Error.h"

#include <string>

namespace llama {

/// An answer other than success, in the form of OpenAI's interface.
class ApiError : public Error {
public:
  /// \p param is the field that is wrong, \p code a word for programs; empty:
  /// null.
  ApiError(int status, const std::string &message, std::string param = "",
           std::string code = "");

  int status() const { return httpStatus; }
  /// {"error": {"message", "type", "param", "code"}}
  std::string toJson() const;

private:
  int httpStatus;
  std::string param, code;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_APIERROR_H
