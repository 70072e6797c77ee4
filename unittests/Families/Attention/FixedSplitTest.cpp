// With a fixed split a row has the same bits in every batch: the template and
// the order of keys that are chosen for one batch are those for every other.
#include "Families/Attention/AttentionFamily.h"
#include "Families/FamilyTesting.h"
#include "Kernel/Space.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <set>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// The parts of a choice for \p problem on which the bits of a row depend.
std::set<std::string> ordersOf(const std::string &problem,
                               const DeviceModel &device) {
  auto space = exploreSpace(attention(), parse(attention(), problem), device);
  REQUIRE(space);
  std::set<std::string> orders;
  for (const Candidate &candidate : space->ranked) {
    const llvm::StringRef name = candidate.tmpl->name();
    const Values &config = candidate.config;
    if (name == "decode")
      orders.insert(config.text());
    else if (name == "sm90")
      orders.insert(fmt::format("sm90 {} of {}, {} consumers, {} heads, {}",
                                config.get("bn"), config.get("sp"),
                                config.get("wg"), config.get("pk"),
                                config.get("st")));
    else if (name == "mma")
      orders.insert(fmt::format("mma {}", config.get("bc")));
    else if (!candidate.tmpl->isGeneric())
      orders.insert(config.text()); // no other template has such problems
  }
  // A generic template is not chosen where another one exists.
  CHECK((orders.empty() || !space->ranked.front().tmpl->isGeneric()));
  return orders;
}

constexpr const char *kShapes[] = {
    "sq=1 sk=8192 heads=32 kvheads=8 d=128 dtype=bf16",
    "sq=1 sk=100000 heads=8 kvheads=1 d=128 dtype=bf16 kvlen=used pages=table "
    "page=24",
    "sq=16 sk=8192 heads=32 kvheads=8 d=128 dtype=bf16",
    "sq=16 sk=8192 heads=32 kvheads=8 d=64 dtype=fp16 mask=causal",
    "sq=17 sk=8192 heads=32 kvheads=8 d=64 dtype=fp16 mask=causal",
    "sq=512 sk=8192 heads=32 kvheads=8 d=128 dtype=bf16 mask=causal",
    "sq=512 sk=8192 heads=32 kvheads=8 d=128 dtype=bf16 pages=table page=24",
    "sq=4096 sk=4096 heads=4 d=256 dtype=bf16",
    "sq=228 sk=612 heads=8 d=64 dtype=bf16 mask=causal",
    "sq=150 sk=400 heads=32 kvheads=8 d=128 dtype=bf16 mask=causal",
    "sq=128 sk=400 heads=2 d=256 dtype=bf16",
    "sq=512 sk=8192 heads=8 d=100 dtype=bf16 qlen=packed kvlen=packed",
    "sq=1 sk=8192 heads=16 kvheads=1 d=576 dv=512 dtype=bf16",
    "sq=4 sk=8192 heads=32 kvheads=8 d=128 dtype=fp16 kv=e4m3",
    "sq=1 sk=8192 heads=32 kvheads=8 d=100 dtype=bf16",
    "sq=1 sk=8192 heads=32 kvheads=8 d=320 dtype=bf16 kv=e4m3",
    "sq=1 sk=8192 heads=71 kvheads=1 d=128 dtype=bf16",
    "sq=1 sk=8192 heads=96 kvheads=1 d=64 dtype=bf16 kvlen=used",
};

} // namespace

TEST_CASE("S17: with a fixed split no choice depends on the batch") {
  for (const char *name : {"h200-sxm", "a100-sxm4-80gb", "l40s"}) {
    const DeviceModel model = device(name);
    for (const char *shape : kShapes) {
      CAPTURE(std::string(name));
      CAPTURE(std::string(shape));
      auto orders = [&](int batch) {
        return ordersOf(fmt::format("batch={} {} split=1024", batch, shape),
                        model);
      };
      const std::set<std::string> one = orders(1);
      CHECK(one.size() == 1);
      for (int batch : {2, 8, 33, 200}) {
        CAPTURE(batch);
        CHECK(orders(batch) == one);
      }
    }
  }
}

TEST_CASE("S17: nor on how many keys all sequences could have together") {
  const char *shape = "sq=512 sk=1048576 heads=8 d=128 dtype=bf16 kvlen=used "
                      "pages=table page=64 poolpages=300000 split=1024";
  auto orders = [&](int batch) {
    return ordersOf(fmt::format("batch={} {}", batch, shape),
                    device("h200-sxm"));
  };
  CHECK(orders(2200) == orders(2000));
}

TEST_CASE("what a fixed split leaves out is named") {
  const std::string problem = "sq=1 sk=8192 heads=32 kvheads=8 d=128 "
                              "dtype=bf16 split=1024";
  auto why = [&](const std::string &text, const char *config) {
    return reason(attention(), "attention " + text, config);
  };
  CHECK(why(problem, "sm90.wg1.bn128.st2.pk4") ==
        "dominated: 1024 keys of a fixed split, problems that decode does not "
        "serve allowed");
  const std::string rows = "sq=512 sk=8192 heads=32 kvheads=8 d=128 "
                           "dtype=bf16 split=1024";
  const std::string few = "sq=17 sk=8192 heads=32 kvheads=8 d=128 dtype=bf16 ";
  CHECK(why(few, "decode.r32.t16.st3.w4.sq1") == "none");
  CHECK(why(few + "split=1024", "decode.r32.t16.st3.w4.sq1") ==
        "dominated: 1024 keys of a fixed split, few rows of queries allowed");
  CHECK(why(rows, "sm90.wg2.bn128.st2.pk1") == "none");
  // Tiles of e4m3, too.
  CHECK(why("sq=512 sk=8192 heads=8 d=128 dtype=e4m3 split=1024",
            "decode.r32.t16.st2.w4.sq1") ==
        "dominated: 1024 keys of a fixed split, few rows of queries allowed");
  CHECK(why(rows, "sm90.wg2.bn64.st2.pk1") ==
        "dominated: 64 keys of a block, 128 needed");
  CHECK(why(rows, "sm90.wg2.bn128.st2.pk1.sp2") ==
        "dominated: 2 splits, limit 1 splits");
  CHECK(why(rows, "sm90.wg1.bn128.st2.pk1") ==
        "dominated: 1 consumers, 2 needed");
  CHECK(why(rows, "sm90.wg2.bn128.st2.pk4") ==
        "dominated: 4 heads of a tile, limit 1 heads of a tile");
  CHECK(why(rows, "sm90.wg2.bn128.st3.pk1") ==
        "dominated: 3 stages, limit 2 stages");
}
