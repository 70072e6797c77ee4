//===- RowTemplate.h - base of the templates over rows --------------------===//
//
// Each template is its config type (kernel_src/rows) plus three facts: its
// space, its limits and its memory pass. The rest (values, texts, plans,
// binding) follows from the config and is written once here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/MemoryPass/MemoryPassTemplate.h"
#include "Families/Rows/RowCosts.h"
#include "Families/Rows/RowFamily.h"

namespace kiln {

/// The greatest power of two of elements, up to \p most, that every access to
/// every operand of \p problem may have: it divides the row, and the access, of
/// at most 16 bytes, divides every address.
int64_t widestVector(const RowProblem &problem, int64_t most);

/// The start of \p problem's rows for vectors of \p vector elements: the least
/// alignment that a config with such vectors has to serve.
RowStart startFor(const RowProblem &problem, int64_t vector);

/// Widths of vectors in the space of \p problem, best guess first: the width of
/// the widest access, and the widest one whose accesses are all aligned, unless
/// its accesses, or the rows, are much smaller.
llvm::SmallVector<int64_t, 2> vectorsToTry(const RowProblem &problem);

/// The fewest threads that share a row by such vectors: so many that none has
/// more than four vectors of a block with a scale of its own.
int leastRowThreads(const RowProblem &problem, int64_t vector);

/// The number of values of a reduction's output; else the number of rows.
int64_t outputCount(const RowProblem &problem);

/// Whether blocks of \p config wait for each other, all over the GPU.
template <class Config>
bool waitsForBlocks(const Config &config, const RowSignature &signature) {
  if constexpr (requires { config.isSpread(); })
    return config.isSpread() && signature.hasStatistics();
  return false;
}

/// Binds one config of one problem. \p workspace is that of its plan.
template <class Config> class RowBinder final : public Binder {
public:
  RowBinder(RowKind kind, const Config &config, const RowSignature &signature,
            WorkspaceLayout workspace)
      : kind(kind), config(config), workspace(workspace),
        sharedBytes(config.sharedBytes(signature)),
        areWaiting(waitsForBlocks(config, signature)) {}

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override {
    RowProblem problem = readRowProblem(kind, arguments.problem);
    RowParams params = makeRowParams(kind, problem, arguments);
    double blocks = config.blocks(problem.rows);
    if constexpr (requires { config.ranges; }) {
      // All packed rows together make one long row.
      if (problem.allRows && params.ldx == params.cols) {
        params.cols *= params.rows;
        params.rows = 1;
        params.allRows = 0;
      }
      params.ranges = config.ranges;
      params.counters = reinterpret_cast<unsigned *>(context.zeroed);
      params.partials = reinterpret_cast<float *>(context.scratch);
      blocks = config.blocks(outputCount(problem));
    }
    if constexpr (requires { config.isSpread(); }) {
      params.ranges = config.rowBlocks;
      params.partials = reinterpret_cast<float *>(context.zeroed);
    }
    if constexpr (requires { config.gridPerSm; })
      if (config.gridPerSm != 0)
        blocks = std::min(blocks, double(config.gridPerSm) * context.smCount);
    context.zero(workspace.zeroedBytes, spec);
    KernelStep &step = spec.addKernel(params);
    step.grid.x = static_cast<uint32_t>(blocks);
    step.block.x = static_cast<uint32_t>(config.threads());
    if constexpr (requires { config.cluster; })
      step.cluster.x = static_cast<uint32_t>(config.cluster);
    if constexpr (requires { config.isSpread(); })
      step.cooperative = areWaiting;
    step.sharedBytes = static_cast<uint32_t>(sharedBytes);
  }

private:
  RowKind kind;
  Config config;
  WorkspaceLayout workspace;
  int sharedBytes;
  bool areWaiting; ///< waitsForBlocks()
};

/// A template over rows, given its config type and the class that derives from
/// it, which has the memory pass of a config that prune() has accepted:
///   template <Number N> MemoryPass<N> stream(problem, signature, config,
///                                            device) const;
template <class Derived, class Config>
class RowTemplate : public MemoryPassTemplate<Derived, Config> {
public:
  RowTemplate(RowKind kind, const KernelEntry &entry)
      : MemoryPassTemplate<Derived, Config>(entry), kind(kind) {}

  template <Number N>
  MemoryPass<N> pass(const Problem &problem, const Config &config,
                     const DeviceModel &device) const {
    return static_cast<const Derived &>(*this).template stream<N>(
        read(problem), readRowSignature(problem.signature), config, device);
  }

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Values)> emit) const final {
    if (const RowProblem rows = read(problem); serves(rows))
      forEachConfig(rows, device, [&](const Config &config) {
        emit(this->valuesOf(config));
      });
  }

  WorkspaceLayout workspace(const Problem &problem, const Values &values,
                            const DeviceModel &) const final {
    if constexpr (requires(const Config &config) { config.isSpread(); }) {
      Config config = fromValues<Config>(values);
      RowSignature signature = readRowSignature(problem.signature);
      return {uint64_t(config.exchangeBytes(signature, read(problem).rows)), 0};
    }
    if constexpr (requires(const Config &config) { config.ranges; }) {
      Config config = fromValues<Config>(values);
      int64_t outputs = outputCount(read(problem));
      return {uint64_t(config.counterBytes(outputs)),
              uint64_t(config.partialBytes(outputs))};
    }
    return {};
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const final {
    Config config = fromValues<Config>(values);
    RowSignature signature = readRowSignature(problem.signature);
    Plan plan = this->planWithoutBinder(problem, values, signature, config,
                                        config.sharedBytes(signature), device,
                                        /*maySpill=*/this->isGeneric());
    plan.workspace = workspace(problem, values, device);
    if (waitsForBlocks(config, signature)) // it never starts early
      plan.takesDependentLaunch = false;
    plan.binder = std::make_shared<RowBinder<Config>>(kind, config, signature,
                                                      plan.workspace);
    return plan;
  }

protected:
  std::optional<Rejection> checkConfig(const Problem &problem,
                                       const Config &config,
                                       const DeviceModel &device) const final {
    RowProblem rows = read(problem);
    if (!serves(rows))
      return Rejection{PruneReason::InstructionShape};
    RowSignature signature = readRowSignature(problem.signature);
    if (auto rejection = checkThreads(config.threads(), device))
      return rejection;
    // This comes before any larger size is computed from the config: isValid()
    // guarantees sizes that fit into ints.
    if (!config.isValid(signature))
      return invalidShape(config);
    if (config.rowStart() < startFor(rows, config.vector))
      return Rejection{PruneReason::Alignment, double(config.vector),
                       double(widestVector(rows, config.vector)), "elements"};
    int64_t shared = config.sharedBytes(signature) + kScratchBytes;
    if (auto rejection = checkSharedBytes(shared, device))
      return rejection;
    if (auto rejection = checkLimits(rows, signature, config, device))
      return rejection;
    return checkGrid(config.blocks(gridRows(rows)));
  }

  /// Static shared memory of the reductions: the most that configs of the space
  /// take.
  static constexpr int64_t kScratchBytes = 2048;

  /// Calls \p emit with the template's space for a problem, best guesses first.
  virtual void forEachConfig(const RowProblem &problem,
                             const DeviceModel &device,
                             Emit<Config> emit) const = 0;

  /// The reason why the blocks of \p config, which may wait for each other,
  /// cannot all run at once on \p device, with one on each SM.
  static std::optional<Rejection> checkSpread(const RowProblem &problem,
                                              const Config &config,
                                              const DeviceModel &device) {
    double blocks = config.blocks(problem.rows);
    if (!config.isSpread() || blocks <= double(device.smCount))
      return std::nullopt;
    return Rejection{PruneReason::Grid, blocks, double(device.smCount),
                     "blocks at once"};
  }

  /// The template's own limits for a valid config.
  virtual std::optional<Rejection>
  checkLimits(const RowProblem &problem, const RowSignature &signature,
              const Config &config, const DeviceModel &device) const = 0;

  RowProblem read(const Problem &problem) const {
    return readRowProblem(kind, problem.values.array().data());
  }

private:
  /// False for an elementwise problem without quantised results.
  bool serves(const RowProblem &problem) const {
    return kind != RowKind::Pointwise || problem.scaleY.kind != ScaleKind::None;
  }

  /// Names the knob that a config beyond isValid() sets too high, if it is one
  /// of those on which a thread's registers depend.
  static Rejection invalidShape(const Config &config) {
    auto beyond = [](int value, int limit, llvm::StringRef unit) {
      return Rejection{PruneReason::InstructionShape, double(value),
                       double(limit), unit};
    };
    if constexpr (requires { config.items; })
      if (config.items > Config::kMaxItems)
        return beyond(config.items, Config::kMaxItems,
                      "vectors at once a thread");
    if constexpr (requires { config.vectors; })
      if (config.vectors > Config::kMaxVectors)
        return beyond(config.vectors, Config::kMaxVectors, "vectors a thread");
    return Rejection{PruneReason::InstructionShape};
  }

  static int64_t gridRows(const RowProblem &problem) {
    if constexpr (requires(const Config &config) { config.ranges; })
      return outputCount(problem);
    else
      return problem.rows;
  }

  RowKind kind;
};

} // namespace kiln
