// Kernels of mma.sync whose addresses ptxas has put on the stack before, and
// kernels for types of one byte.
#include "KernelSrc/RealCompiler.h"

#include "Device/Catalog.h"
#include "Kernel/Space.h"

#include <doctest/doctest.h>

#include <set>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("products of short pieces keep their addresses in registers") {
  if (!hasNvrtc())
    return;
  for (auto [text, config] :
       {std::pair("gemm m=130 n=134 k=70 dtype=bf16 layout=TN",
                  "mma.bm64.bn64.bk64.st3.wm2.wn2.mb2"),
        {"gemm m=130 n=134 k=70 dtype=bf16 layout=NT",
         "mma.bm64.bn64.bk64.st3.wm2.wn2.mb2"},
        {"gemm m=132 n=132 k=68 dtype=bf16 layout=NN",
         "mma.bm64.bn128.bk64.st3.wm2.wn2.mb2"},
        {"gemm m=131 n=133 k=67 dtype=fp32 compute=tf32 layout=TN",
         "mma.bm128.bn128.bk32.st3.wm2.wn4.mb1"}}) {
    CAPTURE(text);
    auto named = llvm::cantFail(gemm().parseConfig(config));
    Plan plan = named.tmpl->plan(parse(gemm(), text), named.config, h200());
    for (const TranslationUnit &unit : plan.kernels) {
      Artifact artifact = llvm::cantFail(compiler().compile(unit));
      CHECK(artifact.usage.stackBytes == 0);
      CHECK(artifact.rejection(/*maySpill=*/false) == "");
    }
  }
}

TEST_CASE("streams and tiles of bytes compile for each architecture") {
  if (!hasNvrtc())
    return;
  for (const char *name :
       {"a100-sxm4-80gb", "a10", "l40s", "h200-sxm", "b200-sxm", "rtx-5090"}) {
    DeviceModel device = llvm::cantFail(findDevice(name));
    for (const char *text :
         {"gemm m=1 n=4096 k=4096 dtype=e4m3 layout=NT scale_a=row "
          "scale_b=row",
          "gemm m=24 n=4096 k=4096 dtype=e4m3 b=e5m2 layout=NT "
          "scale_a=1x128 scale_b=128x128",
          "gemm m=3 n=4096 k=4096 dtype=int8 layout=NT zero_a=row "
          "pointwise=swiglu",
          "gemm m=300 n=500 k=700 dtype=e4m3 layout=TN align=1",
          "gemm m=300 n=500 k=700 dtype=int8 layout=NN zero_a=tensor"}) {
      CAPTURE(name);
      CAPTURE(text);
      Problem problem = parse(gemm(), text);
      std::set<std::string> seen{"sm90", "naive"};
      for (const Candidate &candidate :
           llvm::cantFail(exploreSpace(gemm(), problem, device)).ranked) {
        if (!seen.insert(candidate.tmpl->name().str()).second)
          continue;
        CAPTURE(candidate.config.text());
        Plan plan = candidate.tmpl->plan(problem, candidate.config, device);
        for (const TranslationUnit &unit : plan.kernels) {
          Artifact artifact = llvm::cantFail(compiler().compile(unit));
          CHECK(artifact.rejection(/*maySpill=*/false) == "");
        }
      }
      CHECK(seen.count("mma") == 1);
    }
  }
}

TEST_CASE("kernels of groups compile without spills") {
  if (!hasNvrtc())
    return;
  for (llvm::StringRef fields :
       {"m=4096 batch=8 dtype=bf16 groups=ends pointwise=swiglu",
        "m=64 batch=32 dtype=bf16 groups=ends scatter=1 row_weights=1",
        "m=24 batch=32 dtype=e4m3 scale_a=1x128 scale_b=128x128 groups=masked "
        "room=256",
        "m=4096 batch=8 dtype=e4m3 scale_a=1x128 scale_b=128x128 groups=ends "
        "gather=1 divisor=8"}) {
    CAPTURE(fields.str());
    const Problem problem =
        parse(gemm(), ("n=256 k=512 layout=NT " + fields).str());
    const Space space = llvm::cantFail(exploreSpace(gemm(), problem, h200()));
    const Candidate &first = space.ranked[0];
    CAPTURE(first.config.text());
    const Plan plan = first.tmpl->plan(problem, first.config, h200());
    for (const TranslationUnit &unit : plan.kernels) {
      Artifact artifact = llvm::cantFail(compiler().compile(unit));
      CHECK(artifact.rejection(/*maySpill=*/false) == "");
    }
  }
}
