#include "Families/FamilyTesting.h"
#include "Families/Sample/SampleFamily.h"
#include "Kernel/Space.h"
#include "sample/ClusterSampleConfig.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <cstring>

using namespace kiln;
using namespace kiln::testing;

namespace {

const KernelFamily &sample() { return *registry().find("sample"); }

Problem parse(llvm::StringRef text) { return testing::parse(sample(), text); }
std::string failure(llvm::StringRef text) {
  return testing::failure(sample(), text);
}
std::string reason(llvm::StringRef problem, llvm::StringRef config) {
  return testing::reason(sample(), problem, config);
}

SampleSignature signature(llvm::StringRef text) {
  const Problem problem = parse(text);
  const SampleSignature result = readSampleSignature(problem.signature);
  CHECK(toValues(result) == problem.signature);
  return result;
}

/// The parameters and the step of one launch.
struct Bound {
  SampleParams params;
  KernelStep step;
  Plan plan;
  uint32_t steps = 0;
};
Bound bind(llvm::StringRef text, llvm::StringRef config) {
  static Problem problem;
  problem = parse(text);
  auto named = llvm::cantFail(sample().parseConfig(config));
  Bound bound;
  bound.plan = named.tmpl->plan(problem, named.config, h200());
  Arguments arguments = sample().defaultArguments(problem);
  for (int i = 0; i < SampleOperand::Count; ++i)
    arguments.operands[i].address = 0x1000 * (i + 1);
  LaunchContext context;
  context.zeroed = 0x80000;
  LaunchSpec spec;
  bound.plan.binder->bind(arguments, context, spec);
  bound.steps = spec.stepCount;
  bound.step = spec.steps[spec.stepCount - 1].kernel;
  std::memcpy(&bound.params, spec.params + bound.step.paramOffset,
              sizeof(bound.params));
  return bound;
}

void *placeOf(int operand) {
  return reinterpret_cast<void *>(uintptr_t(0x1000) * (operand + 1));
}

} // namespace

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

TEST_CASE("sample: equal problems have equal text") {
  CHECK(
      parse("rows=4 vocab=1000 dtype=bf16 ldx=1000 align=16 scale=1 history=9")
          .text() == "sample rows=4 vocab=1000 dtype=bf16");
  // Without a temperature the greatest logit wins.
  CHECK(parse("rows=4 vocab=1000 dtype=bf16 topk=1 topp=1 minp=1 joint=1")
            .text() == "sample rows=4 vocab=1000 dtype=bf16");
  CHECK(parse("rows=4 vocab=1000 dtype=bf16 temperature=1 topp=1 joint=1")
            .text() ==
        "sample rows=4 vocab=1000 dtype=bf16 temperature=1 topp=1");
  CHECK(parse("rows=4 vocab=1000 dtype=bf16 presence=1 history=1024").text() ==
        "sample rows=4 vocab=1000 dtype=bf16 presence=1");
}

TEST_CASE("sample: bad problems get one clear line") {
  CHECK(failure("rows=1 vocab=0 dtype=bf16") == "sample: vocab=0 is below 1");
  CHECK(failure("rows=1 vocab=16777217 dtype=bf16") ==
        "sample: vocab=16777217 is above 16777216");
  CHECK(failure("rows=1 vocab=8 dtype=bf16 scale=0") ==
        "sample: scale=0 makes all logits equal");
  CHECK(failure("rows=1 vocab=8 dtype=bf16 softcap=-1") ==
        "sample: softcap=-1 is negative");
  CHECK(failure("rows=1 vocab=8 dtype=bf16 lengths=1") ==
        "sample: lengths=1 needs advance=1: nothing else is done with lengths");
  CHECK(failure("rows=1 vocab=8 dtype=bf16 top=9") ==
        "sample: top=9 is above vocab=8");
  CHECK(failure("rows=1 vocab=80 dtype=bf16 top=33") ==
        "sample: top=33 is above 32");
  CHECK(failure("rows=2 vocab=8 dtype=fp32 ldx=7") ==
        "sample: ldx=7 is below the row length 8");
}

TEST_CASE("sample: the signature says what costs something") {
  CHECK(signature("rows=4 vocab=128256 dtype=bf16") == SampleSignature{});
  // These are parameters of a launch.
  CHECK(signature("rows=4 vocab=128256 dtype=bf16 int64=1 advance=1 lengths=1 "
                  "scale=2") == SampleSignature{});
  SampleSignature drawn{.temperature = true};
  CHECK(signature("rows=4 vocab=128256 dtype=bf16 temperature=1") == drawn);
  drawn.cuts = true;
  for (const char *cut :
       {"topk=1", "topp=1", "minp=1", "topk=1 topp=1 joint=1"})
    CHECK(signature(fmt::format("rows=4 vocab=128256 dtype=bf16 temperature=1 "
                                "{}",
                                cut)) == drawn);
  for (const char *penalty : {"repetition=1", "frequency=1", "presence=1"})
    CHECK(
        signature(fmt::format("rows=4 vocab=128256 dtype=bf16 {}", penalty)) ==
        SampleSignature{.penalties = true});
  for (const char *told : {"logprobs=1", "top=5"})
    CHECK(signature(fmt::format("rows=4 vocab=128256 dtype=bf16 {}", told)) ==
          SampleSignature{.logprobs = true});
  CHECK(signature("rows=4 vocab=128256 dtype=fp32 softcap=30 allowed=1") ==
        SampleSignature{.in = DType::FP32, .softcap = true, .allowed = true});
}

TEST_CASE("sample: the alignment is that of the rows' beginnings") {
  auto align = [](llvm::StringRef text) { return signature(text).align; };
  CHECK(align("rows=4 vocab=50257 dtype=bf16") == 2);
  CHECK(align("rows=4 vocab=50257 dtype=bf16 ldx=50264") == 16);
  CHECK(align("rows=4 vocab=50258 dtype=bf16") == 4);
  CHECK(align("rows=4 vocab=50260 dtype=bf16") == 8);
  CHECK(align("rows=4 vocab=50257 dtype=fp32") == 4);
  CHECK(align("rows=4 vocab=128256 dtype=bf16 align=4") == 4);
}

TEST_CASE("sample: the operand table has what the problem has") {
  const Problem problem =
      parse("rows=3 vocab=100 dtype=fp16 ldx=104 temperature=1 topk=1 "
            "frequency=1 history=50 allowed=1 logprobs=1 top=4 int64=1 "
            "advance=1 lengths=1");
  const OperandTable table = sample().operands(problem);
  REQUIRE(table.operands.size() == SampleOperand::Count);
  auto bytes = [&](int operand) { return table.operands[operand].bytes(); };
  CHECK(bytes(SampleOperand::Logits) == (2 * 104 + 100) * 2);
  CHECK(bytes(SampleOperand::Temperature) == 12);
  CHECK(bytes(SampleOperand::TopK) == 12);
  CHECK(bytes(SampleOperand::TopP) == 0);
  CHECK(bytes(SampleOperand::Repetition) == 0);
  CHECK(bytes(SampleOperand::Frequency) == 12);
  CHECK(bytes(SampleOperand::Seeds) == 24);
  CHECK(bytes(SampleOperand::History) == 200);
  CHECK(bytes(SampleOperand::Allowed) == 3 * 4 * 4);
  CHECK(bytes(SampleOperand::Tokens) == 24);
  CHECK(bytes(SampleOperand::TopTokens) == 96);
  CHECK(bytes(SampleOperand::TopLogprobs) == 48);
  CHECK(table.operands[SampleOperand::Positions].role == OperandRole::InOut);
  CHECK(table.operands[SampleOperand::Lengths].isWritten());
  const Problem still = parse("rows=3 vocab=100 dtype=fp16 temperature=1");
  CHECK(sample().operands(still).operands[SampleOperand::Positions].role ==
        OperandRole::In);
  CHECK(sample().isEmpty(parse("rows=0 vocab=100 dtype=fp16")));
}

//===----------------------------------------------------------------------===//
// Spaces and plans
//===----------------------------------------------------------------------===//

TEST_CASE("sample: prune names the limit that a typed config breaks") {
  const char *greedy = "rows=4 vocab=128256 dtype=bf16";
  const char *cut = "rows=4 vocab=128256 dtype=bf16 temperature=1 topp=1";
  CHECK(reason(greedy, "block.t1024.i2") == "none");
  CHECK(reason(greedy, "spread.t512.i2.k33") == "none");
  CHECK(reason(cut, "spread.t512.i2.k33") ==
        "instruction-shape: 3 walks over a row, limit 1 walks over a row");
  CHECK(reason(cut, "cluster.t1024.i2.c8.s16") == "none");
  CHECK(reason(cut, "cluster.t1024.i2.c4.s16") ==
        "shared-memory wall: 128256 B of logits, 65536 allowed");
  CHECK(reason(cut, "block.t384.i2") ==
        "instruction-shape: 384 threads a block, 256, 512 or 1024 allowed");
  CHECK(
      reason(cut, "block.t512.i8") ==
      "instruction-shape: 8 vectors at once a thread, limit 4 vectors at once "
      "a thread");
  CHECK(reason("rows=3000 vocab=8 dtype=bf16", "spread.t512.i2.k2") ==
        "workspace: 96000 B, limit 65536 B");
}

TEST_CASE("sample: few rows spread, and what walks again stays in a cluster") {
  auto first = [](llvm::StringRef text) {
    auto space = exploreSpace(sample(), parse(text), h200());
    REQUIRE(bool(space));
    REQUIRE_FALSE(space->ranked.empty());
    return space->ranked.front();
  };
  CHECK(first("rows=1 vocab=128256 dtype=bf16").tmpl->name() == "spread");
  CHECK(first("rows=1 vocab=128256 dtype=bf16 temperature=1 topp=1")
            .tmpl->name() == "cluster");
}

TEST_CASE("sample: bind places operands and the grid") {
  const Bound cluster =
      bind("rows=3 vocab=1000 dtype=fp32 temperature=1 topk=1 topp=1 joint=1 "
           "scale=0.5 softcap=20",
           "cluster.t256.i2.c4.s1");
  CHECK(cluster.plan.workspace.bytes() == 0);
  CHECK(cluster.step.grid == Dim3{12});
  CHECK(cluster.step.cluster == Dim3{4});
  CHECK(cluster.step.block == Dim3{256});
  CHECK(cluster.step.sharedBytes ==
        static_cast<uint32_t>(ClusterSampleConfig{256, 2, 4, 1}.sharedBytes(
            signature("rows=3 vocab=1000 dtype=fp32 temperature=1 topk=1 "
                      "softcap=20"))));
  const SampleParams &params = cluster.params;
  CHECK(params.logits == placeOf(SampleOperand::Logits));
  CHECK((params.ld == 1000 && params.vocab == 1000));
  CHECK((params.scale == 0.5f && params.softcap == 20 &&
         params.inverseCap == 0.05f));
  CHECK(params.seeds == placeOf(SampleOperand::Seeds));
  CHECK(params.topK == placeOf(SampleOperand::TopK));
  CHECK(params.topP == placeOf(SampleOperand::TopP));
  CHECK(params.minP == nullptr);
  CHECK(params.isJoint == 1);
  CHECK(params.advances == 0);
  CHECK(params.tokens == placeOf(SampleOperand::Tokens));

  const Bound spread =
      bind("rows=3 vocab=100000 dtype=bf16 advance=1", "spread.t512.i2.k7");
  CHECK(spread.steps == 2); // its meetings are zeroed
  CHECK(spread.step.grid == Dim3{21});
  CHECK(spread.plan.workspace.zeroedBytes == 3 * sizeof(SampleMeeting));
  CHECK(spread.params.meetings == reinterpret_cast<void *>(0x80000));
  CHECK(spread.params.rowBlocks == 7);
  CHECK(spread.params.temperature == nullptr);
  CHECK(spread.params.positions == placeOf(SampleOperand::Positions));
}

TEST_CASE("sample: what differs at run time shares a kernel") {
  auto sourceOf = [](llvm::StringRef text) {
    auto named = llvm::cantFail(sample().parseConfig("block.t512.i2"));
    return named.tmpl->plan(parse(text), named.config, h200())
        .kernels[0]
        .source();
  };
  CHECK(sourceOf("rows=1 vocab=1000 dtype=bf16 temperature=1 topk=1") ==
        sourceOf("rows=99 vocab=128256 dtype=bf16 temperature=1 topp=1 minp=1 "
                 "int64=1 advance=1 scale=2"));
}
