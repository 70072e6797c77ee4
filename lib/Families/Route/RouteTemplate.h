//===- RouteTemplate.h - base of the family's templates -------------------===//
//
// The templates differ in how blocks learn where their rows begin: through a
// cluster's shared memory, or by a second kernel. Routing itself is the same,
// and so is its time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/MemoryPass/MemoryPassTemplate.h"
#include "Families/Route/RouteFamily.h"
#include "Model/MathUtil.h"
#include "route/RouteLayout.h"

#include <algorithm>

namespace kiln {

/// Experts of a lane that kernels are made for: the least power of two.
inline int routeItems(const RouteProblem &p) {
  constexpr int64_t kLanes = 32;
  int items = 1;
  while (items * kLanes < p.experts)
    items *= 2;
  return items;
}

/// The rejection of configs that are too narrow for the experts, or that no
/// kernel has.
template <class Config>
std::optional<Rejection> checkRouteConfig(const RouteProblem &p,
                                          const Config &config,
                                          const DeviceModel &device) {
  if (auto rejection = checkThreads(config.threads(), device))
    return rejection;
  if (!config.isValid(signatureOf(p)))
    return Rejection{PruneReason::InstructionShape, double(config.threads()), 0,
                     "threads a block",
                     "whole warps of up to 32, with up to 32 experts a lane, 8 "
                     "chunks and 8 blocks"};
  constexpr int kLanes = 32;
  if (config.items * kLanes < p.experts)
    return Rejection{PruneReason::InstructionShape, double(p.experts),
                     double(config.items) * kLanes, "experts"};
  return checkSharedBytes(config.sharedBytes(signatureOf(p)), device);
}

/// The work of a block that routes and numbers tokens.
struct RouteWork {
  int64_t tokens = 0;   ///< of the block
  int64_t routings = 1; ///< of each token
  int threads = 0, items = 0;

  int64_t turns() const { return ceilDiv(tokens, int64_t(threads) / 32); }
};

/// Instructions of a warp for a token (counted in the machine code, ptxas 13.0
/// for sm_90).
inline double routeInstructions(const RouteProblem &p, int items) {
  constexpr double kToken = 90, kLoad = 10, kExp = 4, kRound = 18, kCompare = 5;
  constexpr double kBias = 4; // not counted: address, load, addition
  constexpr double kGroup = 12, kOfGroup = 8, kDrop = 6;
  const int biases = int(p.logitBias) + int(p.choiceBias);
  double each = kToken + items * (kLoad + kExp + biases * kBias) +
                double(p.topK) * (kRound + items * kCompare);
  if (p.isGrouped())
    each += double(p.topGroups) * kGroup + items * kDrop +
            kOfGroup * double(p.experts) / double(p.groups);
  return each;
}

/// Loads of a warp that wait for others: logits for the number of tokens, and
/// those of the chosen for the choice.
inline int64_t loadsInRow(const RouteProblem &p, const RouteWork &work) {
  return int64_t(p.tokenCount) +
         (signatureOf(p).byScore ? work.turns() * work.routings : 0);
}

/// The time in which a block computes: its warps fill the schedulers, or each
/// waits for its own reductions. Biases are in the instructions of a token.
template <Number N>
N routeNs(const RouteProblem &p, const RouteWork &work,
          const DeviceModel &device) {
  constexpr double kSchedulers = 4, kThousand = 1000;
  const N clock =
      named(deviceValue<N>(device, &DeviceModel::smClockMHz) / N(kThousand),
            "clock", "GHz");
  const auto routings =
      given<N>(double(work.tokens * work.routings), "tokens of a block");
  const N issue = named(routings *
                            given<N>(routeInstructions(p, work.items),
                                     "instructions of a token") /
                            (N(kSchedulers) * clock),
                        "instructions of a block", "ns");
  // Two reductions of a warp and what is between them.
  constexpr double kRoundClocks = 70, kCompareClocks = 5, kTokenClocks = 350;
  const N chain =
      named(given<N>(double(work.turns() * work.routings), "tokens of a warp") *
                (given<N>(double(p.topK), "choices") *
                     (fitted<N>(kRoundClocks, "round", "clk") +
                      given<N>(double(work.items), "experts of a lane") *
                          fitted<N>(kCompareClocks, "each", "clk")) +
                 fitted<N>(kTokenClocks, "rest of a token", "clk")) /
                clock,
            "rounds of a warp", "ns");
  // Barriers, the scan over experts, and stores by rank.
  constexpr double kPhasesNs = 450, kExpertNs = 1, kChoiceNs = 60;
  const N sort = named(
      fitted<N>(kPhasesNs, "phases of the sort", "ns") +
          given<N>(double(p.experts), "experts") *
              fitted<N>(kExpertNs, "each", "ns") +
          given<N>(double(ceilDiv(work.tokens * p.topK, int64_t(work.threads))),
                   "choices of a thread") *
              fitted<N>(kChoiceNs, "each", "ns"),
      "sort", "ns");
  N all = largest({issue, chain}) + sort;
  if (const int64_t loads = loadsInRow(p, work))
    all += named(given<N>(double(loads), "further loads in a row") *
                     deviceValue<N>(device, &DeviceModel::l2LatencyNs),
                 "further loads", "ns");
  return all;
}

/// The bytes of a problem, and the loads of a block that does \p work.
template <Number N, class Config>
MemoryPass<N> routePass(const RouteProblem &p, const Config &config,
                        const RouteWork &work) {
  constexpr double kWordBytes = 4;
  const double choices = double(p.choices());
  MemoryPass<N> kernel;
  kernel.pace = PassPace::Reduces;
  kernel.block = {
      config.threads(),
      routeRegisters(signatureOf(p), config.items, config.threads()),
      config.sharedBytes(signatureOf(p))};
  kernel.readBytes = double(p.tokens) * double(p.experts) * bytesOf(p.dtype);
  kernel.writeBytes =
      (p.expectedRows() + choices * (p.chosen ? 2 : 1)) * kWordBytes +
      double(p.local) * kWordBytes * (p.sizes ? 2 : 1);
  kernel.loadRounds = std::max<int64_t>(work.turns(), 1);
  kernel.loads = {.vectors = double(config.items),
                  .operands = 1,
                  .elements = 1,
                  .elementBytes = bytesOf(p.dtype),
                  .registers = config.items};
  if (work.routings > 1) {
    kernel.rereadBytes = kernel.readBytes;
    kernel.rereadRounds = kernel.loadRounds;
  }
  return kernel;
}

} // namespace kiln
