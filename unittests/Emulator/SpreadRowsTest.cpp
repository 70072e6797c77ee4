// Rows that blocks all over the GPU share: their exchange through L2, emulated.
#include "Emulator/EmulatedTrials.h"

using namespace kiln;
using namespace kiln::emulated;

namespace {

const Sample kNorm{"rmsnorm",
                   "rows=2 cols=3003 dtype=bf16 weight=1 bias=1 residual=1 "
                   "out=fp8_e4m3",
                   {"resident.t64.rt64.v8.n2.r1.c1.mb1.o1.g1.k4"}};

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

// The next launch finds what it begins with.
TEST_CASE("emulated: spread rows leave zeros behind") {
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
