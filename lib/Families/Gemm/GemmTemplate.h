//===- GemmTemplate.h - what the tile templates of GEMM share -------------===//
//
// Each template of the family is its config type (kernel_src/gemm) plus typed
// facts: its space, its limits, its classes and its kernel as an estimate sees
// it. The rest (values, texts, plans, binding) follows from the config and is
// written once here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GatherStep.h"
#include "Families/Gemm/GemmFamily.h"
#include "Families/Gemm/GemmProblem.h"
#include "Families/Gemm/GemmRounds.h"
#include "Families/Gemm/QuantizeStep.h"
#include "Families/Gemm/StreamedTile.h"
#include "Families/Gemm/TileEstimate.h"
#include "Families/TypedTemplate.h"
#include "Kernel/Family.h"
#include "Model/MathUtil.h"
#include "Model/Occupancy.h"
#include "gemm/GemmParams.h"

namespace kiln {

/// Rows of A that a template's kernels read a copy of: gathered ones, and of
/// products on packed weights those that are not aligned to 16 bytes.
struct RowCopies {
  bool gathers = true, aligns = false;
};

/// The product that the kernels of templates compute for a problem: all of it
/// or, where its output is quantised, the product that comes first; in one
/// round or several.
struct GemmProduct {
  explicit GemmProduct(const Problem &problem, RowCopies copies = {},
                       int64_t roundBytes = GemmRounds::kBytes);

  /// The values of `gemm`, where \p problem is that of the constructor.
  llvm::ArrayRef<int64_t> values(const Problem &problem) const {
    return changed ? llvm::ArrayRef<int64_t>(*changed) : problem.values.array();
  }

  /// The largest round, and an even one as spaces and estimates see it.
  GemmProblem gemm, typical;
  GemmSignature signature;
  bool quantizes;
  bool alignsA = false; ///< a copy of A is read, whose rows are aligned
  GemmRounds rounds;
  int64_t roundCount;

private:
  std::optional<FieldValues> changed; ///< none: the problem's
};

/// Fills what no template changes: operands, extents and scalars.
GemmParams makeGemmParams(const GemmProblem &problem,
                          const Arguments &arguments);

/// Blocks of a launch for the tiles of groups: \p resident at most, which share
/// them out.
int64_t groupBlocks(const GemmProblem &problem, int64_t tileM, int64_t tileN,
                    int64_t resident);

/// The operands that may be read before the kernel ahead of a launch has ended,
/// as GemmParams::early has them.
int constantOperands(const Arguments &arguments);

/// The facts of a launch that decide which reads may come before the end of the
/// kernel ahead.
struct EarlyLaunch {
  int64_t blocks = 0, smCount = 0;
  int64_t tileM = 0, tileN = 0;
  int64_t stepsInFlight = 0; ///< of k, that a block asks for at once
};

/// The ones of \p operands that \p launch reads so early. See docs/gemm.md,
/// "Before the kernel ahead has ended".
int earlyOperands(int operands, const GemmProblem &problem,
                  const Arguments &arguments, const EarlyLaunch &launch);

/// The object that knows the blocks and the workspace of \p config: its grid of
/// tiles, or itself.
template <class Config> decltype(auto) gridOf(const Config &config) {
  if constexpr (requires { config.grid(); })
    return config.grid();
  else
    return (config);
}

/// earlyOperands for the blocks of \p config.
template <class Config>
int earlyOperandsOf(const Config &config, int operands,
                    const GemmProblem &problem, const Arguments &arguments,
                    int64_t smCount) {
  if (!operands)
    return 0;
  EarlyLaunch launch;
  if constexpr (requires { config.grid(); }) {
    launch.tileM = config.grid().tileM;
    launch.tileN = config.grid().tileN;
  } else if constexpr (requires { config.blockM; }) {
    launch.tileM = config.blockM;
    launch.tileN = config.blockN;
  } else
    return 0;
  if constexpr (requires {
                  config.blockK;
                  config.stages;
                })
    launch.stepsInFlight = int64_t(config.blockK) * config.stages;
  launch.blocks = gridOf(config).blocks(problem.m, problem.n, problem.batch);
  launch.smCount = smCount;
  return earlyOperands(operands, problem, arguments, launch);
}

/// The rejection of a kernel that needs more \p registers a thread than
/// \p minBlocks resident blocks of \p threads leave each.
std::optional<Rejection> checkRegisters(int64_t registers, int64_t threads,
                                        int64_t minBlocks,
                                        const DeviceModel &device);

/// The rejection of more sums than 255 registers hold beside what a thread
/// multiplies.
std::optional<Rejection> checkAccumulators(double accumulators);

/// The rejection of splits that have no tile of \p blockK steps of k.
std::optional<Rejection> checkSplits(const GemmProblem &problem, int64_t blockK,
                                     int splitK);

/// Splits that exchange more sums than that are pruned, whatever a caller
/// allows: other configs do with less traffic.
inline constexpr int64_t kMaxSplitBytes = int64_t(64) << 20;

/// Whether kernels of \p Config read rows of A where an index says; others read
/// a copy.
template <class Config> inline constexpr bool kGathersItself = requires {
  Config::kGathersItself;
};

/// Whether kernels of \p Config read a copy of A whose rows are aligned.
template <class Config> inline constexpr bool kAlignsRowsOfA = requires {
  Config::kAlignsRowsOfA;
};

/// Whether only as many blocks of \p Config as run at once are launched, which
/// take the tiles in turn.
template <class Config> inline constexpr bool kSharesTiles = requires {
  Config::kSharesTiles;
};

/// Binds one config of one problem.
template <class Config> class GemmBinder final : public Binder {
public:
  /// \p resident: blocks that run at once; \p alignsA: GemmProduct.
  GemmBinder(const PlannedGemm &planned, const Config &config,
             const GemmSignature &signature, const DeviceModel &device,
             WorkspaceLayout workspace, int64_t resident, bool alignsA)
      : planned(planned), config(config), workspace(workspace),
        alignsA(alignsA), sharedBytes(config.sharedBytes(signature)),
        takesDependentLaunch(hasDependentLaunch(device)),
        smCount(device.smCount), resident(resident) {}

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override {
    const LaunchedGemm launched(planned, arguments.problem);
    const GemmProblem &problem = *launched;
    context.zero(workspace.zeroedBytes, spec);
    int early = 0;
    std::optional<GemmParams> gathered;
    const bool gathers = problem.gathers && !kGathersItself<Config>;
    const bool copies = gathers || alignsA;
    if (copies) [[unlikely]] {
      const bool depends = takesDependentLaunch && arguments.isDependent;
      gathered = makeGemmParams(problem, arguments);
      if (gathers)
        addGather(problem, context.scratch, 1, depends, *gathered, spec);
      else
        addAlignedCopy(problem, context.scratch + partialBytes(problem), 1,
                       depends, *gathered, spec);
    }
    KernelStep &step = spec.addKernelOf([&] {
      GemmParams params = makeGemmParams(problem, arguments);
      if (copies) [[unlikely]] {
        params.a = gathered->a;
        params.lda = gathered->lda;
        params.scaleA = gathered->scaleA;
      }
      const int constant = constantOperands(arguments);
      params.early =
          earlyOperandsOf(config, copies ? constant & ~kEarlyA : constant,
                          problem, arguments, smCount);
      early = params.early;
      if constexpr (requires { config.rasterGroup; })
        params.rasterGroup = config.rasterGroup;
      if constexpr (requires { config.splitK; }) {
        params.splitK = config.splitK;
        params.wholeTiles = static_cast<int>(
            gridOf(config).wholeTiles(problem.m, problem.n, problem.batch));
        params.counters = reinterpret_cast<unsigned *>(context.zeroed);
        params.partials = reinterpret_cast<float *>(context.scratch);
      }
      return params;
    });
    step.grid.x = static_cast<uint32_t>(blocksOf(problem));
    step.block.x = static_cast<uint32_t>(config.threads());
    step.sharedBytes = static_cast<uint32_t>(sharedBytes);
    step.dependentLaunch = takesDependentLaunch && (early || copies);
  }

  /// Scratch that splits exchange sums in, ahead of a copy of A.
  static int64_t partialBytes(const Config &config,
                              const GemmProblem &problem) {
    return roundUp(
        gridOf(config).partialBytes(problem.m, problem.n, problem.batch),
        static_cast<int64_t>(WorkspaceLayout::kAlignment));
  }

private:
  DeviceAddress partialBytes(const GemmProblem &problem) const {
    return static_cast<DeviceAddress>(partialBytes(config, problem));
  }
  int64_t blocksOf(const GemmProblem &problem) const {
    if constexpr (requires { config.grid(); })
      if (problem.hasGroups())
        return groupBlocks(problem, config.grid().tileM, config.grid().tileN,
                           resident);
    const int64_t tiles =
        gridOf(config).blocks(problem.m, problem.n, problem.batchA);
    return kSharesTiles<Config> ? std::min(tiles, resident) : tiles;
  }

  PlannedGemm planned;
  Config config;
  WorkspaceLayout workspace;
  bool alignsA;
  int sharedBytes;
  bool takesDependentLaunch;
  int64_t smCount, resident;
};

/// A template of the family, given its config type and what describes a kernel
/// to its estimate: whatever estimateTile() and explainTile() take.
template <class Config, class Kernel = TileKernel>
class GemmTemplate : public TypedTemplate<Config> {
  using Typed = TypedTemplate<Config>;
  using Typed::valuesOf;

public:
  using Typed::Typed;
  using TimedConfig = Template::TimedConfig;

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Values)> emit) const final {
    forEachConfig(productOf(problem).typical, device,
                  [&](const Config &config) { emit(valuesOf(config)); });
  }

  std::optional<Rejection> prune(const Problem &problem, const Values &values,
                                 const DeviceModel &device) const final {
    return check(productOf(problem), fromValues<Config>(values), device);
  }

  Estimate estimate(const Problem &problem, const Values &values,
                    const DeviceModel &device) const final {
    return predict(productOf(problem), fromValues<Config>(values), device);
  }

  Derivation explain(const Problem &problem, const Values &values,
                     const DeviceModel &device) const final {
    const GemmProduct product = productOf(problem);
    Derivation steps;
    const Prediction<Figure> one = explainTile(
        product.typical,
        tileKernel(product.signature, fromValues<Config>(values), device),
        device, steps);
    const auto [total, bound] = withSteps(product, one, device);
    steps.setTotal(named(total, "total", "ns"), bound);
    return steps;
  }

  llvm::SmallVector<Values, 4>
  variantsAt(const Problem &problem, const Values &config,
             const DeviceModel &device) const final {
    llvm::SmallVector<Values, 4> variants;
    const GemmProduct product = productOf(problem);
    forEachVariant(
        product.typical, product.signature, fromValues<Config>(config), device,
        [&](const Config &variant) { variants.push_back(valuesOf(variant)); });
    return variants;
  }

  std::optional<TimedConfig> fastestAt(const Allowance &allowance,
                                       const Problem &problem,
                                       llvm::ArrayRef<Values> configs,
                                       const DeviceModel &device) const final {
    const GemmProduct product = productOf(problem);
    return this->fastestOf(
        configs,
        [&](const Config &config, Emit<Config> emit) {
          forEachVariant(product.typical, product.signature, config, device,
                         emit);
        },
        [&](const Config &config) -> std::optional<double> {
          if (check(product, config, device) ||
              (allowance.isLimited() &&
               this->exceeds(allowance, problem, valuesOf(config), device)))
            return std::nullopt;
          return predict(product, config, device).totalNs;
        });
  }

  CandidateClass classOf(const Problem &, const Values &values) const final {
    return classByTime(fromValues<Config>(values));
  }

  void judge(const Problem &problem, const DeviceModel &device,
             SpaceSink &sink) const final {
    const GemmProduct product = productOf(problem);
    forEachConfig(product.typical, device, [&](const Config &config) {
      if (auto rejection = check(product, config, device))
        sink.reject(*rejection, [&] { return valuesOf(config); });
      else
        sink.rank(valuesOf(config), predict(product, config, device),
                  classByTime(config));
    });
  }

  WorkspaceLayout workspace(const Problem &problem, const Values &values,
                            const DeviceModel &) const final {
    const GemmProduct product = productOf(problem);
    WorkspaceLayout layout = workspaceOf(product, fromValues<Config>(values));
    return product.quantizes ? withQuantized(product.gemm, layout) : layout;
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const final {
    Config config = fromValues<Config>(values);
    const GemmProduct product = productOf(problem);
    const PlannedGemm planned(product.values(problem));
    const GemmSignature &signature = product.signature;
    Plan plan = this->startPlan(entryOf(signature), problem, values, signature,
                                config, config.sharedBytes(signature),
                                /*maySpill=*/this->isGeneric(), device);
    plan.workspace = workspaceOf(product, config);
    plan.binder = std::make_shared<GemmBinder<Config>>(
        planned, config, signature, device, plan.workspace,
        residentBlocks(signature, config, device), product.alignsA);
    completePlan(planned, signature, config, device, plan);
    // Behind all others, where a binder of the template's own looks for it.
    if (signature.gathers && !kGathersItself<Config>) {
      plan.kernels.push_back(gatherUnit(signature, device));
      plan.sharedBytes.push_back(0);
    } else if (product.alignsA) {
      plan.kernels.push_back(
          repackUnit(bytesOf(signature.in), /*transposes=*/false, device));
      plan.sharedBytes.push_back(0);
    }
    if (product.quantizes)
      appendQuantize(readGemmProblem(problem.values.array().data()),
                     planned.problem, device, plan);
    if (product.roundCount > 1)
      bindRounds(product.rounds, plan);
    return plan;
  }

protected:
  /// Calls \p emit with the template's space for a problem, best guesses first.
  virtual void forEachConfig(const GemmProblem &problem,
                             const DeviceModel &device,
                             Emit<Config> emit) const = 0;

  /// Calls \p emit with what variantsAt() answers.
  virtual void forEachVariant(const GemmProblem &, const GemmSignature &,
                              const Config &config, const DeviceModel &,
                              Emit<Config> emit) const {
    emit(config);
  }

  /// The template's own limits, most telling first. \p config may be invalid:
  /// its knobs are within the schema's bounds, no more is known of them.
  virtual std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const Config &config, const DeviceModel &device) const = 0;

  /// The kernel as its estimate sees it.
  virtual Kernel tileKernel(const GemmSignature &signature,
                            const Config &config,
                            const DeviceModel &device) const = 0;

  /// Scratch that a plan needs besides what its splits exchange.
  virtual int64_t copyBytes(const GemmProblem &problem,
                            const GemmSignature &signature,
                            const Config &config) const {
    return 0;
  }

  /// Steps that make copies, except for a gather's.
  virtual int copySteps(const GemmSignature &signature,
                        const Config &config) const {
    return 0;
  }

  /// The header and the function of a kernel of \p signature.
  virtual KernelEntry entryOf(const GemmSignature &signature) const {
    return this->entry;
  }

  /// Adds to \p plan, of one kernel, what only this template has: further
  /// kernels, tensor maps and a binder of its own.
  virtual void completePlan(const PlannedGemm &planned,
                            const GemmSignature &signature,
                            const Config &config, const DeviceModel &device,
                            Plan &plan) const {}

private:
  GemmProduct productOf(const Problem &problem) const {
    return GemmProduct(problem,
                       {!kGathersItself<Config>, kAlignsRowsOfA<Config>},
                       GemmRounds::bytes(this->isGeneric()));
  }

  /// Blocks of \p config that run at once.
  int64_t residentBlocks(const GemmSignature &signature, const Config &config,
                         const DeviceModel &device) const {
    if constexpr (kSharesTiles<Config>)
      return device.smCount * config.minBlocks();
    if constexpr (std::is_same_v<Kernel, TileKernel>) {
      TileKernel kernel = tileKernel(signature, config, device);
      Occupancy fitting =
          occupancy(device, {kernel.threads, kernel.registersPerThread,
                             config.sharedBytes(signature)});
      return device.smCount * std::max<int64_t>(fitting.blocksPerSm, 1);
    }
    if constexpr (std::is_same_v<Kernel, StreamedTile>) {
      Occupancy fitting =
          occupancy(device, tileKernel(signature, config, device).block);
      return device.smCount * std::max<int64_t>(fitting.blocksPerSm, 1);
    }
    return device.smCount;
  }
  /// The class of a config; all rank by time.
  CandidateClass classByTime(const Config &config) const {
    CandidateClass result = this->classOfConfig(config);
    result.ranksByTime = true;
    return result;
  }

  WorkspaceLayout workspaceOf(const GemmProduct &product,
                              const Config &config) const {
    const GemmProblem &problem = product.gemm;
    int64_t m = problem.m, n = problem.n, batch = problem.batch;
    if (product.alignsA)
      return {uint64_t(gridOf(config).zeroedBytes(m, n, batch)),
              uint64_t(GemmBinder<Config>::partialBytes(config, problem) +
                       alignedBytes(problem))};
    return {uint64_t(gridOf(config).zeroedBytes(m, n, batch)),
            uint64_t(gridOf(config).partialBytes(m, n, batch) +
                     copyBytes(problem, product.signature, config) +
                     (kGathersItself<Config> ? 0 : gatherBytes(problem)))};
  }

  /// Steps of a launch, with that behind the product.
  int quantizedSteps(const GemmProduct &product, const Config &config) const {
    const GemmProblem &p = product.gemm;
    const bool isZeroed = gridOf(config).zeroedBytes(p.m, p.n, p.batch) > 0;
    const bool gathers = p.gathers && !kGathersItself<Config>;
    return 2 + isZeroed + gathers + product.alignsA +
           copySteps(product.signature, config);
  }

  std::optional<Rejection> check(const GemmProduct &product,
                                 const Config &config,
                                 const DeviceModel &device) const {
    const GemmProblem &problem = product.gemm;
    const GemmSignature &signature = product.signature;
    if (signature.isPacked() && !requires { Config::kTakesPacked; })
      return Rejection{PruneReason::Type};
    if (signature.hasGroups() && !requires { Config::kTakesGroups; })
      return Rejection{PruneReason::Type};
    if (auto rejection = checkThreads(config.threads(), device))
      return rejection;
    // Rounds have a row at least.
    constexpr double kMostAlignedBytes = 1 << 29;
    if (product.alignsA)
      if (double bytes = double(alignedBytes(problem));
          bytes >= kMostAlignedBytes)
        return Rejection{PruneReason::Workspace, bytes, kMostAlignedBytes, "B"};
    if (auto rejection = checkLimits(problem, signature, config, device))
      return rejection;
    if (auto rejection = checkLaunch(problem, signature, config, device))
      return rejection;
    if (product.rounds.needed > GemmRounds::kMostBytes)
      return Rejection{PruneReason::Workspace, product.rounds.needed,
                       GemmRounds::kMostBytes, "B"};
    if (!product.quantizes)
      return std::nullopt;
    return checkQuantize(quantizedSteps(product, config));
  }

  /// The time of a config that prune() lets pass.
  Estimate predict(const GemmProduct &product, const Config &config,
                   const DeviceModel &device) const {
    return withSteps(product,
                     estimateTile(product.typical,
                                  tileKernel(product.signature, config, device),
                                  device),
                     device);
  }

  /// Adds the steps beside the product of one round, and further rounds.
  template <Number N>
  static Prediction<N> withSteps(const GemmProduct &product,
                                 Prediction<N> prediction,
                                 const DeviceModel &device) {
    N &total = prediction.totalNs;
    if (product.alignsA)
      total += alignNs<N>(product.typical, device);
    if (product.quantizes)
      total += quantizeNs<N>(product.typical, device);
    total = withRounds(product.roundCount, total);
    return prediction;
  }

  /// Limits of the device and of a launch that hold for every template.
  static std::optional<Rejection> checkLaunch(const GemmProblem &problem,
                                              const GemmSignature &signature,
                                              const Config &config,
                                              const DeviceModel &device);
};

template <class Config, class Kernel>
std::optional<Rejection> GemmTemplate<Config, Kernel>::checkLaunch(
    const GemmProblem &problem, const GemmSignature &signature,
    const Config &config, const DeviceModel &device) {
  // Before anything larger is computed from the config: the sizes of valid
  // configs fit into ints.
  if (!config.isValid(signature))
    return Rejection{PruneReason::InstructionShape};
  int64_t shared = config.sharedBytes(signature);
  if (auto rejection = checkSharedBytes(shared, device))
    return rejection;
  if (auto rejection = checkGrid(
          gridOf(config).blocks(problem.m, problem.n, problem.batchA)))
    return rejection;
  double bytes =
      double(gridOf(config).zeroedBytes(problem.m, problem.n, problem.batch)) +
      double(gridOf(config).partialBytes(problem.m, problem.n, problem.batch));
  if (bytes > kMaxSplitBytes)
    return Rejection{PruneReason::Workspace, bytes, double(kMaxSplitBytes),
                     "B"};
  return std::nullopt;
}

} // namespace kiln
