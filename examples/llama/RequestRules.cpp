//===- RequestRules.cpp ---------------------------------------------------===//
#include "RequestRules.h"

#include <cmath>

namespace llama {

namespace {

[[noreturn]] void refuse(const std::string &message, const char *field,
                         const char *code = "invalid_value") {
  throw RefusedRequest(message, field, code);
}

void requireSampling(const SamplingParameters &sampling) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0)
    refuse("a temperature of " + std::to_string(sampling.temperature) +
               ", expected 0 or more",
           "temperature");
  if (!(sampling.topP > 0 && sampling.topP <= 1))
    refuse("a top-p of " + std::to_string(sampling.topP) +
               ", expected more than 0 and 1 at most",
           "top_p");
  if (sampling.topK < 0)
    refuse("a top-k of " + std::to_string(sampling.topK) +
               ", expected 0 or more",
           "top_k");
}

void requireRoom(const Request &request, const RequestRoom &room) {
  const auto promptTokens = static_cast<int64_t>(request.prompt.size());
  const std::string sizes = "a prompt of " + std::to_string(promptTokens) +
                            " tokens with " +
                            std::to_string(request.maxNewTokens) + " new ones";
  const char *code = "context_length_exceeded";
  if (promptTokens >= room.maxPositions)
    refuse(sizes + " exceeds " + std::to_string(room.maxPositions) +
               " positions",
           "prompt", code);
  if (request.maxNewTokens > room.maxPositions - promptTokens)
    refuse(sizes + " exceeds " + std::to_string(room.maxPositions) +
               " positions",
           "max_tokens", code);
  // The last new token is returned and never computed.
  const int64_t computed = promptTokens + request.maxNewTokens - 1;
  const int64_t needed = (computed + room.pageTokens - 1) / room.pageTokens;
  if (needed > room.pages)
    refuse(sizes + " needs " + std::to_string(needed) +
               " pages, but the pool has " + std::to_string(room.pages),
           "max_tokens", "cache_size_exceeded");
}

} // namespace

void requireRunnable(const Request &request, const RequestRoom &room) {
  if (request.prompt.empty())
    refuse("an empty prompt", "prompt");
  if (request.maxNewTokens < 1)
    refuse(std::to_string(request.maxNewTokens) +
               " new tokens, expected 1 at least",
           "max_tokens");
  requireRoom(request, room);
  requireSampling(request.sampling);
  for (const int32_t token : request.prompt)
    if (token < 0 || token >= room.vocabSize)
      refuse("a prompt with token " + std::to_string(token) +
                 ", expected 0 to " + std::to_string(room.vocabSize - 1),
             "prompt");
}

} // namespace llama
