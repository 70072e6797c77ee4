//===- StreamTools.h - the copy baseline of memory-bound kernels ----------===//
//
// Plain vectorised kernels in many variants show how fast memory can be for as
// many reads and writes as a problem has. A kernel that is timed beside them
// shows how much there is left to gain.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Driver/Driver.h"
#include "Driver/Handles.h"
#include "Driver/Module.h"
#include "Kernel/Family.h"
#include "Store/ArtifactStore.h"
#include "trial/StreamTools.h"

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::cli {

/// The least bytes that a problem reads and writes, rounded up to whole
/// accesses.
struct StreamBytes {
  int64_t read = 0, written = 0;

  int64_t total() const { return read + written; }
  StreamMix mix() const {
    return mixOf(static_cast<double>(read), static_cast<double>(written));
  }
};

/// Counts every element of every operand once: an operand that is broadcast
/// counts once, gaps between rows do not count.
StreamBytes streamBytesOf(const OperandTable &table);

/// The same without the elements of inputs that the problem does not read, such
/// as most rows of an embedding: the bytes that \p family calls compulsory.
StreamBytes streamBytesOf(const KernelFamily &family, const Problem &problem);

/// One way to move the bytes.
struct StreamVariant {
  int unroll = 1;
  CacheHint hint = CacheHint::Plain;
  int threads = 256;
  int blocksPerSm = 0; ///< of a persistent grid; 0: a block for each piece

  /// "u4.t512.streaming", "u4.t512.b2" for two persistent blocks on each SM.
  std::string text() const;
};

/// Returns the variants worth trying for \p bytes, some 20; fewer if so few
/// bytes move that they hardly differ.
std::vector<StreamVariant> streamVariants(const StreamBytes &bytes);

/// The kernels of one mix, loaded into the context that was current to load().
/// Immutable, so thread-safe.
class StreamTools {
public:
  /// Compiles them, or takes them from the cache. \p driver must outlive it.
  /// Errors: those of ArtifactStore::get and Module::load.
  static llvm::Expected<StreamTools> load(const Driver &driver,
                                          ArtifactStore &artifacts,
                                          const DeviceModel &device,
                                          StreamMix mix);

  /// Enqueues one run: reads bytes.read from \p from and writes bytes.written
  /// to \p to, both aligned to 16 bytes and apart from each other; \p to has
  /// room for 16 bytes at least. \p variant is one of streamVariants() of bytes
  /// with this mix. Errors: those of the driver's launch.
  llvm::Error run(const StreamVariant &variant, const StreamBytes &bytes,
                  DeviceAddress from, DeviceAddress to,
                  CudaStream stream) const;

private:
  StreamTools(const Driver &driver, Module module, StreamMix mix,
              int64_t smCount)
      : driver(&driver), module(std::move(module)), theMix(mix),
        smCount(smCount) {}

  const Driver *driver;
  Module module;
  StreamMix theMix;
  int64_t smCount;
  std::vector<CudaFunction> functions; ///< in the order of the unit's entries
};

/// The unit that StreamTools::load compiles for \p device.
TranslationUnit streamToolsUnit(const DeviceModel &device, StreamMix mix);

} // namespace kiln::cli
