//===- KnownGaps.h - classes of problems that break a promise today -------===//
//
// KnownGaps.txt lists them, and docs/limits.md shows them. A class has a
// description for users, and gaps: a promise, a family and the conditions of
// its problems. Each gap names a problem that breaks the promise, so that the
// list stays true, whatever a test happens to draw.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Conformance/Steps.h"

#include <string>
#include <vector>

namespace kiln::conformance {

/// A promise of planning, for every problem on every device.
enum class Promise {
  Kernel, ///< "empty": some config runs within an engine's default allowance
  /// "generic": if a generic template is the first choice, no special one that
  /// may run has an estimate that is a multiple of it.
  Special,
  Step, ///< "step": no neighbour takes a multiple of the time for equal work
  Rate, ///< "rate": no estimate depends on a rate that the device lacks
};

/// A problem that breaks a promise on a device.
struct Fault {
  Promise promise = Promise::Kernel;
  const KernelFamily *family = nullptr;
  std::string device;
  int sm = 0;
  Problem problem;     ///< for a step, the slow one
  std::string tmpl;    ///< of the first choice
  std::string changed; ///< for a step, the key in which its problems differ
  double ratio = 0;    ///< of times; 0: none
  /// Whether more workspace than an engine's default would fix it.
  bool isShortOfWorkspace = false;
  std::string place; ///< in the form of a gap's line "at:"
  std::string told;  ///< for a message
};

/// The faults of the problem \p text alone. Costs the exploration of a space or
/// two.
std::vector<Fault> faultsOf(Predictor &predictor, const std::string &text);
/// The fault of the step \p step.
Fault faultOf(Predictor &predictor, const Step &step);

/// A gap: its lines "gap:" and "at:".
struct KnownGap {
  std::string line;  ///< "step gemm dtype=e4m3 m<=16"
  std::string place; ///< "h200-sxm: gemm ... / gemm ..."

  bool covers(const Fault &fault) const;
  /// The fault at its place; nullopt if it is gone.
  std::optional<Fault> example() const;
};

struct KnownClass {
  std::string name, why, avoid;
  std::vector<KnownGap> gaps;
};

struct KnownGaps {
  std::vector<KnownClass> classes;
  /// Lines "never:": problems that no class may cover, whatever its gaps are.
  std::vector<KnownGap> never;

  bool cover(const Fault &fault) const;
};

/// Reads KnownGaps.txt. Fails the test case for an incomplete class.
KnownGaps readKnownGaps();

} // namespace kiln::conformance
