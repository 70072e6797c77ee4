// Products with an e4m3 D: the rules of their problems, their operands, their
// plans and their calls.
#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/Sm90Testing.h"

#include "Call/CallChecks.h"
#include "Device/Catalog.h"
#include "Kernel/Space.h"
#include "gemm/QuantizeOutputConfig.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

std::string quantizedFailure(llvm::StringRef fields) {
  return failure(gemm(), ("gemm m=64 n=256 k=512 layout=NT " + fields).str());
}

Problem quantized(llvm::StringRef fields) {
  return parse(("gemm m=64 n=256 k=512 layout=NT out=e4m3 " + fields).str());
}

} // namespace

TEST_CASE("equal quantised problems have equal text") {
  CHECK(quantized("dtype=bf16 scale_d=row scale_order_d=rows ldsd=7").text() ==
        "gemm m=64 n=256 k=512 dtype=bf16 out=e4m3 layout=NT scale_d=row");
  CHECK(quantized("dtype=bf16 scale_d=1x128 ldsd=2 ldd=256").text() ==
        "gemm m=64 n=256 k=512 dtype=bf16 out=e4m3 layout=NT scale_d=1x128");
  CHECK(
      quantized("dtype=bf16 scale_d=1x128 scale_order_d=rows ldsd=64").text() ==
      "gemm m=64 n=256 k=512 dtype=bf16 out=e4m3 layout=NT scale_d=1x128 "
      "scale_order_d=rows");
}

TEST_CASE("bad quantised problems get one clear line") {
  CHECK(quantizedFailure("dtype=bf16 out=e4m3") ==
        "gemm: out=e4m3 needs scale_d");
  CHECK(quantizedFailure("dtype=bf16 scale_d=row") ==
        "gemm: scale_d needs out=e4m3");
  CHECK(quantizedFailure("dtype=fp32 out=e4m3 scale_d=row") ==
        "gemm: out=e4m3 needs dtype=bf16, fp16, e4m3, e5m2 or int8");
  CHECK(quantizedFailure("dtype=bf16 out=e4m3 scale_d=row batch=4 groups=ends "
                         "scatter=1") ==
        "gemm: out=e4m3 is not available with scatter");
  CHECK(quantizedFailure("dtype=bf16 out=e4m3 scale_d=1x128 ldsd=1") != "");
}

TEST_CASE("scales of an e4m3 D are given or written") {
  OperandTable table = gemm().operands(quantized("dtype=bf16 scale_d=tensor"));
  CHECK(operand(table, GemmOperand::ScaleD).role == OperandRole::In);
  CHECK(operand(table, GemmOperand::ScaleD).cols == 1);
  table = gemm().operands(
      quantized("dtype=fp16 scale_d=row batch=3 pointwise=bias beta=1"));
  const OperandSpec &rows = operand(table, GemmOperand::ScaleD);
  CHECK((rows.isWritten() && rows.rows == 1 && rows.cols == 64));
  CHECK((rows.batch == 3 && rows.batchStride == 64));
  CHECK(rows.slot == KILN_GEMM_SCALE_D);
  CHECK(operand(table, GemmOperand::Bias).type == DType::FP16);
  CHECK(operand(table, GemmOperand::C).type == DType::FP16);
  CHECK(operand(table, GemmOperand::D).mayBe == -1);
  // Columns count in D.
  table = gemm().operands(
      quantized("dtype=int8 scale_d=1x128 ldsd=5 pointwise=swiglu"));
  const OperandSpec &blocks = operand(table, GemmOperand::ScaleD);
  CHECK(
      (blocks.rows == 64 && blocks.cols == 1 && blocks.leadingDimension == 5));
  table = gemm().operands(
      quantized("dtype=bf16 scale_d=1x128 scale_order_d=rows batch=4 ldsd=80"));
  const OperandSpec &along = operand(table, GemmOperand::ScaleD);
  CHECK((along.rows == 2 && along.cols == 64 && along.batchStride == 160));
}

TEST_CASE("the first step of a quantised problem is the product's own") {
  for (llvm::StringRef name : {"a100-sxm4-80gb", "h200-sxm"}) {
    const DeviceModel device = llvm::cantFail(findDevice(name));
    const Problem problem = quantized("dtype=bf16 scale_d=1x128 ldd=272");
    const Problem product = parse("gemm m=64 n=256 k=512 layout=NT dtype=bf16");
    const Space space = llvm::cantFail(exploreSpace(gemm(), problem, device));
    REQUIRE(!space.ranked.empty());
    for (const Candidate &candidate : space.ranked) {
      CAPTURE(candidate.config.text());
      const Plan plan = candidate.tmpl->plan(problem, candidate.config, device);
      const Plan inner =
          candidate.tmpl->plan(product, candidate.config, device);
      REQUIRE(plan.kernels.size() == inner.kernels.size() + 1);
      CHECK(plan.kernels[0].digest().hex() == inner.kernels[0].digest().hex());
      CHECK(plan.workspace.scratchBytes ==
            (inner.workspace.scratchBytes + 255) / 256 * 256 + 64 * 256 * 2);
      CHECK(candidate.tmpl->workspace(problem, candidate.config, device)
                .scratchBytes == plan.workspace.scratchBytes);
      const BoundLaunch launch(plan, problem);
      const LaunchStep &last = launch.spec.steps[launch.spec.stepCount - 1];
      CHECK(last.kernel.function == plan.kernels.size() - 1);
      CHECK(last.kernel.dependentLaunch == (device.ccMajor >= 9));
      const auto &params =
          launch.spec.paramsOf<QuantizeOutputParams>(last.kernel);
      CHECK((params.rows == 64 && params.columns == 256 && params.ldd == 272));
      CHECK((params.scaleRowStride == 2 && params.scaleGroupStride == 1));
    }
  }
}

// Loaded kernels are identified by the problem's signature.
TEST_CASE("a quantised problem's signature says what the product's is") {
  for (llvm::StringRef fields :
       {"dtype=bf16 scale_d=row ldd=257", "dtype=bf16 scale_d=row align=2",
        "dtype=e4m3 scale_d=tensor align=1 pointwise=residual ldr=260",
        "dtype=fp16 scale_d=1x128 align=1 lda=515 beta=1 ldc=258"}) {
    CAPTURE(fields.str());
    const Problem problem = quantized(fields);
    GemmSignature signature = readGemmSignature(problem.signature);
    const GemmProduct product(problem);
    CHECK(signature.scaleD ==
          readGemmProblem(problem.values.array().data()).scaleD.kind);
    signature.scaleD = ScaleKind::None;
    signature.out = product.signature.out;
    signature.alignD = std::max(signature.alignD, 2);
    CHECK(signature == product.signature);
  }
}

TEST_CASE("a quantised problem's launch has no step too many") {
  // Splits clear sums, and two operands are copied.
  const Problem problem =
      parse("gemm m=64 n=64 k=8191 layout=NT dtype=bf16 out=e4m3 scale_d=row "
            "lda=8193 ldb=8193 align=2");
  const Space space = llvm::cantFail(
      exploreSpace(gemm(), problem, h200(), {.keepRejected = true}));
  for (const Candidate &candidate : space.ranked) {
    const Plan plan = candidate.tmpl->plan(problem, candidate.config, h200());
    CHECK(BoundLaunch(plan, problem).spec.stepCount <= LaunchSpec::kMaxSteps);
  }
}

TEST_CASE("scales of D in a call are those of the text, or are refused") {
  kiln_gemm_args args = kiln_gemm_args_init();
  args.layout = KILN_LAYOUT_NT;
  args.m = 3, args.n = 300, args.k = 256;
  args.a.type = KILN_BF16;
  args.a.data = reinterpret_cast<void *>(0x100000);
  args.b.data = reinterpret_cast<void *>(0x300000);
  args.d.data = reinterpret_cast<void *>(0x200000);
  args.d.type = KILN_E4M3;
  kiln_gemm_quantized_d quantized = KILN_INIT(kiln_gemm_quantized_d);
  kiln_scale &scale = quantized.scale;
  scale.data = reinterpret_cast<void *>(0x500004);
  scale.granularity = KILN_GRANULARITY_BLOCK;
  scale.block_rows = 1, scale.block_columns = 128;
  args.quantized_d = &quantized;
  auto textOf = [&] {
    CheckedCall checked(gemm(), &args);
    if (!checked.problem)
      return checked.message;
    CHECK(checked.call.arguments.operands[GemmOperand::ScaleD].address ==
          0x500004);
    return checked.problem->text();
  };
  const std::string text = "gemm m=3 n=300 k=256 dtype=bf16 out=e4m3 layout=NT";
  CHECK(textOf() == text + " scale_d=1x128");
  scale.row_stride = 1, scale.column_stride = 8;
  CHECK(textOf() == text + " scale_d=1x128 scale_order_d=rows ldsd=8");
  args.batch = 2;
  args.d.batch_stride = 900;
  CHECK(textOf() == "quantized_d.scale.batch_stride is 0 with a batch of 2");
  scale.batch_stride = 18;
  CHECK(textOf() == "quantized_d.scale.batch_stride is 18, but each of its 2 "
                    "matrices spans 19 scales");
  args.batch = 1;
  args.d.batch_stride = scale.batch_stride = 0;
  scale.data = args.d.data;
  CHECK(textOf() == "d overlaps quantized_d.scale");
  scale.data = reinterpret_cast<void *>(0x500004);
  scale = kiln_tensor_scale_init(scale.data);
  CHECK(textOf() == text + " scale_d=tensor");
  args.d.type = KILN_BF16;
  CHECK(textOf() == "quantized_d.scale needs d.type=e4m3");
  scale = {};
  CHECK(textOf() == "quantized_d.scale.granularity is required");
}
