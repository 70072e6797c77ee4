// The parts that the host and the MLA kernel share: groups of slabs, and shared
// memory. Also, every config compiles without spills and without making ptxas
// serialise wgmma.
#include "KernelSrc/RealCompiler.h"

#include "attention/Sm90MlaConfig.h"

#include <doctest/doctest.h>

#include <set>
#include <utility>

using namespace kiln;
using namespace kiln::testing;

namespace {

AttentionSignature latent(int valueDim, int more) {
  AttentionSignature signature;
  signature.headDim = valueDim + more;
  signature.valueDim = valueDim;
  return signature;
}

std::string mlaFailure(const char *problem, const std::string &config) {
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

TEST_CASE("every slab of latent attention is in one group") {
  for (int valueDim : {256, 512})
    for (int more : {16, 64})
      for (int pieces : {1, 2, 4}) {
        CAPTURE(valueDim);
        CAPTURE(pieces);
        AttentionSignature signature = latent(valueDim, more);
        Sm90MlaConfig config{.cluster = 1, .pieces = pieces};
        if (!config.isValid(signature))
          continue;
        std::multiset<int> slabs;
        for (int group = 0; group < config.groups(); ++group)
          for (int i = 0; i < config.slabCount(signature, group); ++i)
            slabs.insert(config.firstSlab(signature, group) + i);
        CHECK(int(slabs.size()) == valueDim / 64 + 1);
        CHECK(std::set<int>(slabs.begin(), slabs.end()).size() == slabs.size());
        CHECK(*slabs.begin() == 0);
        // Pieces of a consumer follow each other.
        for (int consumer : {0, 1})
          for (int piece = 0; piece < pieces; ++piece)
            CHECK(config.firstSlab(signature,
                                   config.pieceGroup(piece, consumer)) *
                      64 ==
                  consumer * config.width(signature) +
                      piece * config.pieceWidth(signature));
      }
}

TEST_CASE("Q and two blocks of keys of latent attention fit an SM") {
  constexpr int kMostShared = 232448;
  for (int cluster : {1, 2, 4})
    for (int pieces : {1, 2, 4}) {
      Sm90MlaConfig config{.cluster = cluster, .pieces = pieces};
      CHECK(config.isValid(latent(512, 64)));
      CHECK(config.sharedBytes(latent(512, 64)) <= kMostShared);
    }
  CHECK(Sm90MlaConfig{.cluster = 2}.sharedBytes(latent(512, 64)) ==
        1024 + 3 * 72 * 1024 + 8 * 1024 + 3 * 256 + 20 * 8 + 2 * 4 * 4);
  CHECK_FALSE(Sm90MlaConfig{}.isValid(latent(512, 0)));
  CHECK_FALSE(Sm90MlaConfig{}.isValid(latent(128, 64)));
  CHECK_FALSE(Sm90MlaConfig{.cluster = 3}.isValid(latent(512, 64)));
}

TEST_CASE("latent attention compiles clean") {
  if (!hasNvrtc())
    return;
  constexpr const char *kPlain =
      "batch=128 sq=1 sk=4096 heads=256 kvheads=1 d=576 dv=512 dtype=bf16 "
      "latent=1";
  for (const char *config :
       {"sm90mla.cl1.pc1", "sm90mla.cl1.pc2", "sm90mla.cl1.pc4",
        "sm90mla.cl2.pc2", "sm90mla.cl2.pc4", "sm90mla.cl4.pc2"}) {
    CAPTURE(config);
    CHECK(mlaFailure(kPlain, config) == "");
  }
  for (const char *problem :
       {"batch=8 sq=4 sk=4096 heads=64 kvheads=1 d=576 dv=512 dtype=fp16 "
        "latent=1 mask=causal kvlen=used pages=table page=16 lse=1",
        "batch=8 sq=4 sk=4096 heads=64 kvheads=1 d=576 dv=512 dtype=bf16 "
        "latent=1 mask=window left=1023 right=0 qlen=packed kvlen=packed "
        "sinks=1 softcap=30 alibi=1 lse=1",
        "batch=8 sq=4 sk=4096 heads=32 kvheads=1 d=288 dv=256 dtype=bf16 "
        "latent=1 mask=causal pages=list page=64"})
    for (const char *config : {"sm90mla.cl1.pc2", "sm90mla.cl2.pc2"}) {
      CAPTURE(problem);
      CAPTURE(config);
      CHECK(mlaFailure(problem, config) == "");
    }
}
