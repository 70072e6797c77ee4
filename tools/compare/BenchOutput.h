//===- BenchOutput.h - comparison of the results of two sides -------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/LaunchSpec.h"
#include "Kernel/MatrixProduct.h"
#include "Kernel/Operand.h"
#include "Trial/TrialBuffers.h"

#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

namespace kiln::cli {

/// Rows of an output as floats.
using OutputRows = std::vector<std::vector<float>>;

/// Element \p index of \p bytes, as they lie in memory.
float elementAt(llvm::ArrayRef<uint8_t> bytes, size_t index, DType type);

/// Reads a sample of the rows of \p spec at \p address, from the first to the
/// last over all batches: at most 64. Waits for nothing that is enqueued.
llvm::Expected<OutputRows>
readRows(const Driver &driver, const OperandSpec &spec, DeviceAddress address);

/// Whether both differ nowhere by more than two errors of the size that
/// \p tolerance allows each, given \p bound, which is at least what a reference
/// would give for every element. Not a number differs from everything.
bool agree(const OutputRows &a, const OutputRows &b, const Tolerance &tolerance,
           double bound);

/// A sample of each output of \p buffers, as readRows() takes it, of copy 0.
llvm::Expected<std::vector<OutputRows>>
readOutputs(const Driver &driver, const TrialBuffers &buffers);

/// Whether both are rows of \p product on N(0, 1) data, with scales if it has
/// any, each within \p tolerance as far as such data allow it.
bool agreeOn(const MatrixProduct &product, Tolerance tolerance,
             const OutputRows &a, const OutputRows &b);
/// As above for each output of \p buffers with its own tolerance.
bool agreeOn(const MatrixProduct &product, const TrialBuffers &buffers,
             llvm::ArrayRef<OutputRows> a, llvm::ArrayRef<OutputRows> b);

} // namespace kiln::cli
