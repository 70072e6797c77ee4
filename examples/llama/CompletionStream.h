//===- CompletionStream.h - the tokens of a request, across threads -------===//
//
// The engine's thread pushes tokens, the thread of the client takes them.
// Neither waits for the other: a client that does not read fills its stream,
// and then loses it.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_COMPLETIONSTREAM_H
#define KILN_EXAMPLES_LLAMA_COMPLETIONSTREAM_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace llama {

/// How a request ended.
enum class Outcome {
  Stop,        ///< an end token of the model, or a stop token of the request
  Length,      ///< all tokens that were asked for
  Cancelled,   ///< the client has left, or the server stops
  Slow,        ///< the client did not read its tokens
  Refused,     ///< it can never run
  Full,        ///< the queue was full
  Unavailable, ///< the server was loading, stopping or lost
  Failed,      ///< steps failed again and again
  Lost,        ///< the device is lost
};
constexpr int kOutcomes = static_cast<int>(Outcome::Lost) + 1;

struct Ending {
  Outcome outcome = Outcome::Length;
  std::string message; ///< of an error
};

/// Thread-safe: one thread pushes and ends, another takes and leaves.
class CompletionStream {
public:
  /// Holds \p mostTokens tokens that were not taken. \p wake is called where
  /// there is news after there was none. It must not call back, and is not
  /// called any more after leave().
  CompletionStream(size_t mostTokens, std::function<void()> wake)
      : mostTokens(mostTokens), wake(std::move(wake)) {}

  /// False: there is no room, and the token is dropped.
  bool push(int32_t token);
  /// The last call of the engine's side.
  void end(Ending ending);
  /// Why the reader has left; nothing while it has not.
  std::optional<Outcome> left() const;

  struct News {
    std::vector<int32_t> tokens;
    std::optional<Ending> ending; ///< behind the tokens
  };
  /// All that is new. Waits for nothing.
  News take();
  /// The reader's last call.
  void leave(Outcome reason);
  /// The stream was taken from a reader that did not read.
  bool isDropped() const;

private:
  void notify() noexcept;

  const size_t mostTokens;
  mutable std::mutex mutex;
  std::function<void()> wake;
  bool isAwake = false; ///< wake was called since the last take()
  std::vector<int32_t> tokens;
  std::optional<Ending> ending;
  std::optional<Outcome> reasonOfLeaving;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_COMPLETIONSTREAM_H
