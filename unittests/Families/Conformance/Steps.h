//===- Steps.h - predicted times of problems that are nearly the same -----===//
//
// A cliff, to users: a problem takes many times as long as one that
// differs by one in a single size, or by one class of alignment, and has as
// much work. Which fields are sizes, their roles tell, so families say nothing.
// Predicted times stand in for measured ones: no GPU is needed, and the first
// choice of the estimator is what the first launches of all modes run.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Conformance/Draw.h"

#include "Kernel/Space.h"

#include <llvm/ADT/StringMap.h>

#include <optional>

namespace kiln::conformance {

/// The answer of a device to a problem.
struct Prediction {
  enum class State {
    Refused,  ///< no problem of the family, or one without work or too large
    NoKernel, ///< its space is empty
    Planned,
  };
  State state = State::Refused;
  Problem problem; ///< unless it is refused
  std::string config;
  double ns = 0; ///< of the first choice
  bool isGeneric = false;
  /// The best config that is not of a generic template; empty: none may run.
  std::string special;
  double specialNs = 0;
  /// The best candidate of each template, and the last of all.
  std::vector<Candidate> leaders;
  double flops = 0, bytes = 0;

  bool isPlanned() const { return state == State::Planned; }
};

/// First choices of a family on a device, as an engine with default options has
/// them. Remembers them by the problem's text.
class Predictor {
public:
  Predictor(const KernelFamily &family, const DeviceModel &device)
      : family(family), device(device) {}

  const Prediction &of(const std::string &text);

  const KernelFamily &family;
  const DeviceModel &device;

private:
  llvm::StringMap<Prediction> known;
};

/// Two problems that are neighbours, and how much longer one of them takes.
struct Step {
  Prediction slow, fast;
  llvm::StringRef changed; ///< the key in which they differ
  double ratio = 0;        ///< of their times, for equal work
};

/// Times of equal work beyond this are a cliff.
inline constexpr double kCliff = 3;

/// The step between \p one and \p other if both are planned.
std::optional<Step> stepBetween(const Prediction &one, const Prediction &other);

/// The cliffs beside the problem \p text: an extent more and less, a class of
/// alignment stricter. Of each field the worst.
std::vector<Step> findSteps(Predictor &predictor, const std::string &text);

/// The cliffs that \p text meets while its field number \p index goes through
/// all sizes. Finds thresholds between the draws: sizes double, and where times
/// part, halving finds the two neighbours.
std::vector<Step> walk(Predictor &predictor, const std::string &text,
                       int index);

/// The numbers of the fields of \p schema that findSteps() and walk() change.
std::vector<int> sizesOf(const Schema &schema);

} // namespace kiln::conformance
