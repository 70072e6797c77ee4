#include "Families/FamilyTesting.h"
#include "Families/Rope/RopeFamily.h"

#include "kiln/rope.h"
#include "rope/HeadRopeConfig.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

const KernelFamily &rope() { return *registry().find("rope"); }

const std::string kHeads = "tokens=7 heads=32 kvheads=8 d=128 dtype=bf16 "
                           "kcache=1 vcache=1 ";
const std::string kPages = kHeads + "page=16 slots=array ";
const std::string kLlama = kPages + "rotary=128 ";

Problem parseRope(const std::string &fields) {
  return testing::parse(rope(), fields);
}
std::string ropeFailure(const std::string &fields) {
  return testing::failure(rope(), fields);
}
RopeSignature ropeSignature(const std::string &fields) {
  return readRopeSignature(parseRope(fields).signature);
}

} // namespace

TEST_CASE("equal rotary embeddings have equal text") {
  const std::string text = "rope tokens=7 heads=32 kvheads=8 d=128 dtype=bf16 "
                           "rotary=128 kcache=1 vcache=1 slots=array page=16";
  CHECK(parseRope(kLlama + "ldq=4096 hsq=128 ldkc=1024 bskc=16384 kv=bf16 "
                           "dv=128")
            .text() == text);
  // Without a rotation there is nothing to say about it.
  CHECK(parseRope("tokens=7 heads=2 d=64 dtype=bf16 style=interleaved "
                  "offset=8 tablerows=99 eps=1e-5")
            .text() == "rope tokens=7 heads=2 d=64 dtype=bf16");
}

TEST_CASE("bad rotary embeddings get one clear line") {
  CHECK(ropeFailure("tokens=7 d=64 dtype=bf16") ==
        "rope: heads=0 and neither kout, kcache nor vcache: there is nothing "
        "to do");
  CHECK(ropeFailure(kLlama + "offset=8") ==
        "rope: rotary=128 elements from offset=8 on do not fit into d=128");
  CHECK(ropeFailure("tokens=7 heads=2 d=64 dtype=bf16 rotary=7") ==
        "rope: rotary=7 is odd: elements are rotated in pairs");
  CHECK(ropeFailure(kHeads + "page=16") ==
        "rope: there are caches, but slots=none: tokens find no row of them");
  CHECK(ropeFailure(kHeads + "slots=array") ==
        "rope: page=0: a page of the caches has one token at least");
  CHECK(ropeFailure(kLlama + "scales=head") ==
        "rope: scales need a cache with kv=e4m3");
  CHECK(ropeFailure(kLlama + "seqs=1") == "rope: seqs=1 needs slots=table");
  CHECK(ropeFailure("tokens=7 heads=2 d=64 dtype=bf16 knorm=1") ==
        "rope: knorm=1, but there is no K: neither kout nor kcache");
  CHECK(ropeFailure("tokens=7 heads=2 d=64 dtype=bf16 ldq=127") ==
        "rope: ldq=127 is below the 128 elements that it steps over");
}

TEST_CASE("the parts of a head count for its alignment") {
  CHECK(ropeSignature(kLlama).align == 16);
  CHECK(ropeSignature(kPages + "rotary=8").align == 8);
  CHECK(ropeSignature(kPages + "rotary=64 offset=2").align == 4);
  CHECK(ropeSignature(kLlama + "ldq=4100").align == 8);
  CHECK(ropeSignature(kLlama + "kv=e4m3 hskc=132 ldkc=1056").align == 4);
  CHECK(ropeSignature(kLlama + "align=4").align == 4);
}

TEST_CASE("units of lanes cover heads") {
  for (int headDim : {8, 40, 64, 80, 96, 128, 192, 256, 576})
    for (int rotaryDim : {0, 16, headDim})
      for (int vector : {1, 2, 4, 8}) {
        RopeSignature signature{.headDim = headDim,
                                .valueDim = headDim,
                                .rotaryDim = rotaryDim,
                                .align = 16};
        HeadRopeConfig config{128, vector, 1};
        if (rotaryDim / 2 % vector != 0 || rotaryDim > headDim)
          continue;
        CAPTURE(headDim);
        CAPTURE(rotaryDim);
        CAPTURE(vector);
        const int lanes = config.lanes(signature);
        CHECK(lanes * config.units(signature) * 2 * vector >= headDim);
        CHECK((lanes & (lanes - 1)) == 0);
        CHECK(lanes <= 32);
        CHECK(config.anglesOf(signature) <= config.units(signature));
      }
}

TEST_CASE("staged heads take shared memory, and words to copy") {
  const RopeSignature llama = ropeSignature(kLlama);
  CHECK(HeadRopeConfig{128, 8, 4, 1}.sharedBytes(llama) == 128 * 8 * 16);
  CHECK(HeadRopeConfig{128, 8, 4}.sharedBytes(llama) == 0);
  CHECK(HeadRopeConfig{128, 2, 4, 1}.isValid(llama));
  CHECK_FALSE(HeadRopeConfig{128, 1, 4, 1}.isValid(llama));
  // Registers no longer limit the bytes in flight.
  CHECK(HeadRopeConfig{128, 8, 8, 1}.registers(llama) <
        HeadRopeConfig{128, 8, 2}.registers(llama));
}

TEST_CASE("a slot leads to its row, or to none") {
  int table[] = {5, 3, 9, -1};
  RopeParams params;
  params.pageSize = 16;
  params.pageCount = 8;
  params.pageTable = table;
  params.pageTableRows = params.pageTableColumns = 2;
  CHECK(params.rowOfSlot(35).page == 2);
  CHECK(params.rowOfSlot(35).row == 3);
  for (long long slot : {-1ll, -1000ll, 128ll, 1ll << 40})
    CHECK(params.rowOfSlot(slot).page < 0);
  CHECK(params.rowOfPosition(0, 17).page == 3);
  CHECK(params.rowOfPosition(0, 17).row == 1);
  CHECK(params.rowOfPosition(1, 3).page < 0);  // beyond the pool
  CHECK(params.rowOfPosition(1, 17).page < 0); // -1 in the table
  CHECK(params.rowOfPosition(0, 32).page < 0); // behind the table's row
  CHECK(params.rowOfPosition(0, -1).page < 0);
  CHECK(params.rowOfPosition(2, 0).page < 0);
  CHECK(params.rowOfPosition(-1, 0).page < 0);
}

namespace {

kiln_rope_table_args tableArgs(kiln_rope_scaling scaling, int64_t dim,
                               double base) {
  kiln_rope_table_args args = KILN_INIT(kiln_rope_table_args);
  args.scaling = scaling;
  args.rows = 4;
  args.rotary_dim = dim;
  args.base = base;
  return args;
}

/// The frequency of pair \p j, from the sine and cosine of position 1.
double frequencyOf(const kiln_rope_table_args &args, int64_t j) {
  std::vector<float> table(static_cast<size_t>(args.rows * args.rotary_dim));
  REQUIRE(kiln_rope_table(&args, table.data()) == KILN_SUCCESS);
  const float *row = table.data() + args.rotary_dim;
  return std::atan2(row[args.rotary_dim / 2 + j], row[j]);
}

} // namespace

TEST_CASE("tables have the frequencies of models") {
  const kiln_rope_table_args plain =
      tableArgs(KILN_ROPE_SCALING_DEFAULT, 128, 10000);
  CHECK(frequencyOf(plain, 0) == doctest::Approx(1));
  CHECK(frequencyOf(plain, 32) == doctest::Approx(0.1 * std::pow(10.0, -1)));
  kiln_rope_table_args linear = plain;
  linear.scaling = KILN_ROPE_SCALING_LINEAR;
  linear.factor = 4;
  CHECK(frequencyOf(linear, 32) == doctest::Approx(0.0025));

  // Llama 3.1: the shortest waves stay, the longest are divided by 8.
  kiln_rope_table_args llama = tableArgs(KILN_ROPE_SCALING_LLAMA3, 128, 500000);
  llama.factor = 8;
  llama.original_length = 8192;
  llama.low_frequency_factor = 1;
  llama.high_frequency_factor = 4;
  CHECK(frequencyOf(llama, 0) == doctest::Approx(1));
  CHECK(frequencyOf(llama, 63) ==
        doctest::Approx(std::pow(500000.0, -126.0 / 128) / 8));
  const double middle = std::pow(500000.0, -64.0 / 128); // wave of 4443
  const double kept = (8192 * middle / 6.283185307179586 - 1) / 3;
  CHECK(frequencyOf(llama, 32) ==
        doctest::Approx((1 - kept) * middle / 8 + kept * middle));

  kiln_rope_table_args yarn = tableArgs(KILN_ROPE_SCALING_YARN, 64, 10000);
  yarn.factor = 40;
  yarn.original_length = 4096;
  // DeepSeek: the ramp goes from pair 10 to pair 23.
  CHECK(frequencyOf(yarn, 10) ==
        doctest::Approx(std::pow(10000.0, -20.0 / 64)));
  CHECK(frequencyOf(yarn, 23) ==
        doctest::Approx(std::pow(10000.0, -46.0 / 64) / 40));
  std::vector<float> table(4 * 64);
  REQUIRE(kiln_rope_table(&yarn, table.data()) == KILN_SUCCESS);
  CHECK(table[0] == doctest::Approx(0.1 * std::log(40.0) + 1));

  std::vector<double> factors(32, 2.0);
  kiln_rope_table_args longRope =
      tableArgs(KILN_ROPE_SCALING_LONGROPE, 64, 10000);
  longRope.original_length = 4096;
  longRope.factor = 32;
  longRope.factors = factors.data();
  CHECK(frequencyOf(longRope, 5) ==
        doctest::Approx(std::pow(10000.0, -10.0 / 64) / 2));
  REQUIRE(kiln_rope_table(&longRope, table.data()) == KILN_SUCCESS);
  CHECK(table[0] == doctest::Approx(std::sqrt(1 + 5.0 / 12)));

  kiln_rope_table_args dynamic =
      tableArgs(KILN_ROPE_SCALING_DYNAMIC, 64, 10000);
  dynamic.factor = 2;
  dynamic.original_length = dynamic.length = 2048;
  CHECK(frequencyOf(dynamic, 8) ==
        doctest::Approx(std::pow(10000.0, -16.0 / 64)));
  dynamic.length = 4096;
  CHECK(frequencyOf(dynamic, 31) ==
        doctest::Approx(
            std::pow(10000.0 * std::pow(3.0, 64.0 / 62), -62.0 / 64)));
}

TEST_CASE("tables that no model has are refused") {
  float table[64];
  kiln_rope_table_args good = tableArgs(KILN_ROPE_SCALING_DEFAULT, 16, 10000);
  CHECK(kiln_rope_table(&good, table) == KILN_SUCCESS);
  CHECK(kiln_rope_table(nullptr, table) == KILN_INVALID_ARGUMENT);
  CHECK(kiln_rope_table(&good, nullptr) == KILN_INVALID_ARGUMENT);
  auto refuses = [&](auto change) {
    kiln_rope_table_args bad = good;
    change(bad);
    return kiln_rope_table(&bad, table) == KILN_INVALID_ARGUMENT;
  };
  CHECK(refuses([](auto &args) { args.rotary_dim = 15; }));
  CHECK(refuses([](auto &args) { args.base = 1; }));
  CHECK(refuses([](auto &args) { args.base = NAN; }));
  CHECK(refuses([](auto &args) { args.rows = -1; }));
  CHECK(refuses([](auto &args) { args.scaling = 5; }));
  CHECK(refuses([](auto &args) { args.scaling = KILN_ROPE_SCALING_LINEAR; }));
  CHECK(refuses([](auto &args) { args.scaling = KILN_ROPE_SCALING_YARN; }));
  CHECK(refuses([](auto &args) { args.reserved[3] = 1; }));
  CHECK(refuses([](auto &args) { args.struct_size = 8; }));
}
