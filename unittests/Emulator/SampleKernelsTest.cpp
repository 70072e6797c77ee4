// Kernels that choose tokens, emulated: all features, rows without a
// distribution, and that kernels agree about every token.
#include "Emulator/EmulatedTrials.h"
#include "sample/SampleParams.h"

#include <cmath>
#include <limits>

using namespace kiln;
using namespace kiln::emulated;

namespace {

const std::string kBlock = "block.t256.i1", kSpread = "spread.t256.i1.k3",
                  kPair = "cluster.t256.i2.c2", kFour = "cluster.t256.i2.c4.s1",
                  kEight = "cluster.t256.i1.c8";

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The results of \p configs for \p sample are the same bits.
void checkAgreement(const Sample &sample) {
  EmulatedTrials trials;
  std::vector<uint8_t> expected;
  for (const std::string &config : trials.configsOf(sample)) {
    CAPTURE(sample.problem);
    CAPTURE(config);
    DependentCase launched = trials.dependent(sample, config);
    trials.emulator.setPredecessor({});
    must(launched.launch(false));
    REQUIRE(trials.emulator.fault() == "");
    if (expected.empty())
      expected = launched.outputs();
    CHECK(launched.outputs() == expected);
  }
}

/// The status of a trial of \p config while \p text in \p file is \p instead.
TrialStatus statusWith(llvm::StringRef file, llvm::StringRef text,
                       llvm::StringRef instead, const Sample &sample) {
  Patch patch(file, text, instead);
  EmulatedTrials trials;
  TrialResult result = trials.run(sample, sample.configs.front());
  CAPTURE(result.message);
  CHECK(trials.emulator.fault() == "");
  return result.status;
}

} // namespace

TEST_CASE("emulated: the greatest logit") {
  check({{"sample", "rows=3 vocab=1000 dtype=bf16", {kBlock, kPair, kSpread}},
         {"sample",
          "rows=11 vocab=1003 dtype=fp32 int64=1 advance=1",
          {kBlock, kEight, kSpread},
          TrialData::Outliers},
         {"sample",
          "rows=3 vocab=1001 dtype=fp16 scale=-2 softcap=5 align=2",
          {kBlock, kPair, kSpread}},
         {"sample", "rows=2 vocab=1 dtype=bf16", {kBlock, kEight}}});
}

// Threads keep turns of vectors instead of tokens: equals lie in vectors, lanes
// and turns of all kinds.
TEST_CASE("emulated: the greatest logit among several turns") {
  const std::vector<std::string> configs = {
      "block.t256.i2", "cluster.t256.i1.c2", "spread.t256.i1.k3"};
  check({{"sample", "rows=2 vocab=20003 dtype=bf16", configs},
         {"sample", "rows=2 vocab=9001 dtype=fp32 scale=-0.5", configs},
         {"sample",
          "rows=2 vocab=20003 dtype=bf16 temperature=1 topk=1 topp=1",
          {"block.t256.i2", "cluster.t256.i1.c2"}}});
  for (float value : {40.0f, kInfinity, std::nanf("")})
    for (int64_t first : {3, 3001, 19990})
      check({{"sample",
              "rows=2 vocab=20003 dtype=fp16",
              configs,
              TrialData::Usual,
              {SampleOperand::Logits, 1, first, value,
               uint64_t(20003 - first)}}});
}

TEST_CASE("emulated: products of logits that underflow are equal zeros") {
  for (const char *rules : {"", " logprobs=1 top=5"})
    check({{"sample",
            std::string("rows=1 vocab=9001 dtype=fp32 scale=0.25") + rules,
            {"block.t256.i2"},
            TrialData::Usual,
            {SampleOperand::Logits, 0, 0, -1.4e-45f, 9001}}});
}

TEST_CASE("emulated: tokens where warps and pairs have no instructions") {
  Patch warps("common/Warp.cuh", "__CUDA_ARCH__ >= 800", "false");
  Patch pairs("sample/SampleGreatest.cuh", "__CUDA_ARCH__ >= 800", "false");
  check({{"sample", "rows=3 vocab=9001 dtype=bf16", {kBlock, kSpread}},
         {"sample",
          "rows=5 vocab=1500 dtype=fp16 temperature=1 topk=1 topp=1 logprobs=1 "
          "top=5",
          {kBlock}}});
}

// The control: among equals a later turn, or a higher lane, is wrong.
TEST_CASE("emulated: a greatest logit that is not the first is told") {
  const Sample equals{"sample",
                      "rows=2 vocab=9000 dtype=bf16",
                      {kBlock},
                      TrialData::Usual,
                      {SampleOperand::Logits, 1, 100, 40, 8000}};
  const char *file = "sample/SampleGreatest.cuh";
  CHECK(statusWith(file, "key > best", "key > best", equals) ==
        TrialStatus::Ok);
  CHECK(statusWith(file, "key > best", "key >= best", equals) ==
        TrialStatus::Wrong);
  CHECK(statusWith(file, "token = min(token, found)", "token = found + 1",
                   equals) == TrialStatus::Wrong);
}

TEST_CASE("emulated: tokens drawn from all") {
  check({{"sample",
          "rows=16 vocab=1003 dtype=fp32 temperature=1",
          {kBlock, kPair, kSpread}},
         {"sample",
          "rows=16 vocab=1000 dtype=bf16 temperature=1 int64=1 advance=1 "
          "lengths=1",
          {kBlock, kEight, kSpread},
          TrialData::Outliers}});
}

TEST_CASE("emulated: tokens drawn from some") {
  for (const char *cuts :
       {"topk=1", "topp=1", "minp=1", "topk=1 topp=1", "topk=1 topp=1 joint=1",
        "topk=1 topp=1 minp=1", "topp=1 minp=1"})
    for (TrialData data : {TrialData::Usual, TrialData::Outliers})
      check({{"sample",
              std::string("rows=9 vocab=1500 dtype=bf16 temperature=1 ") + cuts,
              {kBlock, kFour},
              data}});
  check({{"sample",
          "rows=5 vocab=1501 dtype=fp16 temperature=1 topk=1 topp=1 align=2",
          {kBlock, kEight}},
         {"sample",
          "rows=5 vocab=900 dtype=fp32 temperature=1 topk=1 topp=1 softcap=10 "
          "scale=0.7",
          {kBlock, kPair, kFour},
          TrialData::Outliers}});
}

TEST_CASE("emulated: tokens of rows with a history") {
  check({{"sample",
          "rows=6 vocab=500 dtype=bf16 repetition=1 frequency=1 presence=1",
          {kBlock, kPair, kSpread}},
         {"sample",
          "rows=6 vocab=500 dtype=bf16 frequency=1 history=3000 temperature=1 "
          "topk=1 topp=1 allowed=1",
          {kBlock, kFour},
          TrialData::Outliers},
         // Several pieces a block.
         {"sample",
          "rows=2 vocab=20000 dtype=fp32 repetition=1 presence=1 "
          "temperature=1 topp=1 logprobs=1",
          {"block.t512.i1", "cluster.t512.i2.c2.s10"}}});
}

TEST_CASE("emulated: log probabilities of tokens") {
  check({{"sample",
          "rows=5 vocab=1500 dtype=bf16 logprobs=1 top=20",
          {kBlock, kPair, kFour}},
         {"sample",
          "rows=11 vocab=1500 dtype=fp16 logprobs=1 top=32 allowed=1",
          {kBlock, kEight},
          TrialData::Outliers},
         {"sample",
          "rows=5 vocab=1500 dtype=fp32 softcap=30 temperature=1 topk=1 "
          "topp=1 logprobs=1 top=5 int64=1",
          {kBlock, kFour}},
         {"sample", "rows=3 vocab=7 dtype=bf16 top=7", {kBlock, kPair}}});
}

// More tokens than a list holds reach the bound: all are equal, in whole rows.
TEST_CASE("emulated: ties of more tokens than a list holds") {
  for (float value : {0.0f, -1.0f, 3.0f}) {
    const PlantedValue all{SampleOperand::Logits, 1, 0, value, 2100};
    check({{"sample",
            "rows=2 vocab=2100 dtype=bf16 temperature=1 topk=1 topp=1 "
            "logprobs=1 top=4",
            {kBlock, kFour},
            TrialData::Usual,
            all},
           {"sample",
            "rows=2 vocab=2100 dtype=bf16",
            {kBlock, kSpread},
            TrialData::Usual,
            all}});
  }
}

TEST_CASE("emulated: rows without a distribution") {
  for (float value : {std::nanf(""), kInfinity, -kInfinity, 1e38f})
    for (uint64_t count : {1, 700}) {
      const PlantedValue planted{SampleOperand::Logits, 1, 350, value, count};
      check({{"sample",
              "rows=3 vocab=1050 dtype=bf16 temperature=1",
              {kBlock, kSpread},
              TrialData::Usual,
              planted},
             {"sample",
              "rows=2 vocab=1050 dtype=fp32 temperature=1 topk=1 topp=1 "
              "logprobs=1 top=3",
              {kBlock, kFour},
              TrialData::Usual,
              planted}});
    }
  for (float temperature : {0.0f, 1e-30f, 1e-40f, kInfinity, std::nanf("")})
    check({{"sample",
            "rows=3 vocab=1050 dtype=bf16 temperature=1 topk=1 minp=1",
            {kBlock, kFour},
            TrialData::Usual,
            {SampleOperand::Temperature, 1, 0, temperature}}});
}

TEST_CASE("emulated: kernels agree about every token") {
  checkAgreement(
      {"sample",
       "rows=40 vocab=3000 dtype=bf16 temperature=1",
       {kBlock, "block.t512.i4", kPair, kEight, kSpread, "spread.t512.i2.k1"}});
  checkAgreement({"sample",
                  "rows=40 vocab=3000 dtype=bf16 temperature=1 topk=1 topp=1",
                  {kBlock, "block.t1024.i2", kPair, kFour, kEight}});
  checkAgreement({"sample",
                  "rows=40 vocab=3000 dtype=fp32 temperature=1 topp=1 minp=1 "
                  "logprobs=1",
                  {kBlock, "block.t512.i4", kPair, kFour, kEight}});
}

// The control: the reference tells kernels that are wrong by little.
TEST_CASE("emulated: tokens that do not stay are told") {
  const Sample both{"sample",
                    "rows=30 vocab=600 dtype=bf16 temperature=1 topk=1 "
                    "topp=1",
                    {kFour}};
  const Sample share{
      "sample", "rows=30 vocab=600 dtype=bf16 temperature=1 topp=1", {kFour}};
  const Sample drawn{
      "sample", "rows=30 vocab=3000 dtype=bf16 temperature=1", {kBlock}};
  const Sample counted{"sample",
                       "rows=30 vocab=40 dtype=bf16 frequency=1 history=3000",
                       {kBlock},
                       TrialData::Outliers};
  const char *row = "sample/SampleRow.cuh";
  CHECK(statusWith(row, "(rules.p)", "(rules.p)", both) == TrialStatus::Ok);
  CHECK(statusWith(row, "static_cast<double>(isOfAll ? mass : sum)",
                   "static_cast<double>(sum) * 0.5",
                   both) == TrialStatus::Wrong);
  CHECK(statusWith(row, "static_cast<double>(mass);",
                   "static_cast<double>(mass) * 0.7;",
                   share) == TrialStatus::Wrong);
  CHECK(statusWith("sample/SampleNumbers.h", "round < kRounds", "round < 9",
                   drawn) == TrialStatus::Wrong);
  CHECK(statusWith("sample/SampleDraw.cuh", "kError = 1e-4f", "kError = -4.0f",
                   drawn) == TrialStatus::Wrong);
  CHECK(statusWith("sample/SampleSource.cuh", "counters + token, 2u",
                   "counters + token, 4u", counted) == TrialStatus::Wrong);
}
