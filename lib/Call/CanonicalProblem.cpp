//===- CanonicalProblem.cpp -----------------------------------------------===//
#include "Call/CanonicalProblem.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>

namespace kiln {

void normaliseScalars(const RecordSchema &schema,
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

Record generalised(Record record) {
  for (auto [i, field] : llvm::enumerate(record.schema().fields()))
    if (field.isIncidental())
      record.set(static_cast<int>(i), field.unset());
  return record;
}

llvm::Expected<Problem> makeProblem(const KernelFamily &family, Record record) {
  auto problem = family.canonicalise(std::move(record));
  if (!problem)
    return problem.takeError();
  const RecordSchema &schema = family.problemSchema();
  FieldValues values(problem->record.values());
  normaliseScalars(schema, values);
  problem->record = Record(schema, values);
  return problem;
}

} // namespace kiln
