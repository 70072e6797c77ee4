//===- StreamEstimate.cpp -------------------------------------------------===//
#include "Families/Stream/StreamEstimate.h"

#include "Support/Format.h"

namespace kiln {

static constexpr double kKB = 1024;

Estimate estimateStream(const StreamKernel &kernel, const DeviceModel &device) {
  StreamTime time = streamTime(kernel, device);
  Estimate estimate;
  estimate.totalNs = time.totalNs;
  estimate.bound = nameOf(time.bound);
  estimate.add("launch", time.launchNs);
  estimate.add("ramp", time.rampNs);
  estimate.add("waves", time.fullWaves * time.full.totalNs);
  estimate.add("last wave", time.last.totalNs);
  estimate.add("wave dram", time.full.dramNs);
  estimate.add("wave l2", time.full.l2Ns);
  estimate.add("wave issue", time.full.issueNs);
  estimate.add("task life", time.life.totalNs());
  estimate.add("full waves", time.fullWaves, "");
  estimate.add("tasks", static_cast<double>(kernel.tasks), "");
  estimate.add("resident tasks", static_cast<double>(time.slots), "");
  estimate.add("task bytes", time.taskBytes, "B");
  estimate.add("in flight per SM", time.bytesInFlightPerSm, "B");
  estimate.add("needed per SM", time.bytesNeededPerSm, "B");
  estimate.add("dram rate", time.dramBytesPerNs, "B/ns");
  return estimate;
}

//===----------------------------------------------------------------------===//
// Prose
//===----------------------------------------------------------------------===//

static DerivationStep trafficStep(const StreamKernel &kernel,
                                  const StreamTime &time) {
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
    step.verdict = fmt::format(
        "{:.2f} MB are read again, {}", kernel.rereadBytes / megabyte,
        time.rereadFitsL2 ? "from L2: what is on the way fits there"
                          : "from DRAM: what is on the way exceeds the L2");
  step.values = llvm::json::Object{{"read_bytes", kernel.readBytes},
                                   {"write_bytes", kernel.writeBytes},
                                   {"reread_bytes", kernel.rereadBytes}};
  return step;
}

static DerivationStep occupancyStep(const StreamKernel &kernel,
                                    const StreamTime &time) {
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

static DerivationStep littleStep(const StreamTime &time) {
  DerivationStep step;
  step.title = "Little's law";
  step.formula = fmt::format(
      "{:.1f} KB of loads on the way per SM; latency times bandwidth asks for "
      "{:.1f} KB",
      time.bytesInFlightPerSm / kKB, time.bytesNeededPerSm / kKB);
  double ratio = time.bytesInFlightPerSm / time.bytesNeededPerSm;
  step.verdict = ratio < 1   ? "too few: latency shows"
                 : ratio < 2 ? "enough"
                             : "more than it takes, which costs some order of "
                               "the accesses";
  step.values =
      llvm::json::Object{{"in_flight_bytes_per_sm", time.bytesInFlightPerSm},
                         {"needed_bytes_per_sm", time.bytesNeededPerSm}};
  return step;
}

static DerivationStep lifeStep(const StreamKernel &kernel,
                               const StreamTime &time) {
  const StreamLife &life = time.life;
  DerivationStep step;
  step.title = "a task's life";
  step.formula = fmt::format("{} wait{} for DRAM {:.0f}", kernel.loadRounds,
                             kernel.loadRounds == 1 ? "" : "s", life.loadNs);
  auto add = [&](llvm::StringRef what, double ns) {
    if (ns > 0)
      step.formula += fmt::format(", {} {:.0f}", what, ns);
  };
  add("what is read again", life.rereadNs);
  add("the SM's port", life.portNs);
  add("reductions and barriers", life.serialNs);
  add("instructions", life.issueNs);
  add("the next block's start", life.turnaroundNs);
  step.formula += fmt::format(": {:.0f} ns for {:.1f} KB", life.totalNs(),
                              time.taskBytes / kKB);
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

static DerivationStep waveStep(const StreamTime &time) {
  DerivationStep step;
  step.title = "waves";
  const StreamWave &wave = time.fullWaves > 0 ? time.full : time.last;
  step.formula = fmt::format(
      "a wave of {}: dram {:.2f}, l2 {:.2f}, issue {:.2f}, life {:.2f} us "
      "-> {:.2f} us; {:.0f} of them and one of {}: {:.2f} us",
      wave.tasks, wave.dramNs * 1e-3, wave.l2Ns * 1e-3, wave.issueNs * 1e-3,
      wave.lifeNs * 1e-3, wave.totalNs * 1e-3, time.fullWaves, time.last.tasks,
      time.last.totalNs * 1e-3);
  step.verdict = fmt::format("bound by {}; with launch and ramp {:.2f} us",
                             nameOf(time.bound).str(), time.totalNs * 1e-3);
  step.values = llvm::json::Object{{"full_waves", time.fullWaves},
                                   {"last_wave_tasks", time.last.tasks},
                                   {"total_ns", time.totalNs}};
  return step;
}

Derivation explainStream(const StreamKernel &kernel,
                         const DeviceModel &device) {
  StreamTime time = streamTime(kernel, device);
  return {trafficStep(kernel, time), occupancyStep(kernel, time),
          littleStep(time), lifeStep(kernel, time), waveStep(time)};
}

} // namespace kiln
