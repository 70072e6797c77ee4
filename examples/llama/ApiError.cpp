//===- ApiError.cpp -------------------------------------------------------===//
#include "ApiError.h"

#include "Json.h"

#include <utility>

namespace llama {

ApiError::ApiError(int status, const std::string &message, std::string param,
                   std::string code)
    : Error(message), httpStatus(status), param(std::move(param)),
      code(std::move(code)) {}

static const char *typeOf(int status) {
  constexpr int kTooMany = 429, kServer = 500;
  if (status == kTooMany)
    return "rate_limit_error";
  return status < kServer ? "invalid_request_error" : "server_error";
}

std::string ApiError::toJson() const {
  const auto textOrNull = [](const std::string &text) {
    return text.empty() ? nlohmann::ordered_json()
                        : nlohmann::ordered_json(text);
  };
  nlohmann::ordered_json error;
  error["message"] = what();
  error["type"] = typeOf(httpStatus);
  error["param"] = textOrNull(param);
  error["code"] = textOrNull(code);
  nlohmann::ordered_json body;
  body["error"] = std::move(error);
  return toText(body);
}

} // namespace llama
