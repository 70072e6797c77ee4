#include "Families/AllReduce/AllReduceFamily.h"
#include "Families/FamilyTesting.h"
#include "Kernel/Space.h"
#include "allreduce/PushRowsConfig.h"
#include "kiln/kiln.h"

#include <doctest/doctest.h>

#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

const KernelFamily &allReduce() { return *registry().find("allreduce"); }

Problem parse(llvm::StringRef text) {
  return testing::parse(allReduce(), text);
}
std::string failure(llvm::StringRef text) {
  return testing::failure(allReduce(), text);
}

/// The configs of \p problem's space, as text.
std::vector<std::string> configsOf(llvm::StringRef problem) {
  std::vector<std::string> configs;
  allReduce().templates()[0]->enumerate(
      parse(problem), h200(),
      [&](Values config) { configs.push_back(config.text()); });
  return configs;
}

/// A launch of \p rank with \p exchangeBytes of memory for each rank; none: it
/// is alone.
struct Bound {
  int64_t rounds;
  std::vector<PushRowsParams> params; ///< of each round
  std::vector<KernelStep> steps;
};
Bound boundOf(llvm::StringRef text, int rank, int64_t exchangeBytes) {
  using O = AllReduceOperand;
  const Problem problem = parse(text);
  const Template &push = *allReduce().templates()[0];
  const Values config =
      llvm::cantFail(allReduce().parseConfig(configsOf(text)[0])).config;
  const Plan plan = push.plan(problem, config, h200());
  CHECK(plan.takesDependentLaunch);
  CHECK(plan.workspace.bytes() == 0);
  Arguments arguments = allReduce().defaultArguments(problem);
  for (int i = 0; i < O::InTable; ++i)
    arguments.operands[i].address = 0x100000000 * uint64_t(i + 1);
  const AllReduceProblem p =
      readAllReduceProblem(problem.values.array().data());
  for (int i = 0; exchangeBytes && i < p.ranks; ++i)
    arguments.operands[O::Exchange + i] = {0x10000000000 * uint64_t(i + 1),
                                           exchangeBytes, rank, 0};
  Bound bound{plan.binder->rounds(arguments, 132), {}, {}};
  for (int64_t round = 0; round < bound.rounds; ++round) {
    LaunchContext context;
    context.smCount = 132;
    context.round = round;
    LaunchSpec spec;
    plan.binder->bind(arguments, context, spec);
    REQUIRE(spec.stepCount == 1);
    bound.steps.push_back(spec.steps[0].kernel);
    bound.params.push_back(spec.paramsOf<PushRowsParams>(spec.steps[0].kernel));
  }
  return bound;
}

} // namespace

TEST_CASE("allreduce: equal problems have equal text") {
  CHECK(parse("rows=3 cols=64 ranks=2 dtype=bf16 residual=0 norm=0 eps=1e-5 "
              "ldx=64 ldy=64 ldr=99 ldh=77 align=16")
            .text() == "allreduce rows=3 cols=64 ranks=2 dtype=bf16");
  // The sum is y where nothing is normalised.
  CHECK(parse("rows=3 cols=64 ranks=8 dtype=fp16 residual=1 ldr=72 ldh=80")
            .text() ==
        "allreduce rows=3 cols=64 ranks=8 dtype=fp16 residual=1 ldr=72");
}

TEST_CASE("allreduce: bad problems get one clear line") {
  CHECK(failure("rows=3 cols=64 ranks=1 dtype=bf16") ==
        "allreduce: ranks=1 is below 2");
  CHECK(failure("rows=3 cols=64 ranks=9 dtype=bf16") ==
        "allreduce: ranks=9 is above 8");
  CHECK(failure("rows=3 cols=64 ranks=2 dtype=bf16 eps=-1") ==
        "allreduce: eps=-1 is below 0");
  CHECK(failure("rows=3 cols=64 ranks=2 dtype=bf16 norm=1 residual=1 ldh=63") ==
        "allreduce: ldh=63 is below the row length 64");
  CHECK(failure("rows=3 cols=64 ranks=2 dtype=bf16 align=1") ==
        "allreduce: align=1 is below the element's 2 bytes");
}

TEST_CASE("allreduce: the alignment is what divides every row") {
  auto alignOf = [](llvm::StringRef text) {
    return readAllReduceSignature(parse(text).signature).align;
  };
  CHECK(alignOf("rows=3 cols=64 ranks=2 dtype=bf16") == 16);
  CHECK(alignOf("rows=3 cols=65 ranks=2 dtype=bf16") == 2);
  CHECK(alignOf("rows=3 cols=64 ranks=2 dtype=bf16 ldx=68") == 8);
  CHECK(alignOf("rows=3 cols=64 ranks=2 dtype=bf16 ldr=66") == 16);
  CHECK(alignOf("rows=3 cols=64 ranks=2 dtype=bf16 residual=1 ldr=66") == 4);
  CHECK(alignOf("rows=3 cols=64 ranks=2 dtype=fp32 align=4") == 4);
}

// All ranks run the same kernel, whatever each of them measured.
TEST_CASE("allreduce: a problem has one config, the same for all rows") {
  for (const char *rows : {"rows=1", "rows=64", "rows=8192"})
    CHECK(configsOf(std::string(rows) + " cols=4096 ranks=2 dtype=bf16 "
                                        "residual=1 norm=1") ==
          std::vector<std::string>{"push.t512.v1"});
  CHECK(configsOf("rows=1 cols=5120 ranks=2 dtype=bf16") ==
        std::vector<std::string>{"push.t512.v2"});
  CHECK(configsOf("rows=1 cols=7 ranks=2 dtype=bf16") ==
        std::vector<std::string>{"push.t32.v1"});
}

TEST_CASE("allreduce: one shot for small rows, owners for large ones") {
  auto hasOwners = [](int rows, int ranks) {
    const std::string text = "rows=" + std::to_string(rows) +
                             " cols=4096 ranks=" + std::to_string(ranks) +
                             " dtype=bf16";
    return boundOf(text, 0, int64_t(1) << 30).params[0].hasOwners != 0;
  };
  // With two ranks owners save nothing.
  CHECK(!hasOwners(1, 2));
  CHECK(!hasOwners(4096, 2));
  CHECK(!hasOwners(8, 4));
  CHECK(hasOwners(64, 4));
  CHECK(!hasOwners(8, 8));
  CHECK(hasOwners(32, 8));
}

TEST_CASE("allreduce: rounds take the rows that exchange memory has room for") {
  const char *text = "rows=10 cols=64 ranks=2 dtype=bf16 residual=1 norm=1";
  const int64_t all = int64_t(kiln_allreduce_exchange_bytes(2, 10, 128));
  const Bound one = boundOf(text, 1, all);
  CHECK(one.rounds == 1);
  CHECK(one.params[0].rank == 1);
  CHECK(one.params[0].isAlone == 0);
  CHECK(one.params[0].operands.rows == 10);
  CHECK(one.params[0].halfBytes == 10 * 2 * 128);
  CHECK(one.params[0].inboxBytes == 10 * 128);
  CHECK(one.steps[0].grid.x == 10);
  CHECK(one.steps[0].block.x == 32);
  CHECK(boundOf(text, 1, all - 32).rounds == 2);
  // Four rows at once: three rounds of 4, 4 and 2.
  const Bound three =
      boundOf(text, 0, int64_t(kiln_allreduce_exchange_bytes(2, 4, 128)));
  REQUIRE(three.rounds == 3);
  CHECK(three.params[2].operands.rows == 2);
  CHECK(reinterpret_cast<uintptr_t>(three.params[2].operands.x) ==
        0x100000000 + 8 * 128);
  CHECK(reinterpret_cast<uintptr_t>(three.params[1].operands.residualOut) ==
        0x500000000 + 4 * 128);
  CHECK(three.params[1].operands.weight == three.params[0].operands.weight);
}

TEST_CASE("allreduce: without exchange memory a rank is alone") {
  const Bound alone = boundOf("rows=10 cols=64 ranks=4 dtype=bf16", 0, 0);
  CHECK(alone.rounds == 1);
  CHECK(alone.params[0].isAlone == 1);
}

// Blocks wait for those of other ranks, so all of them have to run at once.
TEST_CASE("allreduce: no more blocks than an SM has for certain") {
  const Bound many =
      boundOf("rows=9000 cols=4096 ranks=2 dtype=bf16", 0, int64_t(1) << 32);
  CHECK(many.steps[0].grid.x == 132 * 2);
  const AllReduceSignature wide{.ranks = 8, .residual = true, .norm = true};
  const PushRowsConfig config{.blockThreads = 512, .vectors = 2};
  CHECK(config.minBlocks(wide) == 1);
}

TEST_CASE("allreduce: exchange memory of the header is that of kernels") {
  for (int ranks : {2, 3, 8})
    for (int64_t rowBytes : {2, 16, 8190}) {
      const auto bytes =
          int64_t(kiln_allreduce_exchange_bytes(ranks, 7, rowBytes));
      CHECK(ExchangeLayout::halfBytes(bytes) ==
            ExchangeLayout::bytesOfRows(7, ExchangeLayout::roundedUp(rowBytes),
                                        ranks, false));
    }
}
