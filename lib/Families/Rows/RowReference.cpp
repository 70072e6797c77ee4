//===- RowReference.cpp - the reference for problems over rows ------------===//
#include "Families/Elementwise/ElementwiseProblem.h"
#include "Families/KernelReference.h"
#include "Families/Rows/RowFamily.h"
#include "Support/Format.h"
#include "rows/ReferenceRowsConfig.h"

namespace kiln {

/// Few blocks sum few long rows, so these blocks should be large.
static ReferenceRowsConfig referenceConfigFor(const RowProblem &problem) {
  constexpr int64_t kLongRow = 8192;
  ReferenceRowsConfig config;
  if (problem.allRows || problem.cols > kLongRow)
    config.blockThreads = ReferenceRowsConfig::kMaxThreads;
  return config;
}

std::unique_ptr<Reference> makeRowReference(RowKind kind,
                                            const RowProblem &problem,
                                            const DeviceModel &device) {
  const ReferenceRowsConfig config = referenceConfigFor(problem);
  // Elementwise problems that are not quantised have another reference.
  const char *variant = kind == RowKind::Pointwise ? "quantized" : "";
  return makeReference<ReferenceRowParams>(
      makeKernelUnit(
          {"rows/ReferenceRows.cuh", "RowSignature", "ReferenceRowsConfig",
           "ReferenceRowParams", "referenceRows"},
          {.name = referenceName(rowProblemSchema(kind), variant),
           .signature = initializerText(signatureOf(problem)),
           .config = fmt::format("{{.blockThreads = {}}}", config.blockThreads),
           .threads = config.threads(),
           .sharedBytes = config.sharedBytes(signatureOf(problem)),
           .maySpill = true},
          device),
      config.threads(),
      [=](const Arguments &arguments, const ReferencePart &part,
          ReferenceRowParams &params) {
        const RowProblem rows = readRowProblem(kind, arguments.problem);
        params.row = makeRowParams(kind, rows, arguments);
        params.scalesAlongRows = rows.scaleY.alongRows;
        params.output = part.operand;
        if (kind == RowKind::Pointwise &&
            part.operand == ElementwiseOperand::Scales)
          params.output = RowOperand::Scales;
        const bool sharesLines =
            params.output == RowOperand::Scales && rows.scaleY.alongRows;
        return config.blocks(sharesLines ? part.rows() * rows.rows
                                         : part.rows());
      });
}

} // namespace kiln
