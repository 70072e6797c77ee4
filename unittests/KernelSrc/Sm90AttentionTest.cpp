// The parts that the host and the wgmma attention kernel share: the order of
// tiles, and shared memory. Also, kernels of all kinds compile without spills
// and without making ptxas serialise wgmma.
#include "KernelSrc/RealCompiler.h"

#include "attention/Sm90AttentionConfig.h"
#include "attention/Sm90AttentionSchedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

using Tile = std::pair<unsigned, unsigned>; // head, row block

/// The tiles of a launch of \p blocks blocks, listed by block in the order of
/// turns.
std::vector<std::vector<Tile>> walk(const Sm90AttentionSchedule &schedule,
                                    unsigned blocks) {
  std::vector<std::vector<Tile>> tiles(blocks);
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned turn = 0;; ++turn) {
      unsigned number = schedule.number(turn, block, blocks);
      if (number >= schedule.numbers())
        break;
      Sm90AttentionPlace place = schedule.place(number);
      if (place.rowBlock < schedule.rowBlocks)
        tiles[block].push_back({place.head, place.rowBlock});
    }
  return tiles;
}

std::string failureOf(const char *problem, const char *config) {
  const KernelFamily &family = *registry().find("attention");
  auto named = llvm::cantFail(family.parseConfig(config));
  Problem parsed = parse(family, problem);
  if (auto rejection = named.tmpl->prune(parsed, named.config, h200()))
    return rejection->text();
  Plan plan = named.tmpl->plan(parsed, named.config, h200());
  auto artifact = compiler().compile(plan.kernels[0]);
  if (!artifact)
    return llvm::toString(artifact.takeError());
  return artifact->arch == "sm_90a" ? artifact->rejection(/*maySpill=*/false)
                                    : artifact->arch;
}

} // namespace

TEST_CASE("every tile of wgmma attention has one turn") {
  for (unsigned heads : {1u, 2u, 7u, 48u})
    for (unsigned rowBlocks : {1u, 2u, 5u, 32u})
      for (unsigned section : {1u, 2u, 5u, 64u})
        for (bool isPaired : {false, true})
          for (unsigned blocks : {1u, 3u, 132u}) {
            CAPTURE(heads);
            CAPTURE(rowBlocks);
            CAPTURE(section);
            CAPTURE(isPaired);
            CAPTURE(blocks);
            std::multiset<Tile> seen;
            for (const auto &tiles :
                 walk({heads, rowBlocks, section, isPaired}, blocks))
              seen.insert(tiles.begin(), tiles.end());
            CHECK(seen.size() == heads * rowBlocks);
            CHECK(std::set<Tile>(seen.begin(), seen.end()).size() ==
                  seen.size());
            CHECK(seen.begin()->first == 0);
            CHECK(seen.rbegin()->first == heads - 1);
          }
}

TEST_CASE("pairs of causal tiles give blocks the same work") {
  // With a causal mask row block i sees i + 1 blocks of keys.
  constexpr unsigned kRows = 32, kBlocks = 8;
  auto tiles = walk({/*heads=*/8, kRows, 1, true}, kBlocks);
  for (const auto &of : tiles) {
    unsigned work = 0;
    for (const Tile &tile : of)
      work += tile.second + 1;
    CHECK(work == 8 * kRows * (kRows + 1) / 2 / kBlocks);
  }
}

TEST_CASE("sections begin with the last rows of all their heads") {
  Sm90AttentionSchedule schedule{/*heads=*/5, /*rowBlocks=*/3, /*section=*/2,
                                 false};
  std::vector<Tile> order;
  for (unsigned number = 0; number < schedule.numbers(); ++number) {
    Sm90AttentionPlace place = schedule.place(number);
    order.push_back({place.head, place.rowBlock});
  }
  CHECK((order == std::vector<Tile>{{0, 2},
                                    {1, 2},
                                    {0, 1},
                                    {1, 1},
                                    {0, 0},
                                    {1, 0},
                                    {2, 2},
                                    {3, 2},
                                    {2, 1},
                                    {3, 1},
                                    {2, 0},
                                    {3, 0},
                                    {4, 2},
                                    {4, 1},
                                    {4, 0}}));
}

TEST_CASE("Q has two buffers where shared memory has room for them") {
  auto bytes = [](int headDim, int valueDim, int consumers, int block) {
    AttentionSignature signature;
    signature.headDim = headDim;
    signature.valueDim = valueDim;
    Sm90AttentionConfig config;
    config.consumers = consumers;
    config.blockN = block;
    return std::pair(config.queryBuffers(signature),
                     config.sharedBytes(signature));
  };
  constexpr int kRest = 1024 + 4 * 64;
  CHECK(bytes(128, 128, 2, 128) ==
        std::pair(2, (2 * 32 + 4 * 32) * 1024 + 12 * 8 + kRest));
  CHECK(bytes(128, 128, 2, 176) ==
        std::pair(1, (32 + 4 * 44) * 1024 + 10 * 8 + kRest));
  CHECK(bytes(64, 64, 3, 128) ==
        std::pair(2, (2 * 24 + 4 * 16) * 1024 + 12 * 8 + kRest));
  CHECK(bytes(192, 128, 2, 128) ==
        std::pair(1, (48 + 2 * 48 + 2 * 32) * 1024 + 10 * 8 + kRest));
  // Rows of 96 elements take the room of 128.
  CHECK(bytes(96, 96, 2, 128) == bytes(128, 128, 2, 128));
}

TEST_CASE("V of e4m3 has a second buffer, with keys along its rows") {
  AttentionSignature signature;
  signature.q = signature.kv = DType::E4M3;
  auto bytes = [&](int dim, int block) {
    signature.headDim = signature.valueDim = dim;
    Sm90AttentionConfig config;
    config.blockN = block;
    return config.sharedBytes(signature);
  };
  constexpr int kRest = 1024 + 4 * 64 + 2 * 4;
  CHECK(bytes(128, 128) == (2 * 16 + 6 * 16) * 1024 + 16 * 8 + kRest);
  // Rows of 224 keys take the room of 256.
  CHECK(bytes(128, 224) == (2 * 16 + 4 * 28 + 2 * 32) * 1024 + 16 * 8 + kRest);
  CHECK(bytes(256, 96) ==
        (32 + 4 * 24 + 2 * 32) * 1024 + 14 * 8 + kRest + 32 * 1024 + 2 * 8);
  // Rows of 64 elements take the room of 128, columns do not.
  CHECK(bytes(64, 128) == (2 * 16 + 4 * 16 + 2 * 8) * 1024 + 16 * 8 + kRest);
}

TEST_CASE("wgmma attention compiles clean at its limits") {
  if (!hasNvrtc())
    return;
  for (auto [problem, config] : {
           std::pair{"sq=4096 sk=4096 heads=16 d=128 dtype=bf16 mask=causal",
                     "sm90.wg2.bn176.st2.or1.dy1.pk1"},
           {"sq=4096 sk=4096 heads=16 d=64 dtype=fp16",
            "sm90.wg3.bn128.st2.or1.pk1"},
           {"sq=4096 sk=4096 heads=16 d=256 dtype=bf16 mask=causal lse=1",
            "sm90.wg2.bn80.st2.dy1.pk1"},
           {"batch=4 sq=512 sk=4096 heads=32 kvheads=8 d=128 dtype=bf16 "
            "mask=window left=1023 right=0 qlen=packed kvlen=used pages=table "
            "page=16 sinks=1 softcap=30 alibi=1 lse=1",
            "sm90.wg2.bn128.st2.dy1.pk4"},
           {"sq=4096 sk=4096 heads=16 d=128 dtype=bf16 mask=window left=1023 "
            "right=0 lse=1",
            "sm90.wg2.bn128.st2.or1.dy1.pk1"},
           {"sq=4096 sk=4096 heads=16 d=192 dv=128 dtype=fp16 mask=causal",
            "sm90.wg2.bn128.st2.pk1"},
           {"sq=4096 sk=4096 heads=16 d=64 dtype=bf16 softcap=30 mask=causal",
            "sm90.wg3.bn112.st2.or1.dy1.pk1"},
           {"batch=2 sq=300 sk=700 heads=4 d=128 dtype=bf16 softcap=20 "
            "sinks=1 alibi=1 lse=1",
            "sm90.wg2.bn128.st2.or1.pk1"},
           {"sq=4096 sk=4096 heads=16 d=128 dtype=e4m3 mask=causal lse=1 "
            "scales=head",
            "sm90.wg2.bn224.st2.dy1.pk1"},
           {"batch=3 sq=4096 sk=4096 heads=16 d=128 dtype=e4m3 qlen=packed "
            "kvlen=packed mask=causal",
            "sm90.wg3.bn96.st2.or1.dy1.pk1"},
           {"sq=4096 sk=4096 heads=16 d=64 dtype=e4m3 scales=tensor",
            "sm90.wg3.bn128.st3.or1.pk1"},
           {"batch=4 sq=512 sk=4096 heads=32 kvheads=8 d=256 dtype=e4m3 "
            "mask=window left=1023 right=0 qlen=packed kvlen=used pages=table "
            "page=32 sinks=1 softcap=30 alibi=1 lse=1 scales=head",
            "sm90.wg2.bn64.st2.or1.dy1.pk4"},
           {"sq=4096 sk=4096 heads=64 kvheads=8 d=64 dtype=bf16 mask=window "
            "left=1023 right=0 qlen=packed kvlen=packed lse=1",
            "sm90.wg3.bn112.st3.or1.dy1.pk8"},
           {"sq=4096 sk=4096 heads=24 kvheads=8 d=80 dtype=e4m3 mask=window "
            "left=1023 right=0 kvlen=used sinks=1 scales=head",
            "sm90.wg3.bn96.st3.or1.pk3"},
           {"sq=512 sk=4096 heads=32 kvheads=8 d=256 dtype=e4m3 mask=window "
            "left=1023 right=0 softcap=30 lse=1 scales=head",
            "sm90.wg2.bn96.st2.or1.pk4"},
           {"batch=8 sq=1 sk=4096 heads=71 kvheads=1 d=128 dtype=bf16 lse=1",
            "sm90.wg1.bn128.st3.pk36.rg1"},
           {"batch=8 sq=2 sk=4096 heads=71 kvheads=1 d=64 dtype=bf16 "
            "mask=window left=1023 right=0 kvlen=used pages=table page=16 "
            "sinks=1 lse=1",
            "sm90.wg2.bn128.st3.or1.dy1.pk36.rg1"},
           {"sq=1 sk=131072 heads=71 kvheads=1 d=64 dtype=e4m3",
            "sm90.wg3.bn96.st3.or1.pk36.rg1"},
       }) {
    CAPTURE(problem);
    CAPTURE(config);
    CHECK(failureOf(problem, config) == "");
  }
}
