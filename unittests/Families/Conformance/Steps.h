//===- Steps.h - predicted times of nearly equal problems -----------------===//
//
// To users a cliff is a problem that takes many times as long as one that
// differs by one in a single size, or by one class of alignment, with as much
// work. The roles of fields tell which ones are sizes, so families give no
// information. Predicted times stand in for measured ones: no GPU is needed,
// and the estimator's first choice is what the first launches of all modes run.
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
    Refused,  ///< not a problem of the family, without work, or too large
    NoKernel, ///< its space is empty
    Planned,
  };
  State state = State::Refused;
  Problem problem; ///< absent if it is refused
  std::string config;
  double ns = 0; ///< for the first choice
  bool isGeneric = false;
  /// The best config of a template that is not generic; empty if none may run.
  std::string special;
  double specialNs = 0;
  /// The best candidate of each template, and the overall last one.
  std::vector<Candidate> leaders;
  double flops = 0, bytes = 0;

  bool isPlanned() const { return state == State::Planned; }
};

/// First choices of a family on a device, as by an engine with default options.
/// It caches them by the problem's text.
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

/// Two neighbouring problems, and the ratio of their times.
struct Step {
  Prediction slow, fast;
  llvm::StringRef changed; ///< the key in which they differ
  double ratio = 0;        ///< of their times, for equal work
};

/// A ratio of times of equal work above this is a cliff.
inline constexpr double kCliff = 3;

/// The step between \p one and \p other, if both have plans.
std::optional<Step> stepBetween(const Prediction &one, const Prediction &other);

/// The cliffs beside the problem \p text: an extent more and less, and one
/// class of alignment stricter. Returns the worst one for each field.
std::vector<Step> findSteps(Predictor &predictor, const std::string &text);

/// The cliffs that \p text meets while its field number \p index goes through
/// all sizes. It finds thresholds between the draws: sizes double, and if times
/// differ, bisection finds the two neighbours.
std::vector<Step> walk(Predictor &predictor, const std::string &text,
                       int index);

/// The indices of the fields of \p schema that findSteps() and walk() change.
std::vector<int> sizesOf(const Schema &schema);

} // namespace kiln::conformance
