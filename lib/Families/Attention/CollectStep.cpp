//===- CollectStep.cpp ----------------------------------------------------===//
#include "Families/Attention/CollectStep.h"

#include "Families/Attention/AttentionCombine.h"
#include "Families/Attention/AttentionModel.h"
#include "Families/Attention/LaunchedAttention.h"
#include "Families/KernelUnit.h"
#include "Families/LaunchLimits.h"
#include "Model/MathUtil.h"
#include "Model/Rates.h"
#include "attention/CollectRowsConfig.h"

#include <algorithm>
#include <memory>

namespace kiln {

static constexpr CollectRowsConfig kConfig{};
static constexpr int64_t kAlign = int64_t(WorkspaceLayout::kAlignment);
/// The most bytes that the alignment of K, V, Q, O and of the scratch behind
/// them takes.
static constexpr int64_t kSlack = 5 * kAlign;
constexpr int kWideAlign = 16; // of rows that kernels read by the widest copies

//===----------------------------------------------------------------------===//
// Rounds
//===----------------------------------------------------------------------===//

CollectedProblem::CollectedProblem(const AttentionProblem &problem, int align,
                                   DType type, int64_t splits)
    : given(problem), align(align), type(type), splits(splits),
      unaligned(align < kWideAlign),
      sequences(problem.hasPackedKeys() ? 1 : problem.batch) {}

int64_t CollectedProblem::widthOf(int64_t elements) const {
  return unaligned ? pitchOf(elements) : elements;
}

int64_t CollectedProblem::pitchOf(int64_t elements) const {
  return roundUp(elements, int64_t(kWideAlign) / bytesOf(type));
}

/// Packed queries belong to a head: its sequences share them.
int64_t CollectedProblem::unitBytes() const {
  const int64_t keyRows = given.hasPackedKeys() ? given.totalKeys : given.keys;
  int64_t bytes = keyRows * bytesOf(type) *
                  (pitchOf(given.headDim) + pitchOf(given.valueDim));
  return given.hasPackedQueries() ? bytes : bytes + headBytes();
}

int64_t CollectedProblem::headBytes() const {
  int64_t queries = given.hasPackedQueries() ? given.totalQueries
                    : given.hasPackedKeys()  ? given.queries * given.batch
                                             : given.queries;
  const int64_t rows = given.group() * queries;
  int64_t bytes = 0;
  if (collectsQueries())
    bytes += rows * pitchOf(given.headDim) * bytesOf(type);
  if (unaligned)
    bytes += rows * pitchOf(given.valueDim) * bytesOf(type);
  if (splits > 1)
    bytes += partialBytes(rows * splits, widthOf(given.valueDim));
  return bytes;
}

CollectRounds CollectedProblem::roundsWithin(int64_t room) const {
  const int64_t unit = std::max<int64_t>(1, unitBytes());
  const int64_t ofHead = given.hasPackedQueries() ? headBytes() : 0;
  const int64_t heads = std::max<int64_t>(1, given.kvHeads);
  CollectRounds rounds;
  // A round has all heads of some sequences, or some heads of one.
  rounds.heads = heads;
  rounds.sequences =
      std::min((room / heads - ofHead) / unit, std::min(sequences, kMaxGridYZ));
  if (rounds.sequences < 1) {
    rounds.sequences = 1;
    rounds.heads = std::clamp<int64_t>(room / (unit + ofHead), 1, heads);
  }
  rounds.sequenceRounds =
      std::max<int64_t>(1, ceilDiv(sequences, rounds.sequences));
  rounds.headRounds = ceilDiv(heads, rounds.heads);
  // Rounds are equally large, or the last ones one smaller.
  rounds.sequences =
      std::max<int64_t>(1, ceilDiv(sequences, rounds.sequenceRounds));
  rounds.heads = ceilDiv(heads, rounds.headRounds);
  rounds.sequenceRounds =
      std::max<int64_t>(1, ceilDiv(sequences, rounds.sequences));
  rounds.headRounds = ceilDiv(heads, rounds.heads);
  return rounds;
}

int64_t CollectedProblem::roundBytes(const CollectRounds &rounds) const {
  const int64_t ofHead = given.hasPackedQueries() ? headBytes() : 0;
  return rounds.heads * (rounds.sequences * unitBytes() + ofHead) + kSlack;
}

AttentionProblem CollectedProblem::ofRound(const CollectRounds &rounds) const {
  AttentionProblem round = given;
  if (!given.hasPackedKeys())
    round.batch = std::min(given.batch, rounds.sequences);
  round.kvHeads = rounds.heads;
  round.heads = rounds.heads * given.group();
  round.dtype = round.kv = type;
  round.pages = AttentionPages::None;
  round.pageSize = round.pageCount = round.pageTableCols = 0;
  int64_t end;
  const std::array<Rows, 4> rows = rowsOf(rounds, end);
  round.k = rows[0].strides();
  round.v = rows[1].strides();
  if (collectsQueries())
    round.q = rows[2].strides();
  if (!unaligned)
    return round;
  round.o = rows[3].strides();
  round.headDim = widthOf(given.headDim);
  round.valueDim = widthOf(given.valueDim);
  round.align = kWideAlign;
  return round;
}

std::array<CollectedProblem::Rows, 4>
CollectedProblem::rowsOf(const CollectRounds &rounds, int64_t &end) const {
  end = 0;
  auto place = [&](int64_t elements, int64_t rows, int64_t heads,
                   int64_t batch) {
    Rows placed{end,   elements, widthOf(elements), pitchOf(elements), rows,
                heads, batch};
    end += roundUp(batch * placed.strides().batch * bytesOf(type), kAlign);
    return placed;
  };
  const bool packsKeys = given.hasPackedKeys();
  const int64_t keyRows = packsKeys ? given.totalKeys : given.keys;
  const int64_t batch = packsKeys ? 1 : rounds.sequences;
  const int64_t queryHeads = rounds.heads * given.group();
  const int64_t queryBatch = given.hasPackedQueries() ? 1
                             : packsKeys              ? given.batch
                                                      : rounds.sequences;
  std::array<Rows, 4> rows;
  rows[0] = place(given.headDim, keyRows, rounds.heads, batch);
  rows[1] = place(given.valueDim, keyRows, rounds.heads, batch);
  if (collectsQueries())
    rows[2] = place(given.headDim, given.queryRows(), queryHeads, queryBatch);
  if (unaligned)
    rows[3] = place(given.valueDim, given.queryRows(), queryHeads, queryBatch);
  return rows;
}

//===----------------------------------------------------------------------===//
// Estimate
//===----------------------------------------------------------------------===//

template <Number N>
N CollectedProblem::collectNs(const CollectRounds &rounds,
                              const DeviceModel &device) const {
  // The time from a step's start to its first store, and after its last one.
  constexpr double kStepNs = 2000;
  const double sequencesOf = double(given.batch);
  const double queries = double(expectedQueries(given));
  double seen = double(expectedKeys(given));
  if (given.mask == AttentionMask::Window)
    seen = std::min(seen, double(given.left) + queries + 2 * kConfig.kMargin);
  double moved = sequencesOf * double(given.kvHeads) * seen *
                 double(given.headDim + given.valueDim);
  const double queryRows = sequencesOf * double(given.heads) * queries;
  if (collectsQueries())
    moved += queryRows * double(given.headDim);
  if (unaligned)
    moved += queryRows * double(given.valueDim);
  const auto bytes = [](int64_t count, llvm::StringLiteral name) {
    return kiln::given<N>(double(count), name, "B");
  };
  const N elements = kiln::given<N>(moved, "elements");
  // A narrow access takes an address, a load, a store and conversions (counted
  // in the kernel).
  constexpr double kInstructions = 25, kOpsOfLane = 2;
  const N lanes =
      named(usedRate<N>(device, &DeviceModel::simdFp32FlopsPerClock) /
                N(kOpsOfLane) * deviceValue<N>(device, &DeviceModel::smCount) *
                deviceValue<N>(device, &DeviceModel::sustainedMemoryClockMHz) /
                N(1000),
            "lanes of all SMs", "op/ns");
  N accesses = elements * bytes(bytesOf(given.dtype), "of an element") /
               bytes(align, "of an access");
  if (unaligned)
    accesses = N(2) * accesses; // to the kernel and back
  const N issue = named(
      accesses * kiln::given<N>(kInstructions, "instructions of an access") /
          lanes,
      "accesses of collected rows", "ns");
  // Rows that stay in L2 are written back after the kernel has read them.
  const double count = double(rounds.count());
  const bool staysInL2 =
      moved * bytesOf(type) / count <= double(device.l2Bytes) / 2;
  const N copies = named(
      elements * bytes(bytesOf(given.kv), "read") /
              deviceValue<N>(device, &DeviceModel::dramGBs) +
          elements * bytes(bytesOf(type), "written") /
              deviceValue<N>(device, staysInL2 ? &DeviceModel::l2GBs
                                               : &DeviceModel::dramWriteGBs),
      "bytes of collected rows", "ns");
  return named(kiln::given<N>(count * (unaligned ? 2 : 1), "steps") *
                       (fitted<N>(kStepNs, "start and end", "ns") +
                        deviceValue<N>(device, &DeviceModel::launchNs)) +
                   largest({copies, issue}),
               "collect", "ns");
}

template <Number N>
Prediction<N> withCollect(const CollectedProblem &problem,
                          const CollectRounds &rounds,
                          const DeviceModel &device, Prediction<N> round) {
  N &total = round.totalNs;
  if (rounds.count() > 1)
    total = given<N>(double(rounds.count()), "rounds") *
            named(total, "a round", "ns");
  total += problem.collectNs<N>(rounds, device);
  return round;
}
template Estimate withCollect(const CollectedProblem &, const CollectRounds &,
                              const DeviceModel &, Estimate);
template Prediction<Figure> withCollect(const CollectedProblem &,
                                        const CollectRounds &,
                                        const DeviceModel &,
                                        Prediction<Figure>);

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

WorkspaceLayout withCollected(const CollectedProblem &problem,
                              const CollectRounds &rounds,
                              WorkspaceLayout layout) {
  layout.scratchBytes = static_cast<uint64_t>(problem.roundBytes(rounds)) +
                        (problem.countsPartials() ? 0 : layout.scratchBytes);
  return layout;
}

/// The part of the signature that the step depends on.
static AttentionSignature signatureOfStep(const AttentionSignature &whole,
                                          DType type) {
  AttentionSignature signature;
  signature.q = type;
  signature.kv = whole.kv;
  signature.out = whole.q;
  signature.queryLengths = whole.queryLengths;
  signature.keyLengths = whole.keyLengths;
  signature.pages = whole.pages;
  if (whole.mask == AttentionMask::Window)
    signature.mask = whole.mask;
  signature.align = whole.align;
  return signature;
}

/// The signature of the step behind the kernel, for unaligned rows of O.
static AttentionSignature deliveringSignature(const AttentionSignature &whole) {
  AttentionSignature signature;
  signature.q = signature.kv = signature.out = whole.out;
  signature.queryLengths = whole.queryLengths;
  signature.align = std::max(whole.align, bytesOf(whole.out));
  return signature;
}

static TranslationUnit collectUnit(llvm::StringRef name,
                                   const AttentionSignature &signature,
                                   const DeviceModel &device) {
  return makeKernelUnit({"attention/CollectRows.cuh", "AttentionSignature",
                         "CollectRowsConfig", "CollectRowsParams",
                         "collectRows"},
                        {.name = stepName(attentionProblemSchema(), name),
                         .signature = initializerText(signature),
                         .config = "{}",
                         .threads = kConfig.threads(),
                         .sharedBytes = 0},
                        device);
}

namespace {

/// A round of a launch in the form of arguments of its own.
struct Round {
  int64_t sequence = 0, sequences = 0; ///< the first, and how many
  int64_t head = 0, heads = 0;         ///< of K
};

class CollectBinder final : public Binder {
public:
  CollectBinder(std::shared_ptr<const Binder> kernel,
                const AttentionSignature &signature, DType type, int64_t splits,
                int64_t roomBytes, int function, bool startsEarly)
      : kernel(std::move(kernel)), whole(signature), type(type), splits(splits),
        roomBytes(roomBytes), function(function), startsEarly(startsEarly),
        scaleByDefault(defaultScale(signature.headDim)) {}

  int64_t rounds(const Arguments &arguments,
                 int32_t /*smCount*/) const noexcept override {
    const AttentionProblem problem = readLaunchedAttention(arguments.problem);
    return roundsOf(collectedOf(problem)).count();
  }

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override;

private:
  using Rows = CollectedProblem::Rows;

  CollectedProblem collectedOf(const AttentionProblem &problem) const {
    return CollectedProblem(problem, whole.align, type, splits);
  }
  CollectRounds roundsOf(const CollectedProblem &problem) const {
    return problem.roundsWithin(roomBytes - kSlack);
  }
  void addCollect(const AttentionProblem &problem, const Arguments &part,
                  llvm::ArrayRef<Rows> rows, const LaunchContext &context,
                  LaunchSpec &spec) const;
  void addDeliver(const AttentionProblem &problem, const Arguments &part,
                  const Rows &rows, const LaunchContext &context,
                  LaunchSpec &spec) const;

  std::shared_ptr<const Binder> kernel;
  AttentionSignature whole; ///< of the problem
  DType type;
  int64_t splits;
  int64_t roomBytes; ///< of a round
  int function;      ///< that collects; the one that delivers is behind it
  bool startsEarly;
  double scaleByDefault;
};

} // namespace

static Round roundAt(const CollectRounds &rounds,
                     const AttentionProblem &problem, int64_t number) {
  Round round;
  round.sequence = number / rounds.headRounds * rounds.sequences;
  round.head = number % rounds.headRounds * rounds.heads;
  round.sequences =
      problem.hasPackedKeys()
          ? problem.batch
          : std::min(rounds.sequences, problem.batch - round.sequence);
  round.heads = std::min(rounds.heads, problem.kvHeads - round.head);
  return round;
}

/// Limits \p values, the values of \p problem, to the round.
static void keepRound(const AttentionProblem &problem, const Round &round,
                      int64_t *values) {
  using F = AttentionField;
  values[F::Batch] = round.sequences;
  values[F::KvHeads] = round.heads;
  values[F::Heads] = round.heads * problem.group();
  if (problem.hasPackedQueries())
    values[F::TotalQ] = problem.totalQueries;
  if (problem.hasPackedKeys())
    values[F::TotalK] = problem.totalKeys;
  if (problem.isPaged()) {
    values[F::PoolPages] = problem.pageCount;
    values[F::TableCols] = problem.pageTableCols;
  }
}

/// Moves the operands of \p problem to the start of the round.
static void moveToRound(const AttentionProblem &problem, const Round &round,
                        OperandArgument *operands) {
  using O = AttentionOperand;
  const int64_t head = round.head * problem.group();
  auto move = [&](int index, int64_t bytes) {
    if (operands[index].address)
      operands[index].address += static_cast<DeviceAddress>(bytes);
  };
  auto moveRows = [&](int index, int64_t heads, bool isBatched, DType element) {
    const OperandArgument &operand = operands[index];
    move(index, (heads * operand.planeStride +
                 (isBatched ? round.sequence * operand.batchStride : 0)) *
                    bytesOf(element));
  };
  const bool packs = problem.hasPackedQueries();
  moveRows(O::Q, head, !packs, problem.dtype);
  moveRows(O::O, head, !packs, problem.out);
  const bool hasSequences = !problem.isPaged() && !problem.hasPackedKeys();
  moveRows(O::K, round.head, hasSequences, problem.kv);
  moveRows(O::V, round.head, hasSequences, problem.kv);
  constexpr int64_t kWord = 4; // of an int, and of fp32
  const int64_t sequenceRows = packs ? 0 : round.sequence * problem.heads;
  move(O::Lse, (sequenceRows + head) * problem.queryRows() * kWord);
  for (int index :
       {O::QueryOffsets, O::KeyOffsets, O::KeyLengths, O::PageOffsets})
    move(index, round.sequence * kWord);
  if (problem.pages == AttentionPages::Table)
    move(O::PageTable, round.sequence * problem.pageTableCols * kWord);
  for (int index : {O::Sinks, O::Alibi})
    move(index, head * kWord);
  if (problem.scales == AttentionProblem::Scales::Head)
    for (int index : {O::QScale, O::KScale, O::VScale})
      move(index, round.head * kWord);
}

void CollectBinder::bind(const Arguments &arguments,
                         const LaunchContext &context,
                         LaunchSpec &spec) const noexcept {
  using F = AttentionField;
  using O = AttentionOperand;
  const AttentionProblem problem = readLaunchedAttention(arguments.problem);
  const CollectRounds rounds = roundsOf(collectedOf(problem));
  const Round round = roundAt(rounds, problem, context.round);
  int64_t values[F::Count];
  std::copy_n(arguments.problem, F::Count, values);
  keepRound(problem, round, values);
  Arguments part = arguments;
  part.problem = values;
  part.constants = 0; // the kernel reads what the step writes
  moveToRound(problem, round, part.operands);
  const AttentionProblem ofRound = readLaunchedAttention(values);
  const CollectedProblem collected = collectedOf(ofRound);
  int64_t end;
  const std::array<Rows, 4> rows =
      collected.rowsOf({round.sequences, round.heads, 1, 1}, end);
  addCollect(ofRound, part, llvm::ArrayRef(rows).take_front(3), context, spec);
  spec.steps[spec.stepCount - 1].kernel.dependentLaunch =
      startsEarly && context.round > 0;

  Arguments inner = part;
  values[F::DType] = values[F::Kv] = static_cast<int64_t>(type);
  values[F::Out] = static_cast<int64_t>(problem.out);
  values[F::Pages] = values[F::Page] = 0;
  values[F::D] = rows[0].width;
  values[F::Dv] = rows[1].width;
  inner.scalars[AttentionScalar::Scale] =
      resolveScale(arguments.scalars[AttentionScalar::Scale], scaleByDefault);
  constexpr int kOperands[] = {O::K, O::V, O::Q, O::O};
  for (auto [i, placed] : llvm::enumerate(rows)) {
    if (placed.sequences == 0)
      continue;
    const HeadStrides strides = placed.strides();
    inner.operands[kOperands[i]] = {
        context.scratch + static_cast<DeviceAddress>(placed.offset),
        strides.token, strides.batch, strides.head};
  }
  LaunchContext behind = context;
  behind.round = 0;
  behind.scratch += static_cast<DeviceAddress>(end);
  const uint32_t next = spec.stepCount;
  kernel->bind(inner, behind, spec);
  if (spec.steps[next].kind == LaunchStep::Kind::Kernel)
    spec.steps[next].kernel.dependentLaunch = startsEarly;
  if (collected.isUnaligned())
    addDeliver(ofRound, part, rows[3], context, spec);
}

/// Fills in one operand of the step; returns the blocks of its tokens.
static int64_t placeRows(const CollectedProblem::Rows &placed, int64_t width,
                         int64_t vectorElements, int64_t smCount,
                         CollectedRows &target) {
  target.elements = static_cast<int>(placed.elements);
  target.width = static_cast<int>(width);
  target.tokens = static_cast<int>(placed.rows);
  target.heads = static_cast<int>(placed.heads);
  const int64_t vectors =
      std::max<int64_t>(1, placed.heads * width / vectorElements);
  target.blockTokens =
      static_cast<int>(std::max<int64_t>(1, kConfig.blockVectors() / vectors));
  return ceilDiv(placed.rows, target.blockTokens);
}

void CollectBinder::addCollect(const AttentionProblem &problem,
                               const Arguments &part, llvm::ArrayRef<Rows> rows,
                               const LaunchContext &context,
                               LaunchSpec &spec) const {
  CollectRowsParams params;
  params.attention = makeAttentionParams(problem, part, scaleByDefault);
  const AttentionSignature ofStep = signatureOfStep(whole, type);
  int64_t blocks = 1, sequences = 1;
  uint32_t operands = 0;
  for (auto [i, placed] : llvm::enumerate(rows)) {
    if (placed.sequences == 0)
      continue;
    CollectedRows &target = params.rows[i];
    target.target = reinterpret_cast<void *>(
        context.scratch + static_cast<DeviceAddress>(placed.offset));
    target.strides = placed.strides();
    const int64_t vector =
        i == 2 ? kConfig.queryBytes(ofStep) / bytesOf(ofStep.out)
               : kConfig.keyBytes(ofStep) / bytesOf(ofStep.kv);
    blocks = std::max(blocks, placeRows(placed, placed.width, vector,
                                        context.smCount, target));
    sequences = std::max(sequences, placed.sequences);
    ++operands;
  }
  KernelStep &step = spec.addKernel(params);
  step.function = static_cast<uint32_t>(function);
  step.grid = {static_cast<uint32_t>(blocks), static_cast<uint32_t>(sequences),
               operands};
  step.block.x = static_cast<uint32_t>(kConfig.threads());
}

/// O has the role of Q in collectRows: rows of queries.
void CollectBinder::addDeliver(const AttentionProblem &problem,
                               const Arguments &part, const Rows &rows,
                               const LaunchContext &context,
                               LaunchSpec &spec) const {
  CollectRowsParams params;
  params.attention = makeAttentionParams(problem, part, scaleByDefault);
  params.first = 2;
  params.attention.q = reinterpret_cast<const void *>(
      context.scratch + static_cast<DeviceAddress>(rows.offset));
  params.attention.qStrides = rows.strides();
  CollectedRows &target = params.rows[2];
  target.target = params.attention.o;
  target.strides = params.attention.oStrides;
  const AttentionSignature ofStep = deliveringSignature(whole);
  const int64_t blocks = placeRows(
      rows, rows.elements, kConfig.queryBytes(ofStep) / bytesOf(ofStep.out),
      context.smCount, target);
  KernelStep &step = spec.addKernel(params);
  step.function = static_cast<uint32_t>(function + 1);
  step.grid = {static_cast<uint32_t>(std::max<int64_t>(1, blocks)),
               static_cast<uint32_t>(rows.sequences), 1};
  step.block.x = static_cast<uint32_t>(kConfig.threads());
  step.dependentLaunch = startsEarly;
}

void prependCollect(const AttentionProblem &problem, DType type, int64_t splits,
                    const CollectRounds &rounds, const DeviceModel &device,
                    Plan &plan) {
  const AttentionSignature signature = signatureOf(problem);
  const CollectedProblem collected(problem, signature.align, type, splits);
  const int64_t room = collected.roundBytes(rounds);
  plan.workspace = withCollected(collected, rounds, plan.workspace);
  plan.binder = std::make_shared<CollectBinder>(
      std::move(plan.binder), signature, type, splits, room,
      static_cast<int>(plan.kernels.size()), hasDependentLaunch(device));
  auto add = [&](llvm::StringRef name, const AttentionSignature &ofStep) {
    plan.kernels.push_back(collectUnit(name, ofStep, device));
    plan.sharedBytes.push_back(0);
  };
  add("collect", signatureOfStep(signature, type));
  if (collected.isUnaligned())
    add("deliver", deliveringSignature(signature));
  plan.hasRounds = true;
}

} // namespace kiln
