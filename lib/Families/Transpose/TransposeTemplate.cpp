//===- TransposeTemplate.cpp ----------------------------------------------===//
#include "Families/Transpose/TransposeTemplate.h"

#include <llvm/Support/MathExtras.h>

namespace kiln {

TransposeParams makeTransposeParams(const TransposeProblem &problem,
                                    const Arguments &arguments) {
  const OperandArgument &x = arguments.operands[TransposeOperand::X];
  const OperandArgument &y = arguments.operands[TransposeOperand::Y];
  TransposeParams params;
  params.x = reinterpret_cast<const void *>(x.address);
  params.y = reinterpret_cast<void *>(y.address);
  params.rows = problem.rows;
  params.cols = problem.cols;
  params.ldx = x.leadingDimension;
  params.ldy = y.leadingDimension;
  return params;
}

std::optional<Rejection> checkPower(int value, int least, int most,
                                    llvm::StringRef unit,
                                    llvm::StringRef allowed) {
  if (llvm::isPowerOf2_32(static_cast<uint32_t>(value)) && value >= least &&
      value <= most)
    return std::nullopt;
  return Rejection{PruneReason::InstructionShape, double(value), 0, unit,
                   allowed};
}

std::optional<Rejection> checkBlockThreads(int threads) {
  return checkPower(threads, 32, 1024, "threads a block",
                    "a power of two from 32 to 1024");
}

double blocksTogether(const PassWork &kernel, const DeviceModel &device) {
  int64_t fit =
      std::max<int64_t>(occupancy(device, kernel.block).blocksPerSm, 1);
  int64_t given = (kernel.tasks + device.smCount - 1) / device.smCount;
  int64_t waves = std::max<int64_t>((given + fit - 1) / fit, 1);
  return double(std::min(fit, given) + waves - 1) / double(waves);
}

} // namespace kiln
