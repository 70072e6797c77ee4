//===- CompletionRequest.h - the body of a request for a completion -------===//
//
// The fields of OpenAI's /v1/completions, for token ids: the example has no
// tokenizer. Unknown fields are ignored, as other servers do. A field of that
// interface that would change the tokens, but which is not built, is refused
// unless it has the value that changes nothing: a wrong completion would be
// worse than none.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_COMPLETIONREQUEST_H
#define KILN_EXAMPLES_LLAMA_COMPLETIONREQUEST_H

#include "ApiError.h"
#include "RequestRules.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

namespace llama {

struct CompletionRequest {
  Request request;
  bool hasSeed = false; ///< else the server draws one
  bool streams = false;
  bool ignoresEnds = false;     ///< the model's end tokens end nothing
  std::set<int32_t> stopTokens; ///< end the completion, as its last token
};

/// Parses and checks \p body. Throws ApiError (400), also for a request that
/// could never run in \p room.
CompletionRequest parseCompletion(std::string_view body,
                                  const RequestRoom &room);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_COMPLETIONREQUEST_H
