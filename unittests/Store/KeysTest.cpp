#include "Store/Decisions.h"
#include "Store/Records.h"

#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Store/ArtifactStore.h"

#include <doctest/doctest.h>

using namespace kiln;

// What lies in caches and packs is found by these texts. One that changes needs
// a new number in its first line, and orphans all that was stored.
TEST_CASE("the keys of records, decisions and artifacts are pinned") {
  Registry registry = makeBuiltinRegistry();
  auto named = llvm::cantFail(
      registry.parseProblem("gemm m=16 n=4096 k=512 dtype=bf16 layout=NT "
                            "pointwise=bias alpha=2"));
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  CHECK(recordKey(*named.family, named.problem, deviceClassKey(device)) ==
        "kiln record 1\n"
        "problem gemm m=0 n=4096 k=512 dtype=bf16 layout=NT pointwise=bias | "
        "gemm in=bf16 out=bf16 layout=NT pointwise=bias\n"
        "device h200-sxm cc=9.0 sms=132 l2=62914560 mem=3201x6016 mig=none "
        "power=700\n");
  CHECK(decisionKey(named.problem, device, ModelKind::Classic) ==
        "kiln decision 1\n"
        "problem gemm m=16 n=4096 k=512 dtype=bf16 layout=NT pointwise=bias "
        "alpha=2\n"
        "device h200-sxm sm_90 sms=132\n"
        "model classic\n");
  UnitParts parts;
  parts.name = "x";
  parts.arch = "sm_90a";
  parts.source = "abc";
  TranslationUnit unit(parts);
  CHECK(artifactKey(unit) == unit.canonicalText());
}
