#include "Store/PortfolioStore.h"
#include "Store/Records.h"

#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Kernel/Space.h"
#include "Store/ArtifactStore.h"

#include <doctest/doctest.h>

using namespace kiln;

// Entries of caches and packs are found by these texts. A text that changes
// needs a new number in its first line, and orphans all stored entries.
TEST_CASE("the keys of records, choices and artifacts are pinned") {
  Registry registry = makeBuiltinRegistry();
  auto named = llvm::cantFail(
      registry.parseProblem("gemm m=16 n=4096 k=512 dtype=bf16 layout=NT "
                            "pointwise=bias alpha=2"));
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  CHECK(recordKey(*named.family, named.problem, deviceClassKey(device)) ==
        "kiln record 2\n"
        "problem gemm m=0 n=4096 k=512 dtype=bf16 layout=NT pointwise=bias | "
        "gemm in=bf16 out=bf16 layout=NT pointwise=bias\n"
        "device h200-sxm cc=9.0 sms=132 l2=62914560 mem=3201x6016 mig=none "
        "power=700\n");
  CHECK(PortfolioKey::ofValue(named.problem, device).text() ==
        "kiln portfolio 2\n"
        "problem gemm m=16 n=4096 k=512 dtype=bf16 layout=NT pointwise=bias "
        "alpha=2\n"
        "device product h200-sxm sm_90 sms=132 "
        "planned=614acad0a01ea265ffdb84e27238f9d4\n");
  UnitParts parts;
  parts.name = "x";
  parts.arch = "sm_90a";
  parts.source = "abc";
  TranslationUnit unit(parts);
  CHECK(artifactKey(unit) == unit.canonicalText());
}

/// \p model with another number in \p field.
static DeviceModel changed(const DeviceModel &model, const DeviceField &field) {
  DeviceModel other = model;
  std::visit(
      [&](auto member) {
        if constexpr (std::is_same_v<decltype(member),
                                     std::string DeviceModel::*>)
          other.*member += "x";
        else
          other.*member = 3 * other.*member + 1;
      },
      field.member);
  return other;
}

TEST_CASE("a choice of the estimator is keyed by each number it may rest on") {
  Registry registry = makeBuiltinRegistry();
  auto named = llvm::cantFail(
      registry.parseProblem("gemm m=16 n=4096 k=512 dtype=bf16 layout=NT"));
  const DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  auto keysOf = [&](const DeviceModel &model) {
    return std::pair(PortfolioKey::ofValue(named.problem, model).text(),
                     PortfolioKey::estimated("layer", model).text());
  };
  size_t planned = 0;
  for (const DeviceField &field : deviceFields()) {
    CAPTURE(field.key);
    const DeviceModel other = changed(device, field);
    if (field.isPlannedWith) {
      ++planned;
      CHECK(keysOf(other).first != keysOf(device).first);
      CHECK(keysOf(other).second != keysOf(device).second);
    } else {
      CHECK(keysOf(other) == keysOf(device));
    }
  }
  CHECK(planned == kDeviceFieldCount - 4);
  // Where a number comes from does not matter.
  DeviceModel live = device;
  for (ValueOrigin &origin : live.origins)
    origin = {ValueSource::Driver, "attribute"};
  CHECK(keysOf(live) == keysOf(device));
}

TEST_CASE("the numbers that choices are not keyed by change no ranking") {
  Registry registry = makeBuiltinRegistry();
  const DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  for (const char *text : {"gemm m=16 n=4096 k=512 dtype=bf16 layout=NT",
                           "gemm m=4096 n=4096 k=512 dtype=bf16 layout=NT",
                           "rmsnorm rows=64 cols=4096 dtype=bf16"}) {
    auto named = llvm::cantFail(registry.parseProblem(text));
    auto rankingOn = [&](const DeviceModel &model) {
      Space space =
          llvm::cantFail(exploreSpace(*named.family, named.problem, model));
      std::string ranking;
      for (const Candidate &candidate : space.ranked)
        ranking += fmt::format("{} {}\n", candidate.config.text(),
                               candidate.estimate.totalNs);
      return ranking;
    };
    const std::string ranking = rankingOn(device);
    for (const DeviceField &field : deviceFields()) {
      if (field.isPlannedWith)
        continue;
      CAPTURE(field.key);
      CHECK(rankingOn(changed(device, field)) == ranking);
    }
  }
}
