//===- RowReference.cpp - what problems over rows are compared with -------===//
#include "Families/Rows/RowUnit.h"
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
        unit(makeRowUnit(
            {"rows/ReferenceRows.cuh", "ReferenceRowsConfig", "referenceRows",
             "ReferenceRowParams"},
            "reference", signatureOf(problem),
            fmt::format("{{.blockThreads = {}}}", config.blockThreads),
            config.threads(), config.sharedBytes(signatureOf(problem)), 1,
            device)) {}

  const TranslationUnit &translationUnit() const override { return unit; }

  void bind(const Arguments &arguments, int operand, int64_t rowBegin,
            int64_t rowEnd, DeviceAddress values, DeviceAddress bounds,
            LaunchSpec &spec) const override {
    ReferenceRowParams params;
    params.row =
        makeRowParams(readRowProblem(kind, arguments.problem), arguments);
    params.output = operand;
    params.rowBegin = rowBegin;
    params.rowEnd = rowEnd;
    params.reference = reinterpret_cast<double *>(values);
    params.bound = reinterpret_cast<double *>(bounds);
    KernelStep &step = spec.addKernel(params);
    step.grid.x = static_cast<uint32_t>(config.blocks(rowEnd - rowBegin));
    step.block.x = static_cast<uint32_t>(config.threads());
  }

private:
  /// Few long rows are summed by few blocks, which should then be large ones.
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
