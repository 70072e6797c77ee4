//===- AllReduceRanks.h - all-reduces of ranks in the emulator ------------===//
//
// A group of ranks with operands and exchange memory, its launches, and checks
// of what they leave.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/Catalog.h"
#include "Emulator/Ranks.h"
#include "Families/AllReduce/AllReduceProblem.h"
#include "Families/Families.h"

#include "allreduce/PushRowsConfig.h"
#include "kiln/allreduce.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include <fmt/format.h>

namespace kiln::emulated {

inline float floatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t bitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float floatOfBf16(uint16_t bits) {
  return floatOfBits(uint32_t(bits) << 16);
}
inline uint16_t bf16OfFloat(float value) {
  const uint32_t bits = bitsOfFloat(value);
  if (std::isnan(value))
    return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The launches of a test. Rows are bf16, and their number varies from launch
/// to launch.
struct Group {
  AllReduceSignature signature;
  PushRowsConfig config{.blockThreads = 32, .vectors = 1};
  int cols = 64;
  int padding = 0; ///< elements behind a row
  int mostRows = 3;
  int mostBlocks = 2;
  int launches = 4;
  bool hasOwners = false;
  bool inPlace = false; ///< y is x, residualOut is residual
  /// The family binds the launches, in rounds of so many rows; 0: the test
  /// makes their parameters.
  int boundRows = 0;
  unsigned longestPause = 60;
  bool oneHalf = false; ///< all launches use the same half: a planted fault
  /// From this launch on halves are shorter, as those of fewer exchange_bytes.
  int movesHalvesAt = 1 << 30;
};

class Ranks {
public:
  explicit Ranks(const Group &group, unsigned seed = 1)
      : group(group), random(seed), seed(seed) {
    const long long pitch = ExchangeLayout::roundedUp(2 * group.cols);
    const long long half = ExchangeLayout::bytesOfRows(
        group.boundRows ? group.boundRows : group.mostRows, pitch, ranks(),
        group.hasOwners);
    exchangeBytes = ExchangeLayout::kHeadBytes + 2 * half;
    for (int rank = 0; rank < ranks(); ++rank)
      exchange.emplace_back(exchangeBytes / 16);
    weight.resize(group.cols);
    for (uint16_t &value : weight)
      value = drawn();
    operands.resize(group.launches);
    for (int i = 0; i < group.launches; ++i)
      prepare(operands[i], pitch,
              i < group.movesHalvesAt ? half
                                      : half - ExchangeLayout::kVectorBytes);
  }

  /// Runs the launches; ranks outside of \p present make none.
  std::string run(unsigned present = ~0u) {
    std::vector<std::vector<RankLaunch>> launches(ranks());
    for (Launch &launch : operands)
      for (int rank = 0; rank < ranks(); ++rank)
        if (present >> rank & 1)
          for (RankLaunch &made : launchesOf(launch, rank))
            launches[rank].push_back(std::move(made));
    for (int rank = 0; rank < ranks(); ++rank)
      if (lateRanks >> rank & 1)
        launches[rank].at(0).pause = lateTurns;
    launchesMade = launches[0].size();
    return runRanks(library(), {text(), "kilnEntry", threads()}, launches,
                    group.longestPause, seed);
  }

  void checkResults() const {
    for (size_t i = 0; i < operands.size(); ++i)
      checkLaunch(operands[i], i);
    for (int rank = 0; rank < ranks(); ++rank)
      checkExchange(rank);
  }
  unsigned errorOf(int rank) const { return wordsOf(rank)[0]; }
  /// Whether a launch that the family bound has owners of rows.
  bool hadOwners() const { return ownersBound; }
  /// \p ranks (bits) begin \p turns of a millisecond after the others.
  void delay(unsigned ranks, unsigned turns) {
    lateRanks = ranks;
    lateTurns = turns;
  }
  /// Sets exchange memory to zero, as hosts do before they go on.
  void clear() {
    for (auto &memory : exchange)
      std::fill(memory.begin(), memory.end(), Vector());
  }

  /// All of the inputs' elements, of all launches.
  template <class Change> void changeInputs(Change &&change) {
    for (Launch &launch : operands)
      for (std::vector<uint16_t> &x : launch.x)
        for (uint16_t &value : x)
          value = change(value);
    for (Launch &launch : operands)
      launch.input = launch.x;
  }

private:
  struct Launch {
    long long rows = 0;
    PushRowsParams params;
    /// The operands of each rank. y may be x: input is x before the launch.
    std::vector<std::vector<uint16_t>> x, input, y, residual, residualOut;
    std::vector<uint16_t> added; ///< residual before the launch
  };

  int ranks() const { return group.signature.ranks; }
  unsigned threads() const { return unsigned(group.config.blockThreads); }
  int ld() const { return group.cols + group.padding; }
  uint16_t drawn() {
    return bf16OfFloat(std::normal_distribution<float>()(random));
  }
  static KernelLibrary &library() {
    static KernelLibrary one;
    return one;
  }

  void prepare(Launch &launch, long long pitch, long long half) {
    launch.rows = 1 + random() % group.mostRows;
    auto matrix = [&] {
      std::vector<uint16_t> values(launch.rows * ld());
      for (uint16_t &value : values)
        value = drawn();
      return values;
    };
    launch.added = matrix();
    for (int rank = 0; rank < ranks(); ++rank) {
      launch.x.push_back(matrix());
      launch.y.push_back(matrix());
      launch.residual.push_back(launch.added);
      launch.residualOut.push_back(matrix());
    }
    launch.input = launch.x;
    PushRowsParams &p = launch.params;
    p.operands.weight = weight.data();
    p.operands.rows = launch.rows;
    p.operands.cols = group.cols;
    p.operands.ldx = p.operands.ldResidual = p.operands.ldy =
        p.operands.ldResidualOut = ld();
    p.operands.epsilon = 1e-5f;
    p.hasOwners = group.hasOwners;
    p.halfBytes = group.oneHalf ? 0 : half;
    p.pitch = pitch;
    p.inboxBytes =
        ExchangeLayout::inboxRows(launch.rows, ranks(), group.hasOwners) *
        pitch;
    p.limitNs = 2000000000ull;
    for (int rank = 0; rank < ranks(); ++rank)
      p.exchange[rank] = reinterpret_cast<char *>(exchange[rank].data());
  }

  std::vector<RankLaunch> launchesOf(Launch &launch, int rank) {
    PushRowsParams params = launch.params;
    params.rank = rank;
    params.operands.x = launch.x[rank].data();
    params.operands.y = (group.inPlace ? launch.x : launch.y)[rank].data();
    params.operands.residual = launch.residual[rank].data();
    params.operands.residualOut =
        (group.inPlace ? launch.residual : launch.residualOut)[rank].data();
    if (group.boundRows)
      return boundLaunches(params);
    RankLaunch made;
    made.blocks = unsigned(std::min<long long>(launch.rows, group.mostBlocks));
    made.params.resize(sizeof(params));
    std::memcpy(made.params.data(), &params, sizeof(params));
    return {made};
  }

  /// The rounds of a launch with the operands of \p from, as the family binds
  /// them on a GPU of one SM.
  std::vector<RankLaunch> boundLaunches(const PushRowsParams &from) {
    using O = AllReduceOperand;
    static const Registry registry = makeBuiltinRegistry();
    static const DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
    const KernelFamily &family = *registry.find("allreduce");
    const AllReduceSignature &s = group.signature;
    const Problem problem = llvm::cantFail(family.parseProblem(
        fmt::format("rows={} cols={} ranks={} dtype=bf16 residual={} norm={} "
                    "ldx={} ldy={} ldr={} ldh={} align={}",
                    from.operands.rows, group.cols, s.ranks, int(s.residual),
                    int(s.norm), ld(), ld(), ld(), ld(), s.align)));
    const auto named = llvm::cantFail(family.parseConfig(
        fmt::format("push.t{}.v{}", threads(), group.config.vectors)));
    const Plan plan = named.tmpl->plan(problem, named.config, device);
    Arguments arguments = family.defaultArguments(problem);
    const void *addresses[] = {from.operands.x, from.operands.y,
                               from.operands.weight, from.operands.residual,
                               from.operands.residualOut};
    static_assert(std::size(addresses) == O::InTable);
    for (int i = 0; i < O::InTable; ++i)
      arguments.operands[i].address =
          reinterpret_cast<DeviceAddress>(addresses[i]);
    for (int i = 0; i < s.ranks; ++i)
      arguments.operands[O::Exchange + i] = {
          reinterpret_cast<DeviceAddress>(from.exchange[i]), exchangeBytes,
          from.rank, 0};
    std::vector<RankLaunch> rounds(plan.binder->rounds(arguments, 1));
    for (size_t i = 0; i < rounds.size(); ++i) {
      LaunchContext context;
      context.smCount = 1;
      context.round = int64_t(i);
      LaunchSpec spec;
      plan.binder->bind(arguments, context, spec);
      const KernelStep &step = spec.steps[0].kernel;
      ownersBound |= spec.paramsOf<PushRowsParams>(step).hasOwners != 0;
      rounds[i].blocks = step.grid.x;
      rounds[i].params.assign(spec.params + step.paramOffset,
                              spec.params + step.paramOffset + step.paramBytes);
    }
    return rounds;
  }

  std::string text() const {
    const AllReduceSignature &s = group.signature;
    return fmt::format(
        R"(#include "allreduce/PushRows.cuh"
constexpr kiln::AllReduceSignature kSignature{{
    .type = kiln::DType::BF16, .ranks = {}, .residual = {}, .norm = {},
    .align = {}}};
constexpr kiln::PushRowsConfig kConfig{{.blockThreads = {}, .vectors = {}}};
extern "C" __global__ void __launch_bounds__({})
kilnEntry(const __grid_constant__ kiln::PushRowsParams params) {{
  kiln::pushRows<kSignature, kConfig>(params);
}}
)",
        s.ranks, s.residual, s.norm, s.align, group.config.blockThreads,
        group.config.vectors, group.config.blockThreads);
  }

  /// An element of the sum as it is stored.
  uint16_t sumOf(const Launch &launch, long long at) const {
    float sum = floatOfBf16(launch.input[0][at]);
    for (int rank = 1; rank < ranks(); ++rank)
      sum += floatOfBf16(launch.input[rank][at]);
    if (group.signature.residual)
      sum += floatOfBf16(launch.added[at]);
    return bf16OfFloat(sum);
  }

  void checkLaunch(const Launch &launch, size_t index) const {
    const auto &y = group.inPlace ? launch.x : launch.y;
    const auto &kept = group.inPlace ? launch.residual : launch.residualOut;
    size_t wrong = 0, unequal = 0;
    for (long long row = 0; row < launch.rows; ++row) {
      double squares = 0;
      for (int c = 0; c < group.cols; ++c)
        squares += std::pow(floatOfBf16(sumOf(launch, row * ld() + c)), 2);
      const double factor = 1 / std::sqrt(squares / group.cols + 1e-5);
      for (int c = 0; c < group.cols; ++c) {
        const long long at = row * ld() + c;
        const uint16_t sum = sumOf(launch, at);
        for (int rank = 0; rank < ranks(); ++rank) {
          unequal += y[rank][at] != y[0][at];
          if (group.signature.hasResidualOut())
            wrong += kept[rank][at] != sum;
          if (!group.signature.norm)
            wrong += y[rank][at] != sum;
          else if (!std::isnan(factor)) {
            const double right =
                floatOfBf16(sum) * factor * floatOfBf16(weight[c]);
            wrong += std::abs(floatOfBf16(y[rank][at]) - right) >
                     0.0041 * std::abs(right) + 1e-30;
          }
        }
      }
    }
    INFO("launch " << index << " of " << launch.rows << " rows");
    CHECK(wrong == 0);
    CHECK(unequal == 0);
  }

  const unsigned *wordsOf(int rank) const {
    return reinterpret_cast<const unsigned *>(exchange[rank].data());
  }
  /// There is no error, the head has the size of halves, all blocks count the
  /// launches, and the rest is zero.
  void checkExchange(int rank) const {
    const unsigned *words = wordsOf(rank);
    CHECK(words[0] == 0);
    const size_t halves = ExchangeLayout::kHalfVectors / 4;
    CHECK(words[halves] == ExchangeLayout::halfVectors(
                               ExchangeLayout::halfBytes(exchangeBytes)));
    size_t wrong = 0;
    const size_t counters = ExchangeLayout::kCounters / 4;
    for (size_t i = 0; i < size_t(exchangeBytes) / 4; ++i) {
      const bool isCounter =
          i >= counters && i < counters + ExchangeLayout::kMostBlocks;
      if (i != halves)
        wrong += words[i] != (isCounter ? unsigned(launchesMade) : 0);
    }
    CHECK(wrong == 0);
  }

  struct alignas(16) Vector {
    unsigned words[4] = {};
  };

  Group group;
  std::mt19937 random;
  unsigned seed;
  long long exchangeBytes = 0;
  size_t launchesMade = 0; ///< by each rank
  bool ownersBound = false;
  unsigned lateRanks = 0, lateTurns = 0;
  std::vector<std::vector<Vector>> exchange;
  std::vector<uint16_t> weight;
  std::vector<Launch> operands;
};

} // namespace kiln::emulated
