//===- PlanHandle.h - a choice that stays ---------------------------------===//
#pragma once

#include "Call/LaunchArguments.h"
#include "Runtime/Engine.h"
#include "Runtime/RangeParts.h"

#include <string>
#include <vector>

namespace kiln {

/// What kiln_plan_acquire gives: the plan of one problem in one context, or
/// with ranges those of all of their values. Thread-safe.
class PlanHandle {
public:
  /// May compile and tune. Errors: those of a first launch.
  static llvm::Expected<std::unique_ptr<PlanHandle>>
  acquire(Engine &engine, const kiln_problem *problem, CudaStream stream);

  /// Looks nothing up but the stream's context and, with ranges, the value.
  llvm::Error launch(const kiln_arguments *arguments,
                     const kiln_workspace *workspace, CudaStream stream) const;

  /// The same for what \p args, the struct of \p family, describes: a call of
  /// the plan's problem at some value of its ranges. Reads the struct as
  /// kiln_gemm does. Errors: InvalidArgument for another problem.
  llvm::Error launchCall(kiln_family family, const void *args,
                         const kiln_workspace *workspace,
                         CudaStream stream) const;

  /// Over all plans.
  WorkspaceLayout workspace() const;
  const OperandList &operands() const { return operandList; }
  std::string describe() const;

private:
  PlanHandle(Engine &engine, ProblemSpec spec);
  llvm::Error launchRange(const Driver &driver, const StreamContext &context,
                          const kiln_arguments &given,
                          const kiln_workspace *workspace,
                          CudaStream stream) const;
  llvm::Error acquireRanges(const Driver &driver, const StreamContext &context,
                            CudaStream stream);
  llvm::Expected<ChosenPlan> planFor(const Driver &driver,
                                     const StreamContext &context,
                                     const Problem &problem,
                                     CudaStream stream) const;
  llvm::Expected<StreamContext> contextFor(const Driver &driver,
                                           CudaStream stream) const;
  llvm::Expected<Problem> problemOf(const FamilyCall &call) const;
  void warnIfWrong(const ActivePlan &plan) const;

  Engine &engine;
  const ProblemSpec spec;
  uint64_t contextId = 0;
  OperandList operandList;
  ChosenPlan chosen; ///< speaks for all; none: there is nothing to compute
  /// With ranges: by signature.
  std::vector<std::shared_ptr<const PreparedRange>> ranges;
  /// With ranges: what no part of them serves, and its plan, which stays.
  mutable DispatchTable outside;
  /// With ranges: the plan of each value that was launched.
  mutable DispatchTable seen;
  /// The plan of each call that was found to be one of the problem.
  mutable DispatchTable calls;
  mutable std::atomic<bool> hasWarned{false}; ///< that its plan is wrong
};

} // namespace kiln
