//===- RequestRules.h - which requests can run ----------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_REQUESTRULES_H
#define KILN_EXAMPLES_LLAMA_REQUESTRULES_H

#include "Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace llama {

/// Passed through to the sampler. A temperature of 0 is greedy.
struct SamplingParameters {
  float temperature = 0;
  int32_t topK = 0; ///< 0: all.
  float topP = 1;
  uint64_t seed = 0;
};

struct Request {
  std::vector<int32_t> prompt; ///< Not empty.
  int64_t maxNewTokens = 1;
  SamplingParameters sampling;
};

/// The limits of an engine.
struct RequestRoom {
  int64_t maxPositions = 0; ///< Prompt and new tokens of a sequence.
  int64_t vocabSize = 0;    ///< Token ids are below it.
  int64_t pages = 0;        ///< The whole cache has.
  int64_t pageTokens = 1;
};

/// A request that can never run. The message has the reason.
class RefusedRequest : public Error {
public:
  RefusedRequest(const std::string &message, const char *field,
                 const char *code)
      : Error(message), field(field), code(code) {}

  /// The field that is wrong, by the names of the completions interface.
  const char *const field;
  const char *const code;
};

/// Throws RefusedRequest for a request that could not run even if it were
/// alone.
void requireRunnable(const Request &request, const RequestRoom &room);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_REQUESTRULES_H
