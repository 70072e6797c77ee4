#include "Families/Conformance/AlignmentCheck.h"

#include "Families/FamilyTesting.h"
#include "Families/ProblemFields.h"
#include "Kernel/Space.h"
#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

#include <optional>

namespace kiln::conformance {

/// The canonical problem of \p record, unless it is refused or has no work.
static std::optional<Problem> workOf(const KernelFamily &family,
                                     Values values) {
  auto problem = family.canonicalise(std::move(values));
  if (!problem) {
    llvm::consumeError(problem.takeError());
    return std::nullopt;
  }
  if (family.isEmpty(*problem))
    return std::nullopt;
  return std::move(*problem);
}

/// \p problem with the least alignment that its family accepts, and that
/// alignment.
static std::optional<Problem> leastAligned(const KernelFamily &family,
                                           const Problem &problem,
                                           int64_t &bytes) {
  const int align = problem.values.schema().find(FieldRole::Alignment);
  for (bytes = 1; align >= 0 && bytes < 16; bytes *= 2) {
    Values values = problem.values;
    values.set(align, bytes);
    if (auto least = workOf(family, std::move(values)))
      return least;
  }
  return std::nullopt;
}

/// Whether \p field is a distance between rows, or between matrices.
static bool isDistance(const Field &field) {
  return field.role == FieldRole::LeadingDimension ||
         field.role == FieldRole::Stride;
}

/// \p problem with extents that 16 bytes divide, packed and well aligned.
static std::optional<Problem> packedWork(const KernelFamily &family,
                                         const Problem &problem) {
  constexpr int64_t kExtent = 64;
  Values values = problem.values;
  for (auto [i, field] : llvm::enumerate(values.schema().fields())) {
    const auto index = static_cast<int>(i);
    // An optional extent at its default may be unused here.
    const bool isGiven = field.required || values[index] != field.defaultValue;
    if (field.role == FieldRole::DynamicExtent ||
        (field.role == FieldRole::Extent && isGiven))
      values.set(index, kExtent);
    else if (isDistance(field) || field.role == FieldRole::Alignment ||
             field.role == FieldRole::Capacity || field.role == FieldRole::Hint)
      values.set(index, field.defaultValue);
  }
  return workOf(family, std::move(values));
}

/// Whether some kernel of \p packed is not given \p other: signatures differ,
/// or a config is pruned.
static bool isToldApart(const KernelFamily &family, const Problem &packed,
                        const Problem &other) {
  if (!(other.signature == packed.signature))
    return true;
  const Space space =
      llvm::cantFail(exploreSpace(family, packed, testing::h200()));
  return llvm::any_of(space.ranked, [&](const Candidate &candidate) {
    return candidate.tmpl->prune(other, candidate.config, testing::h200())
        .has_value();
  });
}

/// Whether the operands whose layout differs between \p odd and \p packed are
/// those without a promise of alignment.
static bool isOfSingleElements(const KernelFamily &family,
                               const Problem &packed, const Problem &odd) {
  const OperandTable before = family.operands(packed);
  const OperandTable after = family.operands(odd);
  for (auto [i, operand] : llvm::enumerate(before.operands))
    if (operand.bytes() != after.operands[i].bytes() && operand.alignment == 0)
      return false;
  return true;
}

std::string faultOfLeadingDimensions(const KernelFamily &family,
                                     const Problem &problem,
                                     std::set<std::string> &tested) {
  // Beyond rows of all planes, and beyond all rows of all planes.
  constexpr int64_t kOddRow = (1 << 16) + 1, kOddMatrix = (1 << 28) + 1;
  const std::optional<Problem> packed = packedWork(family, problem);
  if (!packed)
    return "";
  // Kernels that access single elements take any alignment.
  int64_t bytes = 0;
  const std::optional<Problem> least = leastAligned(family, *packed, bytes);
  const bool hasVectors = least && isToldApart(family, *packed, *least);
  for (auto [i, field] : llvm::enumerate(packed->values.schema().fields())) {
    if (!isDistance(field))
      continue;
    Values values = packed->values;
    values.set(static_cast<int>(i),
               field.role == FieldRole::Stride ? kOddMatrix : kOddRow);
    const std::optional<Problem> odd = workOf(family, std::move(values));
    if (!odd || odd->values == packed->values)
      continue; // refused, or the field is never read
    tested.insert(field.key.str());
    if (hasVectors && !isOfSingleElements(family, *packed, *odd) &&
        !isToldApart(family, *packed, *odd))
      return fmt::format("{}: has the signature and the configs of packed rows",
                         odd->text());
  }
  return "";
}

std::string faultOfMisalignment(const KernelFamily &family,
                                const Problem &problem) {
  int64_t bytes = 0;
  const std::optional<Problem> least = leastAligned(family, problem, bytes);
  if (!least)
    return "";
  auto isTried = [&](const OperandSpec &spec) {
    const int64_t most = misalignmentOf(bytes, spec.type);
    return spec.present && most != 0 && spec.misalignment == most;
  };
  return llvm::any_of(family.operands(*least).operands, isTried)
             ? ""
             : fmt::format("{}: no operand is misaligned", least->text());
}

} // namespace kiln::conformance
