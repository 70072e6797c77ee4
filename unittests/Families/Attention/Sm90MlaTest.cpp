// The parts of a launch of MLA: the map of K, splits, clusters; the rules of
// its problems, and the configs that are refused.
#include "Families/Attention/AttentionFamily.h"
#include "Families/FamilyTesting.h"

#include "Kernel/Space.h"
#include "attention/Sm90MlaParams.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

using Numbers = std::vector<uint64_t>;

/// A launch of a config that the pruner accepts, for its problem.
struct MlaLaunch {
  Plan plan;
  LaunchSpec spec;
  std::vector<EncodedTensorMap> prototypes;

  MlaLaunch(llvm::StringRef problemText, llvm::StringRef configText) {
    Problem problem = parse(attention(), problemText);
    auto named = llvm::cantFail(attention().parseConfig(configText));
    if (auto rejection = named.tmpl->prune(problem, named.config, h200()))
      FAIL(rejection->text());
    plan = named.tmpl->plan(problem, named.config, h200());
    prototypes.resize(plan.tensorMaps.size());
    Arguments arguments = attention().defaultArguments(problem);
    for (int i = 0; i < AttentionOperand::Count; ++i)
      arguments.operands[i].address = DeviceAddress(0x1000) * (i + 1);
    LaunchContext context;
    context.smCount = 132;
    context.scratch = 0x200000;
    context.tensorMaps = prototypes.data();
    plan.binder->bind(arguments, context, spec);
    REQUIRE(spec.stepCount >= 1);
  }

  const KernelStep &step(uint32_t index) const {
    return spec.steps[index].kernel;
  }
  Sm90MlaParams params() const {
    REQUIRE(step(0).paramBytes == sizeof(Sm90MlaParams));
    Sm90MlaParams params;
    std::memcpy(static_cast<void *>(&params), spec.params + step(0).paramOffset,
                sizeof(params));
    return params;
  }
  Numbers dims() const {
    const TensorMapSpec &map = plan.tensorMaps[0];
    return {map.dims, map.dims + map.rank};
  }
  Numbers box() const {
    const TensorMapSpec &map = plan.tensorMaps[0];
    return {map.box, map.box + map.rank};
  }
};

/// Whether a parameter or a tensor map of \p spec is \p address.
bool hasAddress(const LaunchSpec &spec, DeviceAddress address) {
  for (uint32_t at = 0; at + sizeof(address) <= spec.paramBytes;
       at += sizeof(address))
    if (std::memcmp(spec.params + at, &address, sizeof(address)) == 0)
      return true;
  for (uint32_t i = 0; i < spec.tensorMapCount; ++i)
    if (spec.tensorMaps[i].address == address)
      return true;
  return false;
}

std::string mlaRefusal(llvm::StringRef problem, llvm::StringRef config) {
  return reason(attention(), problem, config);
}

} // namespace

TEST_CASE("V of latent attention is a part of K") {
  MlaLaunch launch("batch=128 sq=1 sk=4096 heads=128 kvheads=1 d=576 dv=512 "
                   "dtype=bf16 latent=1",
                   "sm90mla.cl2.pc2");
  Sm90MlaParams params = launch.params();
  CHECK(params.attention.v == params.attention.k);
  CHECK(params.attention.vStrides.token == 576);
  CHECK((launch.dims() == Numbers{576, 4096, 1, 128}));
  CHECK((launch.box() == Numbers{64, 32, 1, 1}));
  CHECK(launch.step(0).grid.x == 2);
  CHECK(launch.step(0).grid.y == 1);
  CHECK(launch.step(0).grid.z == 128);
  CHECK(launch.step(0).cluster.x == 2);
  CHECK(launch.spec.stepCount == 1);
  // Strides of V are ignored, and there is no operand V.
  Problem strided = parse(
      attention(), "sq=1 sk=64 heads=16 kvheads=1 d=576 dv=512 dtype=bf16 "
                   "latent=1 ldv=600");
  CHECK(strided.text() == "attention sq=1 sk=64 heads=16 kvheads=1 d=576 "
                          "dv=512 dtype=bf16 latent=1");
  CHECK_FALSE(
      attention().operands(strided).operands[AttentionOperand::V].present);
  CHECK(
      failure(attention(),
              "attention sq=1 sk=64 heads=1 d=64 dv=128 dtype=bf16 latent=1") ==
      "attention: latent=1, but dv=128 is above d=64, of which V is a part");
}

TEST_CASE("no kernel of latent attention asks for an operand V") {
  constexpr DeviceAddress kNotThere = 0x123456789abc00;
  for (const char *text :
       {"batch=4 sq=2 sk=1000 heads=64 kvheads=1 d=576 dv=512 dtype=bf16 "
        "latent=1 lse=1",
        "batch=4 sq=300 sk=1000 heads=4 d=192 dv=128 dtype=bf16 latent=1",
        "batch=2 sq=1 sk=9000 heads=8 kvheads=1 d=64 dtype=fp16 latent=1"}) {
    CAPTURE(text);
    Problem problem = parse(attention(), text);
    Arguments arguments = attention().defaultArguments(problem);
    for (int i = 0; i < AttentionOperand::Count; ++i)
      arguments.operands[i].address = DeviceAddress(0x1000) * (i + 1);
    arguments.operands[AttentionOperand::V].address = kNotThere;
    int templates = 0;
    for (const auto &tmpl : attention().templates()) {
      std::optional<Values> first;
      tmpl->enumerate(problem, h200(), [&](Values config) {
        if (!first && !tmpl->prune(problem, config, h200()))
          first = std::move(config);
      });
      if (!first)
        continue;
      CAPTURE(first->text());
      ++templates;
      Plan plan = tmpl->plan(problem, *first, h200());
      std::vector<EncodedTensorMap> prototypes(plan.tensorMaps.size());
      LaunchContext context{.smCount = 132, .scratch = 0x200000};
      context.tensorMaps = prototypes.data();
      LaunchSpec spec;
      plan.binder->bind(arguments, context, spec);
      CHECK_FALSE(hasAddress(spec, kNotThere));
    }
    CHECK(templates >= 3);
    auto reference = attention().reference(problem, h200());
    LaunchSpec spec;
    reference->bind(arguments, {AttentionOperand::O, 0, 1, 0x300000, 0x400000},
                    spec);
    CHECK_FALSE(hasAddress(spec, kNotThere));
  }
}

TEST_CASE("keys of few sequences of latent attention are shared out") {
  MlaLaunch launch("sq=1 sk=32768 heads=128 kvheads=1 d=576 dv=512 dtype=bf16 "
                   "latent=1",
                   "sm90mla.cl1.pc2");
  CHECK(launch.step(0).grid.x == 2);
  CHECK(launch.step(0).grid.y == 64);
  CHECK(launch.params().attention.splitKeys == 512);
  REQUIRE(launch.spec.stepCount == 2);
  CHECK(launch.step(1).grid.y == 128);
  CHECK(launch.step(1).dependentLaunch);
}

TEST_CASE("pages of latent attention come in boxes of their own") {
  constexpr llvm::StringRef kPaged =
      "batch=2 sq=1 sk=512 heads=128 kvheads=1 d=576 dv=512 dtype=bf16 "
      "latent=1 kvlen=used pages=table ";
  CHECK(MlaLaunch((kPaged + "page=16").str(), "sm90mla.cl1.pc2")
            .params()
            .boxKeys == 16);
  CHECK(MlaLaunch((kPaged + "page=64").str(), "sm90mla.cl2.pc2")
            .params()
            .boxKeys == 32);
  MlaLaunch wide((kPaged + "page=256").str(), "sm90mla.cl1.pc2");
  CHECK((wide.dims() == Numbers{576, 256, 1, 4}));
  CHECK(wide.params().boxKeys == 64);
}

TEST_CASE("latent attention takes what was measured of it") {
  // From one H200. The last two have operands in L2.
  struct Measured {
    llvm::StringRef problem, config;
    double us;
  };
  constexpr llvm::StringRef kDecode = "decode.r16.t16.st3.w8.p4.sq1";
  const Measured kMeasured[] = {
      {"batch=128 sq=1 sk=4096 heads=128", "sm90mla.cl1.pc2", 249.1},
      {"batch=64 sq=1 sk=8192 heads=16", "sm90mla.cl1.pc2", 160.2},
      {"batch=128 sq=1 sk=4096 heads=16", "sm90mla.cl1.pc2", 155.2},
      {"batch=32 sq=2 sk=4096 heads=64 mask=causal", "sm90mla.cl1.pc2", 84.6},
      {"sq=1 sk=32768 heads=128", "sm90mla.cl1.pc2", 34.6},
      {"batch=128 sq=1 sk=4096 heads=128 kvlen=used pages=table page=64",
       "sm90mla.cl1.pc2", 267.0},
      {"batch=16 sq=1 sk=4096 heads=128 lse=1 kvlen=used pages=table page=16",
       "sm90mla.cl1.pc1", 61.9},
      {"batch=128 sq=1 sk=4096 heads=128", kDecode, 1951.3},
      {"batch=128 sq=1 sk=4096 heads=16", kDecode, 248.9},
      {"sq=1 sk=64 heads=64", "sm90mla.cl1.pc2", 6.45},
      {"batch=3 sq=1 sk=200 heads=128 lse=1", "sm90mla.cl1.pc2", 10.84}};
  double sum = 0;
  for (const Measured &measured : kMeasured) {
    CAPTURE(measured.problem.str());
    CAPTURE(measured.config.str());
    Problem problem =
        parse(attention(),
              (measured.problem + " kvheads=1 d=576 dv=512 dtype=bf16 latent=1")
                  .str());
    auto named = llvm::cantFail(attention().parseConfig(measured.config));
    double ns = named.tmpl->estimate(problem, named.config, h200()).totalNs;
    CHECK(std::abs(ns / 1e3 / measured.us - 1) < 0.11);
    sum += std::abs(ns / 1e3 / measured.us - 1);
  }
  CHECK(sum / double(std::size(kMeasured)) < 0.055);
}

TEST_CASE("latent attention of few heads and sequences is not decode's") {
  // The first four as measured.
  for (llvm::StringRef text :
       {"sq=1 sk=64 heads=64", "batch=3 sq=1 sk=200 heads=128 lse=1",
        "batch=2 sq=3 sk=333 heads=40 mask=causal lse=1",
        "batch=5 sq=4 sk=777 heads=16 mask=causal kvlen=used pages=list "
        "page=16 lse=1 sinks=1",
        "sq=1 sk=1024 heads=16", "batch=4 sq=1 sk=4096 heads=16"}) {
    CAPTURE(text.str());
    Problem problem =
        parse(attention(),
              (text + " kvheads=1 d=576 dv=512 dtype=bf16 latent=1").str());
    Space space = llvm::cantFail(exploreSpace(attention(), problem, h200()));
    REQUIRE_FALSE(space.ranked.empty());
    CHECK(space.ranked[0].tmpl->name() == "sm90mla");
  }
}

TEST_CASE("latent attention by wgmma says what it cannot do") {
  constexpr llvm::StringRef kUsual =
      "batch=2 sq=1 sk=512 heads=128 kvheads=1 d=576 dv=512 dtype=bf16 ";
  CHECK(mlaRefusal((kUsual + "latent=1").str(), "sm90mla.cl1.pc2") == "none");
  CHECK(mlaRefusal(kUsual, "sm90mla.cl1.pc2") ==
        "instruction-shape: 2 operands that are K and V, limit 1 operands that "
        "are K and V");
  CHECK(mlaRefusal("sq=1 sk=512 heads=16 kvheads=1 d=192 dv=128 dtype=bf16 "
                   "latent=1",
                   "sm90mla.cl1.pc2") ==
        "instruction-shape: 128 elements of a row of V, 256 or 512 allowed");
  CHECK(mlaRefusal((kUsual + "latent=1 pages=table page=4").str(),
                   "sm90mla.cl1.pc2") ==
        "alignment: 4 tokens of a page, 8 needed");
  CHECK(mlaRefusal((kUsual + "latent=1 split=100").str(), "sm90mla.cl1.pc2") ==
        "dominated: 100 keys of a fixed split, other templates' allowed");
  CHECK(mlaRefusal((kUsual + "latent=1 kv=e4m3").str(), "sm90mla.cl1.pc2") !=
        "none");
}
