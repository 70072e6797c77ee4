// Problems on packed weights, and what ptxas makes of their kernels.
#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Space.h"
#include "KernelSrc/RealCompiler.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

Problem packed(llvm::StringRef fields) {
  return parse(gemm(),
               ("n=256 k=512 layout=NT order_b=k64r16 " + fields).str());
}
std::string packedFailure(llvm::StringRef fields) {
  return failure(gemm(), ("n=256 k=512 m=4 " + fields).str());
}

} // namespace

TEST_CASE("equal products on packed weights have equal text") {
  CHECK(packed("m=4 dtype=bf16 b=int4 scale_b=1x128 scale_type_b=fp16 "
               "ldb=512")
            .text() == "gemm m=4 n=256 k=512 dtype=bf16 layout=NT b=int4 "
                       "scale_b=1x128 order_b=k64r16");
  CHECK(packed("m=4 dtype=fp16 b=e2m1 scale_b=1x32 scale_type_b=e8m0").text() ==
        "gemm m=4 n=256 k=512 dtype=fp16 layout=NT b=e2m1 scale_b=1x32 "
        "order_b=k64r16");
  CHECK(packed("m=4 dtype=bf16 b=int8 scale_b=row scale_type_b=fp32").text() ==
        "gemm m=4 n=256 k=512 dtype=bf16 layout=NT b=int8 scale_b=row "
        "order_b=k64r16 scale_type_b=fp32");
}

TEST_CASE("bad products on packed weights get one clear line") {
  CHECK(packedFailure("dtype=bf16 layout=NT b=int4 scale_b=1x128") ==
        "gemm: b=int4 needs order_b=k64r16");
  CHECK(packedFailure("dtype=bf16 layout=NT zero_b=1") ==
        "gemm: zero_b=1 needs order_b=k64r16");
  CHECK(packedFailure("dtype=e4m3 layout=NT scale_a=1x128 scale_b=1x64") ==
        "gemm: scale_b=1x64 needs order_b=k64r16");
  CHECK(packedFailure("dtype=fp32 layout=NT b=int4 scale_b=row "
                      "order_b=k64r16") ==
        "gemm: order_b=k64r16 is for dtype=bf16 or fp16 with b of int4, int8, "
        "e4m3 or e2m1");
  CHECK(packedFailure("dtype=bf16 layout=NN b=int4 scale_b=row "
                      "order_b=k64r16") ==
        "gemm: order_b=k64r16 needs layout=NT");
  CHECK(packedFailure("dtype=bf16 layout=NT b=int4 scale_b=row batch=2 "
                      "order_b=k64r16") ==
        "gemm: batch=2 without groups: packed weights have no batch");
  for (llvm::StringRef fields :
       {"b=int4", "b=e2m1 scale_b=1x64", "b=int8 scale_b=row zero_b=1",
        "b=int4 scale_b=tensor", "b=int4 scale_b=row scale_type_b=e8m0",
        "b=int4 scale_b=128x128", "b=int4 scale_b=row scale_a=row"}) {
    CAPTURE(fields.str());
    CHECK(packedFailure(("dtype=bf16 layout=NT order_b=k64r16 " + fields).str())
              .find("gemm: packed weights have scales of rows") == 0);
  }
}

TEST_CASE("packed weights have operands in rows of blocks") {
  const Problem problem =
      packed("m=4 dtype=bf16 b=int4 scale_b=1x128 zero_b=1");
  const OperandTable table = gemm().operands(problem);
  const OperandSpec &b = table.operands[GemmOperand::B];
  CHECK(b.rows == 4);
  CHECK(b.cols == 8 * 2048);
  const OperandSpec &scales = table.operands[GemmOperand::ScaleB];
  CHECK(scales.cols == 4 * 64);
  CHECK(scales.type == DType::FP16);
  CHECK(table.operands[GemmOperand::ZeroB].present);
  CHECK(gemm().compulsoryBytes(problem) ==
        4 * 512 * 2 + 4 * 256 * 2 + 256 * 512 / 2 + 256 * 4 * 3);
}

TEST_CASE("packed weights are served by their template, and by naive") {
  const Problem problem = packed("m=4 dtype=bf16 b=int4 scale_b=1x128");
  const Space space = llvm::cantFail(exploreSpace(gemm(), problem, h200()));
  REQUIRE(!space.ranked.empty());
  CHECK(space.ranked[0].tmpl->name() == "packed");
  for (const Candidate &candidate : space.ranked) {
    const llvm::StringRef name = candidate.tmpl->name();
    CHECK((name == "packed" || name == "naive"));
  }
}

TEST_CASE("kernels on packed weights compile without spills") {
  if (!hasNvrtc())
    return;
  for (llvm::StringRef fields :
       {"m=1 dtype=bf16 b=int4 scale_b=1x128",
        "m=24 dtype=bf16 b=int4 scale_b=1x32 zero_b=1",
        "m=5 dtype=fp16 b=e2m1 scale_b=1x32",
        "m=16 dtype=bf16 b=int8 scale_b=row scale_type_b=fp32",
        "m=64 dtype=fp16 b=e4m3 scale_b=1x64"}) {
    CAPTURE(fields.str());
    const Problem problem = packed(fields);
    const Space space = llvm::cantFail(exploreSpace(gemm(), problem, h200()));
    REQUIRE(space.ranked[0].tmpl->name() == "packed");
    CAPTURE(space.ranked[0].config.text());
    const Plan plan =
        space.ranked[0].tmpl->plan(problem, space.ranked[0].config, h200());
    Artifact artifact = llvm::cantFail(compiler().compile(plan.kernels[0]));
    CHECK(artifact.rejection(/*maySpill=*/false) == "");
  }
}
