//===- CanonicalProblem.cpp -----------------------------------------------===//
#include "Call/CanonicalProblem.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

void normaliseScalars(const Schema &schema,
                      llvm::MutableArrayRef<int64_t> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Field &field = schema.fields()[i];
    if (field.role != FieldRole::Scalar || field.kind != FieldKind::Real)
      continue;
    if (field.alwaysUsed) {
      values[i] = field.defaultValue;
      continue;
    }
    bool optional = decodeReal(field.defaultValue) == 0;
    bool isUsed = !optional || decodeReal(values[i]) != 0;
    values[i] = encodeReal(isUsed ? 1.0 : 0.0);
  }
}

Values generalised(Values values) {
  for (auto [i, field] : llvm::enumerate(values.schema().fields()))
    if (field.isIncidental())
      values.set(static_cast<int>(i), field.unset());
  return values;
}

llvm::Expected<Problem> makeProblem(const KernelFamily &family, Values values) {
  auto problem = family.canonicalise(std::move(values));
  if (!problem)
    return problem.takeError();
  const Schema &schema = family.problemSchema();
  FieldValues array(problem->values.array());
  normaliseScalars(schema, array);
  problem->values = Values(schema, array);
  return problem;
}

} // namespace kiln
