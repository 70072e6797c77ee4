//===- MemoryPassEstimate.cpp ---------------------------------------------===//
#include "Families/MemoryPass/MemoryPassEstimate.h"

#include "Families/Walls.h"
#include "Model/Occupancy.h"
#include "Model/RegisterWall.h"
#include "Support/Format.h"

#include <algorithm>

namespace kiln {

std::optional<Rejection> checkResident(const PassWork &kernel,
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

Estimate estimatePass(const MemoryPass<double> &kernel,
                      const DeviceModel &device) {
  const PassModel<double> model(kernel, device);
  return {model.total, model.bound()};
}

//===----------------------------------------------------------------------===//
// Derivation
//===----------------------------------------------------------------------===//

using PassFigures = PassModel<Figure>;

static Figure count(double value, llvm::StringLiteral name,
                    llvm::StringLiteral unit = "") {
  return given<Figure>(value, name, unit);
}

static std::string blocksText(int64_t blocks) {
  return fmt::format("{} {} an SM", blocks, blocks == 1 ? "block" : "blocks");
}

/// The cost of reading rows again, whether the kernel does or does not.
static void addFurtherPasses(const PassFigures &model, Derivation &steps) {
  const MemoryPass<Figure> &kernel = model.kernel;
  const bool rereads = kernel.rereadBytes > 0;
  const double bytes = rereads ? kernel.rereadBytes : kernel.keptBytes;
  if (bytes == 0)
    return;
  const Figure again = count(bytes, "read again", "B");
  const Figure fromDram = again * model.missShare;
  const double share = model.missShare.value();
  std::string place =
      share == 0   ? "L2, where the bytes in flight fit"
      : share == 1 ? "DRAM, as the bytes in flight exceed the L2"
                   : fmt::format("DRAM for {:.0f} %, else L2", 100 * share);
  steps.add(named(fromDram / model.rate +
                      (again - fromDram) /
                          figureOf(model.device, &DeviceModel::l2GBs),
                  "reading again", "ns"),
            {.note = "at the rate of the place where they are: " + place,
             .verdict = rereads
                            ? "rows that stay on the chip would not read them"
                            : "rows stay on the chip; to read them again would "
                              "move these bytes as well"});
}

static void addTraffic(const PassFigures &model, Derivation &steps) {
  steps.begin("traffic");
  steps.add(model.moved, {.verdict = model.kernel.rereadBytes == 0
                                         ? "every byte is moved once"
                                         : "a part of it is read again"});
  steps.add(model.rate, {.note = "what this mix of reads and writes reaches"});
  steps.add(named(model.moved / model.rate, "floor of the bytes", "ns"));
  addFurtherPasses(model, steps);
}

static void addResidentTasks(const PassFigures &model, Derivation &steps) {
  const MemoryPass<Figure> &kernel = model.kernel;
  const int64_t perSm =
      kernel.persistentPerSm == 0
          ? model.resident.blocksPerSm
          : std::min(kernel.persistentPerSm, model.resident.blocksPerSm);
  const Figure places =
      kernel.clusterSize == 1
          ? figureOf(model.device, &DeviceModel::smCount)
          : count(double(model.slots / perSm), "places of clusters");
  std::string task =
      kernel.clusterSize == 1
          ? std::string("each the work of a block")
          : fmt::format("each the work of a cluster of {}", kernel.clusterSize);
  steps.add(named(count(double(perSm), "blocks an SM") * places,
                  "tasks that fit", ""),
            {.verdict = fmt::format("{} of {} tasks run at once, {}",
                                    model.full.tasks, kernel.tasks, task)});
}

/// The elements that a thread holds, and the limit that more would break.
static void addCapacity(const PassFigures &model, Derivation &steps) {
  const DeviceModel &device = model.device;
  steps.begin("capacity");
  const ThreadLoads &loads = model.kernel.loads;
  const BlockResources &block = model.kernel.block;
  const int64_t blocks = model.resident.blocksPerSm;
  if (loads.registers > 0) {
    const Figure elements =
        named(count(loads.vectors, "vectors") *
                  count(double(loads.elements), "elements of each"),
              "elements of a thread", "");
    const auto held = double(loads.registers);
    const Figure registers =
        named(elements * count(held / elements.value(), "registers of each") +
                  count(double(block.registersPerThread) - held,
                        "addresses and rest"),
              "registers", "");
    const int64_t more = block.registersPerThread + loads.registers;
    const int64_t left =
        occupancy(device, {block.threads, more, block.sharedBytes}).blocksPerSm;
    const int64_t limit = registerLimit(device, block.threads, blocks);
    std::string verdict =
        fmt::format("{:.0f} of {} registers a thread, with {}; twice the "
                    "elements would take {}: ",
                    registers.value(), limit, blocksText(blocks), more);
    if (more > device.maxRegistersPerThread)
      verdict += "more than a thread can have";
    else if (left == 0)
      verdict += "no block would fit an SM";
    else
      verdict += left < blocks ? blocksText(left) : "they fit as well";
    steps.add(registers, {.verdict = std::move(verdict)});
  }
  addSharedWall({.bytes = block.sharedBytes,
                 .limit = sharedBytesLimit(device, blocks),
                 .blocksPerSm = blocks},
                steps);
  addOccupancy(model.resident, device, steps);
  addResidentTasks(model, steps);
}

static void addLife(const PassFigures &model, Derivation &steps) {
  const Figure rate = named(count(double(model.full.tasks), "tasks") *
                                model.taskBytes / model.life,
                            "rate that lives allow", "B/ns");
  // The rate of DRAM while it also delivers bytes that are read again.
  const double dram =
      rate.value() * model.life.value() / model.full.dram.value();
  steps.begin("bytes in flight");
  LittlesLaw law{.inFlight = model.inFlight,
                 .latency = model.busyLatency,
                 .rate = figureOf(model.device, &DeviceModel::dramGBs),
                 .needed = model.needed,
                 .lives = fmt::format("whole lives of tasks allow {}, DRAM {}",
                                      quantityText(rate.value(), "B/ns"),
                                      quantityText(dram, "B/ns"))};
  if (model.kernel.pace == PassPace::Flows)
    law.most = 2;
  addLittlesLaw(law, model.bound(), model.device, steps);
  steps.begin("a task's life");
  std::string note = "waits of a task, one after the other; with half of the "
                     "bytes in flight a task moves half as much in a life that "
                     "is hardly shorter";
  if (model.kernel.pace == PassPace::Reduces)
    note += "; loads wait as for an idle DRAM, because the queues of a busy "
            "one are part of DRAM's own time";
  steps.add(model.life, {.note = std::move(note)});
  const bool isLimit = model.bound() == "latency";
  steps.add(rate, {.verdict = isLimit ? "the lives of tasks are the limit"
                                      : "lives allow more than the limit does",
                   .blames = isLimit ? "latency" : "",
                   .clears = isLimit ? "" : "latency"});
}

/// The intensity of the problem, which no config changes much.
static void addIntensity(const PassFigures &model, Derivation &steps) {
  if (model.kernel.simdOps == 0)
    return;
  const Figure intensity =
      named(count(model.kernel.simdOps, "instructions") / model.moved,
            "intensity", "op/B");
  const Figure ridge =
      named(intensity * model.full.dram / model.full.issue, "ridge", "op/B");
  const bool isBelow = intensity < ridge;
  steps.add(intensity);
  steps.add(ridge,
            {.note = "where issue would take as long as DRAM; the problem sets "
                     "the intensity, a config changes it little",
             .verdict = isBelow ? "below the ridge: instructions are not the "
                                  "limit"
                                : "above the ridge: DRAM is not the limit",
             .clears = isBelow ? "simd" : "dram"});
}

static void addFurther(const PassFigures &model, Derivation &steps) {
  const MemoryPass<Figure> &kernel = model.kernel;
  const auto blocks = double(kernel.clusterSize);
  FurtherWave further{
      .count = double(kernel.tasks) * blocks,
      .placeCount = double(model.device.smCount),
      .room = (double(model.full.tasks) - double(model.last.tasks)) * blocks};
  if (model.last.tasks == 0)
    further.room = double(model.slots - model.full.tasks) * blocks;
  // Tasks of a grid that stays have no block of their own.
  if (kernel.persistentPerSm != 0)
    further.pieces = "tasks";
  further.furtherNs = model.furtherWave().value();
  further.all = named(model.withWaves(0), "all waves", "ns");
  addFurtherWave(further, steps);
}

static void addWaves(const PassFigures &model, Derivation &steps) {
  steps.begin(fmt::format("a wave of {} tasks", model.full.tasks));
  steps.add(model.exponent,
            {.note = "no limit is reached to the last byte while another is "
                     "close, so times are joined by a norm; blocks of an SM "
                     "overlap, so the exponent grows with them"});
  if (model.firstExponent != model.exponent)
    steps.add(model.firstExponent,
              {.note = "tasks of the first wave load and store in step"});
  if (model.firstNs.value() > 0)
    steps.add(model.firstNs);
  if (model.fullWaves > 0)
    steps.add(model.fullNs);
  addIntensity(model, steps);
  if (model.last.tasks > 0) {
    steps.begin(fmt::format("the last wave, of {} tasks", model.last.tasks));
    steps.add(model.lastNs);
  }
  steps.begin("waves");
  addFurther(model, steps);
}

Derivation explainPass(const MemoryPass<Figure> &kernel,
                       const DeviceModel &device) {
  const PassFigures model(kernel, device);
  Derivation steps;
  addTraffic(model, steps);
  addCapacity(model, steps);
  addLife(model, steps);
  addWaves(model, steps);
  steps.begin("total");
  steps.setTotal(named(model.total, "total", "ns"), model.bound());
  return steps;
}

} // namespace kiln
