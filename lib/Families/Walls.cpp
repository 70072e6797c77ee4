//===- Walls.cpp ----------------------------------------------------------===//
#include "Families/Walls.h"

#include "Support/Format.h"

#include <algorithm>

namespace kiln {

static Figure count(double value, llvm::StringLiteral name,
                    llvm::StringLiteral unit = "") {
  return given<Figure>(value, name, unit);
}

void addRegisterWall(const RegisterUse &use, Derivation &steps) {
  Figure sums = count(double(use.tileM), "tile's rows") *
                count(double(use.tileN), "columns") /
                count(double(use.threads), "threads that share it");
  if (use.further > 0)
    sums += count(double(use.further), "that are promoted");
  Figure registers = named(sums, "accumulators", "");
  if (use.fragmentsA + use.fragmentsB > 0)
    registers = registers + count(double(use.fragmentsA), "fragments of A") +
                count(double(use.fragmentsB), "fragments of B");
  registers = named(registers + count(double(use.others), "addresses and rest"),
                    "registers", "");
  const bool fits = registers.value() <= double(use.limit);
  steps.add(registers, {.verdict = fmt::format(
                            "{:.0f} of {} registers of {}: {}",
                            registers.value(), use.limit, use.limitOf,
                            fits ? "fits" : "the compiler has to save some")});
}

void addSharedWall(const SharedUse &use, Derivation &steps) {
  if (use.bytes == 0)
    return;
  const double stage = use.bytesA + use.bytesB;
  Figure bytes = count(double(use.bytes), "of the block", "B");
  std::string note;
  if (use.stages > 0 && stage > 0) {
    const double rest = double(use.bytes) - double(use.stages) * stage;
    Figure ofStage = count(use.bytesA, use.nameA, "B");
    if (use.bytesB > 0)
      ofStage += count(use.bytesB, use.nameB, "B");
    bytes = count(double(use.stages), "stages") * ofStage;
    if (rest > 0)
      bytes += count(rest, use.nameRest, "B");
    for (int64_t stages = 1; stages <= use.stages && use.stages > 1; ++stages)
      note += fmt::format("{}{} {}: {:.0f} B", note.empty() ? "" : ", ", stages,
                          stages == 1 ? "stage" : "stages",
                          rest + double(stages) * stage);
  }
  steps.add(
      named(bytes, "shared memory", "B"),
      {.note = std::move(note),
       .verdict = fmt::format(
           "{} B of {} B that {}", use.bytes, use.limit,
           use.blocksPerSm == 1
               ? std::string("one block an SM may have")
               : fmt::format("{} blocks an SM leave each", use.blocksPerSm))});
}

void addAccumulatorTrade(int64_t tileM, int64_t tileN, double stageBytes,
                         Derivation &steps) {
  if (stageBytes == 0)
    return;
  const Figure bytes =
      named(count(double(tileM), "tile's rows") *
                count(double(tileN), "columns") * count(4, "of a sum", "B"),
            "accumulators in shared memory", "B");
  steps.add(bytes,
            {.verdict = fmt::format(
                 "as much as {:.1f} stages, and each step would read and write "
                 "them: registers hold them as long as they can",
                 bytes.value() / stageBytes)});
}

void amendReuse(const Traffic &traffic, llvm::StringRef bound,
                Derivation &steps) {
  steps.amend(
      "share that L2 misses",
      {.note = fmt::format(
           "blocks ask for each byte of A {} times and of B {} times; DRAM "
           "gives them {} and {} times, L2 the others{}",
           traffic.asksOfA, traffic.asksOfB, quantityText(traffic.readsOfA, ""),
           quantityText(traffic.readsOfB, ""),
           bound == "dram"
               ? ""
               : ": so a tile whose intensity is below the problem's ridge is "
                 "not bound by DRAM")});
}

void addLatencyWall(const StageRing<Figure> &ring, llvm::StringRef pacer,
                    llvm::StringRef bound, Derivation &steps) {
  const Figure needed = ring.stagesNeeded();
  constexpr int64_t kCompared = 4;
  std::string compared;
  for (int64_t stages = 1; stages <= std::max(kCompared, ring.stages); ++stages)
    if (stages <= kCompared || stages == ring.stages)
      compared += fmt::format(
          "{}{}: {}", compared.empty() ? "exposed a step with stages: " : ", ",
          stages,
          quantityText(excess(ring.turn(stages).value(), ring.pace.value()),
                       "ns"));
  const bool hides = double(ring.stages) >= needed.value();
  StepWords words{
      .note = fmt::format("the pace is that of {}; {}", pacer, compared)};
  if (!hides)
    words.verdict =
        fmt::format("{} stages: {} a step stay exposed", ring.stages,
                    quantityText(ring.exposed().value(), "ns"));
  else if (bound != "latency")
    words.verdict = fmt::format("{} stages: latency is hidden", ring.stages);
  else
    words.verdict = fmt::format("{} stages: the loads' latency is hidden; what "
                                "shows is the barrier of so short a step",
                                ring.stages);
  if (hides && bound != "latency")
    words.clears = "latency";
  steps.add(needed, std::move(words));
}

void addOccupancy(const Occupancy &occupancy, const DeviceModel &device,
                  Derivation &steps) {
  const auto by = [](int64_t blocks, llvm::StringLiteral name) {
    return count(double(blocks), name);
  };
  steps.add(named(least({by(occupancy.blocksByWarps, "by warps"),
                         by(occupancy.blocksByBlocks, "by blocks"),
                         by(occupancy.blocksByRegisters, "by registers"),
                         by(occupancy.blocksByShared, "by shared memory")}),
                  "blocks of an SM", ""),
            {.verdict = fmt::format("{} warps of {}, limited by {}",
                                    occupancy.warpsPerSm, device.maxWarpsPerSm,
                                    nameOf(occupancy.limit))});
}

void addWarpsWall(int64_t warpsPerSm, const Figure &work, const Figure &latency,
                  Derivation &steps) {
  const Figure covered =
      named(count(double(warpsPerSm), "warps of an SM") * work,
            "work of all warps", "ns");
  const bool isEnough = covered >= latency;
  steps.add(covered,
            {.note = "warps x T >= L: while one warp waits the others work",
             .verdict = fmt::format(
                 "{} {} of latency: warps alone {}",
                 isEnough ? "at least" : "less than",
                 quantityText(latency.value(), "ns"),
                 isEnough ? "hide it" : "do not hide it, so stages have to")});
}

void addLittlesLaw(const LittlesLaw &law, llvm::StringRef bound,
                   const DeviceModel &device, Derivation &steps) {
  const Figure needed = law.needed.value_or(
      named(law.latency * law.rate / figureOf(device, &DeviceModel::smCount),
            "bytes to have in flight", "B"));
  const double ratio = law.inFlight.value() / needed.value();
  const bool isBound = bound == "latency";
  StepWords words{.note = "Little's law, for each SM: latency x bandwidth"};
  const std::string present = fmt::format(
      "{} are in flight: ", quantityText(law.inFlight.value(), "B"));
  if (ratio < 1)
    words.verdict = present + (isBound ? "too few, latency is the limit"
                                       : "too few, latency shows beside the "
                                         "limit");
  else if (isBound)
    words.verdict = present + "enough while tasks load; for the rest of their "
                              "lives they have nothing in flight";
  else
    words.verdict =
        present + (ratio < law.most ? "enough"
                                    : "more than it takes, which costs some "
                                      "order of the accesses");
  if (!law.lives.empty())
    words.verdict += "; " + law.lives;
  if (ratio < 1 && isBound)
    words.blames = "latency";
  if (ratio >= 1 && !isBound)
    words.clears = "latency";
  steps.add(law.inFlight);
  steps.add(needed, std::move(words));
}

void addFurtherWave(const FurtherWave &wave, Derivation &steps) {
  if (!(wave.all.value() > 0))
    return;
  constexpr double kEnough = 4;
  const double each = wave.count / wave.placeCount;
  llvm::StringRef place = wave.places.drop_back(); // the singular
  const auto amount = [](double value, llvm::StringRef name) {
    return makeValue(value, FigureSource::Work, name, "");
  };
  steps.add(named((amount(wave.count, wave.pieces) +
                   amount(wave.room, "more in the last wave")) /
                      amount(wave.placeCount, wave.places),
                  "room of the waves", ""),
            {.note = fmt::format("for each {}, were the last wave full",
                                 place.str())});
  const Figure share =
      named(given<Figure>(wave.furtherNs, "further wave", "ns") / wave.all,
            "share of a further wave", "");
  steps.add(
      share,
      {.note = fmt::format(
           "{:.0f} {} on {:.0f} {} are {:.1f} for each {}, and {}; a further "
           "wave, of one for each, takes its time from the formulas of the "
           "others{}",
           wave.count, wave.pieces, wave.placeCount, wave.places, each, place,
           wave.room > 0 ? fmt::format("the last wave has room for {:.0f} more",
                                       wave.room)
                         : "the last wave is full",
           wave.note),
       .verdict = fmt::format(
           "{}: a further wave would {}",
           each < kEnough ? "below 4" : "at least 4",
           share.value() <= 1
               ? fmt::format("cost {:.0f} %", 100 * share.value())
               : std::string("take longer than all that there are"))});
}

} // namespace kiln
