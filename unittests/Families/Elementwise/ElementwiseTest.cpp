#include "Families/Elementwise/ElementwiseProblem.h"
#include "Families/FamilyTesting.h"

#include "Kernel/ConfigSchema.h"
#include "Kernel/Space.h"
#include "elementwise/FlatElementwiseConfig.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

const KernelFamily &family() { return *registry().find("elementwise"); }

Problem parse(llvm::StringRef text) { return testing::parse(family(), text); }
std::string failure(llvm::StringRef text) {
  return testing::failure(family(), text);
}
std::string reason(llvm::StringRef problem, llvm::StringRef config,
                   const DeviceModel &device = h200()) {
  return testing::reason(family(), problem, config, device);
}

/// The launch of \p problem with \p config.
FlatElementwiseParams bound(const Problem &problem, llvm::StringRef config,
                            KernelStep &step) {
  auto named = llvm::cantFail(family().parseConfig(config));
  Plan plan = named.tmpl->plan(problem, named.config, h200());
  Arguments arguments = family().defaultArguments(problem);
  for (int i = 0; i < Arguments::kMaxOperands; ++i)
    arguments.operands[i].address = 0x1000 * (i + 1);
  LaunchContext context;
  context.smCount = 10;
  LaunchSpec spec;
  plan.binder->bind(arguments, context, spec);
  REQUIRE(spec.stepCount == 1);
  step = spec.steps[0].kernel;
  FlatElementwiseParams params;
  REQUIRE(step.paramBytes == sizeof(params));
  std::memcpy(&params, spec.params + step.paramOffset, sizeof(params));
  return params;
}

} // namespace

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

TEST_CASE("elementwise problems parse into one canonical text each") {
  auto text = [](llvm::StringRef from) { return parse(from).text(); };
  CHECK(text("elementwise rows=64 dtype=bf16 cols=4096 op=add") ==
        "elementwise op=add rows=64 cols=4096 dtype=bf16");
  CHECK(text("op=bias,gelu_tanh rows=8192 cols=28672 dtype=bf16 out=bf16 "
             "ldx=28672 ldy=28672 ldo=99 scale=3") ==
        "elementwise op=bias,gelu_tanh rows=8192 cols=28672 dtype=bf16");
  CHECK(text("op=silu,mul rows=7 cols=9 dtype=fp16 ldx=18 ldo=18") ==
        "elementwise op=silu,mul rows=7 cols=9 dtype=fp16 ldx=18 ldo=18");
  CHECK(text("op=scale,row_bias,col_scale,row_scale rows=1 cols=2 dtype=fp32 "
             "scale=0.5 align=4") ==
        "elementwise op=scale,row_bias,col_scale,row_scale rows=1 cols=2 "
        "dtype=fp32 scale=0.5 align=4");
  CHECK(family().fixedText(parse("op=silu,mul rows=7 cols=9 dtype=fp16")) ==
        "elementwise op=silu,mul rows=0 cols=9 dtype=fp16 | "
        "elementwise in=fp16 out=fp16 op=silu,mul contiguous=1");
}

TEST_CASE("a cast is an empty chain between its types") {
  llvm::StringRef plain = "elementwise rows=4 cols=4 dtype=fp32 out=bf16";
  for (llvm::StringRef text :
       {"op=cast_fp32_bf16 rows=4 cols=4 dtype=fp32 out=bf16",
        "op=cast_fp32_bf16 rows=4 cols=4 dtype=fp32",
        "op=cast_fp32_bf16 rows=4 cols=4",
        "op=none rows=4 cols=4 dtype=fp32 out=bf16"})
    CHECK(parse(text).text() == plain);
  CHECK(parse("op=cast_fp8_e4m3_fp16 rows=4 cols=4").text() ==
        "elementwise rows=4 cols=4 dtype=fp8_e4m3 out=fp16");
  CHECK(failure("op=cast_fp32_bf16 rows=4 cols=4 dtype=fp16") ==
        "elementwise: op=cast_fp32_bf16 contradicts dtype=fp16");
  CHECK(failure("op=cast_fp32_bf16 rows=4 cols=4 dtype=fp32 out=fp16") ==
        "elementwise: op=cast_fp32_bf16 contradicts out=fp16");
  CHECK(failure("op=relu,cast_fp32_bf16 rows=4 cols=4 dtype=fp32") ==
        "elementwise: op=relu,cast_fp32_bf16 has a cast that is not alone");
  // Each name has its own meaning.
  for (const FieldName &name :
       family().problemSchema().fields()[ElementwiseField::Op].names) {
    llvm::StringRef text = name.name;
    if (!text.consume_front("cast_"))
      continue;
    CAPTURE(text);
    Problem problem =
        parse(fmt::format("op=cast_{} rows=4 cols=4", text.str()));
    CHECK(problem.values.valueText(ElementwiseField::DType) + "_" +
              problem.values.valueText(ElementwiseField::Out) ==
          text);
  }
}

TEST_CASE("bad elementwise problems get one clear line") {
  CHECK(failure("op=add rows=1 cols=1") == "elementwise: dtype is missing");
  CHECK(failure("op=add cols=1 dtype=bf16") == "elementwise: rows is missing");
  CHECK(failure("op=swiglu rows=1 cols=2 dtype=bf16").find("op=swiglu") !=
        std::string::npos);
  CHECK(failure("op=scale,relu,scale rows=1 cols=1 dtype=bf16") ==
        "elementwise: op has 2 scales, at most one is served");
  CHECK(failure("op=scale rows=1 cols=1 dtype=bf16 scale=1e39") ==
        "elementwise: scale=1e+39 is beyond the range of fp32");
  CHECK(failure("op=add rows=1 cols=8 dtype=bf16 ldx=7") ==
        "elementwise: ldx=7 is below the row length 8");
  CHECK(failure("op=add rows=1 cols=8 dtype=bf16 ldo=7") ==
        "elementwise: ldo=7 is below the row length 8");
  CHECK(failure("rows=1 cols=8 dtype=bf16 align=12") ==
        "elementwise: align=12 is not a power of two");
  CHECK(failure("rows=1 cols=8 dtype=fp32 out=bf16 align=1") ==
        "elementwise: align=1 is below the element's 2 bytes");
  CHECK(failure("rows=2147483647 cols=2147483647 dtype=bf16")
            .find("exceed the address space") != std::string::npos);
  CHECK(failure("rows=1 cols=8 dtype=bf16 out=int8") ==
        "elementwise: out=int8 needs scale_y");
  CHECK(failure("rows=1 cols=8 dtype=bf16 out=fp16 scale_y=row") ==
        "elementwise: scale_y needs out=fp8_e4m3 or int8");
  CHECK(failure("rows=1 cols=8 dtype=fp8_e4m3 scale_y=row") ==
        "elementwise: scale_y needs dtype=bf16, fp16 or fp32");
  CHECK(failure("op=row_bias rows=1 cols=8 dtype=bf16 out=int8 scale_y=row") ==
        "elementwise: scale_y is not available with row_bias or row_scale in "
        "op");
  CHECK(failure("rows=1 cols=300 dtype=bf16 out=int8 scale_y=1x128 ldsy=2") ==
        "elementwise: ldsy=2 is below the row length 3");
  CHECK(failure("op=residual rows=1 cols=8 dtype=bf16")
            .find("op=residual is not one of add, mul") != std::string::npos);
}

TEST_CASE("a signature is packed when every matrix is, and survives") {
  auto contiguous = [](llvm::StringRef text) {
    Problem problem = parse(text);
    auto signature = readElementwiseSignature(problem.signature);
    CHECK(toValues(signature) == problem.signature);
    return signature.contiguous;
  };
  CHECK(contiguous("op=mul rows=2 cols=8 dtype=bf16"));
  CHECK(!contiguous("op=mul rows=2 cols=8 dtype=bf16 ldo=9"));
  CHECK(contiguous("op=bias rows=2 cols=8 dtype=bf16 ldo=9"));
  CHECK(!contiguous("op=bias rows=2 cols=8 dtype=bf16 ldy=9"));
}

TEST_CASE("quantised chains have the signature and kernels of rows") {
  Problem problem = parse("op=silu,mul rows=3 cols=300 dtype=bf16 "
                          "out=fp8_e4m3 scale_y=1x128 ldx=600 ldo=600 ldsy=4");
  CHECK(problem.text() ==
        "elementwise op=silu,mul rows=3 cols=300 dtype=bf16 out=fp8_e4m3 "
        "ldx=600 ldo=600 scale_y=1x128 ldsy=4");
  CHECK(problem.signature.text() ==
        "rows op=quantize in=bf16 out=fp8_e4m3 scales=1x128 chain=silu,mul");
  const OperandSpec scales =
      family().operands(problem).operands[ElementwiseOperand::Scales];
  CHECK((scales.isWritten() && scales.type == DType::FP32));
  CHECK((scales.rows == 3 && scales.cols == 3));
  CHECK(scales.leadingDimension == 4);
  const char *flat = "flat.t128.v8.i1";
  CHECK(reason("op=silu,mul rows=3 cols=300 dtype=bf16", flat) == "none");
  CHECK(reason(problem.text(), flat) != "none");
  const char *resident = "resident.t128.rt32.v4.n3.r1.c1.mb1";
  CHECK(reason(problem.text(), resident) == "none");
  CHECK(reason("op=silu,mul rows=3 cols=300 dtype=bf16", resident) != "none");
  // A cast to e4m3 has no scales.
  CHECK(reason("rows=3 cols=300 dtype=bf16 out=fp8_e4m3", resident) != "none");
}

TEST_CASE("the elementwise operands are x, y and one for each link") {
  Problem problem = parse("op=row_bias,silu,mul,scale,bias rows=3 cols=5 "
                          "dtype=bf16 out=fp32 ldo=8 align=2");
  OperandTable table = family().operands(problem);
  REQUIRE(table.operands.size() == ElementwiseOperand::Count);
  auto link = [&](int i) {
    return table.operands[ElementwiseOperand::FirstLink + i];
  };
  CHECK(table.operands[0].bytes() == 3 * 5 * 2);
  CHECK(table.operands[1].bytes() == 3 * 5 * 4);
  CHECK(table.operands[1].mayBe == -1);
  CHECK(link(0).bytes() == 3 * 2);
  CHECK(!link(1).present);
  CHECK(link(2).bytes() == (2 * 8 + 5) * 2);
  CHECK(!link(3).present);
  CHECK(link(4).bytes() == 5 * 2);
  CHECK(link(4).misalignment == 2);
  CHECK(!link(5).present);
  CHECK(family().compulsoryBytes(problem) ==
        3 * 5 * 2 + 3 * 5 * 4 + 3 * 2 + 3 * 5 * 2 + 5 * 2);
  auto mayBe = [](llvm::StringRef text) {
    return family().operands(parse(text)).operands[1].mayBe;
  };
  CHECK(mayBe("op=relu rows=3 cols=5 dtype=bf16 out=fp16") == 0);
  CHECK(mayBe("op=relu rows=3 cols=5 dtype=bf16 ldx=6") == -1);
  CHECK(family().isEmpty(parse("rows=0 cols=5 dtype=fp32")));
  CHECK(family().isEmpty(parse("rows=5 cols=0 dtype=fp32")));
}

//===----------------------------------------------------------------------===//
// Configs
//===----------------------------------------------------------------------===//

TEST_CASE("a vector keeps to alignment, row length and packing") {
  auto widest = [](llvm::StringRef text) {
    return widestVector(
        readElementwiseProblem(parse(text).values.array().data()));
  };
  CHECK(widest("op=add rows=3 cols=5 dtype=bf16") == 16);
  CHECK(widest("op=add rows=3 cols=5 dtype=bf16 align=8") == 4);
  CHECK(widest("op=add rows=3 cols=5 dtype=bf16 align=2") == 1);
  CHECK(widest("op=add rows=3 cols=8 dtype=bf16 ldo=12") == 4);
  CHECK(widest("op=add rows=3 cols=8 dtype=bf16 out=fp32 ldy=10") == 2);
  CHECK(widest("rows=3 cols=8 dtype=fp32 out=fp8_e4m3 align=4") == 1);
  llvm::StringRef config = "flat.t256.v8.i4.h1";
  CHECK(reason("op=add rows=3 cols=5 dtype=bf16", config) == "none");
  CHECK(reason("op=add rows=3 cols=5 dtype=bf16 align=8", config) ==
        "alignment: 8 elements, limit 4 elements");
  // A bias has columns, and a vector must not leave its row.
  CHECK(reason("op=bias rows=3 cols=12 dtype=bf16", config) ==
        "alignment: 8 elements, limit 4 elements");
  CHECK(reason("op=add rows=3 cols=8 dtype=bf16 ldx=12", config) ==
        "alignment: 8 elements, limit 4 elements");
  CHECK(reason("op=add rows=3 cols=8 dtype=bf16 ldx=16", config) == "none");
  // Rows of a packed line may begin anywhere, vectors may not.
  llvm::StringRef line = "flat.t256.v8.i4.h1.s1";
  CHECK(reason("op=bias rows=3 cols=13 dtype=bf16", line) == "none");
  CHECK(reason("op=bias rows=3 cols=7 dtype=bf16", line) ==
        "alignment: 8 elements, limit 7 elements");
  CHECK(reason("op=bias rows=3 cols=13 dtype=bf16 align=4", line) ==
        "alignment: 8 elements, limit 2 elements");
  CHECK(reason("op=bias rows=3 cols=13 dtype=bf16 ldx=15", line) ==
        "instruction-shape");
  CHECK(reason("op=relu rows=3 cols=13 dtype=bf16", line) ==
        "instruction-shape");
  // Only the width of an access limits shifted vectors.
  llvm::StringRef any = "flat.t256.v8.i4.h1.s2";
  CHECK(reason("op=bias rows=3 cols=7 dtype=bf16 ldx=9 align=2", any) ==
        "none");
  CHECK(reason("op=relu rows=3 cols=13 dtype=bf16 align=2", any) == "none");
  CHECK(reason("op=relu rows=3 cols=13 dtype=fp32 align=4", any) ==
        "instruction-shape");
}

TEST_CASE("rows that begin anywhere have whole accesses in the space") {
  auto hasStart = [](llvm::StringRef text, int start) {
    int found = 0;
    family().findTemplate("flat")->enumerate(
        parse(text), h200(), [&](Values values) {
          auto config = fromValues<FlatElementwiseConfig>(values);
          found += config.start == start &&
                   !family().findTemplate("flat")->prune(parse(text), values,
                                                         h200());
        });
    return found > 0;
  };
  constexpr int kLine = FlatElementwiseConfig::kLine;
  constexpr int kAny = FlatElementwiseConfig::kAny;
  CHECK(hasStart("op=bias rows=64 cols=777 dtype=bf16", kLine));
  CHECK(hasStart("op=add rows=64 cols=777 dtype=bf16 ldx=779", kAny));
  CHECK(hasStart("op=add rows=64 cols=777 dtype=bf16 align=2", kAny));
  // Nothing is gained if aligned vectors are whole accesses.
  for (llvm::StringRef text : {"op=add rows=64 cols=777 dtype=bf16",
                               "op=bias rows=64 cols=776 dtype=bf16"}) {
    CHECK(!hasStart(text, kLine));
    CHECK(!hasStart(text, kAny));
  }
}

TEST_CASE("prune names the limit that an elementwise config breaks") {
  llvm::StringRef add = "op=add rows=8192 cols=8192 dtype=bf16";
  CHECK(reason(add, "flat.t256.v8.i3") == "instruction-shape");
  CHECK(reason(add, "flat.t48.v8.i4") == "instruction-shape");
  CHECK(reason(add, "flat.t256.v8.i4.h3") == "instruction-shape");
  CHECK(reason("rows=4 cols=4 dtype=fp32", "flat.t256.v16.i1") ==
        "instruction-shape");
  CHECK(reason(add, "flat.t1024.v16.i8").find("register wall: ") == 0);
  // 32 registers of bits, 8 of values and 18 more; a fifth block leaves 51.
  CHECK(reason(add, "flat.t256.v8.i4.b5") ==
        "register wall: 64 registers a thread, 48 allowed");
  CHECK(reason(add, "flat.t256.v8.i4.b4") == "none");
  CHECK(reason(add, "flat.t256.v8.i4.b9") == "instruction-shape");
  DeviceModel ada = llvm::cantFail(findDevice("rtx-4090"));
  CHECK(reason(add, "flat.t256.v8.i1.b8") ==
        "register wall: 40 registers a thread, 32 allowed");
  CHECK(reason(add, "flat.t256.v8.i1.b8", ada) ==
        "threads: 2048 threads of an SM, limit 1536 threads of an SM");
  CHECK(reason(add, "flat.t256.v8.i1.b6", ada) == "none");
  CHECK(reason(add, "flat.t256.v8.i4.ps9").find("register wall: 9 blocks") ==
        0);
  CHECK(reason("op=add rows=8 cols=8192 dtype=bf16", "flat.t256.v8.i4.ps2") ==
        "dominated: 264 blocks, limit 8 blocks");
  CHECK(reason(add, "flat.t256.v8.i4.ps2") == "none");
}

TEST_CASE("the flat space is compact and always has a config") {
  for (llvm::StringRef text :
       {"op=add rows=8192 cols=8192 dtype=bf16",
        "op=bias,gelu_tanh rows=8192 cols=28672 dtype=bf16",
        "op=cast_fp32_bf16 rows=16384 cols=16384",
        "op=add rows=64 cols=4096 dtype=bf16",
        "op=silu,mul rows=1000 cols=4097 dtype=fp16 ldx=4100 align=2",
        "op=row_scale rows=1 cols=1 dtype=fp8_e4m3 out=fp32",
        "op=relu rows=2147483647 cols=33554432 dtype=bf16 align=2",
        "op=relu rows=0 cols=0 dtype=fp16"}) {
    CAPTURE(text);
    Problem problem = parse(text);
    const Template &flat = *family().findTemplate("flat");
    int all = 0, kept = 0;
    flat.enumerate(problem, h200(), [&](Values config) {
      ++all;
      kept += !flat.prune(problem, config, h200());
    });
    CHECK(all < 200);
    CHECK(kept >= 10);
    // Whatever rows, strides and alignment are: one config always runs.
    CHECK(!flat.prune(
        problem, llvm::cantFail(family().parseConfig("flat.t256.v1.i4")).config,
        h200()));
  }
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

TEST_CASE("bind cuts packed matrices into chunks") {
  KernelStep step;
  auto params = bound(parse("op=silu,mul rows=5 cols=1001 dtype=bf16"),
                      "flat.t128.v8.i2", step);
  CHECK(step.grid == Dim3{3}); // 5005 elements, 625 vectors, 256 a chunk
  CHECK(step.block == Dim3{128});
  CHECK(params.vectors == 625);
  CHECK(params.chunks == 3);
  CHECK(params.fullChunks == 2);
  CHECK(params.operands.x == reinterpret_cast<void *>(0x1000));
  CHECK(params.operands.y == reinterpret_cast<void *>(0x2000));
  CHECK(params.operands.operands[1] == reinterpret_cast<void *>(0x4000));
  // A problem below one vector still has a block for its end.
  bound(parse("rows=1 cols=3 dtype=bf16"), "flat.t128.v8.i2", step);
  CHECK(step.grid == Dim3{1});
  // A resident grid is as large as the chip.
  bound(parse("rows=1000 cols=1000 dtype=bf16"), "flat.t128.v8.i2.ps2", step);
  CHECK(step.grid == Dim3{20});
}

TEST_CASE("runs of items walk every vector once") {
  for (llvm::StringRef config :
       {"flat.t32.v1.i1", "flat.t32.v2.i4", "flat.t64.v4.i8.ps1",
        "flat.t128.v1.i2.ps1", "flat.t256.v4.i1"})
    for (int cols : {4, 12, 64, 100, 1000}) {
      CAPTURE(config);
      CAPTURE(cols);
      KernelStep step;
      auto c = fromValues<FlatElementwiseConfig>(
          llvm::cantFail(family().parseConfig(config)).config);
      auto params =
          bound(parse(fmt::format("op=relu rows=37 cols={} dtype=fp32 ldx=1004",
                                  cols)),
                config, step);
      REQUIRE(int(params.vectorsPerRow) == cols / c.vector);
      std::vector<int> visits(37 * params.vectorsPerRow);
      bool firstInside = true, full = true;
      for (int64_t run = 0; run < params.runs; ++run) {
        FlatPlace place = placeOf(params, run);
        firstInside &= place.row < 37;
        for (int i = 0; i < c.items; ++i)
          if (uint32_t row = place.row + i * params.rowStep; row < 37)
            ++visits[row * params.vectorsPerRow + place.column];
          else
            full &= run / c.blockThreads >= params.fullChunks;
      }
      CHECK(full);
      CHECK(params.fullChunks * c.blockThreads <= params.runs);
      CHECK(firstInside);
      CHECK(visits == std::vector<int>(visits.size(), 1));
      CHECK((params.chunks - 1) * c.blockThreads < params.runs);
      CHECK(params.chunks * c.blockThreads >= params.runs);
      // Short rows are read next to each other.
      CHECK(int(params.groupRows) == (params.vectorsPerRow < 32 ? 1 : c.items));
    }
}

TEST_CASE("runs of rows that begin anywhere walk every vector once") {
  for (llvm::StringRef config :
       {"flat.t32.v4.i1.s2", "flat.t64.v4.i4.s2", "flat.t128.v2.i8.s2"})
    for (int rows : {1, 5, 37, 300})
      for (int cols : {1, 7, 63, 64, 1001}) {
        CAPTURE(config);
        CAPTURE(rows);
        CAPTURE(cols);
        KernelStep step;
        auto c = fromValues<FlatElementwiseConfig>(
            llvm::cantFail(family().parseConfig(config)).config);
        auto params = bound(
            parse(fmt::format("op=relu rows={} cols={} dtype=fp32 ldx=1005",
                              rows, cols)),
            config, step);
        // A row that begins with the last element of a vector.
        int vectors = (c.vector - 1 + cols + c.vector - 1) / c.vector;
        REQUIRE(int(params.vectorsPerRow) == vectors);
        std::vector<int> visits(rows * vectors);
        bool firstInside = true, full = true, alike = true;
        for (int64_t run = 0; run < params.runs; ++run) {
          FlatPlace place = shiftedPlaceOf(params, run, c.items);
          firstInside &= int(place.row) < rows;
          for (int i = 0; i < c.items; ++i)
            if (int row = int(place.row + i * params.rowStep); row < rows)
              ++visits[row * vectors + int(place.column)];
            else
              full &= run / c.blockThreads >= params.fullChunks;
        }
        // All items of a thread are misaligned alike.
        alike = params.rowStep % 4 == 0;
        CHECK(alike);
        CHECK(full);
        CHECK(firstInside);
        CHECK(visits == std::vector<int>(visits.size(), 1));
        CHECK(params.chunks * c.blockThreads >= params.runs);
      }
}

TEST_CASE("a packed line's threads have vectors that lie alike") {
  for (llvm::StringRef config :
       {"flat.t32.v8.i1.s1", "flat.t64.v8.i2.s1", "flat.t128.v8.i4.s1"})
    for (int rows : {1, 7, 8, 9, 50, 64, 130})
      for (int cols : {8, 9, 333, 1001}) {
        CAPTURE(config);
        CAPTURE(rows);
        CAPTURE(cols);
        KernelStep step;
        auto c = fromValues<FlatElementwiseConfig>(
            llvm::cantFail(family().parseConfig(config)).config);
        auto params =
            bound(parse(fmt::format("op=bias rows={} cols={} dtype=bf16", rows,
                                    cols)),
                  config, step);
        REQUIRE(params.vectors == rows * cols / 8);
        std::vector<int> visits(params.vectors);
        bool full = true, alike = true;
        for (int64_t run = 0; run < params.chunks * c.blockThreads; ++run) {
          LinePlace place = linePlaceOf(params, run, c.vector, c.items);
          for (int i = 0; i < c.items; ++i) {
            int64_t vector = place.vector + i * cols;
            alike &= vector * 8 == (place.row + i * 8) * int64_t(cols) +
                                       int64_t(place.column);
            if (vector < params.vectors)
              ++visits[vector];
            else
              full &= run / c.blockThreads >= params.fullChunks;
          }
        }
        CHECK(alike);
        CHECK(full);
        CHECK(visits == std::vector<int>(visits.size(), 1));
        CHECK(step.grid == Dim3{uint32_t(params.chunks)});
      }
}
