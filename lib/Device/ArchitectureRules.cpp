//===- ArchitectureRules.cpp ----------------------------------------------===//
#include "Device/ArchitectureRules.h"

#include "Support/Format.h"

#include <cmath>

namespace kiln {

/// Shared by the later chips with GDDR memory.
static constexpr ArchitectureRules kSm89 = {
    .computeCapability = 89,
    .maxWarpsPerSm = 48,
    .maxBlocksPerSm = 24,
    .shared = {102400, 101376, 1024},
    .l2Bytes = 32 << 20,
    .tensor = {4, 512, 1024, 1024, 2048, 2048},
    .mmaSync = {4, 512, 1024, 1024, 2048, 2048},
    .simd = {4, 256, 256},
    .l2BytesPerClockPerSm = 15};

/// The same rules for another capability.
static constexpr ArchitectureRules as(int computeCapability,
                                      ArchitectureRules rules) {
  rules.computeCapability = computeCapability;
  return rules;
}

/// Sources. Limits: CUDA programming guide, "technical specifications per
/// compute capability", and NVIDIA/cccl's arch_traits. Ordinary arithmetic:
/// its "throughput of native arithmetic instructions", times two for
/// multiply-adds and once more for packed halves. Tensor cores: the peak of the
/// architecture's data sheets divided by SMs and boost clock (V100 125 TF, T4
/// 65, A100 312, A10 125, L40S 362, H200 989, B200 2250, dense fp16). mma.sync
/// on 9.0: 2680 flop per SM and clock for bf16 measured on an H100 (65 %; 62.9
/// % on average in arXiv 2501.12084), the other types by the same share; fp8 is
/// converted and computed in fp16 there; fp64 has no wider instruction. No
/// measurement of mma.sync on 10.0 is at hand, 9.0's figures are assumed. 10.3
/// is 10.0 with little fp64 and int8 (data sheets of HGX B300, 1.25 TF a GPU,
/// and of GB300 NVL72, 24 POPS of sparse int8 for 72 GPUs); 12.1 is 12.0. L2:
/// gpu-benches, 36-38 bytes per SM and clock on A100 and H200, 15 on L40; 17-20
/// on V100 and T4 (arXiv 1804.06826, 1903.07486).
static constexpr ArchitectureRules kRules[] = {
    {.computeCapability = 70,
     .maxWarpsPerSm = 64,
     .maxBlocksPerSm = 32,
     .shared = {98304, 98304, 0},
     .l2Bytes = 6 << 20,
     .tensor = {0, 0, 1024, 0, 0, 0},
     .mmaSync = {0, 0, 1024, 0, 0, 0},
     .simd = {64, 128, 256},
     .l2BytesPerClockPerSm = 17},
    {.computeCapability = 75,
     .maxWarpsPerSm = 32,
     .maxBlocksPerSm = 16,
     .shared = {65536, 65536, 0},
     .l2Bytes = 4 << 20,
     .tensor = {0, 0, 1024, 0, 0, 2048},
     .mmaSync = {0, 0, 1024, 0, 0, 2048},
     .simd = {4, 128, 256},
     .l2BytesPerClockPerSm = 20},
    {.computeCapability = 80,
     .maxWarpsPerSm = 64,
     .maxBlocksPerSm = 32,
     .shared = {167936, 166912, 1024},
     .l2Bytes = 40 << 20,
     .tensor = {128, 1024, 2048, 2048, 0, 4096},
     .mmaSync = {128, 1024, 2048, 2048, 0, 4096},
     .simd = {64, 128, 512},
     .l2BytesPerClockPerSm = 36},
    {.computeCapability = 86,
     .maxWarpsPerSm = 48,
     .maxBlocksPerSm = 16,
     .shared = {102400, 101376, 1024},
     .l2Bytes = 6 << 20,
     .tensor = {4, 512, 1024, 1024, 0, 2048},
     .mmaSync = {4, 512, 1024, 1024, 0, 2048},
     .simd = {4, 256, 256},
     .l2BytesPerClockPerSm = 15},
    kSm89,
    {.computeCapability = 90,
     .maxWarpsPerSm = 64,
     .maxBlocksPerSm = 32,
     .shared = {233472, 232448, 1024},
     .l2Bytes = 50 << 20,
     .tensor = {256, 2048, 4096, 4096, 8192, 8192},
     .mmaSync = {256, 1340, 2680, 2680, 2680, 5360},
     .simd = {128, 256, 512},
     .l2BytesPerClockPerSm = 38},
    {.computeCapability = 100,
     .maxWarpsPerSm = 64,
     .maxBlocksPerSm = 32,
     .shared = {233472, 232448, 1024},
     .l2Bytes = 126 << 20,
     .tensor = {128, 4096, 8192, 8192, 16384, 16384},
     .mmaSync = {128, 1340, 2680, 2680, 2680, 5360},
     .simd = {128, 256, 512},
     .l2BytesPerClockPerSm = 38},
    {.computeCapability = 103,
     .maxWarpsPerSm = 64,
     .maxBlocksPerSm = 32,
     .shared = {233472, 232448, 1024},
     .l2Bytes = 126 << 20,
     .tensor = {4, 4096, 8192, 8192, 16384, 512},
     .mmaSync = {4, 1340, 2680, 2680, 2680, 512},
     .simd = {4, 256, 512},
     .l2BytesPerClockPerSm = 38},
    as(120, kSm89),
    as(121, kSm89),
};

const ArchitectureRules &rulesFor(int computeCapability) {
  const ArchitectureRules *best = kRules;
  for (const ArchitectureRules &rules : kRules)
    if (rules.computeCapability <= computeCapability)
      best = &rules;
  return *best;
}

// These are equal for every architecture that Kiln knows.
static constexpr int64_t kSubCoresPerSm = 4;
static constexpr int64_t kRegistersPerSm = 65536;
static constexpr int64_t kMaxRegistersPerThread = 255;
static constexpr int64_t kMaxThreadsPerBlock = 1024;
static constexpr double kSharedBytesPerClockPerSm = 128; // 32 banks of 4 bytes
static constexpr double kSimdInt32 = 128, kSpecialOps = 16; // per SM and clock

/// Share of the pins' DRAM bandwidth that good kernels read and write: 4290 and
/// 3400 of 4814 GB/s, measured on an H200 SXM.
static constexpr double kDramReadShare = 0.89;
static constexpr double kDramWriteShare = 0.71;

/// Share of the maximum clock under dense tensor work: 1500 of 1980 MHz on H100
/// and H200 SXM, whose tensor cores run into the power limit; assumed for 10.0.
static constexpr double kHopperTensorClockShare = 0.76;

/// Latencies of an H100 SXM (gpu-benches), launch and ramp of an H200 SXM in a
/// graph.
static constexpr double kDramLatencyCycles = 570;
static constexpr double kL2LatencyCycles = 260;
static constexpr double kLaunchNs = 620;
static constexpr double kRampNs = 1000;

/// Share of the SMs that clusters of 2, 4 and 8 can use: 66*2, 30*4 and 15*8
/// of 132 on an H200 SXM.
static constexpr double kClusterShare[] = {1.0, 120.0 / 132, 120.0 / 132};

// The least that a GPU has, for a GPU of which nothing is known.
static constexpr double kFallbackSmClockMHz = 1400;
static constexpr double kFallbackMemoryClockMHz = 5000;
static constexpr int64_t kFallbackBusBits = 256;
static constexpr int64_t kFallbackSmCount = 16;

namespace {
/// Fills unset fields from one source with one note.
struct Filler {
  DeviceModel &model;
  ValueSource source;
  std::string note;

  void operator()(llvm::StringRef key, FieldValue value) const {
    fillValue(model, key, std::move(value), source, note);
  }
};
} // namespace

static void fillFallbacks(DeviceModel &model) {
  Filler fill{model, ValueSource::Fallback, "unknown, a small GPU assumed"};
  fill("name", std::string("unknown"));
  fill("ccMajor", int64_t{7});
  fill("ccMinor", int64_t{5});
  fill("smCount", kFallbackSmCount);
  fill("smClockMHz", kFallbackSmClockMHz);
  fill("memoryClockMHz", kFallbackMemoryClockMHz);
  fill("memoryBusBits", kFallbackBusBits);
}

static void fillLimits(const Filler &fill, const ArchitectureRules &rules) {
  fill("subCoresPerSm", kSubCoresPerSm);
  fill("registersPerSm", kRegistersPerSm);
  fill("maxRegistersPerThread", kMaxRegistersPerThread);
  fill("maxWarpsPerSm", int64_t{rules.maxWarpsPerSm});
  fill("maxBlocksPerSm", int64_t{rules.maxBlocksPerSm});
  fill("maxThreadsPerBlock", kMaxThreadsPerBlock);
  fill("sharedBytesPerSm", int64_t{rules.shared.perSm});
  fill("sharedBytesPerBlock", int64_t{rules.shared.perBlock});
  fill("sharedBytesReservedPerBlock", int64_t{rules.shared.reservedPerBlock});
  fill("sharedBytesPerClockPerSm", kSharedBytesPerClockPerSm);
  fill("l2Bytes", int64_t{rules.l2Bytes});
}

static void fillClusters(const Filler &fill) {
  const char *keys[] = {"maxClusters2", "maxClusters4", "maxClusters8"};
  const DeviceModel &model = fill.model;
  for (int i = 0; i < 3; ++i) {
    double usableSms =
        model.hasClusters()
            ? kClusterShare[i] * static_cast<double>(model.smCount)
            : 0;
    fill(keys[i], static_cast<int64_t>(usableSms) >> (i + 1));
  }
}

/// Values that follow from clocks, SMs and bus.
static void fillDerived(const Filler &fill, const ArchitectureRules &rules) {
  const DeviceModel &model = fill.model;
  double clockGHz = model.smClockMHz * 1e-3;
  double tensorShare =
      rules.computeCapability >= 90 && rules.computeCapability < 120
          ? kHopperTensorClockShare
          : 1;
  fill("sustainedTensorClockMHz", std::round(tensorShare * model.smClockMHz));
  fill("sustainedMemoryClockMHz", model.smClockMHz);
  fill("dramGBs", std::round(kDramReadShare * model.dramPeakBytesPerNs()));
  fill("dramWriteGBs",
       std::round(kDramWriteShare * model.dramPeakBytesPerNs()));
  fill("l2GBs", std::round(rules.l2BytesPerClockPerSm * clockGHz *
                           static_cast<double>(model.smCount)));
  fill("dramLatencyNs", std::round(kDramLatencyCycles / clockGHz));
  fill("l2LatencyNs", std::round(kL2LatencyCycles / clockGHz));
  fill("launchNs", kLaunchNs);
  fill("rampNs", kRampNs);
}

void fillTensorRates(DeviceModel &model, double share, ValueSource source,
                     llvm::StringRef note) {
  const ArchitectureRules &rules = rulesFor(model.computeCapability());
  Filler fill{model, source, note.str()};
  auto fillAll = [&](llvm::StringRef prefix,
                     const ArchitectureRules::Tensor &rates) {
    auto fillOne = [&](llvm::StringRef type, double rate) {
      fill(fmt::format("{}{}FlopsPerClock", prefix, type), share * rate);
    };
    // Consumer boards halve no fp64.
    fill(fmt::format("{}Fp64FlopsPerClock", prefix), double(rates.fp64));
    fillOne("Tf32", rates.tf32);
    fillOne("Fp16", rates.fp16);
    fillOne("Bf16", rates.bf16);
    fillOne("Fp8", rates.fp8);
    // Integer accumulation runs at the full rate everywhere.
    fill(fmt::format("{}Int8FlopsPerClock", prefix), double(rates.int8));
  };
  fillAll("tensor", rules.tensor);
  fillAll("mmaSync", rules.mmaSync);
}

void fillFromArchitecture(DeviceModel &model) {
  fillFallbacks(model);
  const ArchitectureRules &rules = rulesFor(model.computeCapability());
  bool isKnown = rules.computeCapability == model.computeCapability();
  Filler fill{model,
              isKnown ? ValueSource::Architecture : ValueSource::Fallback,
              isKnown ? model.archName()
                      : fmt::format("as sm_{}", rules.computeCapability)};
  fillLimits(fill, rules);
  fillClusters(fill);
  fillTensorRates(model, 1.0, fill.source, fill.note);
  fill("simdFp64FlopsPerClock", double(rules.simd.fp64));
  fill("simdFp32FlopsPerClock", double(rules.simd.fp32));
  fill("simdFp16FlopsPerClock", double(rules.simd.fp16));
  fill("simdInt32FlopsPerClock", kSimdInt32);
  fill("specialOpsPerClock", kSpecialOps);
  fillDerived(fill, rules);
}

} // namespace kiln
