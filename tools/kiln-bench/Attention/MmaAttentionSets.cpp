//===- MmaAttentionSets.cpp -----------------------------------------------===//
#include "kiln-bench/Attention/MmaAttentionSets.h"

#include "Families/Attention/AttentionEstimate.h"
#include "Kernel/ConfigSchema.h"
#include "Support/Error.h"
#include "kiln-bench/Attention/AttentionConfigNames.h"
#include "kiln-bench/StudySets.h"

#include <llvm/ADT/STLExtras.h>

#include <cstdlib>

namespace kiln::cli {

using Config = MmaAttentionConfig;

//===----------------------------------------------------------------------===//
// Sets
//===----------------------------------------------------------------------===//

// Registers are those of a thread with a head dimension of 128 and 4 warps; 255
// is the most it can have.
static constexpr TuneRule kTuneRules[] = {
    {"eager without async",
     "only asynchronous copies are in flight under a product",
     [](const Config &c) { return c.eagerLoads && !c.asyncCopy; }},
    {"Q in other steps than K",
     "both are columns of one product: Q is resident, or comes in K's steps",
     [](const Config &c) {
       return c.queryTiles != c.keyTiles && c.queryTiles != 0;
     }},
    {"64 rows, 8 warps", "the instruction has 16 rows, and a warp would have 8",
     [](const Config &c) { return c.blockRows == 64 && c.warps == 8; }},
    {"64x32 with resident Q",
     "three blocks of an SM leave 168 registers: 162 with steps, 196 with Q",
     [](const Config &c) {
       return c.blockRows == 64 && c.blockKeys == 32 && c.queryTiles == 0;
     }},
    {"64x64 with Q in steps",
     "two blocks leave all 255 registers: O 64, S 32 and Q 32 fit, and steps "
     "only add loads",
     [](const Config &c) {
       return c.blockRows == 64 && c.blockKeys == 64 && c.queryTiles != 0;
     }},
    {"128 rows with resident Q",
     "O 128, Q 64 and S 32 or 64 leave nothing of 255 registers for K and V",
     [](const Config &c) { return c.blockRows == 128 && c.queryTiles == 0; }},
};

llvm::ArrayRef<TuneRule> tuneRules() { return kTuneRules; }

const TuneRule *leftOutBy(const Config &config) {
  const TuneRule *rule = llvm::find_if(
      kTuneRules, [&](const TuneRule &each) { return each.leavesOut(config); });
  return rule == std::end(kTuneRules) ? nullptr : rule;
}

static std::vector<Config> tuneSet() {
  std::vector<Config> configs;
  for (int dtype : {Config::kBf16, Config::kFp16})
    for (int rows : {64, 128})
      for (int keys : {32, 64})
        for (int loads = 0; loads < 32; ++loads) {
          auto bit = [&](int i) { return loads >> i & 1; };
          Config config{dtype, 128, rows, keys, 4, 1, 1, 1};
          config.queryTiles = 2 * bit(4);
          config.keyTiles = 2 * bit(3);
          config.valueTiles = 2 * bit(2);
          config.doubleBuffer = bit(1);
          config.optimizedSoftmax = bit(0);
          if (!leftOutBy(config))
            configs.push_back(config);
        }
  llvm::sort(configs);
  return configs;
}

/// Each step adds a decision to the one before; the last is what tuning chose.
static constexpr llvm::StringLiteral kSteps[] = {
    "(FP16, 128, 64, 64, 4): async+load_0_0_0_tiles",
    "(FP16, 128, 64, 64, 4): async+swizzled+load_0_0_0_tiles",
    "(FP16, 128, 64, 64, 4): async+eager+swizzled+load_0_0_0_tiles",
    "(FP16, 128, 64, 64, 4): async+eager+swizzled+load_2_2_2_tiles",
    "(FP16, 128, 64, 64, 4): async+eager+swizzled+load_2_2_2_tiles+buffer",
    "(FP16, 128, 64, 64, 4): "
    "async+eager+swizzled+load_2_2_2_tiles+buffer+opt_softmax",
    "(FP16, 128, 64, 64, 4): "
    "async+eager+swizzled+load_0_2_2_tiles+opt_softmax",
};

static std::vector<Config> progression(bool allTiles) {
  std::vector<Config> configs;
  for (llvm::StringRef step : kSteps) {
    Config config = llvm::cantFail(parseConfigName(step));
    if (!allTiles) {
      configs.push_back(config);
      continue;
    }
    for (int rows : {128, 64})
      for (int keys : {128, 64, 32})
        for (int warps : {4, 8}) {
          if ((rows < 128 && warps == 8) || rows < keys)
            continue;
          config.blockRows = rows;
          config.blockKeys = keys;
          config.warps = warps;
          configs.push_back(config);
        }
  }
  return configs;
}

llvm::StringRef mmaAttentionSetNames() {
  return "tune, all, prog, progall or R,K (rows and keys of a tile)";
}

llvm::Expected<std::vector<Config>> mmaAttentionSet(llvm::StringRef name) {
  if (name.starts_with("prog"))
    return progression(/*allTiles=*/name.contains("all"));
  std::vector<Config> configs = tuneSet();
  if (name == "tune" || name == "all")
    return configs;
  auto [rowText, keyText] = name.split(',');
  int rows = 0, keys = 0;
  if (!rowText.trim().getAsInteger(10, rows) &&
      !keyText.trim().getAsInteger(10, keys)) {
    llvm::erase_if(configs, [&](const Config &c) {
      return c.blockRows != rows || c.blockKeys != keys;
    });
    if (!configs.empty())
      return configs;
  }
  return makeError(ErrorCode::InvalidArgument,
                   "no set of configs is called '{}': there are {}", name.str(),
                   mmaAttentionSetNames().str());
}

/// \p problem with elements of \p dtype.
static llvm::Expected<Problem> withType(const KernelFamily &family,
                                        const Problem &problem, int dtype) {
  Values values = problem.values;
  DType type = dtype == Config::kFp16 ? DType::FP16 : DType::BF16;
  values.set(AttentionField::DType, static_cast<int64_t>(type));
  for (int field : {AttentionField::Kv, AttentionField::Out})
    values.set(field, values.schema().fields()[field].defaultValue);
  return family.canonicalise(std::move(values));
}

/// Why spaces leave \p config out; empty: they do not.
static std::string reasonAgainst(const StudyConfig &config,
                                 const Config &decisions,
                                 const DeviceModel &device) {
  if (auto rejection =
          config.tmpl->prune(config.problem, config.config, device))
    return rejection->text();
  const TuneRule *rule = leftOutBy(decisions);
  return rule ? fmt::format("{}: {}", rule->name.str(), rule->reason.str())
              : "";
}

llvm::StringRef studySetsOf(const KernelFamily &family) {
  return family.name() == "attention" ? mmaAttentionSetNames() : "";
}

llvm::Expected<std::vector<StudyConfig>> studySet(const KernelFamily &family,
                                                  llvm::StringRef name,
                                                  const Problem &problem,
                                                  const DeviceModel &device) {
  if (studySetsOf(family).empty())
    return makeError(ErrorCode::Unsupported,
                     "{} has no named sets of configs, so none is called '{}'",
                     family.name().str(), name.str());
  auto configs = mmaAttentionSet(name);
  if (!configs)
    return configs.takeError();
  const Template *tmpl = family.findTemplate(Config::kName);
  assert(tmpl && "the family has the template");
  // Types and head dimension are the config's and the problem's.
  std::vector<StudyConfig> study;
  for (Config decisions : *configs) {
    auto typed = withType(family, problem, decisions.dtype);
    if (!typed)
      return typed.takeError();
    AttentionProblem read = readAttentionProblem(typed->values.array().data());
    AttentionSignature signature = signatureOf(read);
    decisions.headDim = Config::headDimOf(signature);
    StudyConfig &each = study.emplace_back();
    each.name = configName(decisions);
    each.problem = std::move(*typed);
    each.tmpl = tmpl;
    each.config = toValues(decisions, tmpl->configSchema());
    each.kernelFlops = kernelFlops(read, decisions);
    each.allFlops = attentionFlops(read);
    each.blocksPerSm = expectedBlocksPerSm(
        decisions, decisions.sharedBytes(signature), device);
    each.leftOut = reasonAgainst(each, decisions, device);
  }
  return study;
}

//===----------------------------------------------------------------------===//
// Counts
//===----------------------------------------------------------------------===//

double tileFlops(const Config &config) {
  double rows = config.blockRows, keys = config.blockKeys, dim = config.headDim;
  // A row has maximum, difference, exponential and sum of each score, the
  // correction of O, and that of maximum and sum.
  return 4 * rows * keys * dim + rows * (4 * keys + dim + 4);
}

double kernelFlops(const AttentionProblem &problem, const Config &config) {
  VisibleBlocks seen =
      visibleBlocks(problem, config.blockRows, 1, config.blockKeys);
  double ofHead = double(seen.blocks) * tileFlops(config) +
                  double(seen.tiles) * config.blockRows * config.headDim;
  return double(problem.batch) * double(problem.heads) * ofHead;
}

double attentionFlops(const AttentionProblem &problem) {
  return visiblePairs(problem) *
         (2.0 * double(problem.headDim + problem.valueDim) + 6);
}

int expectedBlocksPerSm(const Config &config, int64_t sharedBytes,
                        const DeviceModel &device) {
  return config.warps == 8 || 2 * sharedBytes > device.sharedBytesPerSm ? 1 : 2;
}

} // namespace kiln::cli
