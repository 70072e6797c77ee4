//===- CopyBaseline.h - the peer of memory-bound cases --------------------===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Trial/Sampling.h"
#include "Trial/TrialTools.h"
#include "compare/StreamTools.h"

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kiln::cli {

/// The times of one case's copy baseline.
struct BaselineResult {
  StreamBytes bytes;
  SampleSummary ns;    ///< of the fastest; count 0: none was measured
  std::string variant; ///< its name: "copy", "u4.t512.streaming"
  size_t variants = 0; ///< that it is the fastest of
};

/// The driver's copy, where as much is read as written, and plain kernels over
/// buffers of their own, as many copies as the operands have. They move the
/// bytes that the operand table says must be moved.
class CopyBaseline {
public:
  /// Allocates and fills the buffers on \p stream. \p driver, \p tools and
  /// \p kernels, which have the mix of \p bytes, must outlive it. Errors:
  /// DeviceOutOfMemory, those of the driver's launch.
  static llvm::Expected<std::unique_ptr<CopyBaseline>>
  create(const Driver &driver, const TrialTools &tools,
         const StreamTools &kernels, const StreamBytes &bytes, unsigned copies,
         CudaStream stream);

  /// Finds the fastest variants with few samples, taken as \p sampling says;
  /// the final run measures them again beside Kiln. Errors: those of
  /// measureInterleaved; Internal with the first reason if no variant runs.
  llvm::Error pickBest(CudaStream stream, SamplingOptions sampling);

  /// The fastest two that pickBest() found.
  std::vector<TimedLaunch> finalists() const;
  /// The faster of both in the final run; its \p times are in the order of
  /// finalists(). Errors: the reason why neither ran.
  llvm::Expected<BaselineResult>
  result(llvm::ArrayRef<SampledTime> times) const;

private:
  struct Entry {
    std::string name;
    TimedLaunch launch;
  };
  CopyBaseline(const Driver &driver, const StreamTools &kernels,
               const StreamBytes &bytes);
  void addEntries();
  DeviceAddress source(unsigned copy) const {
    return memory.address() + copy * copyBytes;
  }
  DeviceAddress target(unsigned copy) const { return source(copy) + readBytes; }

  const Driver &driver;
  const StreamTools &kernels;
  StreamBytes bytes;
  uint64_t readBytes = 0, copyBytes = 0; ///< of the memory
  DeviceMemory memory;
  std::vector<Entry> entries; ///< after pickBest() the fastest first
};

/// Makes the copy baselines of cases one after another. The kernels of a mix of
/// reads and writes are loaded once.
class CopyBaselines {
public:
  /// All of these must outlive it and the baselines that it makes; it must
  /// outlive these, too.
  CopyBaselines(const Driver &driver, ArtifactStore &artifacts,
                const DeviceModel &device, const TrialTools &tools)
      : driver(driver), artifacts(artifacts), device(device), tools(tools) {}

  /// The baseline of \p bytes, with its fastest variants found by samples
  /// taken as \p sampling says, over as many copies. Errors: those of
  /// StreamTools::load, CopyBaseline::create and CopyBaseline::pickBest.
  llvm::Expected<std::unique_ptr<CopyBaseline>>
  make(const StreamBytes &bytes, const SamplingOptions &sampling,
       CudaStream stream);

private:
  llvm::Expected<const StreamTools *> kernelsOf(StreamMix mix);

  const Driver &driver;
  ArtifactStore &artifacts;
  const DeviceModel &device;
  const TrialTools &tools;
  std::map<std::pair<int, int>, StreamTools> loaded; ///< by reads and writes
};

} // namespace kiln::cli
