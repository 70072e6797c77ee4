#include "Families/FamilyTesting.h"
#include "Families/Prepack/PrepackFamily.h"
#include "Support/Json.h"

#include "kiln/kiln.h"

#include <doctest/doctest.h>

#include <llvm/ADT/StringExtras.h>

#include <set>
#include <string>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

const KernelFamily &family() { return *registry().find("prepack"); }

Problem parse(llvm::StringRef fields) {
  return testing::parse(family(), fields.str());
}
PrepackProblem typed(llvm::StringRef fields) {
  return readPrepackProblem(parse(fields).values.array().data());
}
std::string failure(llvm::StringRef fields) {
  return testing::failure(family(), ("n=64 k=128 " + fields).str());
}

/// The bytes in the hexadecimal digits of \p key of \p object.
std::string bytesOf(const llvm::json::Object &object, llvm::StringRef key) {
  return llvm::fromHex(object.getString(key).value_or(""));
}

/// The results of one weight on the host.
struct Packed {
  std::string weights, scales, zeros;
};

/// Poisoned results of the sizes that the family computes.
Packed roomFor(const PrepackProblem &p) {
  auto rows = static_cast<size_t>(p.blockRows());
  auto scales = rows * static_cast<size_t>(p.rowScales());
  Packed packed;
  packed.weights.assign(rows * static_cast<size_t>(p.rowBytes()), '\xaa');
  packed.scales.assign(scales * size_t(bytesOf(p.scaleType)), '\xaa');
  packed.zeros.assign(p.zeros ? scales : 0, '\xaa');
  return packed;
}

template <class Each> void forEachGolden(Each each) {
  auto json = llvm::cantFail(readJsonFile(
      KILN_SOURCE_DIR "/unittests/Families/Prepack/PackedGoldens.json"));
  for (const llvm::json::Value &value : *json.getAsObject()->getArray("cases"))
    each(*value.getAsObject());
}

} // namespace

TEST_CASE("equal packings have equal text") {
  for (llvm::StringRef text :
       {"prepack n=64 k=128 source=gptq",
        "prepack n=64 k=128 source=awq group=128 scale_type=bf16 zeros=1",
        "prepack n=64 k=128 source=mxfp4"})
    CHECK(parse(text).text() == text);
  CHECK(parse("n=64 k=128 source=mxfp4 group=32 align=16").text() ==
        "prepack n=64 k=128 source=mxfp4");
  CHECK(parse("n=64 k=128 source=int8 scale_type=fp16 group=0").text() ==
        "prepack n=64 k=128 source=int8");
}

TEST_CASE("bad packings get one clear line") {
  CHECK(failure("source=gptq group=48") ==
        "prepack: group=48 is not one of 0 (all k), 32, 64 and 128");
  CHECK(failure("source=mxfp4 group=64") ==
        "prepack: group=64 where mxfp4 has groups of 32");
  CHECK(failure("source=mxfp4 scale_type=fp16") ==
        "prepack: scale_type=fp16 where mxfp4 has scales of e8m0");
  CHECK(failure("source=int8 zeros=1") ==
        "prepack: zeros=1 where the source has no zero points");
}

TEST_CASE("n is no part of a signature, and k as far as rows of words go") {
  auto signature = [](llvm::StringRef fields) {
    return parse(fields).signature;
  };
  CHECK(signature("n=1 k=70 source=awq") == signature("n=9 k=8 source=awq"));
  CHECK(signature("n=1 k=72 source=int8") == signature("n=1 k=4 source=int8"));
  CHECK_FALSE(signature("n=1 k=70 source=int8") ==
              signature("n=1 k=72 source=int8"));
}

TEST_CASE("each element of a block has bits of its own") {
  for (int bits : {4, 8}) {
    std::set<int> taken;
    for (int row = 0; row < 64; ++row)
      for (int k = 0; k < 64; ++k) {
        const int bit = PackedWeights::bitOf(bits, row, k);
        CHECK(bit % bits == 0);
        CHECK(bit < PackedWeights::blockBytes(bits) * 8);
        taken.insert(bit);
      }
    CHECK(taken.size() == 64 * 64);
  }
  std::set<int> scales;
  for (int row = 0; row < 64; ++row)
    scales.insert(PackedWeights::scaleOf(row));
  CHECK(scales.size() == 64);
  CHECK(PackedWeights::scaleOf(19 + 8) == PackedWeights::scaleOf(19) + 1);
  CHECK(*scales.rbegin() == 63);
}

TEST_CASE("a lane has its fragments of mma.m16n8k16") {
  // Lane 13 of unit 2 has its rows 3 and 11, and from step 1 the k 2, 3, 10 and
  // 11.
  constexpr int kRow = 2 * 16 + 3, kAt = 16 + 2;
  constexpr int kWord = ((2 * 32 + 13) * 4 + 1) * 32;
  CHECK(PackedWeights::bitOf(4, kRow, kAt) == kWord);
  CHECK(PackedWeights::bitOf(4, kRow, kAt + 1) == kWord + 16);
  CHECK(PackedWeights::bitOf(4, kRow + 8, kAt) == kWord + 4);
  CHECK(PackedWeights::bitOf(4, kRow, kAt + 8) == kWord + 8);
  CHECK(PackedWeights::bitOf(4, kRow + 8, kAt + 9) == kWord + 28);
  // With 8 bits, step 1 has the upper 8 bytes of the lane in the first half.
  constexpr int kWide = ((2 * 2 * 32 + 13) * 4 + 2) * 32;
  CHECK(PackedWeights::bitOf(8, kRow, kAt) == kWide);
  CHECK(PackedWeights::bitOf(8, kRow, kAt + 1) == kWide + 16);
  CHECK(PackedWeights::bitOf(8, kRow + 8, kAt) == kWide + 8);
  CHECK(PackedWeights::bitOf(8, kRow, kAt + 8) == kWide + 32);
}

TEST_CASE("the host packs what an independent program packs") {
  int count = 0;
  forEachGolden([&](const llvm::json::Object &golden) {
    llvm::StringRef text = *golden.getString("problem");
    CAPTURE(text.str());
    const PrepackProblem p = typed(text);
    std::string weights = bytesOf(golden, "weights");
    std::string scales = bytesOf(golden, "scales");
    std::string zeros = bytesOf(golden, "zeros");
    // The operand table and the program also agree about the source.
    using Operand = PrepackOperand;
    auto elements = [&](int index) {
      return size_t(rowCountOf(p, index) * rowLengthOf(p, index));
    };
    CHECK(elements(Operand::Weights) == weights.size());
    CHECK(elements(Operand::Scales) * size_t(bytesOf(p.scaleType)) ==
          scales.size());
    if (p.zeros)
      CHECK(elements(Operand::Zeros) == zeros.size());
    Packed packed = roomFor(p);
    PrepackParams params;
    params.weights = weights.data();
    params.scales = scales.data();
    params.zeros = zeros.data();
    params.packed = packed.weights.data();
    params.packedScales = packed.scales.data();
    params.packedZeros = packed.zeros.data();
    packOnHost(p, params);
    CHECK((packed.weights == bytesOf(golden, "packed")));
    CHECK((packed.scales == bytesOf(golden, "packed_scales")));
    CHECK((packed.zeros == bytesOf(golden, "packed_zeros")));
    ++count;
  });
  CHECK(count == 11);
}

TEST_CASE("a struct is packed on the host") {
  forEachGolden([&](const llvm::json::Object &golden) {
    llvm::StringRef text = *golden.getString("problem");
    CAPTURE(text.str());
    const PrepackProblem p = typed(text);
    std::string weights = bytesOf(golden, "weights");
    std::string scales = bytesOf(golden, "scales");
    std::string zeros = bytesOf(golden, "zeros");
    Packed packed = roomFor(p);
    kiln_prepack_args args = KILN_INIT(kiln_prepack_args);
    args.n = p.n;
    args.k = p.k;
    args.source = static_cast<int32_t>(p.source);
    args.group_size = p.group;
    if (p.source != WeightSource::Mxfp4)
      args.scales.type = static_cast<int32_t>(p.scaleType);
    if (p.zeros)
      args.flags = KILN_PREPACK_HAS_ZEROS;
    kiln_prepack_layout layout = KILN_INIT(kiln_prepack_layout);
    REQUIRE(kiln_prepack_query(&args, &layout) == KILN_SUCCESS);
    CHECK(layout.order == KILN_ORDER_K64R16);
    CHECK(layout.weight_bytes == packed.weights.size());
    CHECK(layout.scale_bytes == packed.scales.size());
    CHECK(layout.zero_bytes == packed.zeros.size());
    CHECK(layout.groups == p.packedGroups());
    CHECK(kiln_prepack_host(&args) == KILN_INVALID_ARGUMENT); // no addresses
    args.weights.data = weights.data();
    args.scales.data = scales.data();
    args.zeros.data = zeros.data();
    args.packed.data = packed.weights.data();
    args.packed_scales.data = packed.scales.data();
    args.packed_zeros.data = packed.zeros.data();
    REQUIRE(kiln_prepack_host(&args) == KILN_SUCCESS);
    CHECK((packed.weights == bytesOf(golden, "packed")));
    CHECK((packed.scales == bytesOf(golden, "packed_scales")));
    CHECK((packed.zeros == bytesOf(golden, "packed_zeros")));
  });
}

TEST_CASE("what is no struct of a packing is refused") {
  kiln_prepack_args args = KILN_INIT(kiln_prepack_args);
  kiln_prepack_layout layout = KILN_INIT(kiln_prepack_layout);
  CHECK(kiln_prepack_query(nullptr, &layout) == KILN_INVALID_ARGUMENT);
  CHECK(kiln_prepack_query(&args, nullptr) == KILN_INVALID_ARGUMENT);
  CHECK(kiln_prepack_query(&args, &layout) == KILN_INVALID_ARGUMENT);
  args.source = KILN_WEIGHTS_AWQ;
  CHECK(kiln_prepack_query(&args, &layout) == KILN_SUCCESS); // an empty one
  CHECK(layout.weight_bytes == 0);
  args.group_size = 16;
  CHECK(kiln_prepack_query(&args, &layout) == KILN_INVALID_ARGUMENT);
  args.group_size = 0;
  layout.struct_size = 8;
  CHECK(kiln_prepack_query(&args, &layout) == KILN_INVALID_ARGUMENT);
}
