//===- CapiPlan.cpp - plan handles ----------------------------------------===//
#include "Runtime/Capi.h"
#include "Runtime/Query.h"

#include "Call/StructAccess.h"

using namespace kiln;

static kiln_role roleOf(OperandRole role) {
  switch (role) {
  case OperandRole::In:
    return KILN_ROLE_INPUT;
  case OperandRole::Out:
    return KILN_ROLE_OUTPUT;
  case OperandRole::InOut:
    return KILN_ROLE_IN_OUT;
  case OperandRole::Constant:
    return KILN_ROLE_CONSTANT;
  }
  return KILN_ROLE_INPUT;
}

extern "C" {

kiln_status kiln_plan_acquire(kiln_engine *engine, const kiln_problem *problem,
                              kiln_stream stream,
                              kiln_plan **plan) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (plan)
      *plan = nullptr;
    if (!engine || !plan)
      return nullArgument(engine ? "plan" : "engine");
    auto handle = PlanHandle::acquire(*engine->engine, problem, stream);
    if (!handle)
      return handle.takeError();
    *plan = new kiln_plan{std::move(*handle)};
    return llvm::Error::success();
  });
}

kiln_status kiln_plan_workspace(const kiln_plan *plan,
                                kiln_workspace_info *info) KILN_NOEXCEPT {
  return guardedOf(plan, [&]() -> llvm::Error {
    if (auto error = checkOutput(info, "info"))
      return error;
    fillOutput(info, workspaceInfo(plan->handle->workspace()));
    return llvm::Error::success();
  });
}

kiln_status kiln_plan_launch(const kiln_plan *plan,
                             const kiln_arguments *arguments,
                             const kiln_workspace *workspace,
                             kiln_stream stream) KILN_NOEXCEPT {
  return guardedOf(plan, [&]() -> llvm::Error {
    return plan->handle->launch(arguments, workspace, stream);
  });
}

kiln_status kiln_plan_launch_call(const kiln_plan *plan, kiln_family family,
                                  const void *args,
                                  const kiln_workspace *workspace,
                                  kiln_stream stream) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!plan || !args)
      return nullArgument(plan ? "args" : "plan");
    return plan->handle->launchCall(family, args, workspace, stream);
  });
}

kiln_status kiln_plan_operand(const kiln_plan *plan, uint32_t index,
                              kiln_operand_info *info) KILN_NOEXCEPT {
  return guardedOf(plan, [&]() -> llvm::Error {
    if (auto error = checkOutput(info, "info"))
      return error;
    const OperandList &operands = plan->handle->operands();
    if (index >= operands.size())
      return makeError(ErrorCode::InvalidArgument,
                       "operand {}: the plan has {}", index, operands.size());
    const CallOperand &operand = operands[index];
    kiln_operand_info filled = KILN_INIT(kiln_operand_info);
    filled.slot = operand.slot;
    filled.type = static_cast<kiln_dtype>(operand.type);
    filled.role = roleOf(operand.role);
    filled.name = operand.name.data(); // a literal
    filled.bytes = operand.bytes;
    filled.alignment = operand.alignment;
    fillOutput(info, filled);
    return llvm::Error::success();
  });
}

kiln_status kiln_plan_describe(const kiln_plan *plan, char *buffer,
                               size_t capacity, size_t *length) KILN_NOEXCEPT {
  return guardedOf(plan, [&]() -> llvm::Error {
    return writeText(plan->handle->describe(), buffer, capacity, length);
  });
}

void kiln_plan_release(kiln_plan *plan) KILN_NOEXCEPT { delete plan; }

} // extern "C"
