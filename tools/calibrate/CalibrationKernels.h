//===- CalibrationKernels.h - the kernels of the micro-benchmarks ---------===//
#pragma once

#include "Compile/TranslationUnit.h"
#include "Device/DeviceModel.h"

#include <llvm/ADT/ArrayRef.h>

#include <string>
#include <vector>

namespace kiln::cli {

/// One product of a tensor core, as an instruction.
struct TensorInstruction {
  const char *type;   ///< "Bf16", as in the names of device fields
  std::string kernel; ///< its entry
  double flops = 0;   ///< of one instruction of a warp, or of a warpgroup
  int columns = 0;    ///< of a wgmma
};

/// The mma.sync instructions of \p device; none before sm_80.
std::vector<TensorInstruction> mmaInstructions(const DeviceModel &device);

/// Widths at which wgmma is measured.
llvm::ArrayRef<int> wgmmaWidths();

/// The wgmma instructions of \p device, all types at all widths; none except on
/// 9.0.
std::vector<TensorInstruction> wgmmaInstructions(const DeviceModel &device);

/// The units of all kernels for \p device: memory first, then rates, then a
/// unit for each type of wgmma.
std::vector<TranslationUnit> calibrationUnits(const DeviceModel &device);

/// The entries of a unit of calibrationUnits().
std::vector<std::string> entriesOf(const TranslationUnit &unit);

} // namespace kiln::cli
