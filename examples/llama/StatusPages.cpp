//===- StatusPages.cpp ----------------------------------------------------===//
#include "StatusPages.h"

#include "CompletionReply.h"
#include "Json.h"

#include <cstdio>

namespace llama {

namespace {

using Json = nlohmann::ordered_json;

StatusPage models(const std::string &name, const EngineLoop &loop) {
  Json model = {{"id", name}, {"object", "model"}, {"owned_by", "kiln"}};
  if (loop.state() == EngineState::Ready) {
    const RequestRoom room = loop.served().room;
    model["max_model_len"] = room.maxPositions;
    model["vocab_size"] = room.vocabSize;
  }
  StatusPage page;
  page.body = toText({{"object", "list"}, {"data", Json::array({model})}});
  return page;
}

StatusPage health(EngineState state) {
  constexpr int kUnavailable = 503;
  StatusPage page;
  if (state != EngineState::Ready)
    page.status = kUnavailable;
  page.body = toText({{"status", nameOf(state)}});
  return page;
}

/// Kiln's metrics, or nothing if they cannot be had: the page has the server's
/// metrics all the same.
std::string engineMetrics(const EngineLoop &loop) {
  try {
    return loop.engineMetrics();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "serve: no metrics of the engine: %s\n", error.what());
    return "";
  }
}

} // namespace

std::optional<StatusPage> statusPage(std::string_view path,
                                     const std::string &modelName,
                                     const EngineLoop &loop,
                                     const ServeMetrics &metrics,
                                     int64_t connections) {
  if (path == "/v1/models")
    return models(modelName, loop);
  if (path == "/health")
    return health(loop.state());
  if (path != "/metrics")
    return std::nullopt;
  ServeGauges gauges = loop.gauges();
  gauges.connections = connections;
  StatusPage page;
  page.body = metrics.text(gauges, engineMetrics(loop));
  page.type = ServeMetrics::kContentType;
  return page;
}

} // namespace llama
