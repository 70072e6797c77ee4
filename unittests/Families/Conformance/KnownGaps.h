//===- KnownGaps.h - classes of problems that break a promise today -------===//
//
// KnownGaps.txt lists them, and docs/limits.md shows them. A class has words
// for users, and gaps: a promise, a family and conditions that a problem is of.
// Each gap names a problem that breaks the promise, so that what is listed is
// true, whatever a test happens to draw.
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
  /// "generic": where a generic template is the first choice, no special one
  /// that may run is believed to be a multiple slower.
  Special,
  Step, ///< "step": no neighbour takes a multiple of the time for equal work
  Rate, ///< "rate": no estimate depends on a rate that the device has not
};

/// A problem that breaks a promise on a device.
struct Fault {
  Promise promise = Promise::Kernel;
  const KernelFamily *family = nullptr;
  std::string device;
  int sm = 0;
  Problem problem;     ///< of a step the slow one
  std::string tmpl;    ///< of the first choice
  std::string changed; ///< of a step the key in which its problems differ
  double ratio = 0;    ///< of times; 0: there are none
  /// More workspace than an engine allows by default would mend it.
  bool isShortOfWorkspace = false;
  std::string place; ///< as the line "at:" of a gap has it
  std::string told;  ///< for a message
};

/// The faults of the problem \p text alone. Costs the exploration of a
/// space or two.
std::vector<Fault> faultsOf(Predictor &predictor, const std::string &text);
/// The fault that \p step is.
Fault faultOf(Predictor &predictor, const Step &step);

/// Lines "gap:" and "at:".
struct KnownGap {
  std::string line;  ///< "step gemm dtype=e4m3 m<=16"
  std::string place; ///< "h200-sxm: gemm ... / gemm ..."

  bool covers(const Fault &fault) const;
  /// The fault that its place has; nullopt: none any more.
  std::optional<Fault> example() const;
};

struct KnownClass {
  std::string name, why, avoid;
  std::vector<KnownGap> gaps;
};

struct KnownGaps {
  std::vector<KnownClass> classes;
  /// Lines "never:": what no class may cover, whatever its gaps say.
  std::vector<KnownGap> never;

  bool cover(const Fault &fault) const;
};

/// KnownGaps.txt. Fails the test case for a class that is not complete.
KnownGaps readKnownGaps();

} // namespace kiln::conformance
