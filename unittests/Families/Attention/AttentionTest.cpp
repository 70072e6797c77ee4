#include "Families/Attention/AttentionFamily.h"
#include "Families/FamilyTesting.h"

#include "Kernel/Space.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <cmath>
#include <cstring>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// The fields that every problem here has, followed by \p fields.
std::string textOf(llvm::StringRef fields) {
  return ("attention sq=128 sk=256 heads=8 d=64 dtype=bf16 " + fields).str();
}
Problem parseFields(llvm::StringRef fields) {
  return testing::parse(attention(), textOf(fields));
}
std::string failureOf(llvm::StringRef fields) {
  return testing::failure(attention(), textOf(fields));
}
/// The canonical text without the fields that every problem has.
std::string rest(llvm::StringRef fields) {
  const std::string text = parseFields(fields).text(), common = textOf("");
  llvm::SmallVector<llvm::StringRef> parts, known;
  llvm::StringRef(text).split(parts, ' ');
  llvm::StringRef(common).split(known, ' ');
  llvm::erase_if(parts, [&](llvm::StringRef part) {
    return llvm::is_contained(known, part);
  });
  return llvm::join(parts, " ");
}
AttentionSignature signatureOf(llvm::StringRef fields) {
  return readAttentionSignature(parseFields(fields).signature);
}
OperandSpec operand(llvm::StringRef text, int index) {
  return attention()
      .operands(testing::parse(attention(), text))
      .operands[index];
}

/// The parameters of the naive kernel in a launch of \p problem, with operands
/// at multiples of 0x1000.
AttentionParams paramsOf(const Problem &problem,
                         const DeviceModel &device = h200()) {
  const Template &naive = *attention().findTemplate("naive");
  Plan plan = naive.plan(problem, Values(naive.configSchema()), device);
  Arguments arguments = attention().defaultArguments(problem);
  for (int i = 0; i < AttentionOperand::Count; ++i)
    arguments.operands[i].address = DeviceAddress(0x1000) * (i + 1);
  LaunchSpec spec;
  plan.binder->bind(arguments, {}, spec);
  REQUIRE(spec.stepCount == 1);
  AttentionParams params;
  REQUIRE(spec.steps[0].kernel.paramBytes == sizeof(params));
  std::memcpy(&params, spec.params + spec.steps[0].kernel.paramOffset,
              sizeof(params));
  return params;
}

} // namespace

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

TEST_CASE("equal attention problems have equal text") {
  CHECK(rest("batch=1 kvheads=8 dv=64 kv=bf16 out=bf16 mask=none scale=0 "
             "softcap=0 sinks=0 align=16") == "");
  CHECK(rest("scale=0.125") == "");
  CHECK(rest("scale=0.5") == "scale=0.5");
  CHECK(rest("left=5 right=6") == "");
  CHECK(rest("mask=causal left=5") == "mask=causal");
  CHECK(rest("mask=window") == "");
  CHECK(rest("mask=window right=0") == "mask=causal");
  CHECK(rest("mask=window left=127 right=0") == "mask=window left=127 right=0");
  CHECK(rest("page=16 poolpages=7 tablecols=3 totalq=5 totalk=6") == "");
  CHECK(rest("skhint=100") == "");
  CHECK(rest("kvlen=used skhint=256") == "kvlen=used");
  CHECK(rest("kvlen=used skhint=100") == "skhint=100 kvlen=used");
  CHECK(rest("pages=table page=16 poolpages=16 tablecols=16") ==
        "pages=table page=16");
  CHECK(testing::parse(attention(),
                       "batch=3 sq=2 sk=33 heads=1 d=8 dtype=fp16 "
                       "pages=list page=16 poolpages=9 tablecols=9 "
                       "qlen=packed totalq=6")
            .text() == "attention batch=3 sq=2 sk=33 heads=1 d=8 dtype=fp16 "
                       "qlen=packed pages=list page=16");
}

TEST_CASE("strides of attention that are packed are not in its text") {
  CHECK(rest("ldq=512 hsq=64 bsq=65536 ldo=512 hso=64 bso=65536") == "");
  CHECK(rest("ldk=512 hsk=64 bsk=131072 ldv=512") == "");
  // Q, K and V are parts of one tensor.
  CHECK(rest("ldq=1536 bsq=196608") == "ldq=1536");
  // [batch][head][token][d]
  CHECK(rest("ldq=64 hsq=8192 bsq=65536") == "ldq=64 hsq=8192");
  // [token][batch][head][d]
  CHECK(rest("batch=2 ldq=1024 bsq=512") == "batch=2 ldq=1024 bsq=512");
  CHECK(rest("qlen=packed bsq=1 bso=1") == "qlen=packed");
  CHECK(testing::parse(attention(), "sq=4 sk=4 heads=1 d=8 dtype=fp16 hsq=24 "
                                    "hsk=8")
            .text() == "attention sq=4 sk=4 heads=1 d=8 dtype=fp16");
}

TEST_CASE("bad attention problems get one clear line") {
  CHECK(failureOf("kvheads=3") ==
        "attention: heads=8 is no multiple of kvheads=3");
  CHECK(failureOf("kv=fp16") == "attention: kv=fp16 is neither dtype nor e4m3");
  CHECK(failureOf("out=fp16") ==
        "attention: out=fp16 differs from dtype, which only e4m3 allows");
  CHECK(failureOf("scales=head") == "attention: scales=head needs kv=e4m3");
  CHECK(failureOf("scale=-1") ==
        "attention: scale=-1 is negative, negate Q instead");
  CHECK(failureOf("softcap=-2") == "attention: softcap=-2 is negative");
  CHECK(failureOf("scale=1e40") ==
        "attention: scale=1e+40 is beyond the range of fp32");
  CHECK(failureOf("scale=1e-60") ==
        "attention: scale=1e-60 is beyond the range of fp32");
  CHECK(failureOf("softcap=1e-60") ==
        "attention: softcap=1e-60 is beyond the range of fp32");
  CHECK(failureOf("softcap=1e-40 scale=1") ==
        "attention: fp32 has no room for softcap=1e-40 with scale=1");
  CHECK(failureOf("softcap=1e38 scale=1e-3") ==
        "attention: fp32 has no room for softcap=1e+38 with scale=0.001");
  CHECK(failureOf("alibi=1 scale=1e-30") ==
        "attention: fp32 has no room for the slopes of alibi beside "
        "scale=1e-30, below 2^-64");
  CHECK(failureOf("alibi=1 softcap=1e-30 scale=1e-31") ==
        "attention: fp32 has no room for the slopes of alibi beside "
        "softcap=1e-30, below 2^-64");
  CHECK(failureOf("pages=table") ==
        "attention: page=0, pages of K and V need their tokens");
  CHECK(failureOf("pages=table page=16 kvlen=packed") ==
        "attention: kvlen=packed with pages, give kvlen=used");
  CHECK(failureOf("pages=table page=16 tablecols=15") ==
        "attention: tablecols=15 is below the 16 pages of sk=256");
  CHECK(failureOf("batch=2 pages=list page=16 tablecols=31") ==
        "attention: tablecols=31 is below the 32 pages of sk=256");
  CHECK(rest("pages=list page=16 tablecols=3 kvlen=used") ==
        "kvlen=used pages=list page=16 tablecols=3");
  CHECK(failureOf("ldq=63") == "attention: ldq=63 is below the row length 64");
  CHECK(failureOf("ldk=511") ==
        "attention: ldk=511 is below the 512 elements that it steps over");
  CHECK(failureOf("batch=2 bso=65535") ==
        "attention: bso=65535 is below the 65536 elements that it steps over");
  CHECK(failureOf("batch=2147483647 qlen=packed") ==
        "attention: totalq=274877906816 is more than 2147483647");
  CHECK(failureOf("align=1") ==
        "attention: align=1 is below the element's 2 bytes");
  CHECK(failureOf("dv=577") == "attention: dv=577 is above 576");
}

//===----------------------------------------------------------------------===//
// Signatures
//===----------------------------------------------------------------------===//

TEST_CASE("the signature of attention has what kernels are compiled for") {
  AttentionSignature s = signatureOf(
      "kvheads=2 dv=32 kv=e4m3 mask=window left=3 softcap=30 sinks=1 alibi=1 "
      "lse=1 qlen=packed kvlen=used pages=table page=16 scales=tensor");
  CHECK(s == AttentionSignature{.q = DType::BF16,
                                .kv = DType::E4M3,
                                .out = DType::BF16,
                                .headDim = 64,
                                .valueDim = 32,
                                .mask = AttentionMask::Window,
                                .queryLengths = AttentionLengths::Packed,
                                .keyLengths = AttentionLengths::Used,
                                .pages = AttentionPages::Table,
                                .softcap = true,
                                .sinks = true,
                                .alibi = true,
                                .lse = true,
                                .scales = true,
                                .align = 16});
  CHECK(readAttentionSignature(toValues(s)) == s);
  // The signature does not depend on sizes, scales and windows.
  CHECK(signatureOf("batch=7 kvheads=4 scale=2 split=512") == signatureOf(""));
  CHECK(signatureOf("mask=window left=3") == signatureOf("mask=window left=9"));
}

TEST_CASE("every stride and row of attention counts for its alignment") {
  for (llvm::StringRef key :
       {"ldq", "ldk", "ldv", "ldo", "bsq", "bsk", "bsv", "bso"}) {
    CAPTURE(key.str());
    CHECK(signatureOf(("batch=2 " + key + "=1000008").str()).align == 16);
    CHECK(signatureOf(("batch=2 " + key + "=1000004").str()).align == 8);
    CHECK(signatureOf(("batch=2 " + key + "=1000001").str()).align == 2);
  }
  for (llvm::StringRef key : {"hsq", "hsk", "hsv", "hso"}) {
    CAPTURE(key.str());
    CHECK(signatureOf((key + "=1000001").str()).align == 2);
  }
  CHECK(signatureOf("align=8").align == 8);
  CHECK(signatureOf("dv=4").align == 8);
  auto align = [](llvm::StringRef text) {
    auto problem = testing::parse(attention(), text);
    return readAttentionSignature(problem.signature).align;
  };
  CHECK(align("sq=4 sk=4 heads=1 d=20 dtype=fp16") == 8);
  CHECK(align("sq=4 sk=4 heads=1 d=20 dtype=e4m3") == 4);
  // K has one byte an element, and Q two, whatever is promised.
  CHECK(align("sq=4 sk=4 heads=1 d=16 dtype=fp16 kv=e4m3 align=1") == 2);
  CHECK(align("sq=4 sk=4 heads=1 d=3 dtype=e4m3 align=1") == 1);
  // Q, K and V of e4m3 may begin anywhere, though O may not.
  CHECK(align("sq=4 sk=4 heads=1 d=64 dtype=e4m3 align=1") == 1);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

TEST_CASE("operands of attention have heads as planes") {
  constexpr llvm::StringLiteral kText =
      "batch=2 sq=5 sk=9 heads=6 kvheads=3 d=16 dv=8 dtype=fp16 lse=1";
  OperandSpec q = operand(kText, AttentionOperand::Q);
  CHECK((q.rows == 5 && q.cols == 16 && q.leadingDimension == 96));
  CHECK((q.planes == 6 && q.planeStride == 16));
  CHECK((q.batch == 2 && q.batchStride == 480));
  OperandSpec v = operand(kText, AttentionOperand::V);
  CHECK((v.rows == 9 && v.cols == 8 && v.leadingDimension == 24));
  CHECK((v.planes == 3 && v.planeStride == 8 && v.batchStride == 216));
  OperandSpec lse = operand(kText, AttentionOperand::Lse);
  CHECK((lse.rows == 5 && lse.cols == 1 && lse.leadingDimension == 1));
  CHECK((lse.planes == 6 && lse.planeStride == 5));
  CHECK((lse.batch == 2 && lse.batchStride == 30));
  CHECK(lse.isWritten());
}

TEST_CASE("packed sequences are one, and pages are a batch") {
  constexpr llvm::StringLiteral kPacked =
      "batch=3 sq=5 sk=9 heads=2 d=16 dtype=fp16 lse=1 qlen=packed totalq=11 "
      "kvlen=packed";
  OperandSpec o = operand(kPacked, AttentionOperand::O);
  CHECK((o.rows == 11 && o.batch == 1 && o.planes == 2));
  CHECK(operand(kPacked, AttentionOperand::K).rows == 27);
  CHECK(operand(kPacked, AttentionOperand::Lse).planeStride == 11);
  OperandSpec offsets = operand(kPacked, AttentionOperand::QueryOffsets);
  CHECK((offsets.rows == 1 && offsets.cols == 4));
  CHECK(offsets.usual.integers.kind == IntegerData::Offsets);
  CHECK(offsets.usual.integers.most == 5);
  CHECK(offsets.usual.integers.total == 11);

  constexpr llvm::StringLiteral kTable =
      "batch=3 sq=1 sk=33 heads=2 d=16 dtype=fp16 kvlen=used pages=table "
      "page=16 poolpages=7 tablecols=4";
  OperandSpec k = operand(kTable, AttentionOperand::K);
  CHECK((k.rows == 16 && k.batch == 7 && k.planes == 2));
  CHECK((k.leadingDimension == 32 && k.batchStride == 512));
  OperandSpec table = operand(kTable, AttentionOperand::PageTable);
  CHECK((table.rows == 3 && table.cols == 4 && table.leadingDimension == 4));
  CHECK(table.usual.integers.kind == IntegerData::Indices);
  CHECK(table.usual.integers.most == 6);
  CHECK(operand(kTable, AttentionOperand::KeyLengths).usual.integers.most ==
        33);
  CHECK_FALSE(operand(kTable, AttentionOperand::PageOffsets).present);

  // Trials of a short list have sequences for which it has room.
  constexpr llvm::StringLiteral kList =
      "batch=3 sq=1 sk=100 heads=2 d=16 dtype=fp16 kvlen=used pages=list "
      "page=16 tablecols=10";
  OperandSpec list = operand(kList, AttentionOperand::PageTable);
  CHECK((list.rows == 1 && list.cols == 10));
  IntegerInit starts =
      operand(kList, AttentionOperand::PageOffsets).usual.integers;
  CHECK((starts.least == 3 && starts.most == 3 && starts.total == 10));
  CHECK(operand(kList, AttentionOperand::KeyLengths).usual.integers.most == 48);
}

TEST_CASE("scales of attention are those of its e4m3 operands") {
  constexpr llvm::StringLiteral kText =
      "batch=3 sq=1 sk=33 heads=6 kvheads=2 d=16 dtype=bf16 kv=e4m3 scales=";
  CHECK_FALSE(
      operand((kText + "head").str(), AttentionOperand::QScale).present);
  CHECK(operand((kText + "head").str(), AttentionOperand::KScale).cols == 2);
  CHECK(operand((kText + "tensor").str(), AttentionOperand::VScale).cols == 1);
  CHECK(operand("sq=1 sk=33 heads=6 d=16 dtype=e4m3 scales=head",
                AttentionOperand::QScale)
            .present);
}

TEST_CASE("only Q, K, V and O keep the promised alignment") {
  constexpr llvm::StringLiteral kText =
      "sq=4 sk=4 heads=2 d=64 dtype=bf16 lse=1 sinks=1 kvlen=used";
  for (auto [index, bytes] : {std::pair{int(AttentionOperand::Q), 0},
                              {int(AttentionOperand::O), 0},
                              {int(AttentionOperand::Lse), 4},
                              {int(AttentionOperand::Sinks), 4},
                              {int(AttentionOperand::KeyLengths), 4}}) {
    OperandSpec spec = operand(kText, index);
    CAPTURE(spec.name.str());
    CHECK(spec.alignment == bytes);
    CHECK(spec.misalignment == bytes);
  }
  CHECK(operand((kText + " align=2").str(), AttentionOperand::V).misalignment ==
        2);
}

//===----------------------------------------------------------------------===//
// Launches and reports
//===----------------------------------------------------------------------===//

TEST_CASE("launches of attention carry the problem") {
  AttentionParams params = paramsOf(parseFields(
      "batch=2 kvheads=2 dv=32 mask=window left=7 right=3 softcap=30 lse=1"));
  CHECK(params.q == reinterpret_cast<const void *>(0x1000));
  CHECK(params.o == reinterpret_cast<void *>(0x4000));
  CHECK(params.lse == reinterpret_cast<float *>(0x5000));
  CHECK((params.batch == 2 && params.queries == 128 && params.keys == 256));
  CHECK((params.heads == 8 && params.kvHeads == 2));
  CHECK((params.left == 7 && params.right == 3));
  CHECK(params.scale == 0.125f);
  CHECK(params.softcap == 30.0f);
  CHECK(params.qStrides.token == 512);
  CHECK(params.vStrides.token == 64);
  CHECK(params.vStrides.head == 32);
  CHECK(params.oStrides.batch == 128 * 256);
  CHECK((params.lseHeadStride == 128 && params.lseBatchStride == 1024));
  CHECK((params.splits == 1 && params.totalQueries == 256));
  CHECK((params.scaleHeadStride == 0 && params.scaleBatchStride == 0));
  CHECK(paramsOf(parseFields("scale=3")).scale == 3.0f);
  CHECK(paramsOf(parseFields("qlen=packed totalq=77 lse=1")).lseHeadStride ==
        77);
  CHECK(paramsOf(parseFields("kv=e4m3 scales=head")).scaleHeadStride == 1);
  AttentionParams paged =
      paramsOf(parseFields("pages=table page=16 tablecols=20 kvlen=used"));
  CHECK((paged.pageSize == 16 && paged.pageTableStride == 20));
  CHECK(paged.kStrides.batch == 16 * 512);
}

TEST_CASE("sequences of attention may share rows") {
  constexpr llvm::StringLiteral kText =
      "attention batch=3 sq=5 sk=33 heads=4 kvheads=2 d=16 dtype=fp16 bsq=-1 "
      "bsk=-1 bsv=-1";
  Problem problem = testing::parse(attention(), kText);
  CHECK(problem.text() == kText);
  OperandTable table = attention().operands(problem);
  for (int index :
       {AttentionOperand::Q, AttentionOperand::K, AttentionOperand::V})
    CHECK(table.operands[index].batchStride == 0);
  CHECK(table.operands[AttentionOperand::K].bytes() == 33 * 2 * 16 * 2);
  CHECK(paramsOf(problem).kStrides.batch == 0);
  CHECK(paramsOf(problem).oStrides.batch == 5 * 4 * 16);
  // Packed sequences have no stride.
  CHECK(testing::parse(attention(), (kText + " kvlen=packed qlen=packed").str())
            .text()
            .find("-1") == std::string::npos);
  CHECK(attention().compulsoryBytes(problem) ==
        3 * 2.0 * 16 * 4 * 5 * 2 + 2.0 * 16 * 2 * 33 * 2);
  CHECK(testing::failure(attention(),
                         "sq=5 sk=33 heads=4 d=16 dtype=fp16 "
                         "bso=-1") == "attention: bso=-1 is below 0");
  CHECK(testing::failure(attention(),
                         "sq=5 sk=33 heads=4 d=16 dtype=fp16 "
                         "bsk=-2") == "attention: bsk=-2 is below -1");
  CHECK(testing::failure(attention(), "sq=5 sk=33 heads=4 d=16 dtype=fp16 "
                                      "pages=table page=16 bsv=-1") ==
        "attention: bsv=-1 with pages, let rows of the table be equal");
}

TEST_CASE("keys that come up again may be off as often") {
  auto tolerance = [](llvm::StringRef fields) {
    return operand(
               ("batch=2 sq=1 sk=1000 heads=2 d=16 dtype=bf16 " + fields).str(),
               AttentionOperand::O)
        .tolerance;
  };
  const double usual = tolerance("").scaled;
  CHECK(tolerance("pages=table page=100").scaled == usual);
  CHECK(tolerance("pages=table page=100 poolpages=10").scaled == usual);
  // One of 10 pages of a sequence occurs twice, or all four times.
  CHECK(tolerance("pages=table page=100 poolpages=9").scaled ==
        doctest::Approx(usual * std::sqrt(2.0)));
  CHECK(tolerance("pages=list page=100 poolpages=3").scaled == 2 * usual);
  CHECK(tolerance("pages=list page=100 poolpages=3").relative ==
        tolerance("").relative);
}

TEST_CASE("work of attention is what its mask leaves") {
  auto flops = [](llvm::StringRef fields) {
    return attention().flops(parseFields(fields));
  };
  CHECK(flops("") == 4.0 * 64 * 128 * 256 * 8);
  CHECK(flops("dv=32") == 2.0 * 96 * 128 * 256 * 8);
  // Query i sees 128 + i + 1 keys.
  CHECK(flops("mask=causal") == 4.0 * 64 * 8 * (128 * 128 + 128 * 129 / 2));
  CHECK(flops("kvlen=used skhint=100") == 4.0 * 64 * 128 * 100 * 8);
  CHECK(flops("batch=4 qlen=packed totalq=256") == 4.0 * 64 * 256 * 256 * 8);
  // Packed queries count as many as there are, also where keys are fewer.
  const std::string few = "kvlen=used skhint=100 qlen=packed";
  CHECK(flops(few) == 4.0 * 64 * 128 * 100 * 8);
  CHECK(flops(few + " totalq=120") == 4.0 * 64 * 120 * 100 * 8);
  auto bytes = [](llvm::StringRef fields) {
    return attention().compulsoryBytes(parseFields(fields));
  };
  CHECK(bytes("") == 2.0 * 64 * 8 * (128 + 256) * 2);
  CHECK(bytes("lse=1") - bytes("") == 4.0 * 8 * 128);
  CHECK(bytes("kvheads=1 kv=e4m3") == 2.0 * 64 * 8 * 128 * 2 + 2.0 * 64 * 256);
  // Keys before all windows are not read.
  CHECK(bytes("mask=window left=9 right=0") ==
        2.0 * 64 * 8 * (128 + 128 + 9) * 2);
  CHECK(bytes("batch=4 pages=table page=16 poolpages=8") ==
        4 * 2.0 * 64 * 8 * 128 * 2 + 2.0 * 64 * 8 * 128 * 2);
}

TEST_CASE("attention with few queries is held against a stream") {
  auto peer = [](llvm::StringRef text) {
    return attention().peer(testing::parse(attention(), text));
  };
  CHECK(peer("sq=1 sk=8192 heads=32 kvheads=8 d=128 dtype=bf16") ==
        Peer::Stream);
  CHECK(peer("sq=4096 sk=4096 heads=32 d=128 dtype=bf16") == Peer::None);
}

TEST_CASE("attention without queries is empty, without keys it is not") {
  auto isEmpty = [](llvm::StringRef text) {
    return attention().isEmpty(testing::parse(attention(), text));
  };
  CHECK(isEmpty("sq=0 sk=5 heads=1 d=8 dtype=bf16"));
  CHECK(isEmpty("batch=0 sq=5 sk=5 heads=1 d=8 dtype=bf16"));
  CHECK_FALSE(isEmpty("sq=5 sk=0 heads=1 d=8 dtype=bf16"));
}

TEST_CASE("the naive attention kernel is the last resort") {
  auto first = [](llvm::StringRef fields) {
    Space space =
        llvm::cantFail(exploreSpace(attention(), parseFields(fields), h200()));
    return space.ranked.front().tmpl->name();
  };
  for (llvm::StringRef fields :
       {"", "mask=causal lse=1", "kv=e4m3 scales=head", "dv=3 align=2"}) {
    CAPTURE(fields.str());
    CHECK(first(fields) != "naive");
  }
  // No other template supports rows that are this long and begin anywhere.
  const Problem rows = testing::parse(
      attention(), "attention sq=16 sk=4096 heads=16 kvheads=1 d=576 dv=512 "
                   "latent=1 dtype=bf16 align=2");
  Space space = llvm::cantFail(exploreSpace(attention(), rows, h200()));
  CHECK(space.ranked.front().tmpl->name() == "naive");
}

TEST_CASE("naive attention is not first from a hundred keys on") {
  // 50 sequences of 138 keys and 32 heads took 47 us, decode 20 (H200).
  for (int batch : {1, 50, 72})
    for (int queries : {1, 5})
      for (int keys : {113, 138, 1000})
        for (llvm::StringRef heads : {"heads=32", "heads=32 kvheads=8"})
          for (int dim : {64, 128, 256}) {
            std::string text = "attention batch=" + std::to_string(batch) +
                               " sq=" + std::to_string(queries) +
                               " sk=" + std::to_string(keys) + " " +
                               heads.str() + " d=" + std::to_string(dim) +
                               " dtype=bf16";
            CAPTURE(text);
            Space space = llvm::cantFail(exploreSpace(
                attention(), testing::parse(attention(), text), h200()));
            CHECK(space.ranked.front().tmpl->name() != "naive");
          }
}

TEST_CASE("sequences that share pages have as many keys as they like") {
  // All of them exceed the limit of a tensor map, and each is far below it.
  auto first = [&](int batch) {
    const Problem problem = testing::parse(
        attention(),
        "attention batch=" + std::to_string(batch) +
            " sq=1 sk=1048576 heads=128 kvheads=1 d=576 dv=512 latent=1 "
            "dtype=bf16 kvlen=used skhint=4096 pages=table page=64 "
            "poolpages=300000");
    auto space = exploreSpace(attention(), problem, h200());
    REQUIRE(space);
    return space->ranked.front().tmpl->name().str();
  };
  CHECK(first(2047) == "sm90mla");
  CHECK(first(2048) == "sm90mla");
}
