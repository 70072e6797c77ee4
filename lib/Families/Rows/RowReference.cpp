//===- RowReference.cpp - the reference for problems over rows ------------===//
#include "Families/KernelUnit.h"
#include "Families/ReferenceStep.h"
#include "Families/Rows/RowFamily.h"
#include "Support/Format.h"
#include "rows/ReferenceRowsConfig.h"

#include <algorithm>

namespace kiln {

namespace {

class RowReference final : public Reference {
public:
  RowReference(RowKind kind, const RowProblem &problem,
               const DeviceModel &device)
      : kind(kind), config(configFor(problem)),
        unit(makeKernelUnit(
            {"rows/ReferenceRows.cuh", "RowSignature", "ReferenceRowsConfig",
             "ReferenceRowParams", "referenceRows"},
            {.name = referenceName(rowProblemSchema(kind)),
             .signature = initializerText(signatureOf(problem)),
             .config =
                 fmt::format("{{.blockThreads = {}}}", config.blockThreads),
             .threads = config.threads(),
             .sharedBytes = config.sharedBytes(signatureOf(problem)),
             .maySpill = true},
            device)) {}

  const TranslationUnit &translationUnit() const override { return unit; }

  void bind(const Arguments &arguments, const ReferencePart &part,
            LaunchSpec &spec) const override {
    ReferenceRowParams params;
    params.row =
        makeRowParams(readRowProblem(kind, arguments.problem), arguments);
    params.output = part.operand;
    addReferenceStep(part, params, config.blocks(part.rows()), config.threads(),
                     spec);
  }

private:
  /// Few blocks sum few long rows, so these blocks should be large.
  static ReferenceRowsConfig configFor(const RowProblem &problem) {
    constexpr int64_t kLongRow = 8192;
    ReferenceRowsConfig config;
    if (problem.allRows || problem.cols > kLongRow)
      config.blockThreads = ReferenceRowsConfig::kMaxThreads;
    return config;
  }

  RowKind kind;
  ReferenceRowsConfig config;
  TranslationUnit unit;
};

} // namespace

std::unique_ptr<Reference> makeRowReference(RowKind kind,
                                            const RowProblem &problem,
                                            const DeviceModel &device) {
  return std::make_unique<RowReference>(kind, problem, device);
}

} // namespace kiln
