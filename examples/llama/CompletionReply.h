//===- CompletionReply.h - the answer to a request for a completion -------===//
#ifndef KILN_EXAMPLES_LLAMA_COMPLETIONREPLY_H
#define KILN_EXAMPLES_LLAMA_COMPLETIONREPLY_H

#include "ApiError.h"
#include "CompletionStream.h"
#include "EngineLoop.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace llama {

/// Writes the objects of OpenAI's /v1/completions, with "token_ids" in each
/// choice beside an empty "text".
class CompletionReply {
public:
  /// \p created is in seconds since 1970.
  CompletionReply(std::string id, std::string model, int64_t created,
                  int64_t promptTokens)
      : id(std::move(id)), model(std::move(model)), created(created),
        promptTokens(promptTokens) {}

  /// A whole answer, or the last event of a stream: with usage. \p tokens are
  /// those of this object, \p allTokens those of the completion.
  std::string last(const std::vector<int32_t> &tokens, int64_t allTokens,
                   Outcome outcome) const;
  /// An event of a stream that goes on.
  std::string part(const std::vector<int32_t> &tokens) const;

private:
  std::string id, model;
  int64_t created, promptTokens;
};

/// \p data as a server-sent event.
std::string eventOf(const std::string &data);

/// Whether an ending has tokens to return; else it is an error.
bool isCompletion(Outcome outcome);
/// The error that a client is told for an ending.
ApiError errorOf(const Ending &ending);
/// The error where no request is taken.
ApiError errorOf(EngineState state);
ApiError errorOfFullQueue();

const char *nameOf(EngineState state);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_COMPLETIONREPLY_H
