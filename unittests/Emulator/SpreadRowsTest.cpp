// Rows that blocks all over the GPU share: their exchange through L2, emulated.
#include "Emulator/EmulatedTrials.h"

using namespace kiln;
using namespace kiln::emulated;

namespace {

const Sample kNorm{"rmsnorm",
                   "rows=2 cols=3003 dtype=bf16 weight=1 bias=1 residual=1 "
                   "out=fp8_e4m3",
                   {"resident.t64.rt64.v8.n2.r1.c1.mb1.o1.g1.k4"}};

/// Three passes, with two exchanges of statistics, of rows in turn.
const Sample kReloaded{
    "layernorm",
    "rows=3 cols=3003 dtype=bf16 weight=1 bias=1 residual=1 out=int8",
    {"spread.t64.v8.i1.s1.o1.h1.k2"}};

/// The workspace behind a launch of \p sample.
std::vector<uint8_t> workspaceAfter(const Sample &sample) {
  EmulatedTrials trials;
  DependentCase launched = trials.dependent(sample, sample.configs.front());
  must(launched.launch(false));
  const auto *bytes =
      reinterpret_cast<const uint8_t *>(launched.memory.address());
  return {bytes, bytes + launched.memory.bytes()};
}

} // namespace

TEST_CASE("emulated: rows of blocks all over the GPU") {
  const std::vector<Sample> samples = {
      {"softmax",
       "rows=2 cols=5001 dtype=bf16",
       {"resident.t64.rt64.v8.n4.r1.c1.mb1.o1.g1.k3",
        "resident.t128.rt128.v8.n1.r1.c1.mb1.o1.g1.k5"}},
      {"softmax",
       "rows=3 cols=4096 dtype=fp16",
       {"resident.t64.rt64.v8.n2.s1.r1.c1.mb1.g1.k3"}},
      // Each matrix lies elsewhere.
      {"softmax",
       "rows=1 cols=4001 dtype=bf16 mask=1 align=2",
       {"resident.t64.rt64.v8.n3.r1.c1.mb1.o2.g1.k3"}},
      {"layernorm",
       "rows=2 cols=3000 dtype=bf16 weight=1 bias=1",
       {"resident.t64.rt64.v8.n2.r1.c1.mb1.g1.k4"},
       TrialData::Outliers},
      {"rmsnorm",
       "rows=3 cols=2000 dtype=fp32 weight=1",
       {"resident.t128.rt128.v4.n1.r1.c1.mb1.g1.k4"}},
      // The last block has no vector.
      {"rmsnorm",
       "rows=2 cols=520 dtype=bf16",
       {"resident.t64.rt64.v8.n1.r1.c1.mb1.g1.k7"}},
      // The greatest result is known with the sum of squares, or is not.
      {"rmsnorm",
       "rows=2 cols=3003 dtype=bf16 weight=1 out=int8",
       {"resident.t64.rt64.v8.n2.r1.c1.mb1.o1.g1.k4"}},
      kNorm,
      {"rowquant",
       "rows=2 cols=4000 dtype=bf16",
       {"resident.t64.rt64.v8.n2.r1.c1.mb1.g1.k4"}}};
  check(samples);
}

// Rows that blocks all over the GPU read again: they keep no row as a whole.
TEST_CASE("emulated: spread rows that are read again") {
  const std::vector<Sample> samples = {
      {"softmax",
       "rows=2 cols=5000 dtype=bf16",
       {"spread.t64.v8.i2.k3.r2", "spread.t64.v8.i2.s1.h1.k2",
        "spread.t64.v8.i1.s9.h1.k5.r2"}},
      // The last blocks have no vector of the short rows.
      {"softmax",
       "rows=5 cols=1001 dtype=bf16",
       {"spread.t64.v8.i2.s1.o1.k4.r2"}},
      // Each matrix lies elsewhere.
      {"softmax",
       "rows=3 cols=4001 dtype=bf16 mask=1 align=2",
       {"spread.t64.v8.i2.s1.o2.h1.k3.r2", "spread.t64.v8.i1.o2.k3.r3"}},
      {"softmax",
       "rows=2 cols=4001 dtype=fp32 mask=2",
       {"spread.t64.v4.i2.s2.o1.h1.k3"}},
      {"layernorm",
       "rows=2 cols=6000 dtype=bf16 weight=1 bias=1",
       {"spread.t64.v8.i4.s1.h1.k2.r2"},
       TrialData::Outliers},
      {"layernorm",
       "rows=1 cols=5001 dtype=fp32 weight=1 bias=1 residual=1 align=4",
       {"spread.t64.v4.i2.s3.o2.h1.k3"}},
      {"rmsnorm",
       "rows=4 cols=3000 dtype=fp16 weight=1 residual=1",
       {"spread.t64.v8.i2.s1.k2.r4", "spread.t64.v8.i2.h1.k2.r3"}},
      // The greatest result is known with the sum of squares, or is not.
      {"rmsnorm",
       "rows=3 cols=3003 dtype=bf16 weight=1 residual=1 out=fp8_e4m3",
       {"spread.t64.v8.i2.s1.o1.h1.k2.r2"}},
      kReloaded,
      {"rmsnorm",
       "rows=2 cols=3003 dtype=bf16 weight=1 bias=1 out=fp8_e4m3 align=2",
       {"spread.t64.v8.i2.s1.o2.k2.r2"}},
      {"rowquant",
       "rows=3 cols=6000 dtype=bf16",
       {"spread.t64.v8.i2.s1.h1.k3"}},
      {"rowquant",
       "rows=1 cols=5003 dtype=bf16 op=quant_int8_per_row",
       {"spread.t64.v8.i2.s1.o1.h1.k4"}}};
  check(samples);
}

// The next launch finds what it begins with.
TEST_CASE("emulated: spread rows leave zeros behind") {
  const std::vector<uint8_t> reloaded = workspaceAfter(kReloaded);
  CHECK(reloaded.size() >= 2 * 3 * 2 * 2 * 16);
  CHECK(reloaded == std::vector<uint8_t>(reloaded.size()));
  const std::vector<uint8_t> clean = workspaceAfter(kNorm);
  CHECK(clean.size() >= 2 * 2 * 4 * 4 * 16);
  CHECK(clean == std::vector<uint8_t>(clean.size()));
  Patch patch("rows/RowExchange.cuh", "ptx::stRelaxed(place, {});", "");
  const std::vector<uint8_t> dirty = workspaceAfter(kNorm);
  CHECK(dirty != std::vector<uint8_t>(dirty.size()));
}

TEST_CASE("emulated: blocks that wait for what nobody sends are told") {
  Patch patch("rows/RowExchange.cuh",
              "ptx::stRelaxed(placeOf(kStage, peer, rank), "
              "published(stats[0]));",
              "");
  EmulatedTrials trials;
  TrialResult result = trials.run(kNorm, kNorm.configs.front());
  CHECK(result.status == TrialStatus::ContextDead);
  CHECK(llvm::StringRef(trials.emulator.fault()).contains("another block"));
}
