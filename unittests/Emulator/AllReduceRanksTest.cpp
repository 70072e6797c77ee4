// Ranks that reduce rows over each other's memory: sums in the order of ranks,
// equal bits on all ranks, launches that follow each other at any speeds, and
// ranks that do not come.
#include "Device/Catalog.h"
#include "Emulator/Ranks.h"
#include "Families/AllReduce/AllReduceProblem.h"
#include "Families/Families.h"

#include "allreduce/PushRowsConfig.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>

#include <fmt/format.h>

using namespace kiln;
using namespace kiln::emulated;

namespace {

float floatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
uint32_t bitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
float floatOfBf16(uint16_t bits) { return floatOfBits(uint32_t(bits) << 16); }
uint16_t bf16OfFloat(float value) {
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
    for (Launch &launch : operands)
      prepare(launch, pitch, half);
  }

  /// Runs the launches; ranks outside of \p present make none.
  std::string run(unsigned present = ~0u) {
    std::vector<std::vector<RankLaunch>> launches(ranks());
    for (Launch &launch : operands)
      for (int rank = 0; rank < ranks(); ++rank)
        if (present >> rank & 1)
          for (RankLaunch &made : launchesOf(launch, rank))
            launches[rank].push_back(std::move(made));
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

  std::vector<RankLaunch> launchesOf(Launch &launch, int rank) const {
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
  std::vector<RankLaunch> boundLaunches(const PushRowsParams &from) const {
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
  /// There is no error, all blocks count the launches, and the rest is zero.
  void checkExchange(int rank) const {
    const unsigned *words = wordsOf(rank);
    CHECK(words[0] == 0);
    size_t wrong = 0;
    const size_t counters = ExchangeLayout::kCounters / 4;
    for (size_t i = 0; i < size_t(exchangeBytes) / 4; ++i) {
      const bool isCounter =
          i >= counters && i < counters + ExchangeLayout::kMostBlocks;
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
  std::vector<std::vector<Vector>> exchange;
  std::vector<uint16_t> weight;
  std::vector<Launch> operands;
};

AllReduceSignature signatureOf(int ranks, bool residual, bool norm,
                               int align = 16) {
  return {DType::BF16, ranks, residual, norm, align};
}

void check(const Group &group, unsigned seed = 1) {
  INFO(group.signature.ranks << " ranks, " << group.cols << " columns");
  Ranks ranks(group, seed);
  CHECK(ranks.run() == "");
  ranks.checkResults();
}

} // namespace

TEST_CASE("ranks: 2, 4 and 8 sum in their order, with equal bits") {
  for (int ranks : {2, 4, 8})
    for (bool norm : {false, true})
      check({.signature = signatureOf(ranks, norm, norm), .cols = 256});
}

TEST_CASE("ranks: residual and norm, each alone") {
  check({.signature = signatureOf(2, true, false), .cols = 256});
  check({.signature = signatureOf(2, false, true), .cols = 256});
}

TEST_CASE("ranks: rows with owners have the same sums") {
  for (int ranks : {2, 4, 8})
    for (bool norm : {false, true})
      check({.signature = signatureOf(ranks, norm, norm),
             .cols = 256,
             .mostRows = 11,
             .mostBlocks = 3,
             .hasOwners = true});
}

TEST_CASE("ranks: rows of odd lengths at any alignment") {
  // A pass and a half, a pass and an element, less than a vector.
  for (int cols : {391, 257, 5, 1})
    check({.signature = signatureOf(2, true, true, 2), .cols = cols});
  check({.signature = signatureOf(4, true, true, 4),
         .cols = 390,
         .padding = 4,
         .hasOwners = true});
  check({.signature = signatureOf(2, false, false, 8),
         .cols = 140,
         .padding = 8});
}

TEST_CASE("ranks: threads with several vectors, rows of several passes") {
  for (int vectors : {1, 2})
    for (int cols : {256, 1000, 2504})
      check({.signature = signatureOf(4, true, true, 8),
             .config = {.blockThreads = 64, .vectors = vectors},
             .cols = cols,
             .mostRows = 4});
}

TEST_CASE("ranks: in place") {
  for (bool owners : {false, true})
    for (int cols : {256, 600})
      check({.signature = signatureOf(4, true, true),
             .cols = cols,
             .mostRows = 6,
             .hasOwners = owners,
             .inPlace = true});
}

TEST_CASE("ranks: rounds of rows, as the family binds them") {
  for (int ranks : {2, 3})
    check({.signature = signatureOf(ranks, true, true, 8),
           .cols = 196,
           .padding = 4,
           .mostRows = 9,
           .launches = 6,
           .boundRows = 3});
}

TEST_CASE("ranks: a thousand launches at random speeds") {
  for (bool owners : {false, true})
    check({.signature = signatureOf(owners ? 4 : 2, true, true),
           .cols = 64,
           .mostRows = 5,
           .launches = 1000,
           .hasOwners = owners},
          7);
  check({.signature = signatureOf(8, false, false),
         .cols = 8,
         .mostRows = 2,
         .launches = 300,
         .longestPause = 300},
        9);
}

// Shows that the tests above find data that is overwritten too early: a word
// that was lost is waited for in vain.
TEST_CASE("ranks: one half of exchange memory is too little") {
  Ranks ranks({.signature = signatureOf(2, false, false),
               .cols = 64,
               .launches = 200,
               .oneHalf = true},
              7);
  CHECK(ranks.run() == "");
  CHECK(ranks.errorOf(0) + ranks.errorOf(1) > 0);
}

TEST_CASE("ranks: inputs with the bits that cannot travel") {
  for (bool owners : {false, true}) {
    Ranks ranks({.signature = signatureOf(4, false, false),
                 .cols = 64,
                 .mostRows = 6,
                 .hasOwners = owners});
    int i = 0;
    ranks.changeInputs([&](uint16_t value) -> uint16_t {
      constexpr uint16_t kBits[] = {0xffff, 0xffff, 0x8000, 0x8000, 0,
                                    0xff80, 0x7f80, 0x7fff, 0x8000};
      return ++i % 3 ? kBits[i / 3 % 9] : value;
    });
    CHECK(ranks.run() == "");
    ranks.checkResults();
  }
}

TEST_CASE("ranks: one that does not come is an error of all others") {
  for (bool owners : {false, true}) {
    Ranks ranks({.signature = signatureOf(4, true, true),
                 .cols = 64,
                 .launches = 3,
                 .hasOwners = owners});
    CHECK(ranks.run(/*present=*/0b1011) == "");
    for (int rank : {0, 1, 3})
      CHECK(ranks.errorOf(rank) == 3);
  }
}
