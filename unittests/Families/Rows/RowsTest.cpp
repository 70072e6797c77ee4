#include "Families/FamilyTesting.h"
#include "Families/Rows/RowFamily.h"
#include "Kernel/Space.h"

#include "rows/ReferenceRowsConfig.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kiln;
using namespace kiln::testing;

namespace {

constexpr RowKind kKinds[] = {RowKind::RmsNorm, RowKind::LayerNorm,
                              RowKind::Softmax, RowKind::Quantize,
                              RowKind::Reduce};

struct Parsed {
  const KernelFamily *family;
  Problem problem;

  std::string text() const { return problem.text(); }
  OperandTable table() const { return family->operands(problem); }
  Arguments arguments() const { return family->defaultArguments(problem); }
};

/// The problem of \p text, which must be valid and begin with its family.
Parsed parse(llvm::StringRef text) {
  auto named = registry().parseProblem(text);
  if (!named)
    FAIL(summarize(named.takeError()).message);
  return {named->family, std::move(named->problem)};
}

std::string failure(llvm::StringRef text) {
  auto named = registry().parseProblem(text);
  REQUIRE(!named);
  return summarize(named.takeError()).message;
}

RowSignature signature(llvm::StringRef text) {
  return readRowSignature(parse(text).problem.signature);
}

} // namespace

TEST_CASE("equal problems over rows have equal text") {
  for (llvm::StringRef text :
       {"rmsnorm rows=8 cols=64 dtype=bf16",
        "layernorm rows=8 cols=64 dtype=fp32",
        "softmax rows=8 cols=64 dtype=fp16",
        "rowquant rows=8 cols=64 dtype=bf16",
        "reduce op=max rows=8 cols=64 dtype=fp32",
        "rmsnorm rows=8 cols=64 dtype=bf16 out=fp8_e4m3 weight=1 bias=1 "
        "residual=1 eps=1e-06 ldx=65 ldy=66 ldr=67 ldh=68 align=2",
        "softmax rows=8 cols=64 dtype=fp16 out=fp32 scale=0.125 mask=1 ldx=65 "
        "ldy=66 ldmask=67 align=4",
        "rowquant rows=8 cols=64 dtype=bf16 op=quant_int8_per_row ldy=70",
        "rowquant rows=8 cols=200 dtype=bf16 scale_y=1x128 ldsy=3",
        "rmsnorm rows=8 cols=200 dtype=bf16 out=int8 scale_y=1x128 "
        "scale_order_y=rows ldsy=9",
        "reduce op=sumsq rows=8 cols=64 axis=all dtype=bf16 out=fp32 ldx=65"})
    CHECK(parse(text).text() == text);
  CHECK(parse("rmsnorm rows=8 cols=64 dtype=bf16 out=bf16 weight=0 eps=1e-5 "
              "ldx=64 ldy=64 ldr=99 ldh=98 align=16")
            .text() == "rmsnorm rows=8 cols=64 dtype=bf16");
  CHECK(parse("softmax rows=8 cols=64 dtype=bf16 mask=2 ldmask=99 scale=1")
            .text() == "softmax rows=8 cols=64 dtype=bf16 mask=2");
  CHECK(parse("softmax rows=8 cols=64 dtype=bf16 mask=1 ldmask=64").text() ==
        "softmax rows=8 cols=64 dtype=bf16 mask=1");
  CHECK(
      parse("rowquant rows=8 cols=64 dtype=bf16 op=quant_fp8_per_row").text() ==
      "rowquant rows=8 cols=64 dtype=bf16");
  CHECK(parse("rowquant rows=8 cols=64 dtype=bf16 scale_y=row "
              "scale_order_y=rows ldsy=9")
            .text() == "rowquant rows=8 cols=64 dtype=bf16");
  CHECK(parse("layernorm rows=8 cols=200 dtype=bf16 out=int8 scale_y=1x128 "
              "scale_order_y=rows ldsy=8")
            .text() == "layernorm rows=8 cols=200 dtype=bf16 out=int8 "
                       "scale_y=1x128 scale_order_y=rows");
  CHECK(parse("reduce rows=8 cols=64 axis=cols dtype=fp32 op=mean out=fp32")
            .text() == "reduce op=mean rows=8 cols=64 dtype=fp32");
}

TEST_CASE("bad problems over rows get one clear line") {
  CHECK(failure("rmsnorm rows=-1 cols=1 dtype=bf16") ==
        "rmsnorm: rows=-1 is below 0");
  CHECK(failure("rmsnorm rows=1 dtype=bf16") == "rmsnorm: cols is missing");
  CHECK(failure("softmax rows=1 cols=2147483648 dtype=bf16") ==
        "softmax: cols=2147483648 is above 2147483647");
  CHECK(failure("rmsnorm rows=1 cols=8 dtype=bf16 eps=-1") ==
        "rmsnorm: eps=-1 is below 0");
  CHECK(failure("rmsnorm rows=1 cols=8 dtype=bf16 eps=1e300") ==
        "rmsnorm: eps=1e+300 is beyond the range of fp32");
  CHECK(failure("softmax rows=1 cols=8 dtype=bf16 scale=-1e39") ==
        "softmax: scale=-1e+39 is beyond the range of fp32");
  CHECK(failure("layernorm rows=1 cols=8 dtype=bf16 ldx=7") ==
        "layernorm: ldx=7 is below the row length 8");
  CHECK(failure("layernorm rows=1 cols=8 dtype=bf16 residual=1 ldh=7") ==
        "layernorm: ldh=7 is below the row length 8");
  CHECK(failure("softmax rows=1 cols=8 dtype=bf16 mask=1 ldmask=7") ==
        "softmax: ldmask=7 is below the row length 8");
  CHECK(failure("softmax rows=1 cols=8 dtype=bf16 mask=3") ==
        "softmax: mask=3 is above 2");
  CHECK(failure("softmax rows=1 cols=8 dtype=bf16 align=3") ==
        "softmax: align=3 is not a power of two");
  CHECK(failure("softmax rows=1 cols=8 dtype=bf16 out=fp32 align=1") ==
        "softmax: align=1 is below the element's 2 bytes");
  CHECK(failure("reduce op=sum rows=5 cols=0 dtype=fp32") ==
        "reduce: rows=5 cols=0 leave nothing to reduce");
  CHECK(failure("reduce op=sum rows=0 cols=5 axis=all dtype=fp32") ==
        "reduce: rows=0 cols=5 leave nothing to reduce");
  CHECK(
      failure("rmsnorm rows=2147483647 cols=1 ldx=1099511627776 dtype=bf16") ==
      "rmsnorm: ldx=1099511627776: 2147483647 such rows exceed the address "
      "space");
  CHECK(failure("rmsnorm rows=1 cols=8 dtype=bf16 scale_y=1x128") ==
        "rmsnorm: scale_y=1x128 needs out=fp8_e4m3 or int8");
  CHECK(failure("rowquant rows=1 cols=300 dtype=bf16 scale_y=1x128 ldsy=2") ==
        "rowquant: ldsy=2 is below the row length 3");
  // Only norms and quantisation write types that need a scale.
  for (llvm::StringRef text : {"softmax rows=1 cols=8 dtype=bf16 out=int8",
                               "reduce op=sum rows=1 cols=8 dtype=bf16 "
                               "out=fp8_e4m3",
                               "rmsnorm rows=1 cols=8 dtype=fp8_e4m3"})
    CHECK(failure(text).find("fp32") != std::string::npos);
  CHECK(failure("rowquant rows=1 cols=8 dtype=bf16 out=int8")
            .find("rowquant: unknown key 'out'") == 0);
}

TEST_CASE("a quantised output may be aligned to less than the input") {
  CHECK(parse("rowquant rows=1 cols=8 dtype=bf16 align=1")
            .table()
            .operands[RowOperand::X]
            .misalignment == 2);
  CHECK(parse("rowquant rows=1 cols=8 dtype=bf16 align=1")
            .table()
            .operands[RowOperand::Scales]
            .misalignment == 4);
}

TEST_CASE("records over rows are read by their family's own schema") {
  for (RowKind kind : kKinds) {
    const Schema &schema = rowProblemSchema(kind);
    CAPTURE(schema.name().str());
    size_t found = 0;
    for (int field = 0; field < RowField::Count; ++field)
      found += fieldIndex(kind, field) >= 0;
    CHECK(found == schema.fields().size());
    CHECK(fieldIndex(kind, RowField::Rows) == schema.find("rows"));
    CHECK(fieldIndex(kind, RowField::LdResidualOut) == schema.find("ldh"));
    CHECK(fieldIndex(kind, RowField::Align) == schema.find("align"));
    CHECK(registry().find(schema.name())->dynamicExtents() ==
          llvm::ArrayRef<int>(schema.find("rows")));
  }
  Parsed norm = parse("layernorm rows=3 cols=5 dtype=fp16 out=int8 bias=1 "
                      "residual=1 eps=0.5 ldy=6 ldr=7 align=4");
  RowProblem p =
      readRowProblem(RowKind::LayerNorm, norm.problem.values.array().data());
  CHECK((p.op == RowOp::LayerNorm && p.rows == 3 && p.cols == 5));
  CHECK((p.dtype == DType::FP16 && p.out == DType::INT8));
  CHECK((!p.weight && p.bias && p.residual && p.mask == RowMask::None));
  CHECK((p.epsilon == 0.5 && p.scale == 1 && !p.allRows && p.align == 4));
  CHECK((p.ldx == 5 && p.ldy == 6 && p.ldResidual == 7));
  CHECK(p.ldResidualOut == 5);
}

TEST_CASE("signatures over rows survive their records") {
  for (llvm::StringRef text :
       {"rmsnorm rows=1 cols=2 dtype=bf16 weight=1 residual=1 out=int8",
        "softmax rows=1 cols=2 dtype=fp16 mask=2 out=fp32",
        "rowquant rows=1 cols=2 dtype=fp32 op=quant_int8_per_row",
        "rowquant rows=1 cols=2 dtype=bf16 scale_y=1x128",
        "elementwise op=silu,mul rows=1 cols=2 dtype=bf16 out=int8 scale_y=row",
        "reduce op=sumsq rows=1 cols=2 dtype=bf16 axis=all"}) {
    RowSignature s = signature(text);
    CHECK(toValues(s) == parse(text).problem.signature);
    CHECK(s.isWellFormed());
  }
  CHECK(initializerText(signature("softmax rows=1 cols=2 dtype=fp16 mask=2 "
                                  "out=fp32")) ==
        "{.op = kiln::RowOp::Softmax, .in = kiln::DType::FP16, .out = "
        "kiln::DType::FP32, .weight = false, .bias = false, .residual = false, "
        ".mask = kiln::RowMask::Row, .scales = kiln::ScaleKind::Row, .chain = "
        "{{}}}");
  CHECK(initializerText(signature("rmsnorm rows=1 cols=2 dtype=bf16 weight=1 "
                                  "out=fp8_e4m3")) ==
        "{.op = kiln::RowOp::RmsNorm, .in = kiln::DType::BF16, .out = "
        "kiln::DType::E4M3, .weight = true, .bias = false, .residual = false, "
        ".mask = kiln::RowMask::None, .scales = kiln::ScaleKind::Row, .chain "
        "= {{}}}");
}

TEST_CASE("operands over rows follow the problem") {
  Parsed norm = parse("rmsnorm rows=4 cols=6 dtype=bf16 weight=1 residual=1 "
                      "out=fp8_e4m3 ldx=7 ldh=9 align=2");
  OperandTable table = norm.table();
  REQUIRE(table.operands.size() == RowOperand::Count);
  const OperandSpec &x = table.operands[RowOperand::X];
  CHECK((x.rows == 4 && x.cols == 6 && x.leadingDimension == 7));
  CHECK(x.misalignment == 2);
  const OperandSpec &weight = table.operands[RowOperand::Weight];
  CHECK((weight.present && weight.role == OperandRole::Constant));
  CHECK(weight.bytes() == 12);
  CHECK(!table.operands[RowOperand::Bias].present);
  CHECK(!table.operands[RowOperand::Mask].present);
  const OperandSpec &sum = table.operands[RowOperand::ResidualOut];
  CHECK((sum.isWritten() && sum.type == DType::BF16));
  CHECK(sum.leadingDimension == 9);
  CHECK(sum.mayBe == -1); // the residual's rows are packed
  const OperandSpec &scales = table.operands[RowOperand::Scales];
  CHECK((scales.isWritten() && scales.type == DType::FP32));
  CHECK((scales.rows == 4 && scales.cols == 1 && scales.bytes() == 16));
  CHECK(table.operands[RowOperand::Y].mayBe == -1);
  // x, residual, its sum, y, weight and scales, each once.
  CHECK(norm.family->compulsoryBytes(norm.problem) ==
        3 * 4 * 6 * 2 + 4 * 6 + 6 * 2 + 4 * 4);

  Parsed plain = parse("layernorm rows=4 cols=6 dtype=fp16 residual=1");
  table = plain.table();
  CHECK(table.operands[RowOperand::Y].mayBe == RowOperand::X);
  CHECK(table.operands[RowOperand::ResidualOut].mayBe == RowOperand::Residual);
  CHECK(!table.operands[RowOperand::Scales].present);
  CHECK(parse("layernorm rows=4 cols=6 dtype=fp16 ldy=8")
            .table()
            .operands[RowOperand::Y]
            .mayBe == -1);
}

TEST_CASE("scales of blocks are a matrix, in one of two orders") {
  for (bool alongRows : {false, true}) {
    Parsed norm = parse(fmt::format(
        "rmsnorm rows=4 cols=300 dtype=bf16 out=fp8_e4m3 scale_y=1x128 "
        "scale_order_y={} ldsy=6",
        alongRows ? "rows" : "cols"));
    const OperandSpec scales = norm.table().operands[RowOperand::Scales];
    CHECK((scales.isWritten() && scales.type == DType::FP32));
    CHECK(scales.rows == (alongRows ? 3 : 4));
    CHECK(scales.cols == (alongRows ? 4 : 3));
    CHECK(scales.leadingDimension == 6);
    RowParams params = makeRowParams(
        RowKind::RmsNorm,
        readRowProblem(RowKind::RmsNorm, norm.problem.values.array().data()),
        norm.arguments());
    CHECK(params.scaleRowStride == (alongRows ? 1 : 6));
    CHECK(params.scaleBlockStride == (alongRows ? 6 : 1));
  }
}

TEST_CASE("the vectors of a block with a scale belong to lanes of one warp") {
  const RowSignature blocks{.op = RowOp::Quantize,
                            .out = DType::E4M3,
                            .scales = ScaleKind::Block1x128};
  for (int vector : {1, 2, 4, 8})
    for (int threads : {1, 8, 16, 32, 64, 96, 1024}) {
      const ScaleShare share = blocks.scaleShare(vector, threads);
      CHECK(share.vectors() * vector == 128);
      CHECK((share.lanes <= 32 && share.lanes <= threads));
      CHECK(threads % share.lanes == 0);
    }
  CHECK(!blocks.hasStatistics());
  CHECK(blocks.exchangeBytes(3, 4) == 0);
  const RowSignature rows{.op = RowOp::Quantize, .out = DType::E4M3};
  CHECK((rows.hasStatistics() && rows.scaleShare(1, 64).vectors() == 1));
  const RowSignature norm{.out = DType::INT8, .scales = ScaleKind::Block1x128};
  CHECK((norm.hasStatistics() && !norm.scalesAtOnce()));
  CHECK(!norm.reducesTwice());
}

TEST_CASE("a reduction's values are packed") {
  for (bool all : {false, true}) {
    Parsed sum = parse(fmt::format(
        "reduce op=sum rows=4 cols=6 axis={} dtype=bf16 out=fp32 ldx=8",
        all ? "all" : "cols"));
    OperandSpec y = sum.table().operands[RowOperand::Y];
    CHECK((y.rows == (all ? 1 : 4) && y.cols == 1));
    CHECK((y.leadingDimension == 1 && y.mayBe == -1));
    CHECK(sum.family->compulsoryBytes(sum.problem) ==
          4 * 6 * 2 + (all ? 1 : 4) * 4);
    RowParams params = makeRowParams(
        RowKind::Reduce,
        readRowProblem(RowKind::Reduce, sum.problem.values.array().data()),
        sum.arguments());
    CHECK(params.allRows == all);
    CHECK((params.rows == 4 && params.cols == 6 && params.ldx == 8));
  }
}

TEST_CASE("masks are matrices or one row") {
  auto mask = [](int kind) {
    return parse(fmt::format("softmax rows=4 cols=6 dtype=bf16 mask={}", kind));
  };
  auto spec = [&](int kind) {
    return mask(kind).table().operands[RowOperand::Mask];
  };
  CHECK(!spec(0).present);
  CHECK((spec(1).rows == 4 && spec(1).leadingDimension == 6));
  CHECK((spec(2).rows == 1 && spec(2).cols == 6));
  CHECK(mask(1).arguments().operands[RowOperand::Mask].leadingDimension == 6);
  CHECK(mask(2).arguments().operands[RowOperand::Mask].leadingDimension == 0);
}

TEST_CASE("scalars reach the kernels' parameters") {
  Parsed norm = parse("rmsnorm rows=4 cols=6 dtype=bf16 eps=0.25 residual=1");
  Arguments arguments = norm.arguments();
  arguments.operands[RowOperand::X].address = 0x1000;
  arguments.operands[RowOperand::ResidualOut].address = 0x2000;
  RowParams params = makeRowParams(
      RowKind::RmsNorm, readRowProblem(RowKind::RmsNorm, arguments.problem),
      arguments);
  CHECK((params.epsilon == 0.25f && params.scale == 1.0f));
  CHECK(params.x == reinterpret_cast<void *>(0x1000));
  CHECK(params.residualOut == reinterpret_cast<void *>(0x2000));
  Parsed softmax = parse("softmax rows=4 cols=6 dtype=bf16 scale=0.125");
  params = makeRowParams(
      RowKind::Softmax,
      readRowProblem(RowKind::Softmax, softmax.problem.values.array().data()),
      softmax.arguments());
  CHECK((params.scale == 0.125f && params.epsilon == 0.0f));
}

TEST_CASE("outliers are what careless arithmetic fails on, and finite") {
  auto x = [](llvm::StringRef text) {
    return parse(text).table().operands[RowOperand::X].outliers;
  };
  CHECK(x("layernorm rows=4 cols=6 dtype=bf16").mean == 300);
  CHECK(x("layernorm rows=4 cols=6 dtype=bf16").rowPeriod == 0);
  CHECK(x("rmsnorm rows=4 cols=6 dtype=bf16 out=int8").rowPeriod > 0);
  CHECK(x("rmsnorm rows=4 cols=6 dtype=bf16 out=int8").rowValue == 0);
  CHECK(x("rowquant rows=4 cols=6 dtype=fp16").rowPeriod > 0);
  CHECK(x("softmax rows=4 cols=6 dtype=fp16").rowValue == -INFINITY);
  CHECK(x("softmax rows=4 cols=6 dtype=fp16").minusInfinityPeriod > 0);
  constexpr double kGreatestFp16 = 65504;
  for (llvm::StringRef text :
       {"rmsnorm rows=4 cols=6 dtype=fp16 out=int8 residual=1",
        "layernorm rows=4 cols=6 dtype=fp16",
        "softmax rows=4 cols=6 dtype=fp16", "rowquant rows=4 cols=6 dtype=fp16",
        "reduce op=max rows=4 cols=6 dtype=fp16"})
    for (const OperandSpec &operand : parse(text).table().operands)
      for (TrialData data : {TrialData::Usual, TrialData::Outliers}) {
        const OperandInit &init = operand.init(data);
        CHECK(std::fabs(init.mean) + 10 * init.deviation < kGreatestFp16 / 4);
        CHECK(std::fabs(init.outlier) < kGreatestFp16 / 4);
      }
}

TEST_CASE("outputs over rows are judged by their types") {
  auto tolerance = [](llvm::StringRef text, int operand) {
    return parse(text).table().operands[operand].tolerance;
  };
  auto y = [&](llvm::StringRef text) { return tolerance(text, RowOperand::Y); };
  CHECK(y("softmax rows=4 cols=6 dtype=bf16").relative == 1.0 / 64);
  CHECK(y("softmax rows=4 cols=6 dtype=fp16").relative == 1.0 / 512);
  CHECK(y("softmax rows=4 cols=6 dtype=fp16").absolute ==
        doctest::Approx(0x1.0p-25).epsilon(0.02));
  CHECK(y("softmax rows=4 cols=6 dtype=fp32").relative == 0x1.0p-22);
  CHECK(y("rowquant rows=4 cols=6 dtype=bf16").relative ==
        doctest::Approx(0x1.0p-4).epsilon(0.02));
  Tolerance int8 = y("rowquant rows=4 cols=6 dtype=bf16 op=quant_int8_per_row");
  CHECK((int8.relative == 0 && int8.absolute == 0.501));
  CHECK(y("reduce op=sum rows=4 cols=6 dtype=fp32").scaled == 1e-6);
  CHECK(y("reduce op=max rows=4 cols=6 dtype=fp32").scaled == 0);
  CHECK(tolerance("rowquant rows=4 cols=6 dtype=bf16", RowOperand::Scales)
            .relative == 0x1.0p-22);
  CHECK(tolerance("rmsnorm rows=4 cols=6 dtype=bf16 out=int8 residual=1",
                  RowOperand::ResidualOut)
            .relative == 1.0 / 64);
}

TEST_CASE("nothing to compute over rows is known as such") {
  auto isEmpty = [](llvm::StringRef text) {
    Parsed parsed = parse(text);
    return parsed.family->isEmpty(parsed.problem);
  };
  CHECK(isEmpty("rmsnorm rows=0 cols=5 dtype=bf16"));
  CHECK(isEmpty("softmax rows=5 cols=0 dtype=bf16"));
  CHECK(isEmpty("reduce op=max rows=0 cols=5 dtype=bf16"));
  CHECK(!isEmpty("reduce op=max rows=1 cols=1 dtype=bf16"));
}

TEST_CASE("the reference takes large blocks for what few blocks reduce") {
  auto bind = [](llvm::StringRef text) {
    Parsed parsed = parse(text);
    DeviceModel device = h200();
    auto reference = parsed.family->reference(parsed.problem, device);
    Arguments arguments = parsed.arguments();
    LaunchSpec spec;
    reference->bind(arguments, {RowOperand::Scales, 2, 5, 0x1000, 0x2000},
                    spec);
    REQUIRE(spec.stepCount == 1);
    ReferenceRowParams params;
    std::memcpy(&params, spec.params, sizeof(params));
    CHECK(params.output == RowOperand::Scales);
    CHECK((params.rowBegin == 2 && params.rowEnd == 5));
    CHECK(params.reference == reinterpret_cast<double *>(0x1000));
    CHECK(params.bound == reinterpret_cast<double *>(0x2000));
    CHECK(params.row.cols == parsed.problem.values.get("cols"));
    CHECK(spec.steps[0].kernel.grid == Dim3{3});
    return spec.steps[0].kernel.block.x;
  };
  CHECK(bind("rowquant rows=8 cols=64 dtype=bf16") == 256);
  CHECK(bind("rowquant rows=8 cols=100000 dtype=bf16") == 1024);
  CHECK(bind("reduce op=sum rows=8 cols=64 axis=all dtype=bf16") == 1024);
}

// Caches, records and decisions on every disk are found by these texts: a
// changed text orphans all of them.
TEST_CASE("the texts that keys over rows are made of are pinned") {
  auto fixed = [](llvm::StringRef text) {
    Parsed parsed = parse(text);
    return parsed.family->fixedText(parsed.problem);
  };
  CHECK(fixed("rmsnorm rows=7 cols=8192 dtype=bf16 weight=1 eps=1e-6") ==
        "rmsnorm rows=0 cols=8192 dtype=bf16 weight=1 | "
        "rows op=rmsnorm in=bf16 out=bf16 weight=1");
  CHECK(fixed("layernorm rows=7 cols=8192 dtype=fp16 out=fp8_e4m3 weight=1 "
              "bias=1 residual=1 ldx=9000 align=8") ==
        "layernorm rows=0 cols=8192 dtype=fp16 out=fp8_e4m3 weight=1 bias=1 "
        "residual=1 ldx=9000 align=8 | rows op=layernorm in=fp16 out=fp8_e4m3 "
        "weight=1 bias=1 residual=1");
  CHECK(fixed("softmax rows=7 cols=300 dtype=bf16 scale=0.5 mask=2") ==
        "softmax rows=0 cols=300 dtype=bf16 mask=2 | "
        "rows op=softmax in=bf16 out=bf16 mask=2");
  CHECK(fixed("rowquant rows=7 cols=300 dtype=bf16 op=quant_int8_per_row") ==
        "rowquant rows=0 cols=300 dtype=bf16 op=quant_int8_per_row | "
        "rows op=quantize in=bf16 out=int8");
  CHECK(fixed("rowquant rows=7 cols=300 dtype=bf16 scale_y=1x128") ==
        "rowquant rows=0 cols=300 dtype=bf16 scale_y=1x128 | "
        "rows op=quantize in=bf16 out=fp8_e4m3 scales=1x128");
  CHECK(fixed("reduce rows=7 cols=300 dtype=bf16 op=sumsq axis=all out=fp32") ==
        "reduce op=sumsq rows=0 cols=300 axis=all dtype=bf16 out=fp32 | "
        "rows op=sumsq in=bf16 out=fp32");
}
