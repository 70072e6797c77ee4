// Names of configs, named sets of them, and what a study counts. The golden
// lists in sets/ have a name a line.
#include "kiln-bench/Attention/MmaAttentionSets.h"

#include "Families/FamilyTesting.h"
#include "Support/ReadFile.h"
#include "kiln-bench/Attention/AttentionConfigNames.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <set>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::testing;

namespace {

using Config = MmaAttentionConfig;

Config named(llvm::StringRef text) {
  auto config = parseConfigName(text);
  if (!config)
    FAIL(summarize(config.takeError()).message);
  return *config;
}

std::string nameFailure(llvm::StringRef text) {
  auto config = parseConfigName(text);
  REQUIRE(!config);
  return summarize(config.takeError()).message;
}

std::vector<Config> setOf(llvm::StringRef name) {
  auto configs = mmaAttentionSet(name);
  if (!configs)
    FAIL(summarize(configs.takeError()).message);
  return *configs;
}

std::vector<std::string> namesOf(llvm::ArrayRef<Config> configs) {
  std::vector<std::string> names;
  for (const Config &config : configs)
    names.push_back(configName(config));
  return names;
}

std::vector<std::string> golden(const std::string &name) {
  std::string file = llvm::cantFail(readNamedFile(
      KILN_SOURCE_DIR "/unittests/Tools/sets/" + name + ".txt", 1 << 20));
  llvm::SmallVector<llvm::StringRef, 0> lines;
  llvm::StringRef(file).split(lines, '\n', -1, /*KeepEmpty=*/false);
  return std::vector<std::string>(lines.begin(), lines.end());
}

constexpr Config kBest{Config::kFp16, 128, 64, 64, 4, 1, 1, 1, 0, 2, 0, 1, 1};
constexpr llvm::StringLiteral kBestName =
    "(FP16, 128, 64, 64, 4): "
    "async+eager+swizzled+load_0_2_0_tiles+buffer+opt_softmax";

AttentionProblem square(int64_t length, int64_t heads, int64_t batch) {
  AttentionProblem problem;
  problem.queries = problem.keys = problem.typicalKeys = length;
  problem.heads = problem.kvHeads = heads;
  problem.batch = batch;
  return problem;
}

} // namespace

TEST_CASE("attention config names: the three forms") {
  CHECK(configName(kBest) == kBestName);
  CHECK(configName(kBest, ConfigNameForm::Demangled) ==
        "flash_forward_kernel<FlashForwardKernelConfig{5, 128, 64, 64, 4, 1, "
        "1, 1, 0, 2, 0, 1, 1}>");
  CHECK(configName(kBest, ConfigNameForm::Typed) ==
        "flash_forward_kernel<FlashForwardKernelConfig{(c10::ScalarType)5, "
        "(int)128, (int)64, (int)64, (int)4, (bool)1, (bool)1, (bool)1, "
        "(int)0, (int)2, (int)0, (bool)1, (bool)1}>");
  for (llvm::StringRef set : {"tune", "prog", "progall"})
    for (const Config &config : setOf(set))
      for (ConfigNameForm form :
           {ConfigNameForm::Short, ConfigNameForm::Demangled,
            ConfigNameForm::Typed})
        CHECK(named(configName(config, form)) == config);
}

TEST_CASE("attention config names: what else they may look like") {
  CHECK(named("void flash_forward_kernel<FlashForwardKernelConfig{5, 128, 64, "
              "64, 4, true, true, true, 0, 2, 0, true, "
              "true}>(FAForwardArgs)") == kBest);
  CHECK(named("flash_forward_kernel<FlashForwardKernelConfig{"
              "(c10::ScalarType)FP16, (int)128, (int)64, (int)64, (int)4, "
              "(bool)1, (bool)1, (bool)1, (int)0, (int)2, (int)0, (bool)1, "
              "(bool)1}>") == kBest);
  CHECK(named("| " + kBestName.str() + " | 8311200.00 | 12 |") == kBest);
  CHECK(named("(5, 128, 64, 64, 4): opt_softmax+buffer+load_0_2_0_tiles+"
              "swizzled+eager+async") == kBest);
  Config plain = named("(bf16, 64, 128, 32, 8): load_0_0_0_tiles");
  CHECK(plain == Config{Config::kBf16, 64, 128, 32, 8});
}

TEST_CASE("attention config names: what is wrong is named") {
  CHECK(nameFailure("") ==
        "name of an attention config: nothing instead of (type, head, rows, "
        "keys, warps): features");
  CHECK(nameFailure("(FP8, 128, 64, 64, 4): load_0_0_0_tiles") ==
        "name of an attention config: 'FP8' instead of FP16 (5) or BF16 (15)");
  CHECK(nameFailure("(FP16, 128, 64, 4): load_0_0_0_tiles") ==
        "name of an attention config: 4 values instead of 5");
  CHECK(nameFailure("(FP16, 128, 64, 64, 4): async+fast") ==
        "name of an attention config: 'fast' instead of load_Q_K_V_tiles");
  CHECK(nameFailure("(FP16, 128, 64, 64, 4): async") ==
        "name of an attention config: nothing instead of load_Q_K_V_tiles");
  CHECK(nameFailure("FlashForwardKernelConfig{5, 128, 64, 64, 4, 2, 1, 1, 0, "
                    "2, 0, 1, 1}") ==
        "name of an attention config: ' 2' instead of 0, 1, true or false");
  CHECK(nameFailure("FlashForwardKernelConfig{5, 128") ==
        "name of an attention config: '5, 128' instead of a closing brace");
  CHECK(nameFailure("FlashForwardKernelConfig{5, 128, 9999999999, 64, 4, 1, "
                    "1, 1, 0, 2, 0, 1, 1}") ==
        "name of an attention config: ' 9999999999' instead of a number up to "
        "1024");
}

TEST_CASE("attention configs: a total order, equality") {
  std::vector<Config> configs = setOf("progall");
  std::set<Config> ordered(configs.begin(), configs.end());
  CHECK(ordered.size() == configs.size());
  CHECK(!(kBest < kBest));
  Config other = kBest;
  other.optimizedSoftmax = 0;
  CHECK(other < kBest);
  // The type is compared first, then the fields in their order.
  other.dtype = Config::kBf16;
  CHECK(kBest < other);
  other = kBest;
  other.blockRows = 128;
  other.blockKeys = 32;
  CHECK(kBest < other);
}

TEST_CASE("attention sets: the golden lists") {
  CHECK(namesOf(setOf("tune")) == golden("tune"));
  CHECK(namesOf(setOf("all")) == golden("tune"));
  CHECK(namesOf(setOf("prog")) == golden("prog"));
  CHECK(namesOf(setOf("progression")) == golden("prog"));
  CHECK(namesOf(setOf("progall")) == golden("progall"));
  CHECK(namesOf(setOf("prog_all_sizes")) == golden("progall"));
  CHECK(llvm::is_sorted(setOf("tune")));
}

TEST_CASE("attention sets: by tile") {
  struct Expected {
    const char *tile;
    size_t count;
  };
  for (Expected each : {Expected{"64,32", 16}, Expected{"64, 64", 32},
                        Expected{"128,32", 16}, Expected{"128,64", 16}})
    CHECK(setOf(each.tile).size() == each.count);
}

TEST_CASE("attention sets: an unknown one lists those that there are") {
  for (llvm::StringRef name : {"", "fast", "32,32", "64", "64,x"}) {
    auto configs = mmaAttentionSet(name);
    REQUIRE(!configs);
    CHECK(summarize(configs.takeError()).message ==
          "no set of configs is called '" + name.str() +
              "': there are tune, all, prog, progall or R,K (rows and keys of "
              "a tile)");
  }
}

TEST_CASE("attention sets: each rule leaves out what its name says") {
  auto leftOut = [](llvm::StringRef name) {
    const TuneRule *rule = leftOutBy(named(name));
    return rule ? rule->name : "none";
  };
  CHECK(leftOut("(FP16, 128, 64, 64, 4): eager+load_0_0_0_tiles") ==
        "eager without async");
  CHECK(leftOut("(FP16, 128, 128, 64, 4): async+load_2_0_0_tiles") ==
        "Q in other steps than K");
  CHECK(leftOut("(FP16, 128, 64, 64, 8): async+load_0_0_0_tiles") ==
        "64 rows, 8 warps");
  CHECK(leftOut("(FP16, 128, 64, 32, 4): async+load_0_2_2_tiles") ==
        "64x32 with resident Q");
  CHECK(leftOut("(FP16, 128, 64, 64, 4): async+load_2_2_2_tiles") ==
        "64x64 with Q in steps");
  CHECK(leftOut("(FP16, 128, 128, 32, 4): async+load_0_2_2_tiles") ==
        "128 rows with resident Q");
  CHECK(leftOut(kBestName) == "none");
  for (const TuneRule &rule : tuneRules())
    CHECK(!rule.reason.empty());
}

TEST_CASE("attention sets: operations") {
  CHECK(tileFlops(kBest) == 4.0 * 64 * 64 * 128 + 64.0 * (4 * 64 + 128 + 4));
  AttentionProblem problem = square(4096, 16, 4);
  CHECK(kernelFlops(problem, kBest) ==
        4.0 * 16 * 64 * (64 * tileFlops(kBest) + 64.0 * 128));
  CHECK(attentionFlops(problem) ==
        doctest::Approx(4.0 * 16 *
                        (4.0 * 4096 * 4096 * 128 + 6.0 * 4096 * 4096)));
  // Half of the pairs, and the tiles on the diagonal whole.
  problem.mask = AttentionMask::Causal;
  CHECK(attentionFlops(problem) ==
        doctest::Approx(4.0 * 16 * 0.5 * 4096 * 4097 * (4 * 128 + 6)));
  CHECK(kernelFlops(problem, kBest) ==
        4.0 * 16 * (64 * 65 / 2 * tileFlops(kBest) + 64 * 64.0 * 128));
}

TEST_CASE("attention sets: shared memory and blocks of an SM") {
  AttentionSignature signature;
  signature.q = signature.kv = signature.out = DType::FP16;
  for (const Config &config : setOf("progall")) {
    REQUIRE(config.isValid(signature));
    CHECK(config.sharedBytes(signature) ==
          (config.blockRows + 2 * config.blockKeys) * 128 * 2);
  }
  DeviceModel a100 = device("a100-sxm4-80gb");
  CHECK(expectedBlocksPerSm(kBest, kBest.sharedBytes(signature), a100) == 2);
  Config wide = kBest;
  wide.blockRows = wide.blockKeys = 128;
  CHECK(expectedBlocksPerSm(wide, wide.sharedBytes(signature), a100) == 1);
  Config eight = kBest;
  eight.blockRows = 128;
  eight.warps = 8;
  CHECK(expectedBlocksPerSm(eight, eight.sharedBytes(signature), a100) == 1);
}
