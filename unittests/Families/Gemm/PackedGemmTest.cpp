// Problems on packed weights (W4A16, W8A16), and the compilation of their
// kernels.
#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Space.h"
#include "KernelSrc/RealCompiler.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <set>
#include <string>

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

TEST_CASE("packed weights are served by their templates, and by naive") {
  for (llvm::StringRef name : {"h200-sxm", "a100-sxm4-80gb"})
    for (const bool isVector : {true, false}) {
      CAPTURE(name.str());
      CAPTURE(isVector);
      std::set<llvm::StringRef> expected = {"naive", "packed"};
      if (name == "h200-sxm")
        expected.insert("packed90");
      if (isVector)
        expected.insert("packedgemv");
      const Problem problem = packed(std::string(isVector ? "m=1" : "m=4") +
                                     " dtype=bf16 b=int4 scale_b=1x128");
      const Space space =
          llvm::cantFail(exploreSpace(gemm(), problem, device(name)));
      std::set<llvm::StringRef> names;
      for (const Candidate &candidate : space.ranked)
        names.insert(candidate.tmpl->name());
      CHECK(names == expected);
      CHECK(space.ranked[0].tmpl->name() != "naive");
    }
}

TEST_CASE("wgmma takes packed weights of every kind, chain and m") {
  for (llvm::StringRef weights :
       {"b=int4 scale_b=1x128", "b=int4 scale_b=1x32 zero_b=1",
        "b=e2m1 scale_b=1x32", "b=int8 scale_b=row scale_type_b=fp32",
        "b=e4m3 scale_b=1x64"})
    for (llvm::StringRef rest :
         {"", "pointwise=bias,swiglu", "beta=1 pointwise=bias,gelu_erf",
          "out=fp32 pointwise=residual", "ldd=257", "align=2 lda=515"})
      for (int m : {1, 16, 100, 129, 4096}) {
        const std::string fields =
            fmt::format("m={} dtype=bf16 {} {}", m, weights.str(), rest.str());
        CAPTURE(fields);
        const Space space =
            llvm::cantFail(exploreSpace(gemm(), packed(fields), h200()));
        size_t configs = 0;
        for (const Candidate &candidate : space.ranked)
          configs += candidate.tmpl->name() == "packed90";
        CHECK(configs > 0);
        CHECK(configs < 60);
      }
}

TEST_CASE("what wgmma on packed weights cannot be has a name") {
  const std::string problem =
      "gemm n=256 k=512 m=100 dtype=bf16 layout=NT order_b=k64r16 b=int4 "
      "scale_b=1x128";
  auto reasonOf = [&](llvm::StringRef config, llvm::StringRef name) {
    return reason(gemm(), problem, config, device(name));
  };
  CHECK(reasonOf("packed90.r128.v104.bk128.st4.wg2", "h200-sxm") == "none");
  CHECK(reasonOf("packed90.r128.v104.bk128.st4.wg2", "l40s") ==
        "architecture: 89, 90 needed");
  CHECK(reasonOf("packed90.r128.v256.bk128.st2.wg2", "h200-sxm") ==
        "register wall: 280 registers of sums and fragments a thread, 200 "
        "allowed");
  CHECK(reasonOf("packed90.r192.v16.bk128.st4.wg2", "h200-sxm") ==
        "instruction-shape: 192 rows, 128 or 256 allowed");
  CHECK(reasonOf("packed90.r128.v16.bk64.st4.wg2", "h200-sxm") ==
        "instruction-shape: 64 elements of k a stage, 128 or 256 allowed");
  CHECK(reasonOf("packed90.r64.v16.bk128.st2.wg2.ks1", "h200-sxm") ==
        "instruction-shape: 2 stages, 3 to 16 allowed");
  CHECK(reasonOf("packed90.r128.v72.bk128.st2.wg2.sk2", "h200-sxm") ==
        "instruction-shape: 72 vectors, up to 64, or multiples of 16 with "
        "splits allowed");
  CHECK(reasonOf("packed90.r128.v8.bk128.st4.wg2.sk8", "h200-sxm") ==
        "dominated: 8 splits, limit 4 splits");
}

TEST_CASE("kernels on packed weights compile without spills") {
  if (!hasNvrtc())
    return;
  for (llvm::StringRef fields :
       {"m=1 dtype=bf16 b=int4 scale_b=1x128",
        "m=24 dtype=bf16 b=int4 scale_b=1x32 zero_b=1",
        "m=5 dtype=fp16 b=e2m1 scale_b=1x32",
        "m=16 dtype=bf16 b=int8 scale_b=row scale_type_b=fp32",
        "m=64 dtype=fp16 b=e4m3 scale_b=1x64",
        "m=128 dtype=bf16 b=int4 scale_b=1x128 pointwise=bias,swiglu"}) {
    CAPTURE(fields.str());
    const Problem problem = packed(fields);
    const Space space = llvm::cantFail(exploreSpace(gemm(), problem, h200()));
    // The first choice of each template.
    std::set<llvm::StringRef> seen;
    for (const Candidate &candidate : space.ranked) {
      if (!seen.insert(candidate.tmpl->name()).second ||
          candidate.tmpl->name() == "naive")
        continue;
      CAPTURE(candidate.config.text());
      const Plan plan = candidate.tmpl->plan(problem, candidate.config, h200());
      Artifact artifact = llvm::cantFail(compiler().compile(plan.kernels[0]));
      CHECK(artifact.rejection(/*maySpill=*/false) == "");
    }
    CHECK(seen.count("packed90") == 1);
  }
}

// The largest tiles of each way to divide the work.
TEST_CASE("wgmma on packed weights compiles without spills at its limits") {
  if (!hasNvrtc())
    return;
  struct Form {
    llvm::StringRef fields, config;
  };
  for (const Form &form : {
           Form{"b=int4 scale_b=1x128", "r256.v112.bk128.st4.wg2"},
           Form{"b=int4 scale_b=1x128", "r128.v176.bk128.st3.wg2"},
           Form{"b=int4 scale_b=1x128 zero_b=1", "r192.v88.bk128.st5.wg3"},
           Form{"b=int4 scale_b=1x128", "r128.v64.bk256.st3.wg2"},
           Form{"b=int4 scale_b=row zero_b=1", "r128.v240.bk128.st2.wg2"},
           Form{"b=int8 scale_b=1x32 scale_type_b=fp32",
                "r64.v96.bk128.st4.wg2.ks1"},
           Form{"b=e2m1 scale_b=1x32", "r256.v64.bk128.st4.wg2"},
           Form{"b=e4m3 scale_b=1x64 pointwise=residual",
                "r256.v48.bk128.st4.wg2"},
           Form{"b=int4 scale_b=1x128 pointwise=bias,swiglu",
                "r128.v64.bk128.st4.wg2.sk2"},
       }) {
    CAPTURE(form.fields.str());
    CAPTURE(form.config.str());
    const Problem problem = packed(("m=256 dtype=bf16 " + form.fields).str());
    const auto named =
        llvm::cantFail(gemm().parseConfig(("packed90." + form.config).str()));
    if (auto rejection = named.tmpl->prune(problem, named.config, h200()))
      FAIL_CHECK(rejection->text());
    const Plan plan = named.tmpl->plan(problem, named.config, h200());
    Artifact artifact = llvm::cantFail(compiler().compile(plan.kernels[0]));
    CHECK(artifact.rejection(/*maySpill=*/false) == "");
  }
}
