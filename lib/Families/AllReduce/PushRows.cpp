//===- PushRows.cpp - the template that pushes inputs to peers ------------===//
//
// A problem has one config, which follows from the length of its rows: threads
// and vectors that take a row in one pass. So all ranks of a group run the same
// kernel, whatever each of them measured, and get the same bits. The binder
// chooses between one shot and owners of rows by sizes alone, which all ranks
// have in common.
//
// Trials have no peers. There the rank is alone: its own input stands for the
// others', and nothing is exchanged.
//
//===----------------------------------------------------------------------===//
#include "Families/AllReduce/AllReduceFamily.h"
#include "Families/MemoryPass/MemoryPassTemplate.h"
#include "allreduce/PushRowsConfig.h"

#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <cassert>

namespace kiln {

namespace {

/// Measured with a prototype of this kernel on two H200 (NVLink 4, 450 GB/s
/// each way by the data sheet): the rate of stores to a peer in both directions
/// at once, and the time by which an exchange of 8 KiB is longer than the same
/// kernel without one (3.0 us beside 1.55).
constexpr double kLinkBytesPerNs = 360, kExchangeNs = 1500;

/// A rank that does not come for so long is an error.
constexpr uint64_t kLimitNs = 2000000000;

/// How a launch exchanges its rows.
struct Exchange {
  bool hasOwners = false;
  int64_t rounds = 1;
  int64_t rowsOfRound = 0;

  /// With \p halfBytes for each half of exchange memory, which has room for a
  /// row.
  Exchange(const AllReduceProblem &p, int64_t halfBytes);

  /// Rows owned by ranks save traffic and take one more exchange.
  static bool paysOwners(const AllReduceProblem &p) {
    const double saved = double(p.ranks - 1) * (1 - 2.0 / double(p.ranks)) *
                         double(p.rows) * double(p.pitch());
    return saved / kLinkBytesPerNs > kExchangeNs;
  }
};

class PushRows final : public MemoryPassTemplate<PushRows, PushRowsConfig> {
public:
  PushRows()
      : MemoryPassTemplate({"allreduce/PushRows.cuh", "AllReduceSignature",
                            "PushRowsConfig", "PushRowsParams", "pushRows"}) {}

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Values)> emit) const override;

  CandidateClass classOfConfig(const PushRowsConfig &c) const override {
    return {classKey({c.blockThreads, c.vectors}), 0};
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const override;

  /// Rows of any length are taken in passes.
  bool isGeneric() const override { return true; }

  template <Number N>
  MemoryPass<N> pass(const Problem &problem, const PushRowsConfig &config,
                     const DeviceModel &device) const;

protected:
  std::optional<Rejection>
  checkConfig(const Problem &problem, const PushRowsConfig &config,
              const DeviceModel &device) const override;

private:
  static AllReduceProblem read(const Problem &problem) {
    return readAllReduceProblem(problem.values.array().data());
  }
};

} // namespace

Exchange::Exchange(const AllReduceProblem &p, int64_t halfBytes) {
  const int64_t rowsOfHalf = halfBytes / p.pitch();
  // Some rows of the inboxes stay empty where ranks do not own equally many.
  const int64_t withOwners = (rowsOfHalf - p.ranks) / 2;
  hasOwners = paysOwners(p) && withOwners >= p.ranks;
  const int64_t most = hasOwners ? withOwners : rowsOfHalf / p.ranks;
  rounds = llvm::divideCeil(p.rows, std::max<int64_t>(most, 1));
  rowsOfRound = llvm::divideCeil(p.rows, std::max<int64_t>(rounds, 1));
}

//===----------------------------------------------------------------------===//
// Space and limits
//===----------------------------------------------------------------------===//

/// Threads for a vector each, and two vectors where that is not enough.
void PushRows::enumerate(const Problem &problem, const DeviceModel &,
                         llvm::function_ref<void(Values)> emit) const {
  constexpr int64_t kLeast = 32, kMost = 512;
  const int64_t vectors = read(problem).pitch() / ExchangeLayout::kVectorBytes;
  const auto wanted =
      static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(vectors)));
  PushRowsConfig config;
  config.blockThreads = static_cast<int>(std::clamp(wanted, kLeast, kMost));
  config.vectors = wanted > kMost ? PushRowsConfig::kMostVectors : 1;
  emit(valuesOf(config));
}

std::optional<Rejection>
PushRows::checkConfig(const Problem &problem, const PushRowsConfig &config,
                      const DeviceModel &device) const {
  if (auto rejection = checkThreads(config.threads(), device))
    return rejection;
  auto isPower = [](int value, int least, int most) {
    return value >= least && value <= most &&
           llvm::isPowerOf2_32(static_cast<uint32_t>(value));
  };
  if (!isPower(config.blockThreads, 32, 1024))
    return Rejection{PruneReason::InstructionShape, double(config.blockThreads),
                     0, "threads a block", "a power of two from 32 to 1024"};
  if (!isPower(config.vectors, 1, PushRowsConfig::kMostVectors))
    return Rejection{PruneReason::InstructionShape, double(config.vectors), 0,
                     "vectors a thread", "1 or 2"};
  assert(config.isValid(readAllReduceSignature(problem.signature)) &&
         "each limit of isValid has a message");
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Estimate
//===----------------------------------------------------------------------===//

/// Blocks of \p config that an SM has at once for certain.
static int64_t blocksPerSm(const PushRowsConfig &config,
                           const AllReduceSignature &signature,
                           const DeviceModel &device) {
  constexpr int64_t kWarp = 32;
  const int64_t byThreads = device.maxWarpsPerSm * kWarp / config.blockThreads;
  return std::clamp<int64_t>(config.minBlocks(signature), 1,
                             std::max<int64_t>(byThreads, 1));
}

template <Number N>
MemoryPass<N> PushRows::pass(const Problem &problem,
                             const PushRowsConfig &config,
                             const DeviceModel &device) const {
  const AllReduceProblem p = read(problem);
  const AllReduceSignature signature =
      readAllReduceSignature(problem.signature);
  const double bytes = double(p.rows) * double(p.rowBytes());
  const bool hasOwners = Exchange::paysOwners(p);
  const double peers = double(p.ranks - 1);
  MemoryPass<N> kernel;
  kernel.tasks = std::max<int64_t>(p.rows, 1);
  kernel.block = {config.threads(), config.registers(signature), 0};
  kernel.persistentPerSm = blocksPerSm(config, signature, device);
  kernel.pace = PassPace::Reduces;
  kernel.readBytes = bytes * (1 + p.residual);
  kernel.writeBytes = bytes * (1 + p.hasResidualOut());
  if (p.norm)
    kernel.sharedBytesPerTask = double(p.rowBytes());
  const int elements = PushRowsConfig::elements(signature);
  kernel.loads = {.vectors = double(config.vectors),
                  .operands = 1 + p.residual,
                  .elements = elements,
                  .elementBytes = bytesOf(p.dtype),
                  .registers = 4 * config.vectors * (1 + p.residual)};
  // Conversions and sums of what each rank sent, the norm and its weight; and
  // for each vector addresses, polls and stores.
  const double perElement = 1.5 * double(p.ranks) + 2 * p.residual + 4 * p.norm;
  constexpr double kPerVector = 40;
  kernel.simdOps = p.elements() * (perElement + kPerVector * peers / elements);
  const double sent = hasOwners ? 2 * peers / double(p.ranks) : peers;
  const int64_t slots =
      kernel.persistentPerSm * std::max<int64_t>(device.smCount, 1);
  const double waves = double(llvm::divideCeil(kernel.tasks, slots));
  kernel.serialNs =
      named(fitted<N>(kExchangeNs, "exchange over NVLink", "ns") *
                    given<N>(hasOwners ? 2 : 1, "exchanges") +
                given<N>(bytes * sent / waves, "sent of a wave", "B") /
                    fitted<N>(kLinkBytesPerNs, "NVLink", "B/ns"),
            "exchange with peers", "ns");
  return kernel;
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

namespace {

/// Binds one round: rows that exchange memory has room for.
class PushBinder final : public Binder {
public:
  PushBinder(const PushRowsConfig &config, int64_t perSm)
      : config(config), perSm(perSm) {}

  int64_t rounds(const Arguments &arguments,
                 int32_t /*smCount*/) const noexcept override {
    return isAlone(arguments)
               ? 1
               : exchangeOf(readAllReduceProblem(arguments.problem), arguments)
                     .rounds;
  }

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override {
    AllReduceProblem p = readAllReduceProblem(arguments.problem);
    PushRowsParams params;
    params.operands = makeAllReduceParams(p, arguments);
    params.isAlone = isAlone(arguments);
    if (!params.isAlone)
      takePart(p, arguments, context.round, params);
    KernelStep &step = spec.addKernel(params);
    const int64_t blocks =
        std::min<int64_t>(ExchangeLayout::kMostBlocks,
                          perSm * std::max<int32_t>(context.smCount, 1));
    step.grid.x = static_cast<uint32_t>(
        std::min(params.operands.rows, (long long)blocks));
    step.block.x = static_cast<uint32_t>(config.threads());
  }

private:
  using O = AllReduceOperand;

  static bool isAlone(const Arguments &arguments) {
    return arguments.operands[O::Exchange].address == 0;
  }
  static int64_t halfBytes(const Arguments &arguments) {
    return ExchangeLayout::halfBytes(
        arguments.operands[O::Exchange].leadingDimension);
  }
  static Exchange exchangeOf(const AllReduceProblem &p,
                             const Arguments &arguments) {
    return Exchange(p, halfBytes(arguments));
  }

  /// Turns \p params into those of round \p round.
  static void takePart(const AllReduceProblem &p, const Arguments &arguments,
                       int64_t round, PushRowsParams &params) {
    const Exchange exchange = exchangeOf(p, arguments);
    AllReduceParams &part = params.operands;
    const int64_t first = round * exchange.rowsOfRound;
    auto skip = [&](auto &matrix, int64_t ld) {
      if (matrix)
        matrix = reinterpret_cast<std::remove_reference_t<decltype(matrix)>>(
            reinterpret_cast<DeviceAddress>(matrix) +
            static_cast<DeviceAddress>(first * ld * bytesOf(p.dtype)));
    };
    skip(part.x, part.ldx);
    skip(part.y, part.ldy);
    skip(part.residual, part.ldResidual);
    skip(part.residualOut, part.ldResidualOut);
    part.rows = std::min(exchange.rowsOfRound, p.rows - first);
    const OperandArgument *memories = arguments.operands + O::Exchange;
    for (int64_t rank = 0; rank < p.ranks; ++rank)
      params.exchange[rank] = reinterpret_cast<char *>(memories[rank].address);
    params.rank = static_cast<int>(memories[0].batchStride);
    params.hasOwners = exchange.hasOwners;
    params.halfBytes = halfBytes(arguments);
    params.pitch = p.pitch();
    params.inboxBytes = params.pitch * ExchangeLayout::inboxRows(
                                           part.rows, static_cast<int>(p.ranks),
                                           exchange.hasOwners);
    params.limitNs = kLimitNs;
  }

  PushRowsConfig config;
  int64_t perSm;
};

} // namespace

Plan PushRows::plan(const Problem &problem, const Values &values,
                    const DeviceModel &device) const {
  const auto config = fromValues<PushRowsConfig>(values);
  const AllReduceSignature signature =
      readAllReduceSignature(problem.signature);
  Plan plan = planWithoutBinder(problem, values, signature, config,
                                /*sharedBytes=*/0, device);
  plan.binder = std::make_shared<PushBinder>(
      config, blocksPerSm(config, signature, device));
  plan.hasRounds = true;
  return plan;
}

std::unique_ptr<Template> makePushRowsTemplate() {
  return std::make_unique<PushRows>();
}

} // namespace kiln
