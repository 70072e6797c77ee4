//===- MemoryBenchmarks.cpp - bandwidths and latencies --------------------===//
//
// Bandwidths are of all SMs, by events around long kernels. A latency is the
// time of a step of a pointer chase by one thread, alone and while all other
// SMs read as fast as they can.
//
//===----------------------------------------------------------------------===//
#include "calibrate/Benchmarks.h"

#include "Support/Error.h"

#include <llvm/Support/MathExtras.h>

#include <algorithm>

namespace kiln::cli {

using calibrate::kChunkBytes;
using calibrate::kChunksInFlight;

namespace {

/// The geometry of a persistent grid, by the bytes that an SM has in flight.
struct InFlight {
  uint32_t threads, blocksPerSm;

  uint32_t bytes() const {
    return threads * blocksPerSm * kChunksInFlight * kChunkBytes;
  }
  RigLaunch launch(const Rig &rig) const {
    return {static_cast<uint32_t>(rig.device().smCount) * blocksPerSm, threads};
  }
};

} // namespace

static constexpr InFlight kInFlight[] = {
    {128, 1}, {256, 1}, {512, 1}, {1024, 1}, {1024, 2}};

static constexpr InFlight kMostInFlight = {1024, 2};

/// Accesses to \p bytes, in whole pieces of the largest block.
static long long chunksOf(uint64_t bytes) {
  constexpr uint64_t kPiece = calibrate::kStreamThreads * kChunksInFlight;
  return static_cast<long long>(bytes / kChunkBytes / kPiece * kPiece);
}

/// ns of a kernel that goes over \p bytes of the buffers so many times.
static llvm::Expected<double> passNs(Rig &rig, llvm::StringRef kernel,
                                     const InFlight &inFlight, uint64_t bytes,
                                     int passes = 1) {
  calibrate::PassParams params;
  params.from = reinterpret_cast<const void *>(rig.from());
  params.to = reinterpret_cast<void *>(rig.to());
  params.chunks = chunksOf(bytes);
  params.passes = passes;
  params.spans = rig.spans();
  return rig.timeNs(
      [&] { return rig.start(kernel, inFlight.launch(rig), params); });
}

/// Bandwidths by bytes in flight. The greatest, in the measure of the catalog,
/// is that of the field \p key, which may be null. Each byte is \p moved so
/// many times.
static llvm::Expected<std::vector<Sample>>
dramBandwidth(Rig &rig, llvm::StringRef kernel, const char *key,
              double fittedShare, int moved) {
  std::vector<Sample> samples;
  double best = 0;
  const double bytes =
      static_cast<double>(chunksOf(rig.bytes())) * kChunkBytes * moved;
  for (const InFlight &inFlight : kInFlight) {
    auto ns = passNs(rig, kernel, inFlight, rig.bytes());
    if (!ns)
      return ns.takeError();
    samples.push_back({fmt::format("{} KiB in flight", inFlight.bytes() >> 10),
                       bytes / *ns, "GB/s"});
    best = std::max(best, bytes / *ns);
  }
  if (key)
    samples.push_back({"fitted", best * fittedShare, "GB/s", key});
  return samples;
}

/// Bandwidths by footprint. That of the field is of half of L2: less is faster
/// where parts of the cache serve their own SMs, more does not stay.
static llvm::Expected<std::vector<Sample>> l2Bandwidth(Rig &rig) {
  constexpr double kBytes = 4e9; // that are read
  std::vector<Sample> samples;
  double half = 0;
  for (unsigned sixteenths : {1, 2, 4, 6, 8, 12, 16, 32}) {
    const uint64_t bytes =
        static_cast<uint64_t>(rig.device().l2Bytes) * sixteenths / 16;
    const int passes = std::max(1, static_cast<int>(kBytes / double(bytes)));
    auto ns = passNs(rig, "kilnRead", kMostInFlight, bytes, passes);
    if (!ns)
      return ns.takeError();
    const double gbs =
        static_cast<double>(chunksOf(bytes)) * kChunkBytes * passes / *ns;
    samples.push_back(
        {fmt::format("{:.1f} MiB", double(bytes) / (1 << 20)), gbs, "GB/s"});
    if (sixteenths == 8)
      half = gbs;
  }
  samples.push_back({"half of L2", half, "GB/s", "l2GBs"});
  return samples;
}

//===----------------------------------------------------------------------===//
// Latencies
//===----------------------------------------------------------------------===//

/// ns of a step along the chain, \p readers blocks reading \p loadBytes
/// meanwhile.
static llvm::Expected<double> chase(Rig &rig, long long steps, uint32_t readers,
                                    uint64_t loadBytes) {
  calibrate::ChaseParams params;
  params.place = rig.place();
  params.steps = steps;
  params.load = reinterpret_cast<const void *>(rig.from());
  params.loadChunks = chunksOf(loadBytes);
  params.done = rig.flag();
  params.spans = rig.spans();
  if (llvm::Error error = rig.clear(
          reinterpret_cast<DeviceAddress>(params.done), sizeof(unsigned)))
    return error;
  if (llvm::Error error = rig.start("kilnChase", {1 + readers, 1024}, params))
    return error;
  auto spans = rig.readSpans(1);
  if (!spans)
    return spans.takeError();
  return static_cast<double>((*spans)[0].endNs - (*spans)[0].beginNs) /
         static_cast<double>(steps);
}

/// Makes a chain over \p bytes of the second buffer, a power of two, and begins
/// at its first node.
static llvm::Error makeChain(Rig &rig, uint64_t bytes) {
  calibrate::ChainParams params;
  params.nodes = reinterpret_cast<void *>(rig.to());
  params.count = static_cast<long long>(bytes / calibrate::kNodeBytes);
  if (llvm::Error error = rig.start(
          "kilnMakeChain", {static_cast<uint32_t>(rig.device().smCount), 1024},
          params))
    return error;
  return copyOnDevice(rig.driver(),
                      reinterpret_cast<DeviceAddress>(rig.place()), rig.to(),
                      sizeof(uint64_t), rig.stream());
}

/// Latencies of a chain over \p bytes that is in L2, or of one that is not:
/// alone, and while all other SMs read \p loadBytes. \p fittedShare brings the
/// first one to the measure of the field \p key.
static llvm::Expected<std::vector<Sample>> latency(Rig &rig, const char *key,
                                                   double fittedShare,
                                                   bool isInL2, uint64_t bytes,
                                                   uint64_t loadBytes) {
  constexpr long long kSteps = 4096;
  const auto readers = static_cast<uint32_t>(rig.device().smCount) - 1;
  const auto nodes = static_cast<long long>(bytes / calibrate::kNodeBytes);
  if (llvm::Error error = makeChain(rig, bytes))
    return error;
  // One puts the chain into L2, the other something else.
  auto first = isInL2 ? chase(rig, nodes, 0, 0)
                      : passNs(rig, "kilnRead", kMostInFlight, rig.bytes());
  if (!first)
    return first.takeError();
  auto idle = chase(rig, kSteps, 0, 0);
  if (!idle)
    return idle.takeError();
  auto loaded = chase(rig, kSteps, readers, loadBytes);
  if (!loaded)
    return loaded.takeError();
  return std::vector<Sample>{{"fitted", *idle * fittedShare, "ns", key},
                             {"idle", *idle, "ns"},
                             {"loaded", *loaded, "ns"}};
}

void addMemoryBenchmarks(Rig &rig, std::vector<Benchmark> &benchmarks) {
  const auto l2 = static_cast<uint64_t>(rig.device().l2Bytes);
  benchmarks.push_back({"dram read", 0.05, [&rig] {
                          return dramBandwidth(rig, "kilnRead", "dramGBs",
                                               fitted::kDramRead, 1);
                        }});
  benchmarks.push_back({"dram write", 0.05, [&rig] {
                          return dramBandwidth(rig, "kilnWrite", "dramWriteGBs",
                                               fitted::kDramWrite, 1);
                        }});
  benchmarks.push_back({"dram copy", 0.05, [&rig] {
                          return dramBandwidth(rig, "kilnCopy", nullptr, 1, 2);
                        }});
  benchmarks.push_back({"l2 read", 0.1, [&rig] { return l2Bandwidth(rig); }});
  benchmarks.push_back({"dram latency", 0.1, [&rig] {
                          return latency(rig, "dramLatencyNs",
                                         fitted::kDramLatency, false,
                                         rig.chainBytes(), rig.bytes());
                        }});
  benchmarks.push_back({"l2 latency", 0.1, [&rig, l2] {
                          return latency(rig, "l2LatencyNs", fitted::kL2Latency,
                                         true, llvm::PowerOf2Ceil(l2 / 16),
                                         l2 / 4);
                        }});
}

} // namespace kiln::cli
