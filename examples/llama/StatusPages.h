//===- StatusPages.h - the pages of a server beside completions -----------===//
#ifndef KILN_EXAMPLES_LLAMA_STATUSPAGES_H
#define KILN_EXAMPLES_LLAMA_STATUSPAGES_H

#include "EngineLoop.h"
#include "ServeMetrics.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llama {

struct StatusPage {
  int status = 200; ///< of HTTP
  std::string body;
  const char *type = "application/json";
};

/// The page of /v1/models, /health or /metrics; nothing for other paths.
/// \p modelName is for clients, \p connections for the metrics.
std::optional<StatusPage> statusPage(std::string_view path,
                                     const std::string &modelName,
                                     const EngineLoop &loop,
                                     const ServeMetrics &metrics,
                                     int64_t connections);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_STATUSPAGES_H
