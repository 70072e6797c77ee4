//===- SampleTemplate.h - base of the family's templates ------------------===//
//
// The templates differ in the blocks of a row: one, a cluster, or any number
// that meet once. Their space is their own; limits, plans, binding and the use
// of memory follow from the config and are written once here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/MemoryPass/MemoryPassTemplate.h"
#include "Families/Sample/SampleFamily.h"
#include "Model/MathUtil.h"
#include "sample/SampleLayout.h"

namespace kiln {

/// Tokens of a vector of 16 bytes.
inline int64_t packTokens(const SampleProblem &p) {
  constexpr int64_t kVectorBytes = 16;
  return kVectorBytes / bytesOf(p.dtype);
}

/// The tokens of a block's part where \p parts blocks share a row.
inline int64_t partTokens(const SampleProblem &p, int64_t parts) {
  const int64_t pack = packTokens(p);
  return ceilDiv(ceilDiv(p.vocab, pack), std::max<int64_t>(parts, 1)) * pack;
}

/// Bytes that a row's logits and mask have.
inline double rowBytes(const SampleProblem &p) {
  constexpr int64_t kWordBytes = 4;
  return double(p.vocab * bytesOf(p.dtype)) +
         (p.allowed ? double(p.maskWords() * kWordBytes) : 0);
}

/// Walks over the row after the first, and meetings of its blocks, for usual
/// rows: a small k is found by a walk and a list, top_p alone by walks of which
/// the second finds the token.
struct SampleWork {
  int64_t walks = 0;    ///< after the first
  int64_t meetings = 1; ///< of the row's blocks
  int64_t lists = 0;    ///< bounds, and sorted lists
};
inline SampleWork workOf(const SampleProblem &p) {
  SampleWork work;
  if (p.topK) {
    work.walks += 1;
    work.meetings += 1;
    work.lists += 1;
  } else if (p.hasCuts()) {
    work.walks += p.topP ? 2 : 1;
    work.meetings += p.topP ? 2 : 1;
  } else if (p.temperature) {
    work.meetings += 1;
  }
  if (p.logprobs || p.topCount > 0) {
    const bool again = p.allowed || p.hasPenalties();
    work.walks += again ? 2 : 1;
    work.meetings += again ? 3 : 2;
    work.lists += p.topCount > 0;
  }
  return work;
}

/// Whether walks compare logits as they are stored, in vectors.
inline bool isLean(const SampleProblem &p, int64_t keptTokens) {
  return signatureOf(p).hasPlainLogits() && (!p.temperature || p.hasCuts()) &&
         keptTokens == 0;
}

/// Instructions of a lane for a token (counted in the machine code, ptxas 13.0
/// for sm_90): conversion, scale and maximum in each walk, the noise, a mass.
/// leanTurnOps() has a lean first walk.
inline double instructionsOf(const SampleProblem &p, bool lean) {
  constexpr double kFirst = 5, kWalk = 6, kNoise = 34, kMass = 24,
                   kSoftcap = 26, kPenalties = 12, kAllowed = 3;
  constexpr double kReachingVector = 14;
  const SampleWork work = workOf(p);
  const bool reaches = lean && p.topK && !p.isJoint;
  double each = lean ? 0 : kFirst;
  each += double(work.walks - reaches) * kWalk;
  if (reaches)
    each += kReachingVector / double(packTokens(p));
  if (p.temperature && !p.topK)
    each += kNoise;
  if (p.temperature && !p.topK && p.topP)
    each += 2 * kMass;
  if (p.logprobs || p.topCount > 0)
    each += kMass;
  if (p.softcap != 0)
    each += kSoftcap;
  if (p.hasPenalties())
    each += kPenalties;
  if (p.allowed)
    each += kAllowed;
  return each;
}

/// Instructions of a lane for the loads and maxima of \p items vectors at once.
inline double leanTurnOps(int items) {
  constexpr double kTurn = 24, kVector = 4;
  return kTurn + items * kVector;
}

/// A template of the family, given its config type and the class that derives
/// from it.
template <class Derived, class Config>
class SampleTemplate : public MemoryPassTemplate<Derived, Config> {
public:
  using MemoryPassTemplate<Derived, Config>::MemoryPassTemplate;

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Values)> emit) const final {
    forEachConfig(read(problem), device,
                  [&](const Config &config) { emit(this->valuesOf(config)); });
  }

  WorkspaceLayout workspace(const Problem &problem, const Values &,
                            const DeviceModel &) const final {
    if constexpr (kIsSpread)
      return {uint64_t(read(problem).rows) * sizeof(SampleMeeting), 0};
    return {};
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const final {
    const auto config = fromValues<Config>(values);
    const SampleSignature signature = readSampleSignature(problem.signature);
    const int sharedBytes = config.sharedBytes(signature);
    Plan plan = this->planWithoutBinder(problem, values, signature, config,
                                        sharedBytes, device);
    plan.workspace = workspace(problem, values, device);
    plan.binder =
        makeBinder([config, sharedBytes, layout = plan.workspace](
                       const Arguments &arguments, const LaunchContext &context,
                       LaunchSpec &spec) {
          const SampleProblem p = readSampleProblem(arguments.problem);
          SampleParams params = makeSampleParams(p, arguments);
          int64_t blocks = p.rows * config.rowBlocks();
          if constexpr (kIsSpread) {
            context.zero(layout.zeroedBytes, spec);
            params.meetings = reinterpret_cast<SampleMeeting *>(context.zeroed);
            params.rowBlocks = config.ranges;
            blocks = p.rows * config.ranges;
          }
          KernelStep &step = spec.addKernel(params);
          step.grid.x = static_cast<uint32_t>(blocks);
          step.block.x = static_cast<uint32_t>(config.threads());
          if (config.rowBlocks() > 1)
            step.cluster.x = static_cast<uint32_t>(config.rowBlocks());
          step.sharedBytes = static_cast<uint32_t>(sharedBytes);
        });
    return plan;
  }

protected:
  static constexpr bool kIsSpread = requires(Config config) { config.ranges; };

  /// Calls \p emit with the template's space for a problem, best guesses first.
  virtual void forEachConfig(const SampleProblem &problem,
                             const DeviceModel &device,
                             Emit<Config> emit) const = 0;

  /// The limits of the template beside those of a launch and isValid().
  virtual std::optional<Rejection>
  checkShape(const SampleProblem & /*problem*/, const Config & /*config*/,
             const DeviceModel & /*device*/) const {
    return std::nullopt;
  }

  std::optional<Rejection> checkConfig(const Problem &problem,
                                       const Config &config,
                                       const DeviceModel &device) const final {
    const SampleProblem p = read(problem);
    const SampleSignature signature = readSampleSignature(problem.signature);
    if (auto rejection = checkThreads(config.threads(), device))
      return rejection;
    if (auto rejection = checkShape(p, config, device))
      return rejection;
    if (config.items > mostSampleItems(signature))
      return Rejection{PruneReason::InstructionShape, double(config.items),
                       double(mostSampleItems(signature)),
                       "vectors at once a thread"};
    if (!config.isValid(signature))
      return Rejection{PruneReason::InstructionShape, double(config.threads()),
                       0, "threads a block", "256, 512 or 1024"};
    if (auto rejection =
            checkSharedBytes(config.sharedBytes(signature), device))
      return rejection;
    return checkGrid(double(p.rows) * blocksOfRow(config));
  }

public:
  template <Number N>
  MemoryPass<N> pass(const Problem &problem, const Config &config,
                     const DeviceModel &device) const {
    const SampleProblem p = read(problem);
    const SampleSignature signature = readSampleSignature(problem.signature);
    const SampleWork work = workOf(p);
    const int64_t parts = blocksOfRow(config);
    const auto rows = double(std::max<int64_t>(p.rows, 1));
    MemoryPass<N> kernel;
    kernel.pace = PassPace::Reduces;
    kernel.tasks = std::max<int64_t>(p.rows, 1) * (kIsSpread ? parts : 1);
    kernel.clusterSize = config.rowBlocks();
    kernel.block = {config.threads(),
                    std::min<int64_t>(config.registers(signature),
                                      device.maxRegistersPerThread),
                    config.sharedBytes(signature)};
    kernel.readBytes = rows * rowBytes(p);
    kernel.writeBytes = rows * bytesOf(p.tokenType());
    const int64_t part = partTokens(p, parts);
    const int64_t chunk =
        int64_t(config.threads()) * config.items * packTokens(p);
    kernel.loadRounds = std::max<int64_t>(1, ceilDiv(part, chunk));
    constexpr int64_t kWordsOfVector = 4;
    kernel.loads = {.vectors = double(config.items),
                    .operands = 1,
                    .elements = packTokens(p),
                    .elementBytes = bytesOf(p.dtype),
                    .registers = config.items * kWordsOfVector};
    const double again = double(work.walks) * kernel.readBytes;
    if (config.keptTokens() > 0)
      kernel.keptBytes = again;
    else {
      kernel.rereadBytes = again;
      kernel.rereadRounds = work.walks * kernel.loadRounds;
    }
    const bool lean = isLean(p, config.keptTokens());
    kernel.simdOps = rows * double(p.vocab) * instructionsOf(p, lean);
    if (lean)
      kernel.simdOps += rows * double(parts * kernel.loadRounds) *
                        config.threads() * leanTurnOps(config.items);
    kernel.specialOps = p.temperature && !p.topK ? rows * double(p.vocab) : 0;
    addMeetings<N>(kernel, p, work, parts, device);
    return kernel;
  }

private:
  static int64_t blocksOfRow(const Config &config) {
    if constexpr (kIsSpread)
      return config.ranges;
    else
      return config.rowBlocks();
  }

  /// The times in which a row's blocks compute little: reductions, barriers,
  /// lists, the history.
  template <Number N>
  static void addMeetings(MemoryPass<N> &kernel, const SampleProblem &p,
                          const SampleWork &work, int64_t parts,
                          const DeviceModel &device) {
    // Reductions of warps, a barrier and shared memory; stores into other
    // blocks and a barrier of the cluster; a bound of the k greatest, a sorted
    // list, a draw (H200, vocabularies of 128,256).
    constexpr double kReductionNs = 300, kClusterNs = 1300, kListNs = 4500;
    N each = fitted<N>(kReductionNs, "reduction", "ns");
    if (kernel.clusterSize > 1)
      each = each + fitted<N>(kClusterNs, "exchange of a cluster", "ns");
    kernel.serialNs = named(given<N>(double(work.meetings), "meetings") * each,
                            "meetings", "ns");
    if (work.lists > 0)
      kernel.serialNs += named(given<N>(double(work.lists), "lists") *
                                   fitted<N>(kListNs, "list", "ns"),
                               "lists", "ns");
    if (kIsSpread && parts > 0) {
      // Maxima, a counter that orders them, and their return. Blocks count one
      // after the other.
      constexpr double kOrderNs = 400, kCountNs = 1.5;
      kernel.serialNs +=
          named(N(3) * deviceValue<N>(device, &DeviceModel::l2LatencyNs) +
                    fitted<N>(kOrderNs, "order", "ns") +
                    given<N>(double(parts), "blocks of a row") *
                        fitted<N>(kCountNs, "count of each", "ns"),
                "meeting of the last block", "ns");
    }
    if (p.hasPenalties()) {
      // For each piece of a part: barriers, and a walk through the history.
      constexpr double kPieceNs = 1500, kHistoryNs = 0.5;
      const int64_t pieces =
          ceilDiv(partTokens(p, parts), int64_t(kCountedTokens));
      kernel.serialNs +=
          named(given<N>(double(pieces), "pieces") *
                    (fitted<N>(kPieceNs, "counters of a piece", "ns") +
                     given<N>(double(p.historyOfRow()), "tokens of history") *
                         fitted<N>(kHistoryNs, "each", "ns")),
                "penalties", "ns") *
          N(kernel.rereadBytes > 0 ? 1.0 + double(work.walks) : 1.0);
    }
  }

  static SampleProblem read(const Problem &problem) {
    return readSampleProblem(problem.values.array().data());
  }
};

} // namespace kiln
