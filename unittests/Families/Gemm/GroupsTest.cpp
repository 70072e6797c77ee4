// Grouped GEMM: the rules of its problems, its operands, its plans and its
// calls.
#include "Families/Gemm/GemmProblem.h"
#include "Families/Gemm/Sm90Testing.h"

#include "Call/CallChecks.h"
#include "Device/Catalog.h"
#include "Kernel/Space.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

std::string groupsFailure(llvm::StringRef fields) {
  return failure(gemm(), ("gemm m=64 n=128 k=256 " + fields).str());
}

Problem grouped(llvm::StringRef fields) {
  return parse(("gemm n=256 k=512 layout=NT " + fields).str());
}

} // namespace

TEST_CASE("tiles of groups are counted on average") {
  auto typical = [](int64_t m, int64_t batch, GroupKind groups) {
    GemmProblem problem;
    problem.m = m;
    problem.batch = batch;
    problem.groups = groups;
    return typicalProduct(problem);
  };
  // Sizes from 70 to 130.
  const GemmProblem even = typical(1000, 10, GroupKind::Ends);
  CHECK(even.meanRows == doctest::Approx(100));
  CHECK(tilesAlongM(even, 100) == doctest::Approx(1.5));
  CHECK(tilesAlongM(even, 130) == doctest::Approx(1));
  CHECK(tilesAlongM(even, 256) == doctest::Approx(1));
  CHECK(tilesAlongM(even, 50) == doctest::Approx(2.5));
  // Groups of one row each, and more groups than rows.
  CHECK(tilesAlongM(typical(16, 128, GroupKind::Ends), 64) ==
        doctest::Approx(1));
  // Known sizes are counted.
  CHECK(tilesAlongM(typical(128, 1, GroupKind::Ends), 128) == 1);
  CHECK(tilesAlongM(typical(129, 1, GroupKind::None), 128) == 2);
  CHECK(typical(100, 8, GroupKind::Masked).meanRows == 0);
}

TEST_CASE("equal groups have equal text") {
  CHECK(grouped("m=64 batch=8 dtype=bf16 groups=ends room=70 group_align=1 "
                "divisor=3")
            .text() ==
        "gemm m=64 n=256 k=512 dtype=bf16 layout=NT batch=8 groups=ends");
  CHECK(grouped("m=64 batch=8 dtype=bf16 groups=masked room=64 group_align=8")
            .text() ==
        "gemm m=64 n=256 k=512 dtype=bf16 layout=NT batch=8 groups=masked");
}

TEST_CASE("bad groups get one clear line") {
  CHECK(groupsFailure("dtype=bf16 layout=NT gather=1") ==
        "gemm: gather and scatter need groups=ends");
  CHECK(groupsFailure("dtype=bf16 layout=NT groups=masked row_weights=1") ==
        "gemm: row_weights=1 needs groups=ends");
  CHECK(groupsFailure("dtype=bf16 layout=NT groups=ends batch=1025") ==
        "gemm: batch=1025 groups, at most 1024 work");
  CHECK(groupsFailure("dtype=bf16 layout=TN groups=ends") ==
        "gemm: groups need rows of A along k, layout=NT or NN");
  CHECK(groupsFailure("dtype=bf16 layout=NT groups=ends beta=1") ==
        "gemm: beta is set with groups, which take no C");
  CHECK(groupsFailure("dtype=fp32 compute=tf32 layout=NT groups=ends") ==
        "gemm: compute=tf32 is not available with groups");
  CHECK(groupsFailure("dtype=bf16 layout=NT groups=ends scatter=1 "
                      "pointwise=residual") ==
        "gemm: a residual is not available with scatter");
  CHECK(groupsFailure("dtype=bf16 layout=NT groups=masked room=63") ==
        "gemm: room=63 is less than m=64");
  CHECK(failure(gemm(), "m=0 n=8 k=8 dtype=bf16 groups=masked room=9") ==
        "gemm: m=0, of masked groups m is how many rows to expect of each");
}

TEST_CASE("groups with ends share the matrices of rows") {
  const Problem problem =
      grouped("m=100 batch=8 dtype=e4m3 scale_a=row scale_b=row groups=ends "
              "gather=1 divisor=4 scatter=1 row_weights=1 pointwise=bias");
  const OperandTable table = gemm().operands(problem);
  CHECK(operand(table, GemmOperand::A).rows == 25);
  CHECK(operand(table, GemmOperand::A).batch == 1);
  CHECK(operand(table, GemmOperand::ScaleA).cols == 25);
  CHECK(operand(table, GemmOperand::ScaleA).batch == 1);
  CHECK(operand(table, GemmOperand::B).batch == 8);
  CHECK(operand(table, GemmOperand::ScaleB).batch == 8);
  CHECK(operand(table, GemmOperand::Bias).batch == 8);
  CHECK(operand(table, GemmOperand::D).rows == 100);
  CHECK(operand(table, GemmOperand::D).batch == 1);
  CHECK(operand(table, GemmOperand::GroupSizes).cols == 8);
  CHECK(operand(table, GemmOperand::RowIndex).cols == 100);
  CHECK(operand(table, GemmOperand::RowWeights).cols == 100);
}

TEST_CASE("masked groups have room, which no choice depends on") {
  const Problem problem =
      grouped("m=20 batch=8 dtype=bf16 groups=masked room=300");
  const OperandTable table = gemm().operands(problem);
  for (int index : {GemmOperand::A, GemmOperand::D}) {
    CHECK(operand(table, index).rows == 300);
    CHECK(operand(table, index).batch == 8);
  }
  const Space narrow = llvm::cantFail(exploreSpace(
      gemm(), grouped("m=20 batch=8 dtype=bf16 groups=masked"), h200()));
  const Space wide = llvm::cantFail(exploreSpace(gemm(), problem, h200()));
  REQUIRE(narrow.ranked.size() == wide.ranked.size());
  CHECK(narrow.ranked[0].config == wide.ranked[0].config);
}

TEST_CASE("no plan of masked groups depends on their room") {
  // Rows of A that TMA cannot read in place.
  for (llvm::StringRef fields : {"k=100", "k=512"}) {
    const std::string text =
        ("m=32 n=256 batch=8 dtype=bf16 layout=NT groups=masked " + fields)
            .str();
    const Problem narrow = parse(gemm(), text);
    const Problem wide = parse(gemm(), text + " room=4096");
    const Space space = llvm::cantFail(exploreSpace(gemm(), narrow, h200()));
    for (const Candidate &candidate : space.ranked) {
      CAPTURE(candidate.config.text());
      CHECK(!candidate.tmpl->prune(wide, candidate.config, h200()));
      auto bytesOf = [&](const Problem &problem) {
        const WorkspaceLayout layout =
            candidate.tmpl->workspace(problem, candidate.config, h200());
        return layout.zeroedBytes + layout.scratchBytes;
      };
      CHECK(bytesOf(narrow) == bytesOf(wide));
    }
  }
}

TEST_CASE("a gather waits where it must") {
  const Problem problem =
      grouped("m=64 batch=8 dtype=bf16 groups=ends gather=1 divisor=2");
  for (llvm::StringRef name : {"a100-sxm4-80gb", "h200-sxm"}) {
    const DeviceModel device = llvm::cantFail(findDevice(name));
    const Space tiles = llvm::cantFail(exploreSpace(gemm(), problem, device));
    const Candidate &first = tiles.ranked[0];
    const Plan plan = first.tmpl->plan(problem, first.config, device);
    Arguments arguments = BoundLaunch::argumentsOf(problem);
    arguments.isDependent = true;
    const BoundLaunch launch(plan, arguments);
    REQUIRE(launch.spec.stepCount == 2);
    for (uint32_t i = 0; i < launch.spec.stepCount; ++i)
      CHECK(launch.spec.steps[i].kernel.dependentLaunch ==
            (device.ccMajor >= 9));
  }
}

TEST_CASE("groups are served by tiles, wherever their rows are") {
  for (llvm::StringRef fields :
       {"m=512 batch=16 dtype=bf16 groups=ends",
        "m=16384 batch=8 dtype=bf16 groups=ends gather=1 divisor=2",
        "m=64 batch=128 dtype=bf16 groups=ends scatter=1 row_weights=1",
        "m=32 batch=64 dtype=e4m3 scale_a=1x128 scale_b=128x128 groups=masked "
        "room=512",
        "m=4096 batch=8 dtype=int8 scale_a=row scale_b=row groups=ends"}) {
    CAPTURE(fields.str());
    const Problem problem = grouped(fields);
    const Space space = llvm::cantFail(exploreSpace(gemm(), problem, h200()));
    REQUIRE(!space.ranked.empty());
    CHECK(space.ranked[0].tmpl->name() != "naive");
    for (const Candidate &candidate : space.ranked) {
      llvm::StringRef name = candidate.tmpl->name();
      CHECK((name == "sm90" || name == "mma" || name == "naive"));
    }
  }
}

TEST_CASE("a launch for groups has no more blocks than run at once") {
  const Problem problem = grouped("m=8192 batch=64 dtype=bf16 groups=ends");
  const Space space = llvm::cantFail(exploreSpace(gemm(), problem, h200()));
  for (const Candidate &candidate : space.ranked) {
    if (candidate.tmpl->name() == "naive")
      continue;
    const Plan plan = candidate.tmpl->plan(problem, candidate.config, h200());
    const BoundLaunch launch(plan, problem);
    CAPTURE(candidate.config.text());
    const LaunchStep &last = launch.spec.steps[launch.spec.stepCount - 1];
    CHECK(last.kernel.grid.x <= 16 * h200().smCount);
  }
}

TEST_CASE("groups of a call are those of the text, or are refused by name") {
  kiln_gemm_args args = kiln_gemm_args_init();
  args.layout = KILN_LAYOUT_NT;
  args.m = 60, args.n = 96, args.k = 256, args.batch = 4;
  args.a.type = KILN_BF16;
  args.a.data = reinterpret_cast<void *>(0x100000);
  args.d.data = reinterpret_cast<void *>(0x200000);
  args.b.data = reinterpret_cast<void *>(0x300000);
  args.b.batch_stride = 96 * 256;
  kiln_gemm_groups groups = KILN_INIT(kiln_gemm_groups);
  groups.kind = KILN_GROUPS_ENDS;
  groups.sizes = reinterpret_cast<int32_t *>(0x400000);
  groups.flags = KILN_ROWS_GATHER | KILN_ROWS_SCATTER | KILN_ROWS_WEIGHTS;
  groups.index = reinterpret_cast<int32_t *>(0x500000);
  groups.divisor = 2;
  groups.weights = reinterpret_cast<float *>(0x600000);
  args.groups = &groups;
  const KernelFamily &family = gemm();
  CheckedCall checked(family, &args);
  REQUIRE(checked.problem);
  CHECK(checked.problem->text() ==
        "gemm m=60 n=96 k=256 dtype=bf16 layout=NT batch=4 groups=ends "
        "gather=1 divisor=2 scatter=1 row_weights=1");
  auto refusal = [&](auto breakIt) {
    kiln_gemm_args other = args;
    kiln_gemm_groups otherGroups = groups;
    other.groups = &otherGroups;
    breakIt(other, otherGroups);
    CheckedCall refused(family, &other);
    CHECK(!refused.problem);
    return refused.message;
  };
  using Args = kiln_gemm_args;
  using Groups = kiln_gemm_groups;
  auto contains = [](const std::string &text, const char *part) {
    CAPTURE(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(contains(refusal([](Args &, Groups &g) { g.kind = 0; }),
                 "groups.kind is required"));
  CHECK(contains(refusal([](Args &, Groups &g) { g.kind = 5; }),
                 "groups.kind 5 is unknown"));
  CHECK(contains(refusal([](Args &, Groups &g) { g.sizes = nullptr; }),
                 "groups.sizes is null"));
  CHECK(contains(refusal([](Args &, Groups &g) { g.room = 70; }),
                 "groups.room is 70"));
  CHECK(contains(refusal([](Args &, Groups &g) { g.align = -1; }),
                 "groups.align is -1"));
  CHECK(contains(refusal([](Args &, Groups &g) { g.reserved[3] = 1; }),
                 "groups"));
  CHECK(contains(refusal([](Args &, Groups &g) { g.struct_size = 8; }),
                 "groups: struct_size is 8"));
  CHECK(contains(refusal([](Args &, Groups &g) { g.index = nullptr; }),
                 "groups.index is null"));
  CHECK(contains(refusal([](Args &, Groups &g) { g.flags = 8; }),
                 "groups.flags 0x8 are unknown"));
  CHECK(contains(refusal([](Args &, Groups &g) {
                   g.flags = KILN_ROWS_SCATTER | KILN_ROWS_WEIGHTS;
                 }),
                 "groups.divisor is 2 without a gather"));
  CHECK(contains(refusal([](Args &, Groups &g) {
                   g.flags = KILN_ROWS_WEIGHTS;
                   g.divisor = 0;
                 }),
                 "groups.index is set without"));
  CHECK(contains(refusal([](Args &, Groups &g) { g.flags = KILN_ROWS_GATHER; }),
                 "groups.weights is set without its flag"));
  CHECK(contains(refusal([](Args &, Groups &g) { g.weights = nullptr; }),
                 "groups.weights is null"));
  CHECK(contains(refusal([](Args &a, Groups &g) {
                   a.d.data = const_cast<int32_t *>(g.index);
                 }),
                 "d overlaps groups.index"));
  CHECK(contains(refusal([](Args &a, Groups &) { a.d.batch_stride = 60 * 96; }),
                 "d.batch_stride is 5760, there are no batches"));
}
