//===- GemmProblem.cpp ----------------------------------------------------===//
#include "Families/Gemm/GemmProblem.h"

#include <cassert>
#include <vector>

namespace kiln {

static std::vector<Field> gemmFields() {
  std::vector<Field> fields(GemmField::Count);
  GemmShape::addFields(fields);
  GemmGroups::addFields(fields);
  GemmEpilogue::addFields(fields);
  PackedB::addFields(fields);
  GemmMatrices::addFields(fields);
  GemmScales::addFields(fields);
  QuantizedD::addFields(fields);
  for ([[maybe_unused]] const Field &field : fields)
    assert(!field.key.empty() && "a field belongs to no part");
  return fields;
}

const Schema &gemmProblemSchema() {
  static const Schema &schema =
      *new Schema("gemm", TextStyle::Spaced, gemmFields());
  return schema;
}

// Defaults of leading dimensions follow from the parts before them.
GemmProblem readGemmProblem(const int64_t *values) {
  GemmProblem p;
  GemmShape::read(values, p);
  GemmGroups::read(values, p);
  GemmEpilogue::read(values, p);
  PackedB::read(values, p);
  GemmMatrices::read(values, p);
  GemmScales::read(values, p);
  QuantizedD::read(values, p);
  return p;
}

} // namespace kiln
