//===- BenchBuffers.h - operands that rotate, filled with random data -----===//
#pragma once

#include "Device/DeviceModel.h"
#include "Driver/DeviceMemory.h"
#include "Driver/Driver.h"
#include "Kernel/Operand.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

#include <map>
#include <vector>

namespace kiln::cli {

/// Addresses of one copy of the operands, in the order of the table.
using OperandAddresses = llvm::SmallVector<DeviceAddress, 8>;

/// A device-resident sample of N(0, 1) of each type, from which operands are
/// filled. Its length is a prime, so that no row repeats another.
class RandomPool {
public:
  explicit RandomPool(const Driver &driver) : driver(&driver) {}

  /// Fills \p bytes from \p to on \p stream with data like \p spec's. Data
  /// differ with \p seed. The first of a type costs some 0.1 s.
  llvm::Error fill(const OperandSpec &spec, DeviceAddress to, uint64_t bytes,
                   uint64_t seed, CudaStream stream);

private:
  struct Sample {
    DeviceMemory memory;
    uint64_t bytes = 0;
  };
  llvm::Expected<const Sample *> sampleOf(DType type, int mantissaBits);

  const Driver *driver;
  std::map<std::pair<DType, int>, Sample> samples;
};

/// Copies of all operands of one problem, in one allocation.
class BenchBuffers {
public:
  /// As many copies as make the caches forget between two uses of one: together
  /// three times L2, but no more than \p maxBytes or 1024 copies; at least one.
  /// Inputs are filled. Errors: DeviceOutOfMemory, those of the fills.
  static llvm::Expected<BenchBuffers>
  create(const Driver &driver, const DeviceModel &device,
         const OperandTable &table, uint64_t maxBytes, RandomPool &pool,
         CudaStream stream);

  unsigned copies() const { return static_cast<unsigned>(addressLists.size()); }
  const OperandAddresses &addresses(unsigned copy) const {
    return addressLists[copy];
  }

private:
  DeviceMemory memory;
  std::vector<OperandAddresses> addressLists;
};

/// The elements of row \p row of \p spec at \p address as floats; row r is row
/// r % rows of batch r / rows.
llvm::Expected<std::vector<float>> readRow(const Driver &driver,
                                           const OperandSpec &spec,
                                           DeviceAddress address, int64_t row);

} // namespace kiln::cli
