//===- FlatElementwise.cpp - the flat template ----------------------------===//
//
// The space is small: the bytes that a thread loads at once (vector, items),
// the threads of a block, the cache hints, and whether the grid is resident or
// has a block for each piece. Little's law ranks it; see Model/MemoryPass.h.
//
//===----------------------------------------------------------------------===//
#include "Families/Elementwise/ElementwiseFamily.h"
#include "Families/Elementwise/FlatEstimate.h"
#include "Families/MemoryPass/MemoryPassTemplate.h"
#include "elementwise/FlatElementwiseConfig.h"

#include <algorithm>

namespace kiln {

namespace {

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

/// More registers than this, with fewer threads that each have more in flight,
/// gain nothing.
constexpr int64_t kMostRegisters = 168;

/// Registers that a thread needs: the bits of its items and of rows of values,
/// the values of one item, and the rest of a kernel. With fewer it spills.
int leastRegisters(const FlatElementwiseConfig &config,
                   const ElementwiseSignature &signature) {
  int words = config.vectorWords(signature);
  int item = FlatElementwiseConfig::matrices(signature) * words +
             signature.count(LinkShape::Column);
  int rows = signature.count(LinkShape::Row) * words;
  int other = config.items > 4 ? 26 : 18;
  // Registers are allocated in units of eight.
  return (config.items * item + rows + config.vector + other + 7) / 8 * 8;
}

/// The most elements of a vector that is aligned and stays in its row, or in
/// the line.
int64_t widestOf(const ElementwiseProblem &p,
                 const ElementwiseSignature &signature, int start) {
  if (start == FlatElementwiseConfig::kAny)
    return FlatElementwiseConfig::kMaxVector;
  int64_t widest = widestVector(p);
  if (start == FlatElementwiseConfig::kLine)
    // A vector may cross into the next row, but not into the one behind it.
    return std::min(widest, std::max<int64_t>(p.cols, 1));
  if (signature.needsPosition() && p.cols > 0)
    widest = std::min(widest, p.cols & -p.cols);
  return widest;
}

/// Rejects a vector that would not be aligned, or would leave its row.
std::optional<Rejection> checkVector(const ElementwiseProblem &p,
                                     const ElementwiseSignature &signature,
                                     const FlatElementwiseConfig &config) {
  int64_t widest = widestOf(p, signature, config.start);
  if (config.vector <= widest)
    return std::nullopt;
  return Rejection{PruneReason::Alignment, double(config.vector),
                   double(widest), "elements"};
}

std::optional<Rejection> checkRegisters(const ElementwiseSignature &signature,
                                        const FlatElementwiseConfig &config,
                                        const DeviceModel &device) {
  int64_t most =
      std::min(kMostRegisters, device.registersPerSm / config.threads());
  int64_t least = config.residentBlocks == 0
                      ? config.wantedRegisters(signature)
                      : leastRegisters(config, signature);
  if (config.residentBlocks > 0)
    most = std::min<int64_t>(most, config.registers(signature));
  if (least <= most)
    return std::nullopt;
  return Rejection{PruneReason::Registers, double(least), double(most),
                   "registers a thread"};
}

/// The rejection of a config beyond isValid(). More items or a wider vector
/// than registers hold are named by the register wall, which they hit first.
Rejection invalidShape(const FlatElementwiseConfig &config,
                       const ElementwiseSignature &signature) {
  if (config.items <= FlatElementwiseConfig::kMaxItems)
    return Rejection{PruneReason::InstructionShape};
  int wanted = config.wantedRegisters(signature);
  if (wanted > kMostRegisters)
    return Rejection{PruneReason::Registers, double(wanted),
                     double(kMostRegisters), "registers a thread"};
  return Rejection{PruneReason::InstructionShape, double(config.items),
                   FlatElementwiseConfig::kMaxItems, "items a thread"};
}

/// Rejects launch bounds that \p device cannot keep: the assembler ignores
/// them, so the config equals another one.
std::optional<Rejection> checkBounds(const FlatElementwiseConfig &config,
                                     const DeviceModel &device) {
  int64_t threads = int64_t(config.residentBlocks) * config.threads();
  int64_t most = device.maxWarpsPerSm * kWarpThreads;
  if (threads <= most)
    return std::nullopt;
  return Rejection{PruneReason::Threads, double(threads), double(most),
                   "threads of an SM"};
}

/// A resident grid has to fit the chip, and some block must have more than one
/// piece of work.
std::optional<Rejection> checkGrid(const ElementwiseProblem &p,
                                   const ElementwiseSignature &signature,
                                   const FlatElementwiseConfig &config,
                                   const DeviceModel &device) {
  if (config.blocksPerSm == 0)
    return std::nullopt;
  int64_t resident =
      occupancy(device, {config.threads(), config.registers(signature), 0})
          .blocksPerSm;
  if (config.blocksPerSm > resident)
    return Rejection{PruneReason::Registers, double(config.blocksPerSm),
                     double(resident), "blocks an SM"};
  double blocks = double(config.blocksPerSm) * device.smCount;
  double chunks = config.chunks(signature, p.rows, p.cols);
  if (blocks >= chunks)
    return Rejection{PruneReason::Dominated, blocks, chunks, "blocks"};
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The template
//===----------------------------------------------------------------------===//

class FlatElementwise final
    : public MemoryPassTemplate<FlatElementwise, FlatElementwiseConfig> {
public:
  FlatElementwise()
      : MemoryPassTemplate({"elementwise/FlatElementwise.cuh",
                            "ElementwiseSignature", "FlatElementwiseConfig",
                            "FlatElementwiseParams", "flatElementwise"}) {}

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Values)> emit) const override;

  /// A class is kernels with the same memory pass; resident grids come last.
  CandidateClass
  classOfConfig(const FlatElementwiseConfig &config) const override {
    bool stays = config.blocksPerSm > 0;
    int hintRank = config.hint == 2 ? 0 : config.hint == 0 ? 1 : 2;
    return {static_cast<uint64_t>(config.start * 256 + config.vector * 8 +
                                  config.hint * 2 + stays),
            3 * stays + hintRank};
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const override {
    auto config = fromValues<FlatElementwiseConfig>(values);
    auto signature = readElementwiseSignature(problem.signature);
    Plan plan = planWithoutBinder(problem, values, signature, config,
                                  /*sharedBytes=*/0, device);
    plan.binder = makeBinder([config, signature](const Arguments &arguments,
                                                 const LaunchContext &context,
                                                 LaunchSpec &spec) {
      ElementwiseProblem p = readElementwiseProblem(arguments.problem);
      long long blocks =
          config.blocks(signature, p.rows, p.cols, context.smCount);
      KernelStep &step = spec.addKernelOf([&] {
        FlatElementwiseParams params;
        params.operands = makeElementwiseParams(p, arguments);
        config.fillGeometry(params, signature);
        return params;
      });
      step.grid.x = static_cast<uint32_t>(blocks);
      step.block.x = static_cast<uint32_t>(config.threads());
    });
    return plan;
  }

  /// A vector of one element serves every problem.
  bool isGeneric() const override { return true; }

protected:
  std::optional<Rejection>
  checkConfig(const Problem &problem, const FlatElementwiseConfig &config,
              const DeviceModel &device) const override {
    ElementwiseProblem p = read(problem);
    if (p.quantizes()) // the greatest results are known too late
      return Rejection{PruneReason::InstructionShape};
    auto signature = readElementwiseSignature(problem.signature);
    if (auto rejection = checkThreads(config.threads(), device))
      return rejection;
    // This comes before any computation with the config.
    if (!config.isValid(signature))
      return invalidShape(config, signature);
    if (auto rejection = checkVector(p, signature, config))
      return rejection;
    if (auto rejection = checkBounds(config, device))
      return rejection;
    if (auto rejection = checkRegisters(signature, config, device))
      return rejection;
    return checkGrid(p, signature, config, device);
  }

public:
  template <Number N>
  MemoryPass<N> pass(const Problem &problem,
                     const FlatElementwiseConfig &config,
                     const DeviceModel &device) const {
    return flatStreamKernel<N>(read(problem),
                               readElementwiseSignature(problem.signature),
                               config, device);
  }

private:
  static ElementwiseProblem read(const Problem &problem) {
    return readElementwiseProblem(problem.values.array().data());
  }
};

/// The variations of one vector width.
struct Variations {
  llvm::ArrayRef<int> threads, items, hints;
  /// Whether also more resident blocks, and a resident grid, are tried.
  bool residency = false;
  int start = FlatElementwiseConfig::kAligned;
};

constexpr int kAllThreads[] = {256, 512, 128, 1024};
constexpr int kAllItems[] = {4, 2, 1, 8};
constexpr int kAllHints[] = {2, 0, 1};
constexpr int kNoHint[] = {0};

/// The config with as many blocks on an SM as leave each thread the registers
/// that it needs.
FlatElementwiseConfig withMostBlocks(FlatElementwiseConfig config,
                                     const ElementwiseSignature &signature,
                                     const DeviceModel &device) {
  int byRegisters = FlatElementwiseConfig::kRegistersPerSm /
                    (config.blockThreads * leastRegisters(config, signature));
  auto most = static_cast<int>(device.maxWarpsPerSm * kWarpThreads);
  int byThreads = std::min(most, FlatElementwiseConfig::kMostThreadsPerSm) /
                  config.blockThreads;
  config.residentBlocks = std::min(byRegisters, byThreads);
  return config;
}

/// All variations of one width. For the residency, grids with a block for each
/// chunk come first, then grids of as many blocks as fit, and of half as many.
void enumerateVector(int vector, const Variations &variations,
                     const ElementwiseSignature &signature,
                     const DeviceModel &device,
                     llvm::function_ref<void(FlatElementwiseConfig)> emit) {
  auto forEach = [&](llvm::ArrayRef<int> threads, llvm::ArrayRef<int> items,
                     auto &&body) {
    for (int itemCount : items)
      for (int threadCount : threads)
        for (int hint : variations.hints)
          body(FlatElementwiseConfig{.blockThreads = threadCount,
                                     .vector = vector,
                                     .items = itemCount,
                                     .hint = hint,
                                     .start = variations.start});
  };
  forEach(variations.threads, variations.items, emit);
  if (!variations.residency)
    return;
  llvm::ArrayRef<int> fewThreads = variations.threads.take_front(2);
  forEach(fewThreads, variations.items, [&](FlatElementwiseConfig config) {
    FlatElementwiseConfig denser = withMostBlocks(config, signature, device);
    if (denser.residentBlocks > config.minBlocks(signature))
      emit(denser);
  });
  forEach(fewThreads, variations.items.take_front(3),
          [&](FlatElementwiseConfig config) {
            int64_t fit = occupancy(device, {config.threads(),
                                             config.registers(signature), 0})
                              .blocksPerSm;
            for (int64_t blocks : {fit, fit / 2})
              if (blocks > 0) {
                config.blocksPerSm = static_cast<int>(blocks);
                emit(config);
              }
          });
}

void FlatElementwise::enumerate(const Problem &problem,
                                const DeviceModel &device,
                                llvm::function_ref<void(Values)> emit) const {
  ElementwiseProblem p = read(problem);
  if (p.quantizes())
    return;
  auto signature = readElementwiseSignature(problem.signature);
  int64_t widest = widestOf(p, signature, FlatElementwiseConfig::kAligned);
  // One access of either type; then one access of the narrower and two of the
  // wider type.
  int inBytes = bytesOf(p.dtype), outBytes = bytesOf(p.out);
  auto limited = [&](int64_t elements) {
    return static_cast<int>(std::min(elements, widest));
  };
  int whole = limited(kAccessBytes / std::max(inBytes, outBytes));
  int split = limited(std::min<int64_t>(
      kAccessBytes / std::min(inBytes, outBytes),
      FlatElementwiseConfig::kMaxVectorBytes / std::max(inBytes, outBytes)));
  auto add = [&](int vector, const Variations &variations) {
    enumerateVector(
        vector, variations, signature, device,
        [&](const FlatElementwiseConfig &config) { emit(valuesOf(config)); });
  };
  llvm::ArrayRef<int> threads(kAllThreads), items(kAllItems), hints(kAllHints);
  add(whole, {threads, items, hints, true});
  if (split != whole)
    add(split, {threads.take_front(2), items, hints, false});
  if (whole > 2)
    add(whole / 2, {threads.take_front(1), items, hints.take_front(2), false});
  // Whole accesses serve rows that begin anywhere.
  int access = static_cast<int>(kAccessBytes / std::max(inBytes, outBytes));
  constexpr int kLine = FlatElementwiseConfig::kLine;
  constexpr int kAny = FlatElementwiseConfig::kAny;
  bool isLine = signature.contiguous && signature.needsPosition() &&
                widestOf(p, signature, kLine) >= access;
  if (whole < access && isLine)
    add(access, {threads.take_front(3), items, hints, false, kLine});
  if (whole < access && access > 1)
    add(access, {threads.take_front(3), items, hints, false, kAny});
  // A vector of one element serves any problem of the same signature.
  if (whole > 1)
    add(1, {threads.take_front(1), items.take_front(1), kNoHint, false});
}

} // namespace

std::unique_ptr<Template> makeFlatElementwiseTemplate() {
  return std::make_unique<FlatElementwise>();
}

} // namespace kiln
