//===- StepMessage.h - a step as bytes ------------------------------------===//
//
// Rank 0 plans steps, and the others run them as well. The bytes are for a
// process of the same executable.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_STEPMESSAGE_H
#define KILN_EXAMPLES_LLAMA_STEPMESSAGE_H

#include "Scheduler.h"

#include <string>
#include <vector>

namespace llama {

/// \p isProbe: Runner::probe() runs it, and not Runner::run(). Never empty.
std::string bytesOf(const Step &step, bool isProbe);

/// A step that was sent. Owns what the step's views see.
class ReceivedStep {
public:
  /// Throws Error if \p bytes are not of bytesOf().
  explicit ReceivedStep(const std::string &bytes);
  ReceivedStep(const ReceivedStep &) = delete;
  ReceivedStep &operator=(const ReceivedStep &) = delete;

  const Step &step() const { return received; }
  bool isProbe() const { return probes; }

private:
  Step received;
  bool probes = false;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<PageId>> pages;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_STEPMESSAGE_H
