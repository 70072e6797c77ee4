#include "Families/Attention/MergeFamily.h"
#include "Families/FamilyTesting.h"

#include "attention/FlatMergeConfig.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace kiln;
using namespace kiln::testing;

namespace {

const KernelFamily &merge() { return *registry().find("attention_merge"); }

Problem parseMerge(llvm::StringRef fields) {
  return testing::parse(merge(), ("rows=10 heads=4 " + fields).str());
}
std::string mergeFailure(llvm::StringRef fields) {
  return testing::failure(merge(), ("rows=10 heads=4 " + fields).str());
}
MergeSignature mergeSignature(llvm::StringRef fields) {
  return readMergeSignature(parseMerge(fields).signature);
}

} // namespace

TEST_CASE("equal merges have equal text") {
  for (llvm::StringRef text :
       {"attention_merge rows=10 heads=4 d=64 dtype=bf16",
        "attention_merge batch=2 rows=10 heads=4 d=64 dtype=fp32 out=bf16 "
        "lse=1 lda=64 hsa=640 ldb=512 ldo=300 align=4"})
    CHECK(testing::parse(merge(), text).text() == text);
  CHECK(parseMerge("d=64 dtype=fp16 out=fp16 lda=256 hsa=64 bsa=2560 ldo=256")
            .text() == "attention_merge rows=10 heads=4 d=64 dtype=fp16");
}

TEST_CASE("bad merges get one clear line") {
  CHECK(mergeFailure("d=64 dtype=bf16 ldb=63") ==
        "attention_merge: ldb=63 is below the row length 64");
  CHECK(mergeFailure("d=64 dtype=bf16 ldo=255") ==
        "attention_merge: ldo=255 is below the 256 elements that it steps "
        "over");
  CHECK(mergeFailure("d=64 dtype=bf16 align=1") ==
        "attention_merge: align=1 is below the element's 2 bytes");
}

TEST_CASE("every stride of a merge counts for its alignment") {
  CHECK(mergeSignature("d=64 dtype=bf16").align == 16);
  for (llvm::StringRef key :
       {"lda", "ldb", "ldo", "bsa", "bsb", "bso", "hsa", "hsb", "hso"}) {
    CAPTURE(key.str());
    CHECK(mergeSignature(("d=64 dtype=bf16 batch=2 " + key + "=100002").str())
              .align == 4);
  }
  CHECK(mergeSignature("d=6 dtype=bf16").align == 4);
  CHECK(mergeSignature("d=6 dtype=bf16 out=fp32 align=2").align == 4);
}

TEST_CASE("a merge may take the place of its first part") {
  OperandTable table = merge().operands(parseMerge("d=64 dtype=bf16 lse=1"));
  CHECK(table.operands[MergeOperand::O].mayBe == MergeOperand::O1);
  CHECK(table.operands[MergeOperand::Lse].mayBe == MergeOperand::Lse1);
  table = merge().operands(parseMerge("d=64 dtype=bf16 out=fp32"));
  CHECK(table.operands[MergeOperand::O].mayBe < 0);
  CHECK_FALSE(table.operands[MergeOperand::Lse].present);
}

TEST_CASE("lanes of a merge cover a row, and blocks all rows") {
  for (int vector : {1, 2, 4, 8})
    for (int cols : {8, 40, 64, 96, 128, 256, 576}) {
      FlatMergeConfig config{128, vector, 2};
      MergeSignature signature{.valueDim = cols};
      CAPTURE(vector);
      CAPTURE(cols);
      REQUIRE(config.isValid(signature));
      const int lanes = config.lanes(signature);
      CHECK((lanes == 32 || lanes * vector >= cols));
      CHECK((lanes == 1 || lanes / 2 * vector < cols));
      for (double rows : {1.0, 7.0, 1000.0})
        CHECK(config.blocks(signature, rows) * 2 * (128 / lanes) >= rows);
    }
}

TEST_CASE("launches of merges carry the problem") {
  Problem problem = parseMerge("batch=3 d=64 dtype=bf16 lse=1 ldb=512");
  const Template &flat = *merge().findTemplate("flat");
  auto named = merge().parseConfig("flat.t256.v8.i1");
  REQUIRE(bool(named));
  Arguments arguments = merge().defaultArguments(problem);
  for (int i = 0; i < MergeOperand::Count; ++i)
    arguments.operands[i].address = DeviceAddress(0x1000) * (i + 1);
  LaunchSpec spec;
  flat.plan(problem, named->config, h200()).binder->bind(arguments, {}, spec);
  MergeParams params;
  REQUIRE(spec.steps[0].kernel.paramBytes == sizeof(params));
  std::memcpy(&params, spec.params + spec.steps[0].kernel.paramOffset,
              sizeof(params));
  CHECK(params.lse2 == reinterpret_cast<const float *>(0x4000));
  CHECK(params.o == reinterpret_cast<void *>(0x5000));
  CHECK((params.batch == 3 && params.rows == 10 && params.heads == 4));
  CHECK(params.o1Strides.token == 256);
  CHECK((params.o2Strides.token == 512 && params.o2Strides.batch == 5120));
  // 120 rows of 8 lanes.
  CHECK(spec.steps[0].kernel.grid.x == 4);
}
