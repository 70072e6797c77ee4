//===- BenchStream.h - the stream that a memory-bound case is held against ===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Trial/Sampling.h"
#include "Trial/StreamTools.h"
#include "Trial/TrialTools.h"

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kiln::cli {

/// What the reference stream of one case took.
struct StreamResult {
  StreamBytes bytes;
  SampleSummary ns;    ///< of the fastest; count 0: none was measured
  std::string variant; ///< its name: "copy", "u4.t512.streaming"
  size_t variants = 0; ///< that it is the fastest of
};

/// The driver's copy, where as much is read as written, and plain kernels over
/// buffers of their own, as many copies as the operands have. What moves is
/// what the operand table says must.
class BenchStream {
public:
  /// Allocates and fills the buffers on \p stream. \p driver, \p tools and
  /// \p kernels, which have the mix of \p bytes, must outlive it. Errors:
  /// DeviceOutOfMemory, those of the driver's launch.
  static llvm::Expected<std::unique_ptr<BenchStream>>
  create(const Driver &driver, const TrialTools &tools,
         const StreamTools &kernels, const StreamBytes &bytes, unsigned copies,
         CudaStream stream);

  /// Finds the fastest variants with few samples, taken as \p sampling says;
  /// the final run measures them again beside Kiln. Errors: those of
  /// measureInterleaved; Internal with the first reason if no variant runs.
  llvm::Error pickBest(CudaStream stream, SamplingOptions sampling);

  /// The fastest two that pickBest() found.
  std::vector<TimedLaunch> finalists() const;
  /// The faster of both in the final run, whose \p times are in the order of
  /// finalists(). Errors: what kept both from running.
  llvm::Expected<StreamResult> result(llvm::ArrayRef<SampledTime> times) const;

private:
  struct Entry {
    std::string name;
    TimedLaunch launch;
  };
  BenchStream(const Driver &driver, const StreamTools &kernels,
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

/// Makes the streams of cases one after another. The kernels of a mix of reads
/// and writes are loaded once.
class BenchStreams {
public:
  /// All of these must outlive it and the streams that it makes, as it must.
  BenchStreams(const Driver &driver, ArtifactStore &artifacts,
               const DeviceModel &device, const TrialTools &tools)
      : driver(driver), artifacts(artifacts), device(device), tools(tools) {}

  /// The stream of \p bytes, whose fastest variants are found, taken as
  /// \p sampling says, over as many copies. Errors: those of
  /// StreamTools::load, BenchStream::create and BenchStream::pickBest.
  llvm::Expected<std::unique_ptr<BenchStream>>
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
