// One NaN or infinity in an input, of emulated kernels of every template: it
// reaches the results that it reaches in the reference, and no others.
#include "Trial/Planted.h"
#include "Emulator/EmulatedTrials.h"

#include <llvm/ADT/STLExtras.h>

#include <cstdlib>

using namespace kiln;
using namespace kiln::emulated;

namespace {

void checkPlanted(const std::vector<fake::PlantedProblem> &problems) {
  EmulatedTrials trials;
  for (const fake::PlantedProblem &given : problems) {
    CAPTURE(given.text);
    const KernelFamily &family = **trials.trials.registry.get(given.family);
    const Problem problem = must(family.parseProblem(given.text));
    Sample sample{given.family, given.text};
    std::vector<std::string> configs = trials.configsOf(sample);
    for (const std::string &config : given.configs)
      if (!llvm::is_contained(configs, config))
        configs.push_back(config);
    for (const PlantedValue &planted :
         fake::plantedValues(family, problem, given.takesInfinities)) {
      sample.planted = planted;
      CAPTURE(planted.operand);
      CAPTURE(planted.row);
      CAPTURE(planted.column);
      CAPTURE(planted.value);
      for (const std::string &config : configs) {
        CAPTURE(config);
        TrialResult result = trials.run(sample, config);
        CAPTURE(result.message);
        CHECK(result.validated);
        REQUIRE(trials.emulator.fault() == "");
      }
    }
  }
}

} // namespace

TEST_CASE("planted: a NaN or an infinity in attention") {
  checkPlanted(fake::plantedAttention());
}

TEST_CASE("planted: a NaN or an infinity in products") {
  checkPlanted(fake::plantedProducts());
}

TEST_CASE("planted: a NaN or an infinity in rows, elements and transposes") {
  checkPlanted(fake::plantedStreams());
}

TEST_CASE("planted: a NaN or an infinity in experts") {
  checkPlanted(fake::plantedExperts());
}

// The squares of their means are infinite.
TEST_CASE("planted: rows of values far from zero") {
  EmulatedTrials trials;
  for (const char *text : {"rows=3 cols=331 dtype=bf16 weight=1 bias=1",
                           "rows=3 cols=4096 dtype=fp32"}) {
    CAPTURE(text);
    Sample sample{"layernorm", text};
    const uint64_t cols = llvm::StringRef(text).contains("331") ? 331 : 4096;
    sample.planted = {0, 1, 0, 1e20f, cols};
    for (const std::string &config : trials.configsOf(sample)) {
      CAPTURE(config);
      TrialResult result = trials.run(sample, config);
      CAPTURE(result.message);
      CHECK(result.validated);
    }
  }
}

// Before sm_89 there is no instruction that converts e4m3.
TEST_CASE("planted: a NaN of e4m3 keys that become fp16 by their bits") {
  Patch convert("attention/DecodeRows.cuh",
                "if constexpr (__CUDA_ARCH__ >= 890)", "if constexpr (false)");
  Patch unit("attention/DecodeRows.cuh", "__CUDA_ARCH__ >= 890 ? 1.0f",
             "false ? 1.0f");
  checkPlanted({{"attention",
                 "batch=1 sq=1 sk=70 heads=2 kvheads=1 d=64 dtype=fp16 kv=e4m3 "
                 "lse=1"}});
}

TEST_CASE("planted: a kernel that takes a NaN for no key is told") {
  Patch patch("attention/DecodeMerge.cuh", "return total != 0;",
              "return total > 0;");
  EmulatedTrials trials;
  Sample sample{"attention",
                "batch=1 sq=1 sk=300 heads=2 kvheads=1 d=64 dtype=bf16 lse=1"};
  sample.planted = {0, 0, 5, std::nanf("")};
  for (const char *config :
       {"decode.r8.t32.st3.w4.cl1", "decode.r8.t32.st6.w4"}) {
    CAPTURE(config);
    CHECK(trials.run(sample, config).status == TrialStatus::Wrong);
  }
}
