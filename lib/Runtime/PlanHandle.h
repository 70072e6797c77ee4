//===- PlanHandle.h - a choice that stays ---------------------------------===//
#pragma once

#include "Call/LaunchArguments.h"
#include "Call/RangeParts.h"
#include "Runtime/Engine.h"

#include <string>
#include <vector>

namespace kiln {

/// The object behind kiln_plan_acquire: the plan of one problem in one context
/// or, with ranges, the plans of all of their values. Thread-safe.
class PlanHandle {
public:
  /// May compile and tune. Errors: those of a first launch.
  static llvm::Expected<std::unique_ptr<PlanHandle>>
  acquire(Engine &engine, const kiln_problem *problem, CudaStream stream);

  /// Looks up only the stream's context and, with ranges, the value.
  llvm::Error launch(const kiln_arguments *arguments,
                     const kiln_workspace *workspace, CudaStream stream) const;

  /// Like launch(), for \p args, the struct of \p family. They must describe
  /// the plan's problem at some value of its ranges. Reads the struct as
  /// kiln_gemm does. Errors: InvalidArgument for another problem.
  llvm::Error launchCall(kiln_family family, const void *args,
                         const kiln_workspace *workspace,
                         CudaStream stream) const;

  /// The maximum over all plans.
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
  ChosenPlan chosen; ///< represents all; none if there is nothing to compute
  /// With ranges: by signature.
  std::vector<std::shared_ptr<const PreparedRange>> ranges;
  /// With ranges: values that no part of them serves, with their plans, which
  /// stay.
  mutable DispatchTable outside;
  /// With ranges: the plan of each value that was launched.
  mutable DispatchTable seen;
  /// The plan of each call that was found to match the problem.
  mutable DispatchTable calls;
  mutable std::atomic<bool> hasWarned{false}; ///< that its plan is wrong
};

} // namespace kiln
