#include "kiln-bench/ClassicRanking.h"

#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Support/Format.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <set>

using namespace kiln;
using namespace kiln::cli;

TEST_CASE("the classic model ranks by its own estimates") {
  const Registry registry = makeBuiltinRegistry();
  for (llvm::StringRef device : {"h200-sxm", "a100-sxm4-40gb", "t4"})
    for (llvm::StringRef dtype : {"bf16", "fp16", "fp32"}) {
      CAPTURE(device);
      CAPTURE(dtype);
      DeviceModel model = llvm::cantFail(findDevice(device));
      auto named = llvm::cantFail(registry.parseProblem(fmt::format(
          "gemm m=512 n=4096 k=8192 layout=NT batch=2 dtype={}", dtype)));
      Space space =
          llvm::cantFail(exploreSpace(*named.family, named.problem, model));
      const MatrixProduct product =
          *classicProblemOf(*named.family, named.problem);
      std::vector<ClassicConfig> configs;
      for (const Candidate &candidate : space.ranked)
        if (auto config = classicConfigOf(*candidate.tmpl, candidate.config)) {
          // The plan's text says how many threads the kernel has.
          const Plan plan =
              candidate.tmpl->plan(named.problem, candidate.config, model);
          CHECK(llvm::StringRef(plan.kernels.front().source())
                    .contains(fmt::format("__launch_bounds__({}",
                                          32 * config->numWarps)));
          if (!llvm::is_contained(configs, *config))
            configs.push_back(*config);
        }
      size_t kept = pruneClassic(model, product.type, configs).kept.size();
      // The best of each class come first; in both parts the times ascend, up
      // to ties.
      std::set<uint64_t> classes;
      std::vector<ClassicConfig> ranked;
      double slowestLead = 0, slowestOther = 0;
      for (auto [i, candidate] : llvm::enumerate(
               rankClassic(product, model, std::move(space.ranked)))) {
        auto config = classicConfigOf(*candidate.tmpl, candidate.config);
        if (!config) {
          CHECK(i >= kept); // a template that it cannot model comes last
          continue;
        }
        CHECK(!llvm::is_contained(ranked, *config));
        ranked.push_back(*config);
        if (model.ccMajor < 8)
          config->numStages = 2;
        double ns = 1e6 * estimateClassic(model, product.type, 1024, 4096, 8192,
                                          *config)
                              .totalMs;
        CHECK(candidate.estimate.totalNs == doctest::Approx(ns));
        bool leads = classes.insert(candidate.candidateClass.key).second;
        CHECK((!leads || slowestOther == 0));
        double &slowest = leads ? slowestLead : slowestOther;
        CHECK(ns * 1.02 >= slowest);
        slowest = std::max(slowest, ns);
      }
      CHECK(ranked.size() == kept);
    }
}

TEST_CASE("the classic model knows products of two bytes and more alone") {
  const Registry registry = makeBuiltinRegistry();
  for (llvm::StringRef text :
       {"rmsnorm rows=8192 cols=4096 dtype=bf16", "gemm m=0 n=8 k=8 dtype=bf16",
        "gemm m=16 n=4096 k=512 dtype=e4m3 out=bf16 layout=NT"}) {
    CAPTURE(text);
    auto named = llvm::cantFail(registry.parseProblem(text));
    CHECK(!classicProblemOf(*named.family, named.problem));
  }
}
