//===- CompletionStream.cpp -----------------------------------------------===//
#include "CompletionStream.h"

#include <exception>
#include <utility>

namespace llama {

/// Under the lock, so that leave() ends all calls. Where \p wake fails, the
/// next news tries again: an exception here would end the requests of all
/// clients.
void CompletionStream::notify() noexcept {
  try {
    if (!std::exchange(isAwake, true) && wake)
      wake();
  } catch (const std::exception &) {
    isAwake = false;
  }
}

bool CompletionStream::push(int32_t token) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (tokens.size() >= mostTokens)
    return false;
  tokens.push_back(token);
  notify();
  return true;
}

void CompletionStream::end(Ending how) {
  const std::lock_guard<std::mutex> lock(mutex);
  ending = std::move(how);
  // A reader that is stuck has to be told again.
  isAwake = false;
  notify();
}

std::optional<Outcome> CompletionStream::left() const {
  const std::lock_guard<std::mutex> lock(mutex);
  return reasonOfLeaving;
}

CompletionStream::News CompletionStream::take() {
  const std::lock_guard<std::mutex> lock(mutex);
  isAwake = false;
  return {std::exchange(tokens, {}), std::exchange(ending, std::nullopt)};
}

void CompletionStream::leave(Outcome reason) {
  const std::lock_guard<std::mutex> lock(mutex);
  wake = nullptr;
  tokens.clear();
  reasonOfLeaving = reason;
}

bool CompletionStream::isDropped() const {
  const std::lock_guard<std::mutex> lock(mutex);
  return ending && ending->outcome == Outcome::Slow;
}

} // namespace llama
