//===- Inspection.h - questions about choices, without a launch -----------===//
#pragma once

#include "Call/ProblemSpec.h"
#include "Runtime/EnteredContext.h"

#include <memory>
#include <optional>
#include <string>

namespace kiln {

/// A device whose choices are asked about: the engine's named device, else that
/// of a stream's context. Starts no work. For one thread, and one call: while
/// it lives, the context is current and the thread's captures are relaxed.
class Inspection {
public:
  /// Some 10 ms for a context that is new to the engine. Errors: those of
  /// Engine::namedDevice() and EnteredContext::of().
  static llvm::Expected<std::unique_ptr<Inspection>> open(Engine &engine,
                                                          CudaStream stream);

  const DeviceModel &device() const {
    return entered ? entered->state().model : *named;
  }
  const std::string &deviceClass() const {
    return entered ? entered->state().deviceClass : namedClass;
  }
  /// The sources of a chooser. Loaded plans are known for a context alone, not
  /// for a named device.
  ChoiceSources sources();

private:
  explicit Inspection(Engine &engine) : engine(engine) {}

  Engine &engine;
  std::optional<EnteredContext> entered; ///< none: a named device
  std::optional<DeviceModel> named;
  std::string namedClass;
  PlanPool noPlans;
  PortfolioPool ownPortfolios;
};

/// The one problem that a kiln_problem asks about: itself, or with ranges the
/// problem at the hint of each range, or else at its last value.
struct InspectedProblem {
  Problem problem;
  std::string text;     ///< scalars included
  bool isEmpty = false; ///< there is nothing to compute
};

/// Errors: those of ProblemSpec::at().
llvm::Expected<InspectedProblem> inspectedProblem(const ProblemSpec &spec);

} // namespace kiln
