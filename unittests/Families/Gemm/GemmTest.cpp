#include "Families/Gemm/GemmProblem.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/GemmTesting.h"

#include "Support/Hash.h"
#include "gemm/FfmaGemmConfig.h"
#include "gemm/GemvConfig.h"
#include "gemm/MmaGemmConfig.h"
#include "gemm/NaiveGemmConfig.h"
#include "gemm/SimtGemmConfig.h"
#include "gemm/SkinnyGemmConfig.h"
#include "gemm/Sm90GemmConfig.h"
#include "kiln/types.h"

#include <doctest/doctest.h>

#include <llvm/Support/FormatVariadic.h>

using namespace kiln;
using namespace kiln::testing;

static std::string failure(llvm::StringRef text) {
  return failure(gemm(), text);
}

TEST_CASE("equal problems have equal text") {
  auto plain = parse("gemm m=64 n=128 k=256 dtype=bf16 layout=NT");
  CHECK(plain.text() == "gemm m=64 n=128 k=256 dtype=bf16 layout=NT");
  CHECK(parse("gemm m=64 n=128 k=256 dtype=bf16 out=bf16 layout=NT lda=256 "
              "ldb=256 ldc=999 ldd=128 batch=1 alpha=1 beta=0 align=16")
            .text() == plain.text());
  // Fields that are never read are not errors either.
  CHECK(
      parse("gemm m=64 n=128 k=256 dtype=bf16 layout=NT ldc=1 ldr=1").text() ==
      plain.text());
  CHECK(parse("gemm m=64 n=128 k=256 dtype=bf16 layout=NT beta=1 ldc=999")
            .text() ==
        "gemm m=64 n=128 k=256 dtype=bf16 layout=NT beta=1 ldc=999");
}

TEST_CASE("bad problems get one clear line") {
  CHECK(failure("gemm m=-1 n=1 k=1 dtype=bf16") == "gemm: m=-1 is below 0");
  CHECK(failure("gemm m=1 n=1 k=1 dtype=bf16 out=fp16") ==
        "gemm: out is neither dtype nor fp32");
  CHECK(failure("gemm m=1 n=1 k=1 dtype=bf16 compute=tf32") ==
        "gemm: compute=tf32 needs dtype=fp32");
  CHECK(failure("gemm m=1 n=1 k=8 dtype=bf16 lda=4") ==
        "gemm: lda=4 is below the row length 8");
  auto shortRow = [](llvm::StringRef fields) {
    return failure(("gemm m=2 n=8 k=4 dtype=bf16 " + fields).str());
  };
  CHECK(shortRow("layout=NN ldb=7") == "gemm: ldb=7 is below the row length 8");
  CHECK(shortRow("layout=NT ldb=3") == "gemm: ldb=3 is below the row length 4");
  CHECK(shortRow("layout=NT lda=3") == "gemm: lda=3 is below the row length 4");
  CHECK(shortRow("layout=TN lda=1") == "gemm: lda=1 is below the row length 2");
  CHECK(shortRow("ldd=7") == "gemm: ldd=7 is below the row length 8");
  CHECK(shortRow("beta=1 ldc=7") == "gemm: ldc=7 is below the row length 8");
  CHECK(shortRow("pointwise=residual ldr=7") ==
        "gemm: ldr=7 is below the row length 8");
  CHECK(failure("gemm m=1 n=1 k=1 dtype=bf16 align=3") ==
        "gemm: align=3 is not a power of two");
  CHECK(failure("gemm m=1 n=1 k=1 dtype=fp32 align=2") ==
        "gemm: align=2 is below the element's 4 bytes");
  CHECK(failure("gemm m=1 n=1 k=1 dtype=bf16 pointwise=bias,bias") ==
        "gemm: pointwise has more than one bias or residual");
  CHECK(failure("gemm m=2147483647 n=2147483647 k=1 dtype=bf16 "
                "batch=2147483647")
            .find("in a batch of 2147483647 exceed the address space") !=
        std::string::npos);
}

TEST_CASE("a chain knows where it joins columns") {
  using Op = PointwiseOp;
  constexpr PointwiseChain plain{{Op::Bias, Op::Silu, Op::Residual}};
  static_assert(plain.joinAt() == plain.size() && plain.size() == 3);
  static_assert(plain.columnsPerResult() == 1 && plain.columnsBefore(2) == 1);
  constexpr PointwiseChain joined{{Op::Bias, Op::SwiGlu, Op::Residual}};
  static_assert(joined.joinAt() == 1 && joined.columnsPerResult() == 2);
  static_assert(joined.columnsBefore(0) == 1 && joined.columnsBefore(1) == 1);
  static_assert(joined.columnsBefore(2) == 2);
  static_assert(joined.find(Op::Residual) == 2 && joined.find(Op::Mul) == 3);
  CHECK(decodeChain(encodeChain(joined)) == joined);
  // Eight links leave no None to end at.
  PointwiseChain full;
  std::fill_n(full.ops, PointwiseChain::kMaxOps, Op::Relu);
  CHECK(full.joinAt() == PointwiseChain::kMaxOps);
  full.ops[7] = Op::SwiGlu;
  CHECK(full.joinAt() == 7);
  CHECK(full.columnsPerResult() == 2);
}

TEST_CASE("swiglu halves d and what is read behind it") {
  Problem problem = parse("gemm m=4 n=6 k=8 dtype=bf16 layout=NT batch=3 "
                          "pointwise=bias,swiglu,residual ldd=3 ldr=3");
  // Packed leading dimensions are left out of the text.
  CHECK(problem.text() == "gemm m=4 n=6 k=8 dtype=bf16 layout=NT batch=3 "
                          "pointwise=bias,swiglu,residual");
  OperandTable table = gemm().operands(problem);
  auto shape = [&](int index) {
    const OperandSpec &spec = table.operands[index];
    return std::tuple(spec.rows, spec.cols, spec.leadingDimension);
  };
  CHECK(shape(GemmOperand::B) == std::tuple(6, 8, 8));
  CHECK(shape(GemmOperand::D) == std::tuple(4, 3, 3));
  CHECK(shape(GemmOperand::Bias) == std::tuple(1, 6, 6));
  CHECK(shape(GemmOperand::Residual) == std::tuple(4, 3, 3));
  CHECK(table.operands[GemmOperand::D].batchStride == 4 * 3);
  CHECK(gemm().compulsoryBytes(problem) ==
        2 * (3 * (4 * 8 + 6 * 8 + 4 * 3 + 4 * 3) + 6));
  CHECK(gemm().flops(problem) == 2.0 * 4 * 6 * 8 * 3);
  Arguments arguments = gemm().defaultArguments(problem);
  CHECK(arguments.operands[GemmOperand::D].leadingDimension == 3);
  CHECK(arguments.operands[GemmOperand::Residual].batchStride == 12);
  // The other way round.
  problem = parse("gemm m=4 n=6 k=8 dtype=bf16 pointwise=residual,swiglu,bias");
  table = gemm().operands(problem);
  CHECK(shape(GemmOperand::Bias) == std::tuple(1, 3, 3));
  CHECK(shape(GemmOperand::Residual) == std::tuple(4, 6, 6));
  // The alignment of D's rows.
  auto alignD = [&](llvm::StringRef fields) {
    auto text = ("gemm m=8 k=8 dtype=bf16 pointwise=swiglu " + fields).str();
    return readGemmSignature(parse(text).signature).alignD;
  };
  CHECK(alignD("n=16") == 16);
  CHECK(alignD("n=8") == 8);
  CHECK(alignD("n=6") == 2);
  CHECK(alignD("n=16 ldd=24") == 16);
  // Rows end within a chunk of 16 bytes, the rest of which is not in D.
  CHECK(alignD("n=6 ldd=8") == 2);
}

TEST_CASE("swiglu is refused where it means nothing") {
  auto message = [](llvm::StringRef fields) {
    return failure(("gemm m=2 k=4 dtype=bf16 " + fields).str());
  };
  CHECK(message("n=7 pointwise=swiglu") ==
        "gemm: n=7 is odd, swiglu joins columns in pairs");
  CHECK(message("n=8 pointwise=swiglu,relu,swiglu") ==
        "gemm: pointwise has more than one swiglu");
  CHECK(message("n=8 pointwise=swiglu,swiglu_clamped") ==
        "gemm: pointwise has more than one swiglu");
  CHECK(message("n=8 pointwise=swiglu beta=0.5") ==
        "gemm: beta is set with swiglu, which takes no C");
  CHECK(message("n=8 pointwise=swiglu ldd=3") ==
        "gemm: ldd=3 is below the row length 4");
  CHECK(message("n=8 pointwise=residual,swiglu ldr=7") ==
        "gemm: ldr=7 is below the row length 8");
  CHECK(message("n=8 pointwise=swiglu,residual ldr=3") ==
        "gemm: ldr=3 is below the row length 4");
}

TEST_CASE("the translation unit of a swiglu differs in chain and name only") {
  auto source = [](llvm::StringRef chain) {
    Problem problem =
        parse(("gemm m=128 n=256 k=512 dtype=bf16 layout=NT pointwise=" + chain)
                  .str());
    auto named = llvm::cantFail(
        gemm().parseConfig("mma.bm128.bn128.bk32.st4.wm2.wn2.mb1"));
    const TranslationUnit unit =
        named.tmpl->plan(problem, named.config, h200()).kernels[0];
    std::string text = unit.source();
    return text.replace(text.find(unit.entry()), unit.entry().size(), "name");
  };
  std::string swiGlu = source("bias,swiglu");
  size_t at = swiGlu.find("SwiGlu");
  REQUIRE(at != std::string::npos);
  CHECK(swiGlu.replace(at, 6, "Silu") == source("bias,silu"));
  std::string clamped = source("bias,swiglu_clamped");
  at = clamped.find("SwiGluClamped");
  REQUIRE(at != std::string::npos);
  CHECK(clamped.replace(at, 13, "Silu") == source("bias,silu"));
}

TEST_CASE("alignment classes follow leading dimensions and the promise") {
  auto classes = [](llvm::StringRef text) {
    GemmSignature s = readGemmSignature(parse(text).signature);
    return std::tuple(s.alignA, s.alignB, s.alignD);
  };
  CHECK(classes("gemm m=8 n=8 k=8 dtype=bf16 layout=NT") ==
        std::tuple(16, 16, 16));
  CHECK(classes("gemm m=8 n=12 k=7 dtype=bf16 layout=NT") ==
        std::tuple(2, 2, 8));
  CHECK(classes("gemm m=8 n=12 k=7 dtype=bf16 layout=NN") ==
        std::tuple(2, 8, 8));
  CHECK(classes("gemm m=8 n=8 k=8 dtype=fp32 align=4") == std::tuple(4, 4, 4));
  CHECK(classes("gemm m=8 n=8 k=8 dtype=bf16 pointwise=residual ldr=9") ==
        std::tuple(16, 16, 2));
  // The promise of the narrower input, and a wider output.
  CHECK(classes("gemm m=8 n=8 k=8 dtype=bf16 out=fp32 align=2") ==
        std::tuple(2, 2, 4));
}

TEST_CASE("signatures and chains survive their records") {
  auto problem = parse("gemm m=1 n=2 k=3 dtype=fp16 out=fp32 layout=TN "
                       "pointwise=bias,gelu_tanh,residual beta=0.5");
  GemmSignature signature = readGemmSignature(problem.signature);
  CHECK(toValues(signature) == problem.signature);
  CHECK(signature.pointwise.size() == 3);
  CHECK(signature.readsC);
  CHECK(decodeChain(encodeChain(signature.pointwise)) == signature.pointwise);
}

TEST_CASE("bind places operands, scalars, splits and the grid") {
  Problem problem =
      parse("gemm m=100 n=200 k=4096 dtype=bf16 layout=NT alpha=2 beta=3");
  auto named = llvm::cantFail(
      gemm().parseConfig("mma.bm64.bn64.bk64.st3.wm2.wn2.mb1.sp1.sk4"));
  Plan plan = named.tmpl->plan(problem, named.config, h200());
  CHECK(plan.workspace.zeroedBytes == 2 * 4 * 4);
  CHECK(plan.workspace.scratchBytes == 2 * 4 * 4 * 64 * 64 * 4);
  CHECK(plan.workspace.bytes() == 256 + 2 * 4 * 4 * 64 * 64 * 4);
  Arguments arguments = gemm().defaultArguments(problem);
  arguments.operands[GemmOperand::A].address = 0x1000;
  arguments.operands[GemmOperand::D].address = 0x2000;
  LaunchContext context;
  context.zeroed = 0x100000;
  context.scratch = 0x200000;
  LaunchSpec spec;
  plan.binder->bind(arguments, context, spec);
  REQUIRE(spec.stepCount == 2);
  CHECK(spec.steps[0].kind == LaunchStep::Kind::Memset);
  CHECK(spec.steps[0].memset.bytes == plan.workspace.zeroedBytes);
  const KernelStep &kernel = spec.steps[1].kernel;
  CHECK(kernel.grid == Dim3{2 * 4 * 4});
  CHECK(kernel.block == Dim3{128});
  GemmParams params;
  std::memcpy(&params, spec.params + kernel.paramOffset, sizeof(params));
  CHECK(params.a == reinterpret_cast<void *>(0x1000));
  CHECK(params.d == reinterpret_cast<void *>(0x2000));
  CHECK(params.alpha == 2);
  CHECK(params.beta == 3);
  CHECK(params.splitK == 4);
  CHECK(params.strideD == 100 * 200);
  CHECK(params.counters == reinterpret_cast<unsigned *>(0x100000));
  CHECK(params.partials == reinterpret_cast<float *>(0x200000));
  context.isZeroed = true;
  LaunchSpec zeroed;
  plan.binder->bind(arguments, context, zeroed);
  CHECK(zeroed.stepCount == 1);
}

TEST_CASE("the grid covers whichever operand is streamed, and splits of it") {
  auto gridOf = [](llvm::StringRef text, llvm::StringRef config) {
    Problem problem = parse(text);
    auto named = llvm::cantFail(gemm().parseConfig(config));
    Plan plan = named.tmpl->plan(problem, named.config, h200());
    LaunchSpec spec;
    LaunchContext context;
    context.isZeroed = true;
    plan.binder->bind(gemm().defaultArguments(problem), context, spec);
    return spec.steps[0].kernel.grid;
  };
  // 4 rows of B a block, the rows of one warp, as all four warps split k.
  CHECK(gridOf("gemm m=1 n=101 k=4096 dtype=bf16 layout=NT batch=3",
               "gemv.r4.u4.w4.wk4.v1.mb4") == Dim3{26 * 3});
  CHECK(gridOf("gemm m=101 n=2 k=4096 dtype=bf16 layout=NT",
               "gemv.r4.u4.w4.wk1.v2.mb2.sa1") == Dim3{7});
  CHECK(gridOf("gemm m=16 n=101 k=4096 dtype=bf16 layout=NT",
               "skinny.r32.v16.k64.st4.w4.mb2.sp1.sk3") == Dim3{4 * 3});
  // A launch may have more rows than its plan was made for.
  CHECK(gridOf("gemm m=17 n=101 k=4096 dtype=bf16 layout=NT",
               "skinny.r32.v16.k64.st4.w4.mb2") == Dim3{4 * 2});
}

TEST_CASE("an operand is early where few blocks read the same of it") {
  constexpr uint32_t kBoth = 1u << GemmOperand::A | 1u << GemmOperand::B;
  auto early = [&](llvm::StringRef config, llvm::StringRef fields,
                   bool isShared = false, int64_t smCount = 1,
                   llvm::StringRef k = "4096") {
    DeviceModel device = h200();
    device.smCount = smCount;
    Problem problem = parse(("gemm k=" + k + " layout=NT " + fields).str());
    auto named = llvm::cantFail(gemm().parseConfig(config));
    Plan plan = named.tmpl->plan(problem, named.config, device);
    Arguments arguments = gemm().defaultArguments(problem);
    arguments.isDependent = true;
    arguments.constants = kBoth;
    if (isShared)
      arguments.operands[GemmOperand::B].batchStride = 0;
    LaunchContext context;
    context.isZeroed = true;
    LaunchSpec spec;
    plan.binder->bind(arguments, context, spec);
    const KernelStep &kernel = spec.steps[0].kernel;
    GemmParams params;
    std::memcpy(static_cast<void *>(&params), spec.params + kernel.paramOffset,
                sizeof(params));
    CHECK(kernel.dependentLaunch == (params.early != 0));
    return params.early;
  };
  const char *ffma = "ffma.bm8.bn64.bk32.st4.tm4.tn4.lm2.wk4.mb5";
  CHECK(early(ffma, "m=8 n=64 dtype=fp32") == (kEarlyA | kEarlyB));
  CHECK(early(ffma, "m=8 n=65 dtype=fp32") == kEarlyB);
  CHECK(early(ffma, "m=9 n=64 dtype=fp32") == kEarlyA);
  CHECK(early(ffma, "m=9 n=65 dtype=fp32") == 0);
  CHECK(early(ffma, "m=8 n=65 dtype=fp32 batch=2") == kEarlyB);
  CHECK(early(ffma, "m=8 n=65 dtype=fp32 batch=2", true) == 0);
  // Two may, if k is at most four of their rings of 128 steps.
  CHECK(early(ffma, "m=9 n=65 dtype=fp32", false, 1, "512") ==
        (kEarlyA | kEarlyB));
  CHECK(early(ffma, "m=9 n=65 dtype=fp32", false, 1, "513") == 0);
  CHECK(early(ffma, "m=17 n=129 dtype=fp32", false, 1, "512") == 0);
  // Fewer blocks than two thirds of the SMs get uneven places.
  CHECK(early(ffma, "m=8 n=5632 dtype=fp32", false, 132) == kEarlyB);
  CHECK(early(ffma, "m=8 n=5568 dtype=fp32", false, 132) == 0);
  // Splits read different parts of k.
  const char *split = "mma.bm64.bn64.bk64.st3.wm2.wn2.mb1.sp1.sk4";
  CHECK(early(split, "m=64 n=4096 dtype=bf16") == kEarlyB);
  CHECK(early(split, "m=65 n=4096 dtype=bf16") == 0);
  // A block of gemv has four rows here.
  const char *gemv = "gemv.r4.u4.w4.wk4.v1.mb4";
  CHECK(early(gemv, "m=1 n=4 dtype=bf16") == (kEarlyA | kEarlyB));
  CHECK(early(gemv, "m=1 n=101 dtype=bf16") == kEarlyB);
  CHECK(early(gemv, "m=2 n=101 dtype=bf16") == 0);
  const char *skinny = "skinny.r32.v16.k64.st4.w4.mb2";
  CHECK(early(skinny, "m=16 n=101 dtype=bf16") == kEarlyB);
  CHECK(early(skinny, "m=17 n=101 dtype=bf16") == 0);
  // The other way round A is the streamed operand.
  const char *turned = "skinny.r32.v16.k64.st4.w4.mb2.sa1";
  CHECK(early(turned, "m=101 n=16 dtype=bf16") == kEarlyA);
  CHECK(early(turned, "m=101 n=17 dtype=bf16") == 0);
  CHECK(early("naive.bt256", "m=1 n=1 dtype=bf16") == 0);
}

TEST_CASE("the operand table describes what the problem reads and writes") {
  Problem problem = parse("gemm m=4 n=6 k=8 dtype=bf16 out=fp32 layout=TN "
                          "batch=3 pointwise=bias align=2 ldd=7");
  OperandTable table = gemm().operands(problem);
  REQUIRE(table.operands.size() == GemmOperand::Count);
  const OperandSpec &a = table.operands[GemmOperand::A];
  CHECK((a.rows == 8 && a.cols == 4 && a.leadingDimension == 4));
  CHECK(a.bytes() == 3 * 8 * 4 * 2);
  CHECK(a.misalignment == 2);
  CHECK(!table.operands[GemmOperand::C].present);
  CHECK(table.operands[GemmOperand::D].bytes() == (3 * 4 * 7 - 1) * 4);
  CHECK(table.operands[GemmOperand::Bias].bytes() == 6 * 4);
  CHECK(gemm().compulsoryBytes(problem) ==
        3 * (8 * 4 + 8 * 6) * 2 + 3 * 4 * 6 * 4 + 6 * 4);
  CHECK(gemm().flops(problem) == 2.0 * 4 * 6 * 8 * 3);
}

TEST_CASE("only d is written, within a tolerance, and may be c") {
  OperandTable table = gemm().operands(
      parse("gemm m=4 n=6 k=16 dtype=fp32 compute=tf32 beta=1"));
  for (int i = 0; i < GemmOperand::Count; ++i) {
    const OperandSpec &operand = table.operands[i];
    CHECK(operand.isWritten() == (i == GemmOperand::D));
    if (i >= GemmOperand::ScaleA)
      continue;
    CHECK(operand.init(TrialData::Usual).mantissaBits == 10);
    CHECK(operand.init(TrialData::Outliers).mantissaBits == 10);
    CHECK(operand.init(TrialData::Usual).outlierPeriod == 0);
    CHECK(operand.init(TrialData::Outliers).outlierPeriod > 0);
  }
  const OperandSpec &d = table.operands[GemmOperand::D];
  CHECK(d.mayBe == GemmOperand::C);
  CHECK(d.tolerance.relative == std::ldexp(1.0, -22));
  CHECK(d.tolerance.scaled == std::ldexp(1.0, -20));
  table = gemm().operands(parse("gemm m=4 n=6 k=16 dtype=bf16"));
  CHECK(table.operands[GemmOperand::D].mayBe == -1);
}

TEST_CASE("zero points of A come with the sums of B's columns") {
  Problem problem =
      parse("gemm m=4 n=6 k=8 dtype=int8 layout=NT batch=3 zero_a=row");
  CHECK(problem.text() ==
        "gemm m=4 n=6 k=8 dtype=int8 layout=NT batch=3 zero_a=row");
  CHECK(readGemmSignature(problem.signature).zeroA == ScaleKind::Row);
  OperandTable table = gemm().operands(problem);
  const OperandSpec &zeros = table.operands[GemmOperand::ZeroA];
  const OperandSpec &sums = table.operands[GemmOperand::ColumnSumsB];
  CHECK((zeros.present && zeros.cols == 4 && zeros.batchStride == 4));
  CHECK((zeros.type == DType::INT32 && zeros.slot == KILN_GEMM_ZERO_A));
  CHECK(
      (zeros.usual.integers.least == -128 && zeros.usual.integers.most == 127));
  CHECK((sums.present && sums.cols == 6 && sums.batchStride == 6));
  CHECK((sums.role == OperandRole::Constant &&
         sums.slot == KILN_GEMM_COLUMN_SUMS_B));
  table = gemm().operands(
      parse("gemm m=4 n=6 k=8 dtype=int8 layout=NT zero_a=tensor"));
  CHECK(table.operands[GemmOperand::ZeroA].cols == 1);
  table = gemm().operands(parse("gemm m=4 n=6 k=8 dtype=int8 layout=NT"));
  CHECK(!table.operands[GemmOperand::ZeroA].present);
  CHECK(!table.operands[GemmOperand::ColumnSumsB].present);
  CHECK(failure("gemm m=4 n=6 k=8 dtype=int8 layout=NT batch=2 groups=ends "
                "zero_a=row") == "gemm: zero_a is not available with groups");
  for (const char *fields :
       {"dtype=e4m3", "dtype=bf16",
        "dtype=bf16 layout=NT b=int8 order_b=k64r16 scale_b=row"})
    CHECK(failure(
              llvm::formatv("gemm m=4 n=6 k=8 {0} zero_a=row", fields).str()) ==
          "gemm: zero_a is for dtype=int8 and rows of elements");
}

TEST_CASE("nothing to compute is known as such") {
  CHECK(gemm().isEmpty(parse("gemm m=0 n=5 k=5 dtype=bf16")));
  CHECK(gemm().isEmpty(parse("gemm m=5 n=5 k=5 dtype=bf16 batch=0")));
  CHECK(!gemm().isEmpty(parse("gemm m=5 n=5 k=0 dtype=bf16")));
}

TEST_CASE("only a kernel that needs it gets an architecture's own variant") {
  auto archOf = [&](bool archSpecific, llvm::StringRef device) {
    KernelEntry entry;
    entry.archSpecific = archSpecific;
    return makeKernelUnit(entry, {}, llvm::cantFail(findDevice(device))).arch();
  };
  CHECK(archOf(false, "h200-sxm") == "sm_90");
  CHECK(archOf(true, "h200-sxm") == "sm_90a");
  CHECK(archOf(true, "a100-sxm4-80gb") == "sm_80");
}

// Caches, records and decisions on every disk are found by these texts: a
// changed text orphans all of them.
TEST_CASE("the texts that keys are made of are pinned") {
  Problem plain = parse("gemm m=1 n=4096 k=512 dtype=bf16 layout=NT");
  CHECK(gemm().fixedText(plain) ==
        "gemm m=0 n=4096 k=512 dtype=bf16 layout=NT | "
        "gemm in=bf16 out=bf16 layout=NT");
  Problem full = parse(
      "gemm m=7 n=40 k=24 dtype=fp16 out=fp32 layout=TT batch=3 "
      "pointwise=bias,gelu_erf,residual alpha=0.5 beta=-2 lda=9 ldb=25 ldc=41 "
      "ldd=44 ldr=42 align=4");
  CHECK(full.text() ==
        "gemm m=7 n=40 k=24 dtype=fp16 out=fp32 layout=TT batch=3 "
        "pointwise=bias,gelu_erf,residual alpha=0.5 beta=-2 lda=9 ldb=25 "
        "ldc=41 ldd=44 ldr=42 align=4");
  CHECK(gemm().fixedText(full) ==
        "gemm m=0 n=40 k=24 dtype=fp16 out=fp32 layout=TT batch=3 "
        "pointwise=bias,gelu_erf,residual lda=9 ldb=25 ldc=41 ldd=44 ldr=42 "
        "align=4 | gemm in=fp16 out=fp32 layout=TT "
        "pointwise=bias,gelu_erf,residual readsc=1 aligna=2 alignb=2 alignd=4");
  CHECK(gemm().fixedText(parse("gemm m=7 n=40 k=24 dtype=bf16 layout=NT "
                               "pointwise=bias,swiglu")) ==
        "gemm m=0 n=40 k=24 dtype=bf16 layout=NT pointwise=bias,swiglu | "
        "gemm in=bf16 out=bf16 layout=NT pointwise=bias,swiglu alignd=8");
  // m and the scalars are not in a record's key.
  CHECK(gemm().fixedText(parse("gemm m=9 n=4096 k=512 dtype=bf16 layout=NT "
                               "alpha=3")) == gemm().fixedText(plain));
  CHECK(plain.values.hash().hex() ==
        strongHash("gemm m=1 n=4096 k=512 dtype=bf16 layout=NT").hex());
}

TEST_CASE("the texts of configs are pinned") {
  auto text = [](const auto &config, const Schema &schema) {
    return toValues(config, schema).text();
  };
  const Schema &mma = gemm().findTemplate("mma")->configSchema();
  CHECK(text(MmaGemmConfig{}, mma) == "mma.bm128.bn128.bk32.st4.wm2.wn2.mb1");
  CHECK(text(MmaGemmConfig{.splits = 1, .splitK = 4, .rasterGroup = 16}, mma) ==
        "mma.bm128.bn128.bk32.st4.wm2.wn2.mb1.sp1.sk4.rg16");
  CHECK(text(GemvConfig{}, gemm().findTemplate("gemv")->configSchema()) ==
        "gemv.r4.u4.w4.wk4.v1.mb4");
  const Schema &skinny = gemm().findTemplate("skinny")->configSchema();
  CHECK(text(SkinnyGemmConfig{}, skinny) == "skinny.r16.v16.k64.st6.w4.mb2");
  CHECK(text(SkinnyGemmConfig{.streamsA = 1, .splits = 1, .splitK = 4},
             skinny) == "skinny.r16.v16.k64.st6.w4.mb2.sa1.sp1.sk4");
  const Schema &sm90 = gemm().findTemplate("sm90")->configSchema();
  CHECK(text(Sm90GemmConfig{}, sm90) ==
        "sm90.bm128.bn256.bk64.st4.wg2.cm1.cn1");
  CHECK(text(Sm90GemmConfig{.blockM = 24,
                            .blockN = 64,
                            .consumers = 1,
                            .swapAB = 1,
                            .splits = 3,
                            .hints = 1},
             sm90) == "sm90.bm24.bn64.bk64.st4.wg1.sw1.cm1.cn1.sk3.hi1");
  CHECK(text(FfmaGemmConfig{.transposes = 1, .splits = 1, .splitK = 4},
             gemm().findTemplate("ffma")->configSchema()) ==
        "ffma.bm128.bn128.bk32.st3.tm16.tn8.lm4.wk1.tr1.mb2.sp1.sk4");
  CHECK(text(SimtGemmConfig{}, gemm().findTemplate("simt")->configSchema()) ==
        "simt.bm128.bn128.bk8.tm8.tn8.mb2");
  CHECK(text(NaiveGemmConfig{}, gemm().findTemplate("naive")->configSchema()) ==
        "naive.bt256");
}

TEST_CASE("a user's template enters through the registry") {
  Registry registry = makeBuiltinRegistry();
  auto message = [](llvm::Error error) {
    return summarize(std::move(error)).message;
  };
  CHECK(message(registry.addTemplate("gemm", makeSimtGemmTemplate())) ==
        "gemm has a template called 'simt' already");
  CHECK(message(registry.addTemplate("conv", makeSimtGemmTemplate()))
            .find("no kernel family is called 'conv'") == 0);
  CHECK(bool(registry.parseProblem("\tgemm\tm=1 n=1 k=1 dtype=fp32")));
}
