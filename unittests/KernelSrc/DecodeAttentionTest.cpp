// Decode kernels for rows that 16 bytes do not divide, and for unequal parts of
// the columns, compile without spills.
#include "KernelSrc/RealCompiler.h"

#include "Kernel/Space.h"

#include <doctest/doctest.h>

#include <set>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("decode kernels of narrow and of long rows compile clean") {
  if (!hasNvrtc())
    return;
  const KernelFamily &family = *registry().find("attention");
  // A sample of the spaces.
  constexpr size_t kPeriod = 12;
  size_t count = 0;
  std::set<std::string> seen;
  for (auto [name, text] :
       {std::pair{"h200-sxm", "sq=1 sk=131072 heads=32 kvheads=8 d=100 "
                              "dtype=bf16"},
        {"a100-sxm4-80gb", "batch=8 sq=4 sk=8192 heads=16 kvheads=8 d=98 dv=34 "
                           "dtype=fp16 mask=causal kvlen=used pages=table "
                           "page=16 lse=1"},
        {"h200-sxm", "sq=8 sk=8192 heads=32 kvheads=8 d=104 dtype=bf16 kv=e4m3 "
                     "scales=head softcap=30 sinks=1 alibi=1"},
        {"a100-sxm4-80gb", "sq=1 sk=8192 heads=12 d=100 dtype=e4m3"},
        {"l40s", "sq=1 sk=8192 heads=32 kvheads=2 d=320 dtype=bf16 kv=e4m3"},
        {"h200-sxm", "sq=1 sk=8192 heads=32 kvheads=2 d=572 dtype=bf16"},
        {"l40s", "sq=1 sk=8192 heads=32 kvheads=8 d=256 dtype=bf16"}}) {
    const DeviceModel model = device(name);
    const Problem problem = parse(family, std::string("attention ") + text);
    size_t number = 0;
    for (const Candidate &candidate :
         llvm::cantFail(exploreSpace(family, problem, model)).ranked) {
      if (candidate.tmpl->name() != "decode" || number++ % kPeriod != 0)
        continue;
      Plan plan = candidate.tmpl->plan(problem, candidate.config, model);
      for (const TranslationUnit &unit : plan.kernels) {
        if (!seen.insert(unit.digest().hex()).second)
          continue;
        CAPTURE(text);
        CAPTURE(candidate.config.text());
        auto artifact = compiler().compile(unit);
        ++count;
        CHECK((artifact ? artifact->rejection(/*maySpill=*/false)
                        : llvm::toString(artifact.takeError())) == "");
      }
    }
    CHECK(number > 0);
  }
  CHECK(count > 10);
}
