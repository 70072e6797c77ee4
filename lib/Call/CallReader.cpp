//===- CallReader.cpp -----------------------------------------------------===//
#include "Call/CallReader.h"

#include "Call/CanonicalProblem.h"
#include "Call/Stated.h"
#include "Support/Error.h"

#include <cctype>

namespace kiln {

// Values of kiln.h are used in Values without conversion.
static_assert(sizeof(kiln_operand) == 56 && sizeof(kiln_scale) == 72 &&
                  sizeof(kiln_heads_operand) == 136,
              "embedded: it never changes");
static_assert(KILN_FP32 == int(DType::FP32) && KILN_FP16 == int(DType::FP16) &&
              KILN_BF16 == int(DType::BF16) &&
              KILN_INT32 == int(DType::INT32) &&
              KILN_INT64 == int(DType::INT64) &&
              KILN_E4M3 == int(DType::E4M3) && KILN_E5M2 == int(DType::E5M2) &&
              KILN_INT8 == int(DType::INT8));
static_assert(KILN_POINTWISE_NONE == int(PointwiseOp::None) &&
              KILN_POINTWISE_BIAS == int(PointwiseOp::Bias) &&
              KILN_POINTWISE_RESIDUAL == int(PointwiseOp::Residual) &&
              KILN_POINTWISE_RELU == int(PointwiseOp::Relu) &&
              KILN_POINTWISE_GELU_ERF == int(PointwiseOp::GeluErf) &&
              KILN_POINTWISE_GELU_TANH == int(PointwiseOp::GeluTanh) &&
              KILN_POINTWISE_SILU == int(PointwiseOp::Silu) &&
              KILN_POINTWISE_MUL == int(PointwiseOp::Mul) &&
              KILN_POINTWISE_SCALE == int(PointwiseOp::Scale) &&
              KILN_POINTWISE_ROW_BIAS == int(PointwiseOp::RowBias) &&
              KILN_POINTWISE_COLUMN_SCALE == int(PointwiseOp::ColumnScale) &&
              KILN_POINTWISE_ROW_SCALE == int(PointwiseOp::RowScale) &&
              KILN_POINTWISE_SWIGLU == int(PointwiseOp::SwiGlu) &&
              KILN_POINTWISE_SWIGLU_CLAMPED ==
                  int(PointwiseOp::SwiGluClamped) &&
              KILN_POINTWISE_SWIGLU_CLAMPED < kLinkCodes);
static_assert(KILN_MAX_POINTWISE == PointwiseChain::kMaxOps);

/// Returns \p text with keys of \p schema replaced by their names in the
/// struct.
static std::string renameFields(llvm::StringRef text, const Schema &schema,
                                const FieldNames &names) {
  auto isWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::string renamed;
  while (!text.empty()) {
    llvm::StringRef word = text.take_while(isWord);
    int field = schema.find(word);
    renamed += field < 0 || names[field].empty() ? word.str() : names[field];
    text = text.drop_front(word.size());
    llvm::StringRef between = text.take_until(isWord);
    renamed += between;
    text = text.drop_front(between.size());
  }
  return renamed;
}

llvm::Expected<Problem> readProblem(const KernelFamily &family,
                                    const void *args, CallUse use,
                                    FamilyCall &call) {
  const Schema &schema = family.problemSchema();
  FieldNames names;
  call.arguments = Arguments();
  call.arguments.problem = call.values;
  if (auto error = family.call()->explain(args, use, schema, call, names))
    return error;
  auto problem = makeProblem(family, Values(schema, call.fields()));
  if (problem)
    return problem;
  ErrorSummary refusal = summarize(problem.takeError());
  llvm::StringRef text = refusal.message;
  text.consume_front((schema.name() + ": ").str());
  refusal.message = renameFields(text, schema, names);
  return errorOf(refusal);
}

const KernelFamily *findFamily(const Registry &registry, kiln_family number) {
  for (const auto &family : registry.families())
    if (family->call() && family->call()->number == number)
      return family.get();
  return nullptr;
}

llvm::Expected<CallTable> CallTable::create(const Registry &registry) {
  CallTable table;
  std::vector<CallTarget> &targets = table.targets;
  for (const auto &family : registry.families()) {
    const CallReader *reader = family->call();
    if (!reader)
      continue;
    auto index = static_cast<size_t>(reader->number);
    targets.resize(std::max(targets.size(), index + 1));
    if (const KernelFamily *other = targets[index].family)
      return makeError(ErrorCode::InvalidArgument,
                       "families '{}' and '{}' both have the number {}",
                       other->name(), family->name(), reader->number);
    targets[index] = {family.get(), reader};
  }
  return table;
}

} // namespace kiln
