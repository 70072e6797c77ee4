//===- MemoryPassEstimate.cpp ---------------------------------------------===//
#include "Families/MemoryPass/MemoryPassEstimate.h"

#include "Families/FurtherWave.h"
#include "Model/Bandwidth.h"
#include "Model/RegisterWall.h"
#include "Model/SharedMemoryWall.h"
#include "Support/Format.h"

namespace kiln {

static constexpr double kKB = 1024;

std::optional<Rejection> checkResident(const MemoryPass &kernel,
                                       const DeviceModel &device) {
  const BlockResources &block = kernel.block;
  Occupancy resident = occupancy(device, block);
  if (residentTasks(kernel, resident, device) > 0)
    return std::nullopt;
  if (resident.blocksPerSm > 0)
    return Rejection{PruneReason::Cluster, double(kernel.clusterSize),
                     double(device.smCount), "blocks"};
  switch (resident.limit) {
  case OccupancyLimit::Registers:
    return Rejection{PruneReason::Registers, double(block.registersPerThread),
                     double(registerLimit(device, block.threads, 1)),
                     "registers a thread"};
  case OccupancyLimit::SharedMemory:
    return Rejection{PruneReason::SharedMemory, double(block.sharedBytes),
                     double(sharedBytesLimit(device, 1)), "B"};
  case OccupancyLimit::Warps:
  case OccupancyLimit::Blocks:
    break;
  }
  return Rejection{PruneReason::Threads, double(block.threads),
                   double(device.maxWarpsPerSm * kWarpThreads)};
}

Estimate estimatePass(const MemoryPass &kernel, const DeviceModel &device,
                      Detail detail) {
  PassTime time = passTime(kernel, device);
  Estimate estimate(detail);
  estimate.totalNs = time.totalNs;
  estimate.bound = nameOf(time.bound);
  estimate.add("launch", time.launchNs);
  estimate.add("ramp", time.rampNs);
  if (time.first.tasks > 0)
    estimate.add("first wave", time.first.totalNs);
  estimate.add("waves", time.fullWaves * time.full.totalNs);
  estimate.add("last wave", time.last.totalNs);
  estimate.note("wave dram", time.full.dramNs);
  estimate.note("wave l2", time.full.l2Ns);
  estimate.note("wave issue", time.full.issueNs);
  estimate.note("task life", time.life.totalNs());
  estimate.note("full waves", time.fullWaves, "");
  estimate.note("tasks", static_cast<double>(kernel.tasks), "");
  estimate.note("resident tasks", static_cast<double>(time.slots), "");
  estimate.note("task bytes", time.taskBytes, "B");
  estimate.note("in flight per SM", time.bytesInFlightPerSm, "B");
  estimate.note("needed per SM", time.bytesNeededPerSm, "B");
  estimate.note("dram rate", time.dramBytesPerNs, "B/ns");
  return estimate;
}

//===----------------------------------------------------------------------===//
// Prose
//===----------------------------------------------------------------------===//

static std::string rereadText(double missShare) {
  if (missShare == 0)
    return "from L2: the bytes in flight fit there";
  if (missShare == 1)
    return "from DRAM: the bytes in flight exceed the L2";
  return fmt::format(
      "{:.0f} % of it from DRAM: that part of the bytes in flight "
      "exceeds the L2",
      100 * missShare);
}

static DerivationStep trafficStep(const MemoryPass &kernel,
                                  const PassTime &time) {
  DerivationStep step;
  step.title = "traffic";
  double megabyte = 1e6;
  step.formula = fmt::format(
      "{:.2f} MB read + {:.2f} MB written at {:.0f} GB/s, which this mix "
      "reaches = {:.2f} us",
      kernel.readBytes / megabyte, kernel.writeBytes / megabyte,
      time.dramBytesPerNs,
      (kernel.readBytes + kernel.writeBytes) / time.dramBytesPerNs * 1e-3);
  if (kernel.rereadBytes == 0)
    step.verdict = "every byte is moved once";
  else
    step.verdict = fmt::format("{:.2f} MB are read again, {}",
                               kernel.rereadBytes / megabyte,
                               rereadText(time.rereadMissShare));
  step.values = llvm::json::Object{{"read_bytes", kernel.readBytes},
                                   {"write_bytes", kernel.writeBytes},
                                   {"reread_bytes", kernel.rereadBytes}};
  return step;
}

static DerivationStep occupancyStep(const MemoryPass &kernel,
                                    const PassTime &time) {
  const Occupancy &occupancy = time.occupancy;
  DerivationStep step;
  step.title = "occupancy";
  step.formula = fmt::format(
      "{} threads, {} registers each, {:.0f} KB of shared memory: {} blocks an "
      "SM by {}",
      kernel.block.threads, kernel.block.registersPerThread,
      static_cast<double>(kernel.block.sharedBytes) / kKB,
      occupancy.blocksPerSm, nameOf(occupancy.limit).str());
  step.verdict = fmt::format(
      "{} of {} tasks are resident at once, {}",
      std::min(time.slots, kernel.tasks), kernel.tasks,
      kernel.clusterSize > 1
          ? fmt::format("each the work of a cluster of {}", kernel.clusterSize)
          : std::string("each the work of a block"));
  step.values = llvm::json::Object{{"blocks_per_sm", occupancy.blocksPerSm},
                                   {"resident_tasks", time.slots}};
  return step;
}

std::string busyDramText(const DeviceModel &device) {
  return fmt::format("a load takes {:.0f} ns on an idle DRAM and {:g} times as "
                     "long, {:.0f} ns, on a busy one",
                     device.dramLatencyNs, kBusyLatencyFactor,
                     busyDramLatencyNs(device));
}

static DerivationStep littleStep(const MemoryPass &kernel, const PassTime &time,
                                 const DeviceModel &device) {
  DerivationStep step;
  step.title = "Little's law";
  step.formula = fmt::format(
      "{}; {:.0f} ns * {:.0f} GB/s / {} SMs ask for {:.1f} KB in flight per "
      "SM, of which there are {:.1f} KB",
      busyDramText(device), time.loadedLatencyNs, device.dramBytesPerNs(),
      device.smCount, time.bytesNeededPerSm / kKB,
      time.bytesInFlightPerSm / kKB);
  double ratio = time.bytesInFlightPerSm / time.bytesNeededPerSm;
  bool isBound = time.bound == PassBound::Latency;
  if (ratio < 1) {
    step.verdict = isBound ? "too few: latency is the limit"
                           : "too few: latency shows beside the limit";
    if (isBound)
      step.blames = nameOf(PassBound::Latency);
  } else if (isBound) {
    step.verdict = "enough while tasks load; but the rest of a task's life "
                   "keeps nothing in flight";
  } else {
    bool isEnough = ratio < 2 || kernel.pace == PassPace::Reduces;
    step.verdict = isEnough ? "enough"
                            : "more than it takes, which costs some order of "
                              "the accesses";
    step.clears = nameOf(PassBound::Latency);
  }
  step.values =
      llvm::json::Object{{"in_flight_bytes_per_sm", time.bytesInFlightPerSm},
                         {"needed_bytes_per_sm", time.bytesNeededPerSm},
                         {"latency_ns", time.loadedLatencyNs}};
  return step;
}

static DerivationStep lifeStep(const MemoryPass &kernel, const PassTime &time) {
  const TaskLife &life = time.life;
  DerivationStep step;
  step.title = "a task's life";
  step.formula =
      fmt::format("waits of a task of {:.1f} KB, one after the other",
                  time.taskBytes / kKB);
  step.rule = StepRule::Sum;
  step.terms = {
      {"wait for DRAM", time.loadLatencyNs, "ns", double(kernel.loadRounds)}};
  auto add = [&](llvm::StringRef what, double ns) {
    if (ns > 0)
      step.terms.push_back({what.str(), ns});
  };
  add("rereads", life.rereadNs);
  add("the SM's port", life.portNs);
  add("reductions and barriers", life.serialNs);
  add("instructions", life.issueNs);
  add("the next block's start", life.turnaroundNs);
  step.verdict = fmt::format("latency alone would allow {:.0f} GB/s",
                             static_cast<double>(time.full.tasks) *
                                 time.taskBytes / life.totalNs());
  step.values = llvm::json::Object{
      {"life_ns", life.totalNs()},          {"load_ns", life.loadNs},
      {"reread_ns", life.rereadNs},         {"port_ns", life.portNs},
      {"serial_ns", life.serialNs},         {"issue_ns", life.issueNs},
      {"turnaround_ns", life.turnaroundNs}, {"task_bytes", time.taskBytes}};
  return step;
}

static DerivationStep waveStep(llvm::StringRef title, const PassWave &wave,
                               StepTerm life) {
  return {.title = title.str(),
          .formula = fmt::format("{} tasks; no limit is reached to the last "
                                 "byte while another is close",
                                 wave.tasks),
          .rule = StepRule::Norm,
          .terms = {{"dram", wave.dramNs},
                    {"l2", wave.l2Ns},
                    {"issue", wave.issueNs},
                    std::move(life)},
          .exponent = wave.norm};
}

static void explainFurther(const MemoryPass &kernel, const PassTime &time,
                           const DeviceModel &device, Derivation &steps) {
  const auto blocks = double(kernel.clusterSize);
  FurtherWave further{.count = double(kernel.tasks) * blocks,
                      .placeCount = double(device.smCount),
                      .room =
                          time.last.tasks > 0
                              ? double(time.slots - time.last.tasks) * blocks
                              : 0};
  // Tasks of a grid that stays have no block of their own.
  if (kernel.persistentPerSm != 0)
    further.pieces = "tasks";
  further.further = {"a further wave",
                     furtherWave(kernel, device, time).totalNs};
  further.all = {"all waves", time.totalNs - time.launchNs - time.rampNs};
  explainFurtherWave(further, steps);
}

Derivation explainPass(const MemoryPass &kernel, const DeviceModel &device) {
  PassTime time = passTime(kernel, device);
  Derivation steps;
  steps.add(trafficStep(kernel, time));
  steps.add(occupancyStep(kernel, time));
  steps.add(littleStep(kernel, time, device));
  StepTerm life = steps.resultOf(steps.add(lifeStep(kernel, time)));
  std::vector<StepTerm> addends{{"launch", time.launchNs},
                                {"ramp", time.rampNs}};
  if (time.first.tasks > 0)
    addends.push_back(steps.resultOf(
        steps.add(waveStep("the first wave", time.first, life))));
  if (time.fullWaves > 0)
    addends.push_back(
        steps.resultOf(steps.add(waveStep("a wave", time.full, life)),
                       time.fullWaves, "full waves"));
  if (time.last.tasks > 0)
    addends.push_back(
        steps.resultOf(steps.add(waveStep("the last wave", time.last, life))));
  explainFurther(kernel, time, device, steps);
  steps.add({.title = "total",
             .verdict = fmt::format("bound by {}", nameOf(time.bound)),
             .values = llvm::json::Object{{"bound", nameOf(time.bound)},
                                          {"full_waves", time.fullWaves},
                                          {"last_wave_tasks", time.last.tasks},
                                          {"total_ns", time.totalNs}},
             .rule = StepRule::Sum,
             .terms = std::move(addends),
             .blames = nameOf(time.bound)});
  return steps;
}

} // namespace kiln
