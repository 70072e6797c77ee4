//===- QuantizeStep.cpp ---------------------------------------------------===//
#include "Families/Gemm/QuantizeStep.h"

#include "Families/Gemm/GatherStep.h"
#include "Families/KernelUnit.h"
#include "Families/LaunchLimits.h"
#include "Model/MathUtil.h"
#include "gemm/QuantizeOutputConfig.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace kiln {

static constexpr QuantizeOutputConfig kConfig{};

/// Where the results begin behind the product's own scratch.
static uint64_t resultsAt(uint64_t scratchBytes) {
  return roundUp(static_cast<int64_t>(scratchBytes),
                 static_cast<int64_t>(WorkspaceLayout::kAlignment));
}

std::optional<Rejection> checkQuantize(int steps) {
  constexpr int kMostSteps = LaunchSpec::kMaxSteps;
  if (steps > kMostSteps)
    return Rejection{PruneReason::Grid, double(steps), double(kMostSteps),
                     "steps of a launch"};
  return std::nullopt;
}

int64_t quantizedBytes(const GemmProblem &product) {
  return product.batchA * product.strideD() * bytesOf(product.out);
}

template <Number N>
N quantizeNs(const GemmProblem &product, const DeviceModel &device) {
  const double elements =
      double(product.room) * double(product.outCols()) * double(product.batchA);
  // Two bytes are read of an element, one is written.
  constexpr double kBytes = 1.5;
  return named(copyStepsNs<N>(1, kBytes * elements, device), "quantised output",
               "ns");
}
template double quantizeNs(const GemmProblem &, const DeviceModel &);
template Figure quantizeNs(const GemmProblem &, const DeviceModel &);

WorkspaceLayout withQuantized(const GemmProblem &product,
                              WorkspaceLayout layout) {
  layout.scratchBytes = resultsAt(layout.scratchBytes) +
                        static_cast<uint64_t>(quantizedBytes(product));
  return layout;
}

static QuantizeOutputSignature signatureOfStep(const GemmProblem &problem) {
  return {.in = problem.sideType(),
          .scale = problem.scaleD.kind,
          .groups = problem.groups};
}

static TranslationUnit quantizeUnit(const QuantizeOutputSignature &signature,
                                    const DeviceModel &device) {
  const char *groups = signature.groups == GroupKind::Ends     ? "Ends"
                       : signature.groups == GroupKind::Masked ? "Masked"
                                                               : "None";
  return makeKernelUnit(
      {"gemm/QuantizeOutput.cuh", "QuantizeOutputSignature",
       "QuantizeOutputConfig", "QuantizeOutputParams", "quantizeOutput"},
      {.name = stepName(gemmProblemSchema(), "quantize"),
       .signature = fmt::format("{{.in = kiln::DType::{}, .scale = "
                                "kiln::ScaleKind::{}, .groups = "
                                "kiln::GroupKind::{}}}",
                                enumeratorOf(signature.in),
                                enumeratorOf(signature.scale), groups),
       .config = "{}",
       .threads = kConfig.threads(),
       .sharedBytes = 0},
      device);
}

namespace {

/// Binds the product with D in scratch, and the step behind it.
class QuantizeBinder final : public Binder {
public:
  QuantizeBinder(std::shared_ptr<const Binder> product,
                 const QuantizeOutputSignature &signature, int function,
                 uint64_t offset, bool takesDependentLaunch)
      : product(std::move(product)), signature(signature), function(function),
        offset(offset), takesDependentLaunch(takesDependentLaunch) {}

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override {
    int64_t values[GemmField::Count];
    std::copy_n(arguments.problem, GemmField::Count, values);
    toProduct(values);
    const GemmProblem inner = readGemmProblem(values);
    const DeviceAddress results = context.scratch + offset;
    Arguments ofProduct = arguments;
    ofProduct.problem = values;
    ofProduct.operands[GemmOperand::D] = {
        results, inner.ldd, inner.batchA > 1 ? inner.strideD() : 0, 0};
    product->bind(ofProduct, context, spec);
    addStep(inner, arguments, results, spec);
  }

private:
  void addStep(const GemmProblem &inner, const Arguments &arguments,
               DeviceAddress results, LaunchSpec &spec) const;

  std::shared_ptr<const Binder> product;
  QuantizeOutputSignature signature;
  int function;
  uint64_t offset;
  bool takesDependentLaunch;
};

} // namespace

void QuantizeBinder::addStep(const GemmProblem &inner,
                             const Arguments &arguments, DeviceAddress results,
                             LaunchSpec &spec) const {
  const OperandArgument &d = arguments.operands[GemmOperand::D];
  const OperandArgument &scales = arguments.operands[GemmOperand::ScaleD];
  QuantizeOutputParams params;
  params.source = reinterpret_cast<const void *>(results);
  params.d = reinterpret_cast<void *>(d.address);
  params.scales = reinterpret_cast<float *>(scales.address);
  params.rows = inner.room * inner.batchA;
  params.rowsPerBatch = inner.room;
  params.columns = inner.outCols();
  params.sourcePitch = inner.ldd;
  params.ldd = d.leadingDimension;
  params.strideD = d.batchStride;
  params.scaleBatchStride = scales.batchStride;
  if (signature.scale == ScaleKind::Row)
    params.scaleRowStride = 1;
  else if (signature.scale == ScaleKind::Block1x128) {
    const bool alongRows = arguments.problem[GemmField::ScaleOrderD] != 0;
    params.scaleRowStride = alongRows ? 1 : scales.leadingDimension;
    params.scaleGroupStride = alongRows ? scales.leadingDimension : 1;
  }
  if (inner.hasGroups()) {
    params.rowGroups.sizes = reinterpret_cast<const int *>(
        arguments.operands[GemmOperand::GroupSizes].address);
    params.rowGroups.align = static_cast<int>(inner.groupAlign);
    params.rowGroups.first = static_cast<int>(inner.firstRow);
    params.groupCount = inner.batch;
  }
  KernelStep &step = spec.addKernel(params);
  step.function = static_cast<uint32_t>(function);
  step.grid.x = static_cast<uint32_t>(std::max<int64_t>(
      1, kConfig.blocks(signature, params.rows, params.columns)));
  step.block.x = static_cast<uint32_t>(kConfig.threads());
  step.dependentLaunch = takesDependentLaunch;
}

void appendQuantize(const GemmProblem &problem, const GemmProblem &product,
                    const DeviceModel &device, Plan &plan) {
  const QuantizeOutputSignature signature = signatureOfStep(problem);
  plan.binder = std::make_shared<QuantizeBinder>(
      std::move(plan.binder), signature, static_cast<int>(plan.kernels.size()),
      resultsAt(plan.workspace.scratchBytes), hasDependentLaunch(device));
  plan.kernels.push_back(quantizeUnit(signature, device));
  plan.sharedBytes.push_back(0);
  plan.workspace = withQuantized(product, plan.workspace);
}

} // namespace kiln
