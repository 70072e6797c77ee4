#include "Families/FamilyTesting.h"
#include "Families/Gather/GatherFamily.h"
#include "Kernel/ConfigSchema.h"
#include "Kernel/Space.h"
#include "Support/Format.h"
#include "gather/LaneGatherConfig.h"
#include "trial/IntegerValues.h"

#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

const KernelFamily &gather() { return *registry().find("gather"); }
const Template &lanes() { return *gather().findTemplate("lanes"); }

Problem parse(llvm::StringRef text) { return testing::parse(gather(), text); }
std::string failure(llvm::StringRef text) {
  return testing::failure(gather(), text);
}
std::string reason(llvm::StringRef problem, llvm::StringRef config) {
  return testing::reason(gather(), problem, config);
}

/// The parameters and the step of a launch of \p text with \p config.
struct Bound {
  LaneGatherParams params;
  KernelStep step;
};
Bound bind(llvm::StringRef text, llvm::StringRef config) {
  const Problem problem = parse(text);
  auto named = llvm::cantFail(gather().parseConfig(config));
  const Plan plan = named.tmpl->plan(problem, named.config, h200());
  CHECK(plan.takesDependentLaunch);
  CHECK(plan.workspace.bytes() == 0);
  Arguments arguments = gather().defaultArguments(problem);
  for (int i = 0; i < GatherOperand::Count; ++i)
    arguments.operands[i].address = 0x1000 * static_cast<uint64_t>(i + 1);
  LaunchSpec spec;
  plan.binder->bind(arguments, LaunchContext{}, spec);
  REQUIRE(spec.stepCount == 1);
  Bound bound{{}, spec.steps[0].kernel};
  std::memcpy(&bound.params, spec.params + bound.step.paramOffset,
              sizeof(bound.params));
  return bound;
}

} // namespace

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

TEST_CASE("gather: equal problems have equal text") {
  const Problem plain = parse("gather rows=64 cols=128 dtype=bf16");
  CHECK(plain.text() == "gather rows=64 cols=128 dtype=bf16");
  CHECK(parse("rows=64 cols=128 dtype=bf16 out=bf16 batch=1 by=indices "
              "index=int32 xrows=64 yrows=9 first=0 divisor=1 scale=0 ldx=128 "
              "ldy=128 align=16")
            .text() == plain.text());
  // Of 64 indices, 8 of which share a row.
  CHECK(parse("rows=64 cols=128 dtype=bf16 divisor=8 xrows=8").text() ==
        "gather rows=64 cols=128 dtype=bf16 divisor=8");
  CHECK(parse("rows=64 cols=128 dtype=bf16 by=targets yrows=65").text() ==
        "gather rows=64 cols=128 dtype=bf16 by=targets yrows=65");
  // A factor of 1 is one that calls may change.
  CHECK(parse("rows=64 cols=128 dtype=bf16 scale=1").text() ==
        "gather rows=64 cols=128 dtype=bf16 scale=1");
}

TEST_CASE("gather: choices depend neither on tables nor on shards") {
  CHECK(gather().fixedText(parse("rows=64 cols=128 dtype=bf16 xrows=128256 "
                                 "first=4096 index=int64 scale=2")) ==
        "gather rows=0 cols=128 dtype=bf16 index=int64 | gather in=bf16 "
        "out=bf16");
}

TEST_CASE("gather: bad problems get one clear line") {
  CHECK(failure("rows=4 cols=8 dtype=int8 out=bf16") ==
        "gather: out=bf16 from dtype=int8: y has x's type or, unless that is "
        "int8, bf16, fp16 or fp32");
  CHECK(failure("rows=4 cols=8 dtype=bf16 out=fp8_e4m3") ==
        "gather: out=e4m3 from dtype=bf16: y has x's type or, unless that is "
        "int8, bf16, fp16 or fp32");
  CHECK(failure("rows=4 cols=8 dtype=bf16 scale=1e60") ==
        "gather: scale=1e+60 is beyond the range of fp32");
  CHECK(failure("rows=4 cols=8 dtype=bf16 divisor=0") ==
        "gather: divisor=0 is below 1");
  CHECK(failure("rows=4 cols=8 dtype=bf16 ldx=7") ==
        "gather: ldx=7 is below the row length 8");
  CHECK(failure("rows=4 cols=8 dtype=fp32 out=bf16 align=1") ==
        "gather: align=1 is below the element's 2 bytes");
  CHECK(failure("rows=4 cols=8 dtype=bf16 xrows=2147483647 batch=2147483647") ==
        "gather: ldx=8: 2147483647 such rows in a batch of 2147483647 exceed "
        "the address space");
}

TEST_CASE("gather: the signature is what is converted, and what divides all") {
  auto signature = [](llvm::StringRef text) {
    const Problem problem = parse(text);
    const GatherSignature s = readGatherSignature(problem.signature);
    CHECK(toValues(s) == problem.signature);
    CHECK(s.isWellFormed());
    return s;
  };
  const GatherSignature moved{};
  for (llvm::StringRef type : {"bf16", "fp16", "fp32", "fp8_e4m3", "int8"})
    CHECK(signature(fmt::format("rows=3 cols=64 dtype={}", type)) == moved);
  CHECK(signature("rows=3 cols=64 dtype=bf16 by=both index=int64 batch=7 "
                  "first=3 divisor=5 xrows=1001 yrows=77") == moved);
  // Every extent and leading dimension on which a vector depends.
  CHECK(signature("rows=3 cols=4 dtype=bf16").align == 8);
  CHECK(signature("rows=3 cols=64 dtype=bf16 ldx=66").align == 4);
  CHECK(signature("rows=3 cols=64 dtype=bf16 ldy=65").align == 2);
  CHECK(signature("rows=3 cols=64 dtype=int8 align=1").align == 1);
  CHECK(signature("rows=3 cols=64 dtype=fp32 align=8").align == 8);
  CHECK(signature("rows=3 cols=64 dtype=bf16 scale=2") ==
        GatherSignature{DType::BF16, DType::BF16, 16});
  // In elements of the wider type: 2 here, which take 4 bytes of x.
  CHECK(signature("rows=3 cols=66 dtype=bf16 out=fp32") ==
        GatherSignature{DType::BF16, DType::FP32, 8});
  CHECK(signature("rows=3 cols=64 dtype=fp8_e4m3 out=bf16 ldx=68 align=4") ==
        GatherSignature{DType::E4M3, DType::BF16, 4});
  CHECK(signature("rows=3 cols=64 dtype=fp32 out=bf16 align=2").align == 4);
}

TEST_CASE("gather: the operand table describes rows, not tables") {
  const Problem problem =
      parse("rows=6 cols=5 dtype=fp16 by=both index=int64 batch=2 xrows=7 "
            "yrows=9 ldx=6 ldy=7 first=100 divisor=3 align=4");
  const auto operands = gather().operands(problem).operands;
  REQUIRE(operands.size() == GatherOperand::Count);
  const OperandSpec &x = operands[GatherOperand::X];
  const OperandSpec &y = operands[GatherOperand::Y];
  CHECK((x.rows == 7 && x.batchStride == 42 && x.misalignment == 4));
  CHECK((y.rows == 9 && y.batchStride == 63 && y.isWritten()));
  CHECK(y.tolerance.relative == 0);
  CHECK(y.mayBe == -1);
  const OperandSpec &indices = operands[GatherOperand::Indices];
  CHECK(indices.type == DType::INT64);
  CHECK(indices.cols == 6);
  CHECK(indices.usual.integers.least == 300);
  CHECK(indices.usual.integers.most == 320);
  CHECK(indices.outliers.integers.least == -1);
  CHECK(indices.outliers.integers.most > 320);
  // 6 indices name 2 rows; a batch reads its arrays once.
  CHECK(gather().compulsoryBytes(problem) ==
        2 * 5 * (2 * 2 + 6 * 2) + 2 * 6 * 8);
  CHECK(gather().isEmpty(parse("rows=6 cols=5 dtype=fp16 batch=0")));
  CHECK(gather().isEmpty(parse("rows=0 cols=5 dtype=fp16")));
  CHECK(gather().isEmpty(parse("rows=6 cols=0 dtype=fp16")));
}

TEST_CASE("gather: targets of trials are all different") {
  for (llvm::StringRef text :
       {"rows=1 cols=8 dtype=bf16 by=targets",
        "rows=100 cols=8 dtype=bf16 by=targets",
        "rows=100 cols=8 dtype=bf16 by=both yrows=7",
        "rows=100 cols=8 dtype=bf16 by=both yrows=1000"}) {
    CAPTURE(text.str());
    const Problem problem = parse(text);
    const GatherProblem p = readGatherProblem(problem.values.array().data());
    const OperandSpec targets =
        gather().operands(problem).operands[GatherOperand::Targets];
    for (TrialData data : {TrialData::Usual, TrialData::Outliers}) {
      const IntegerValues values{.init = targets.init(data).integers,
                                 .differ = data == TrialData::Outliers,
                                 .count = p.rows,
                                 .seed = 3};
      std::set<int64_t> seen;
      for (int64_t i = 0; i < p.rows; ++i)
        if (const int64_t row = values.at(i); row >= 0 && row < p.yRows)
          CHECK(seen.insert(row).second);
      CHECK((!seen.empty() || data == TrialData::Outliers));
    }
  }
}

TEST_CASE("gather: a pool may be both x and y") {
  auto mayBe = [](llvm::StringRef text) {
    return gather().operands(parse(text)).operands[GatherOperand::Y].mayBe;
  };
  CHECK(mayBe("rows=4 cols=8 dtype=bf16 by=both xrows=9 yrows=9") ==
        GatherOperand::X);
  CHECK(mayBe("rows=4 cols=8 dtype=bf16 by=targets out=fp16") ==
        GatherOperand::X);
  CHECK(mayBe("rows=4 cols=8 dtype=bf16 by=both xrows=9 yrows=8") == -1);
  CHECK(mayBe("rows=4 cols=8 dtype=bf16 by=both out=fp32") == -1);
  CHECK(mayBe("rows=4 cols=8 dtype=bf16 by=both ldx=16") == -1);
  CHECK(mayBe("rows=4 cols=8 dtype=bf16") == -1);
}

//===----------------------------------------------------------------------===//
// Space
//===----------------------------------------------------------------------===//

TEST_CASE("gather: every type, size and alignment is served") {
  for (llvm::StringRef types :
       {"dtype=bf16", "dtype=int8", "dtype=fp32 out=bf16", "dtype=fp8_e4m3",
        "dtype=fp8_e4m3 out=fp32", "dtype=int8 scale=3"})
    for (llvm::StringRef sizes :
         {"rows=1 cols=1", "rows=1 cols=262143", "rows=4097 cols=1",
          "rows=31 cols=1000", "rows=8192 cols=8192", "rows=6 cols=6",
          "rows=16 cols=32 align=4", "rows=2147483647 cols=16777215",
          "rows=2147483647 cols=3 batch=100000"}) {
      const std::string text = fmt::format("{} {}", sizes, types);
      CAPTURE(text);
      auto space =
          exploreSpace(gather(), parse(text), h200(), {.keepRejected = true});
      REQUIRE(bool(space));
      CHECK(space->ranked.size() >= 3);
      CHECK(space->ranked.size() + space->rejected.size() <= 320);
    }
}

TEST_CASE("gather: prune names the limit that a typed config breaks") {
  const llvm::StringRef rows = "rows=64 cols=4096 dtype=bf16";
  CHECK(reason(rows, "lanes.t256.l128.i4.r1.v16") == "none");
  CHECK(reason(rows, "lanes.t256.l256.i16.r1.v2") == "none");
  CHECK(reason("rows=64 cols=4092 dtype=bf16", "lanes.t256.l128.i4.r1.v16") ==
        "alignment: 16 B, limit 8 B");
  CHECK(reason(rows, "lanes.t256.l128.i4.r1.v1") ==
        "instruction-shape: 1 bytes a vector, an element to 16, a power of two "
        "allowed");
  CHECK(reason(rows, "lanes.t96.l32.i4.r1.v16") ==
        "instruction-shape: 96 threads a block, a power of two from 32 to 1024 "
        "allowed");
  CHECK(reason(rows, "lanes.t128.l256.i4.r1.v16") ==
        "instruction-shape: 256 lanes a row, a power of two up to the threads "
        "of a block allowed");
  CHECK(reason(rows, "lanes.t128.l128.i32.r1.v16") ==
        "instruction-shape: 32 vectors of a row, a power of two up to 16 "
        "allowed");
  CHECK(reason(rows, "lanes.t128.l128.i1.r16.v16") ==
        "instruction-shape: 16 rows a thread, a power of two up to 8 allowed");
  CHECK(reason(rows, "lanes.t128.l128.i8.r4.v16") ==
        "register wall: 32 vectors a thread, 16 allowed");
  CHECK(reason(rows, "lanes.t256.l128.i4.r1.v16.h2") ==
        "instruction-shape: 2 as the hint, 0 or 1 allowed");
}

TEST_CASE("gather: the texts of configs are pinned") {
  const Schema &schema = lanes().configSchema();
  CHECK(toValues(LaneGatherConfig{}, schema).text() ==
        "lanes.t256.l128.i4.r1.v16");
  CHECK(toValues(LaneGatherConfig{.hint = 1}, schema).text() ==
        "lanes.t256.l128.i4.r1.v16.h1");
}

TEST_CASE("gather: few rows are cut into pieces") {
  // More than one SM has a part of a single long row.
  auto space =
      exploreSpace(gather(), parse("rows=1 cols=65536 dtype=bf16"), h200());
  REQUIRE(bool(space));
  const auto config =
      fromValues<LaneGatherConfig>(space->ranked.front().config);
  CHECK(config.pieces(65536 * 2 / config.access) >= 16);
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

TEST_CASE("gather: what differs at run time shares a kernel") {
  auto named = llvm::cantFail(gather().parseConfig("lanes.t128.l32.i2.r2.v8"));
  auto sourceOf = [&](llvm::StringRef text) {
    return named.tmpl->plan(parse(text), named.config, h200())
        .kernels[0]
        .source();
  };
  const std::string source = sourceOf("rows=8 cols=4096 dtype=bf16");
  for (llvm::StringRef text :
       {"rows=9 cols=12 dtype=fp16", "rows=3 cols=8 dtype=int8 align=8",
        "rows=8 cols=4096 dtype=fp32 by=targets yrows=99",
        "rows=8 cols=64 dtype=fp8_e4m3 by=both index=int64 batch=3 divisor=2"})
    CHECK(sourceOf(text) == source);
  CHECK(sourceOf("rows=8 cols=4096 dtype=bf16 scale=1") != source);
}

TEST_CASE("gather: bind places operands and the grid") {
  const auto [params, step] =
      bind("rows=1000 cols=200 dtype=bf16 xrows=128256 first=4096 divisor=2 "
           "ldx=208",
           "lanes.t128.l16.i1.r2.v16");
  const GatherParams &given = params.operands;
  CHECK(given.x == reinterpret_cast<void *>(0x1000));
  CHECK(given.y == reinterpret_cast<void *>(0x2000));
  CHECK(given.indices == reinterpret_cast<void *>(0x3000));
  CHECK(given.targets == nullptr);
  CHECK((given.rows == 1000 && given.cols == 200 && given.batch == 1));
  CHECK((given.xRows == 128256 && given.yRows == 1000));
  CHECK((given.first == 4096 && given.divisor == 2));
  CHECK((given.indexBytes == 4 && given.scale == 1));
  CHECK((params.xPitch == 416 && params.yPitch == 400));
  // 25 vectors a row by 16 lanes; 8 groups of lanes with 2 rows each.
  CHECK((params.rowVectors == 25 && params.pieces == 2));
  CHECK((params.rowTiles == 63 && params.tiles == 126));
  CHECK(step.grid == Dim3{126});
  CHECK(step.block == Dim3{128});
  CHECK(step.sharedBytes == 0);
}

TEST_CASE("gather: bind tells arrays, strides and the scale") {
  const auto [params, step] =
      bind("rows=10 cols=64 dtype=fp8_e4m3 out=fp32 by=both index=int64 "
           "batch=3 xrows=50 yrows=70 scale=0.5",
           "lanes.t64.l16.i1.r1.v16");
  const GatherParams &given = params.operands;
  CHECK(given.targets == reinterpret_cast<void *>(0x4000));
  CHECK((given.indexBytes == 8 && given.scale == 0.5f));
  CHECK((given.xStride == 50 * 64 && given.yStride == 70 * 64));
  CHECK((params.xBatchPitch == 50 * 64 && params.yBatchPitch == 70 * 64 * 4));
  // 4 elements a vector, of which x has 4 bytes.
  CHECK((params.rowVectors == 16 && params.tiles == 3 * 3));
  CHECK(step.grid == Dim3{9});
  const auto [huge, hugeStep] =
      bind("rows=2147483647 cols=3 dtype=bf16 batch=100000",
           "lanes.t64.l1.i1.r1.v2");
  CHECK(huge.tiles == int64_t(100000) * 33554432 * 3);
  CHECK(hugeStep.grid == Dim3{2147483647});
}

TEST_CASE("gather: the reference has a block for each row of y") {
  const Problem problem = parse("rows=10 cols=64 dtype=bf16 by=both yrows=70");
  auto reference = gather().reference(problem, h200());
  LaunchSpec spec;
  const Arguments arguments = gather().defaultArguments(problem);
  reference->bind(arguments, {GatherOperand::Y, 20, 70, 0x3000, 0x4000}, spec);
  REQUIRE(spec.stepCount == 1);
  CHECK(spec.steps[0].kernel.grid == Dim3{50});
}

//===----------------------------------------------------------------------===//
// Tiles, walked through on the host
//===----------------------------------------------------------------------===//

TEST_CASE("gather: tiles cover every vector once") {
  for (llvm::StringRef text :
       {"rows=1 cols=4096 dtype=bf16", "rows=37 cols=1001 dtype=bf16",
        "rows=100 cols=24 dtype=bf16 batch=3", "rows=5 cols=3 dtype=int8"}) {
    CAPTURE(text.str());
    const Problem problem = parse(text);
    const GatherProblem p = readGatherProblem(problem.values.array().data());
    lanes().enumerate(problem, h200(), [&](Values values) {
      const auto config = fromValues<LaneGatherConfig>(values);
      LaneGatherParams params;
      params.operands.rows = p.rows;
      params.operands.cols = p.cols;
      params.operands.batch = p.batch;
      config.fillTiles(params, static_cast<int>(p.widerBytes()));
      CHECK(params.rowVectors * config.access == p.cols * p.widerBytes());
      CHECK(params.pieces * config.pieceVectors() >= params.rowVectors);
      CHECK((params.pieces - 1) * config.pieceVectors() < params.rowVectors);
      CHECK(params.rowTiles * config.tileRows() >= p.rows);
      CHECK((params.rowTiles - 1) * config.tileRows() < p.rows);
      CHECK(params.tiles == params.pieces * params.rowTiles * p.batch);
    });
  }
}
