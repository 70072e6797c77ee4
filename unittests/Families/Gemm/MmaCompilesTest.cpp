// Kernels of mma.sync whose addresses ptxas has put on the stack before.
#include "KernelSrc/RealCompiler.h"

#include <doctest/doctest.h>

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
