//===- SampleOperands.cpp - operands and their data -----------------------===//
//
// Usual logits are N(0, 9): at a temperature near 1 some thousand tokens of a
// vocabulary have a share of the mass. Outliers have tokens that are masked
// out, rows of nothing else, and tokens that have all the mass.
//
// A result is a token. Where rounding may decide between tokens, the reference
// gives the middle of their indices and half of their distance as the bound.
//
//===----------------------------------------------------------------------===//
#include "Families/ProblemFields.h"
#include "Families/Sample/SampleFamily.h"

#include <limits>

namespace kiln {

namespace {

/// Builds the table of one problem.
class SampleTableBuilder {
public:
  SampleTableBuilder(const SampleProblem &p, OperandTable &table)
      : p(p), table(table) {}

  OperandSpec &add(int index, llvm::StringRef name, OperandRole role,
                   DType type, bool present, int64_t cols = 1) {
    OperandSpec &spec = table.operands[index];
    spec.name = name;
    spec.role = role;
    spec.type = type;
    spec.present = present;
    spec.rows = p.rows;
    spec.cols = spec.leadingDimension = cols;
    // Only logits have the problem's alignment.
    spec.alignment = bytesOf(type);
    spec.misalignment = misalignmentOf(spec.alignment, type);
    // Results are what the reference says, within its bound.
    spec.tolerance = {0, 1, 0};
    return spec;
  }

  /// A positive fp32 value for each row: powers of two whose exponents have
  /// these means and deviations.
  OperandSpec &addFactor(int index, llvm::StringRef name, bool present,
                         double mean, double deviation, double outlierMean,
                         double outlierDeviation) {
    OperandSpec &spec = add(index, name, OperandRole::In, DType::FP32, present);
    spec.usual.isLogarithmic = spec.outliers.isLogarithmic = true;
    spec.usual.mean = mean;
    spec.usual.deviation = deviation;
    spec.outliers.mean = outlierMean;
    spec.outliers.deviation = outlierDeviation;
    return spec;
  }

  /// An integer for each row.
  OperandSpec &addInteger(int index, llvm::StringRef name, OperandRole role,
                          DType type, bool present, const IntegerInit &usual,
                          const IntegerInit &outliers) {
    OperandSpec &spec = add(index, name, role, type, present);
    spec.usual.integers = usual;
    spec.outliers.integers = outliers;
    return spec;
  }

private:
  const SampleProblem &p;
  OperandTable &table;
};

} // namespace

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

static IntegerInit valuesBetween(int64_t least, int64_t most) {
  return {.kind = IntegerData::Values, .least = least, .most = most};
}

static void addLogits(const SampleProblem &p, SampleTableBuilder &builder) {
  OperandSpec &logits = builder.add(SampleOperand::Logits, "logits",
                                    OperandRole::In, p.dtype, true, p.vocab);
  logits.leadingDimension = p.ld;
  logits.alignment = 0;
  logits.misalignment = misalignmentOf(p.align, p.dtype);
  logits.usual.deviation = logits.outliers.deviation = 3;
  logits.outliers.outlierPeriod = 10007;
  logits.outliers.outlier = 100;
  logits.outliers.minusInfinityPeriod = 5;
  logits.outliers.rowPeriod = 5;
  logits.outliers.rowValue = -kInfinity;
}

static void addRules(const SampleProblem &p, SampleTableBuilder &builder) {
  using Operand = SampleOperand;
  OperandSpec &temperature = builder.addFactor(
      Operand::Temperature, "temperature", p.temperature, -0.3, 0.3, 0, 2);
  // Greedy rows among others.
  temperature.outliers.rowPeriod = 4;
  temperature.outliers.rowValue = 0;
  constexpr int64_t kFew = 40, kMany = 60, kVeryMany = 2000;
  builder.addInteger(Operand::TopK, "top_k", OperandRole::In, DType::INT32,
                     p.topK, valuesBetween(kFew, kMany),
                     valuesBetween(-1, std::min(p.vocab + 1, kVeryMany)));
  builder.addFactor(Operand::TopP, "top_p", p.topP, -0.15, 0.05, -1, 1.5);
  builder.addFactor(Operand::MinP, "min_p", p.minP, -4, 1, -6, 4);
  const IntegerInit seeds =
      valuesBetween(std::numeric_limits<int64_t>::min() / 2, kMaxExtent);
  builder.addInteger(Operand::Seeds, "seeds", OperandRole::In, DType::INT64,
                     p.temperature, seeds, seeds);
  const OperandRole counter = p.advances ? OperandRole::InOut : OperandRole::In;
  constexpr int64_t kMostPosition = 131072;
  const IntegerInit positions = valuesBetween(0, kMostPosition);
  builder.addInteger(Operand::Positions, "positions", counter, DType::INT32,
                     p.hasPositions(), positions, positions);
  builder.addInteger(Operand::Lengths, "lengths", counter, DType::INT32,
                     p.lengths, positions, positions);
}

static void addPenalties(const SampleProblem &p, SampleTableBuilder &builder) {
  using Operand = SampleOperand;
  builder.addFactor(Operand::Repetition, "repetition", p.repetition, 0.2, 0.1,
                    1, 1);
  builder.addFactor(Operand::Frequency, "frequency", p.frequency, -1, 0.5, 1,
                    1);
  builder.addFactor(Operand::Presence, "presence", p.presence, -1, 0.5, 1, 1);
  const bool isThere = p.hasPenalties();
  OperandSpec &history =
      builder.add(Operand::History, "history", OperandRole::In, DType::INT32,
                  isThere, p.historyCount);
  history.rows = 1;
  // Tokens at both ends do not exist; outliers repeat few tokens often.
  constexpr int64_t kFewTokens = 40;
  history.usual.integers = valuesBetween(-1, p.vocab);
  history.outliers.integers =
      valuesBetween(0, std::min(p.vocab - 1, kFewTokens));
  // Rows follow each other, some with gaps, some overlap.
  const int64_t each = p.historyOfRow();
  const IntegerInit begins = {.kind = IntegerData::Offsets,
                              .least = 0,
                              .most = std::min(2 * each, kMaxExtent),
                              .total = p.historyCount - each};
  const IntegerInit ends = {.kind = IntegerData::Ends,
                            .least = 0,
                            .most = std::min(4 * each, kMaxExtent),
                            .total = p.historyCount};
  builder.addInteger(Operand::HistoryBegins, "history_begins", OperandRole::In,
                     DType::INT32, isThere, begins, begins);
  builder.addInteger(Operand::HistoryEnds, "history_ends", OperandRole::In,
                     DType::INT32, isThere, ends, ends);
  builder.addInteger(Operand::PromptLengths, "prompt_lengths", OperandRole::In,
                     DType::INT32, isThere, valuesBetween(0, each),
                     valuesBetween(0, each));
}

OperandTable sampleOperands(const SampleProblem &p) {
  using Operand = SampleOperand;
  OperandTable table;
  table.operands.resize(Operand::Count);
  SampleTableBuilder builder(p, table);
  addLogits(p, builder);
  addRules(p, builder);
  addPenalties(p, builder);
  OperandSpec &allowed =
      builder.add(Operand::Allowed, "allowed", OperandRole::In, DType::INT32,
                  p.allowed, p.maskWords());
  allowed.usual.integers = allowed.outliers.integers = valuesBetween(
      std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  builder.add(Operand::Tokens, "tokens", OperandRole::Out, p.tokenType(), true);
  builder.add(Operand::Logprobs, "logprobs", OperandRole::Out, DType::FP32,
              p.logprobs);
  const bool hasTop = p.topCount > 0;
  builder.add(Operand::TopTokens, "top_tokens", OperandRole::Out, p.tokenType(),
              hasTop, p.topCount);
  builder.add(Operand::TopLogprobs, "top_logprobs", OperandRole::Out,
              DType::FP32, hasTop, p.topCount);
  return table;
}

} // namespace kiln
