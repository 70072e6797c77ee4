//===- RequestLedger.h - which requests have their tokens -----------------===//
//
// The requests of a workload, for the message when the device is lost: tokens
// that have not arrived on the host are lost, and so is the cache.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_REQUESTLEDGER_H
#define KILN_EXAMPLES_LLAMA_REQUESTLEDGER_H

#include "Scheduler.h"

#include <cstdint>
#include <map>
#include <string>

namespace llama {

/// Not thread-safe.
class RequestLedger {
public:
  void submitted(SequenceId id, int64_t wantedTokens) {
    open[id] = {0, wantedTokens};
  }
  void gotToken(SequenceId id, bool isLast);

  /// Describes the requests when the device is lost and \p notSubmitted of them
  /// were not submitted yet: "5 of 8 requests are complete; lost are 6 (12
  /// of 20 tokens), 7 (0 of 20 tokens), and 1 was not submitted". Many are
  /// counted and not named.
  std::string lossText(int64_t notSubmitted) const;

private:
  struct Tokens {
    int64_t arrived = 0, wanted = 0;
  };
  std::map<SequenceId, Tokens> open;
  int64_t complete = 0;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_REQUESTLEDGER_H
