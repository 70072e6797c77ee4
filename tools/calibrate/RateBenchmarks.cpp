//===- RateBenchmarks.cpp - rates, clocks and launches --------------------===//
//
// Rates are in an SM's own clocks, so that its frequency does not matter: one
// block runs with few and with many rounds, and the difference is the rounds'
// alone.
//
//===----------------------------------------------------------------------===//
#include "calibrate/Benchmarks.h"

#include "Support/Error.h"
#include "calibrate/CalibrationKernels.h"

#include <algorithm>

namespace kiln::cli {

using calibrate::Span;

/// Clocks from the begin of the first warp to the end of the last one.
static double clocksOf(llvm::ArrayRef<Span> spans) {
  long long begin = spans[0].beginClock, end = spans[0].endClock;
  for (const Span &span : spans) {
    begin = std::min(begin, span.beginClock);
    end = std::max(end, span.endClock);
  }
  return static_cast<double>(end - begin);
}

/// Clocks of a round of \p kernel on one SM.
static llvm::Expected<double> clocksOfRound(Rig &rig, llvm::StringRef kernel,
                                            const RigLaunch &launch,
                                            int rounds) {
  double clocks[2];
  for (int i : {0, 1}) {
    const calibrate::RateParams params{rounds * (1 + 3 * i), rig.spans(),
                                       rig.sink()};
    if (llvm::Error error = rig.start(kernel, launch, params))
      return error;
    auto spans = rig.readSpans(launch.threads / 32);
    if (!spans)
      return spans.takeError();
    clocks[i] = clocksOf(*spans);
  }
  return (clocks[1] - clocks[0]) / (3 * rounds);
}

/// A rate of plain instructions, \p unroll of them a round: each counts
/// \p perLane for each lane.
static llvm::Error addLanes(Rig &rig, std::vector<Sample> &samples,
                            llvm::StringRef kernel, double perLane,
                            Sample sample,
                            int unroll = calibrate::kLaneUnroll) {
  constexpr uint32_t kThreads = 32 * calibrate::kLaneWarps;
  auto clocks = clocksOfRound(rig, kernel, {1, kThreads}, 8);
  if (!clocks)
    return clocks.takeError();
  sample.value = perLane * kThreads * unroll / *clocks;
  samples.push_back(std::move(sample));
  return llvm::Error::success();
}

static llvm::Expected<std::vector<Sample>> simdRates(Rig &rig) {
  struct Lane {
    const char *kernel, *key;
    double flops;
  };
  std::vector<Sample> samples;
  for (const Lane &lane : {Lane{"kilnLanesFp64", "simdFp64FlopsPerClock", 2},
                           {"kilnLanesFp32", "simdFp32FlopsPerClock", 2},
                           {"kilnLanesFp16", "simdFp16FlopsPerClock", 4},
                           {"kilnLanesInt32", "simdInt32FlopsPerClock", 2}})
    if (llvm::Error error =
            addLanes(rig, samples, lane.kernel, lane.flops,
                     {llvm::StringRef(lane.kernel).drop_front(9).lower(), 0,
                      "flop/clk", lane.key}))
      return error;
  return samples;
}

static llvm::Expected<std::vector<Sample>> specialRate(Rig &rig) {
  std::vector<Sample> samples;
  if (llvm::Error error = addLanes(rig, samples, "kilnLanesSpecial", 1,
                                   {"exp2", 0, "op/clk", "specialOpsPerClock"}))
    return error;
  return samples;
}

static llvm::Expected<std::vector<Sample>> sharedRate(Rig &rig) {
  std::vector<Sample> samples;
  if (llvm::Error error = addLanes(
          rig, samples, "kilnShared", sizeof(unsigned) * 4,
          {"16 bytes a thread", 0, "B/clk", "sharedBytesPerClockPerSm"},
          calibrate::kSharedUnroll))
    return error;
  return samples;
}

/// The key of a rate of \p type, which is that of a field.
static const char *keyOf(llvm::StringRef prefix, llvm::StringRef type) {
  return findDeviceField(fmt::format("{}{}FlopsPerClock", prefix, type))->key;
}

/// Where there is no wider instruction, the rate of mma.sync is that of the
/// tensor cores as well.
static llvm::Expected<std::vector<Sample>> mmaRates(Rig &rig) {
  constexpr uint32_t kWarps = calibrate::kMmaWarps;
  const int capability = rig.device().computeCapability();
  const bool hasWider = capability >= 90 && capability < 120;
  std::vector<Sample> samples;
  for (const TensorInstruction &mma : mmaInstructions(rig.device())) {
    auto clocks = clocksOfRound(rig, mma.kernel, {1, 32 * kWarps}, 8);
    if (!clocks)
      return clocks.takeError();
    const double rate = mma.flops * kWarps * calibrate::kMmaUnroll / *clocks;
    samples.push_back({llvm::StringRef(mma.type).lower(), rate, "flop/clk",
                       keyOf("mmaSync", mma.type)});
    // fp64 has no wider instruction anywhere.
    if (!hasWider || (capability == 90 && llvm::StringRef(mma.type) == "Fp64"))
      samples.push_back({llvm::StringRef(mma.type).lower(), rate, "flop/clk",
                         keyOf("tensor", mma.type)});
  }
  return samples;
}

static llvm::Expected<std::vector<Sample>> wgmmaRates(Rig &rig) {
  std::vector<Sample> samples;
  for (const TensorInstruction &wgmma : wgmmaInstructions(rig.device())) {
    const auto shared =
        static_cast<uint32_t>(calibrate::wgmmaSharedBytes(wgmma.columns));
    auto clocks = clocksOfRound(rig, wgmma.kernel,
                                {1, 128 * calibrate::kWgmmaGroups, shared}, 16);
    if (!clocks)
      return clocks.takeError();
    const double rate = wgmma.flops * calibrate::kWgmmaGroups *
                        calibrate::kWgmmaUnroll / *clocks;
    samples.push_back(
        {fmt::format("{} n={}", llvm::StringRef(wgmma.type).lower(),
                     wgmma.columns),
         rate, "flop/clk",
         wgmma.columns == 256 ? keyOf("tensor", wgmma.type) : nullptr});
  }
  return samples;
}

//===----------------------------------------------------------------------===//
// Clocks under load
//===----------------------------------------------------------------------===//

/// MHz of an SM during the last of some launches that take \p loadNs together.
static llvm::Expected<double>
clockUnder(Rig &rig, llvm::function_ref<llvm::Error()> launch, double loadNs) {
  auto once = rig.timeNs(launch);
  if (!once)
    return once.takeError();
  const int launches =
      std::clamp(static_cast<int>(loadNs / std::max(*once, 1.0)), 1, 2000);
  auto all = rig.timeNs([&]() -> llvm::Error {
    for (int i = 0; i < launches; ++i)
      if (llvm::Error error = launch())
        return error;
    return llvm::Error::success();
  });
  if (!all)
    return all.takeError();
  auto spans = rig.readSpans(1);
  if (!spans)
    return spans.takeError();
  const Span &span = spans->front();
  constexpr double kMHz = 1e3; // clocks a ns
  return kMHz * static_cast<double>(span.endClock - span.beginClock) /
         static_cast<double>(std::max(span.endNs - span.beginNs, 1ll));
}

static llvm::Expected<std::vector<Sample>> tensorClock(Rig &rig) {
  constexpr double kLoadNs = 3e8;
  RigLaunch launch{static_cast<uint32_t>(rig.device().smCount),
                   32 * calibrate::kMmaWarps};
  std::string kernel = "kilnMmaBf16";
  int rounds = 1 << 15;
  for (const TensorInstruction &wgmma : wgmmaInstructions(rig.device()))
    if (llvm::StringRef(wgmma.type) == "Bf16" && wgmma.columns == 256) {
      kernel = wgmma.kernel;
      launch.threads = 128 * calibrate::kWgmmaGroups;
      launch.sharedBytes =
          static_cast<uint32_t>(calibrate::wgmmaSharedBytes(wgmma.columns));
      rounds = 1 << 13;
    }
  auto mhz = clockUnder(
      rig,
      [&] {
        return rig.start(
            kernel, launch,
            calibrate::RateParams{rounds, rig.spans(), rig.sink()});
      },
      kLoadNs);
  if (!mhz)
    return mhz.takeError();
  return std::vector<Sample>{{"bf16", *mhz, "MHz", "sustainedTensorClockMHz"}};
}

static llvm::Expected<std::vector<Sample>> memoryClock(Rig &rig) {
  constexpr double kLoadNs = 1e8;
  calibrate::PassParams params;
  params.from = reinterpret_cast<const void *>(rig.from());
  params.to = reinterpret_cast<void *>(rig.to());
  params.chunks = static_cast<long long>(rig.bytes() / calibrate::kChunkBytes);
  params.spans = rig.spans();
  auto mhz = clockUnder(
      rig,
      [&] {
        return rig.start(
            "kilnRead", {2 * static_cast<uint32_t>(rig.device().smCount), 1024},
            params);
      },
      kLoadNs);
  if (!mhz)
    return mhz.takeError();
  return std::vector<Sample>{
      {"reading", *mhz, "MHz", "sustainedMemoryClockMHz"}};
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// ns of one of many launches in a graph.
template <class Params>
static llvm::Expected<double> nsInGraph(Rig &rig, llvm::StringRef kernel,
                                        const RigLaunch &launch,
                                        const Params &params) {
  constexpr unsigned kLaunches = 200;
  auto graph = rig.graphOf(kernel, launch, params, kLaunches);
  if (!graph)
    return graph.takeError();
  auto run = [&] { return graph->launch(rig.stream()); };
  if (auto first = rig.timeNs(run); !first)
    return first.takeError();
  auto ns = rig.timeNs(run);
  if (!ns)
    return ns.takeError();
  return *ns / kLaunches;
}

/// The cost of an empty kernel, and what a kernel that computes takes beyond
/// that and its arithmetic.
static llvm::Expected<std::vector<Sample>> launchCosts(Rig &rig) {
  const auto sms = static_cast<uint32_t>(rig.device().smCount);
  auto empty =
      nsInGraph(rig, "kilnNothing", {sms, 128}, calibrate::RateParams());
  if (!empty)
    return empty.takeError();
  double ns[2];
  for (int i : {0, 1}) {
    calibrate::StartParams params;
    params.from = reinterpret_cast<const void *>(rig.from());
    params.chunks =
        static_cast<long long>(rig.bytes() / calibrate::kChunkBytes);
    params.rounds = 1 + i;
    params.sink = rig.sink();
    auto launch =
        nsInGraph(rig, "kilnStart", {sms, calibrate::kStartThreads}, params);
    if (!launch)
      return launch.takeError();
    ns[i] = *launch;
  }
  const double start = 2 * ns[0] - ns[1] - *empty;
  return std::vector<Sample>{
      {"fitted", *empty * fitted::kLaunch, "ns", "launchNs"},
      {"fitted", start * fitted::kRamp, "ns", "rampNs"},
      {"empty kernel", *empty, "ns"},
      {"start", start, "ns"}};
}

static llvm::Expected<std::vector<Sample>> clusterFit(Rig &rig) {
  std::vector<Sample> samples;
  for (auto [size, key] : {std::pair{2u, "maxClusters2"},
                           {4u, "maxClusters4"},
                           {8u, "maxClusters8"}}) {
    auto clusters = rig.clustersOf(size);
    if (!clusters)
      return clusters.takeError();
    samples.push_back({fmt::format("of {}", size),
                       static_cast<double>(*clusters), "clusters", key});
  }
  return samples;
}

void addRateBenchmarks(Rig &rig, std::vector<Benchmark> &benchmarks) {
  auto add = [&](const char *name, double mostSpread,
                 llvm::Expected<std::vector<Sample>> (*run)(Rig &)) {
    benchmarks.push_back({name, mostSpread, [&rig, run] { return run(rig); }});
  };
  const DeviceModel &device = rig.device();
  add("launch", 0.1, launchCosts);
  if (device.hasClusters())
    add("clusters", 0, clusterFit);
  add("simd", 0.03, simdRates);
  add("special", 0.03, specialRate);
  add("shared memory", 0.03, sharedRate);
  if (!mmaInstructions(device).empty()) {
    add("mma.sync", 0.03, mmaRates);
    add("tensor clock", 0.1, tensorClock);
  }
  if (!wgmmaInstructions(device).empty())
    add("wgmma", 0.03, wgmmaRates);
  add("memory clock", 0.05, memoryClock);
}

} // namespace kiln::cli
