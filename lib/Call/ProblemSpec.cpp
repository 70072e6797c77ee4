//===- ProblemSpec.cpp - a kiln_problem, read and checked -----------------===//
#include "Call/ProblemSpec.h"

#include "Call/CallReader.h"
#include "Call/CanonicalProblem.h"
#include "Call/ProblemRange.h"
#include "Call/StructAccess.h"

#include <algorithm>

namespace kiln {

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// The problem's text with the scalars that were given by value.
static std::string textWithScalars(const Problem &problem,
                                   const Arguments &given) {
  Values values = problem.values;
  llvm::ArrayRef<Field> fields = values.schema().fields();
  int scalar = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].role != FieldRole::Scalar)
      continue;
    if (!given.scalarAddresses[scalar])
      values.set(static_cast<int>(i), encodeReal(given.scalars[scalar]));
    ++scalar;
  }
  return values.text();
}

/// Keeps \p problem in \p spec, canonical and as it was described by \p given.
static void keepProblem(const Values &given, Problem problem,
                        ProblemSpec &spec) {
  spec.problem = std::move(problem);
  spec.described = spec.problem.values;
  // A leading dimension that equals the length of its row is 0 in the canonical
  // problem; at another extent that would not be the requested one.
  llvm::ArrayRef<Field> fields = given.schema().fields();
  for (int i = 0; i < static_cast<int>(fields.size()); ++i)
    if (fields[i].followsExtents() &&
        spec.described[i] == fields[i].defaultValue)
      spec.described.set(i, given[i]);
}

/// Last value of a range over the batch; 0 if there is none.
static int64_t largestBatchOf(const Schema &schema,
                              const kiln_problem &problem) {
  const int batch = schema.find(FieldRole::Batch);
  int64_t largest = 0;
  for (uint32_t i = 0; i < problem.range_count; ++i) {
    const kiln_range &range = kiln::at(problem.ranges, i);
    if (batch >= 0 && range.name && schema.find(range.name) == batch)
      largest = std::max(largest, range.last);
  }
  return largest;
}

static llvm::Error readStruct(const Registry &registry,
                              const kiln_problem &problem, ProblemSpec &spec) {
  spec.family = findFamily(registry, problem.family);
  if (!spec.family)
    return makeError(ErrorCode::Unsupported,
                     "problem: family {} is not available", problem.family);
  if (!problem.args || problem.text)
    return makeError(ErrorCode::InvalidArgument,
                     "problem: family {} takes args and no text",
                     spec.family->name());
  CallUse use(CallAddresses::Ignored,
              largestBatchOf(spec.family->problemSchema(), problem));
  FamilyCall call;
  auto read = readProblem(*spec.family, problem.args, use, call);
  if (!read)
    return read.takeError();
  keepProblem(Values(spec.family->problemSchema(), call.fields()),
              std::move(*read), spec);
  spec.text = textWithScalars(spec.problem, call.arguments);
  spec.defaults = call.arguments;
  spec.wantsFrozen = call.wantsFrozen;
  spec.valuesHaveStrides =
      spec.family->problemSchema().find(FieldRole::Stride) >= 0;
  return llvm::Error::success();
}

static llvm::Error readText(const Registry &registry, const char *text,
                            ProblemSpec &spec) {
  auto named = registry.parseProblem(text);
  if (!named)
    return named.takeError();
  spec.family = named->family;
  spec.defaults = named->family->defaultArguments(named->problem);
  spec.text = named->problem.text();
  spec.valuesHaveStrides = true;
  auto given = Values::parse(spec.family->problemSchema(), text);
  if (!given)
    return given.takeError();
  auto problem = makeProblem(*spec.family, *given);
  if (!problem)
    return problem.takeError();
  keepProblem(*given, std::move(*problem), spec);
  return llvm::Error::success();
}

/// "batch, sq, sk": the fields that ranges may vary.
static std::string varyingOf(const Schema &schema) {
  std::string names;
  for (const Field &field : schema.fields())
    if (field.mayVary())
      names += (names.empty() ? "" : ", ") + field.key.str();
  return names.empty() ? "nothing" : names;
}

static llvm::Error readRange(const kiln_range &from, ProblemSpec &spec) {
  if (from.flags)
    return makeError(ErrorCode::Unsupported, "range: flags {:#x}", from.flags);
  if (!from.name)
    return makeError(ErrorCode::InvalidArgument, "range: name is null");
  const Schema &schema = spec.family->problemSchema();
  ExtentRange range;
  range.field = schema.find(from.name);
  if (range.field < 0 || !schema.fields()[range.field].mayVary())
    return makeError(ErrorCode::InvalidArgument,
                     "range: {} has no dynamic extent \"{}\": ranges are of {}",
                     spec.family->name(), from.name, varyingOf(schema));
  for (const ExtentRange &other : spec.ranges)
    if (other.field == range.field)
      return makeError(ErrorCode::InvalidArgument,
                       "range: \"{}\" is given twice", from.name);
  range.first = from.first;
  range.last = from.last;
  range.hint = from.hint;
  bool hintFits = range.hint == 0 ||
                  (range.first <= range.hint && range.hint <= range.last);
  if (range.first < 0 || range.last < range.first || !hintFits)
    return makeError(ErrorCode::InvalidArgument,
                     "range \"{}\": {} to {} with hint {}", from.name,
                     range.first, range.last, range.hint);
  spec.ranges.push_back(range);
  if (const int hint = schema.hintOf(range.field); hint >= 0 && range.hint)
    spec.described.set(hint, range.hint);
  return llvm::Error::success();
}

/// Whether the leading dimensions or strides of \p spec differ between two of
/// its problems.
static bool arePackedApart(const ProblemSpec &spec, const Problem &a,
                           const Problem &b) {
  Arguments left = spec.family->defaultArguments(a);
  Arguments right = spec.family->defaultArguments(b);
  for (int i = 0; i < Arguments::kMaxOperands; ++i) {
    const OperandArgument &l = left.operands[i], &r = right.operands[i];
    if (l.leadingDimension != r.leadingDimension ||
        l.planeStride != r.planeStride ||
        (spec.valuesHaveStrides && l.batchStride != r.batchStride))
      return true;
  }
  return false;
}

static llvm::Error readDescription(const Registry &registry,
                                   const kiln_problem &problem,
                                   ProblemSpec &spec) {
  if (problem.family == KILN_FAMILY_FROM_TEXT) {
    if (!problem.text)
      return makeError(ErrorCode::InvalidArgument,
                       "problem: text is null and no family is given");
    if (problem.args)
      return makeError(ErrorCode::InvalidArgument,
                       "problem: args without a family");
    return readText(registry, problem.text, spec);
  }
  return readStruct(registry, problem, spec);
}

llvm::Expected<ProblemSpec> ProblemSpec::parse(const Registry &registry,
                                               const kiln_problem *problem) {
  if (!problem)
    return makeError(ErrorCode::InvalidArgument, "problem is null");
  if (auto error = checkInput(*problem, "kiln_problem"))
    return error;
  if (problem->flags)
    return makeError(ErrorCode::Unsupported, "problem: flags {:#x}",
                     problem->flags);
  if (auto error =
          checkArray(problem->ranges, problem->range_count, "kiln_range"))
    return error;
  ProblemSpec spec;
  if (auto error = readDescription(registry, *problem, spec))
    return error;
  spec.defaults.problem = nullptr;
  for (uint32_t i = 0; i < problem->range_count; ++i)
    if (auto error = readRange(kiln::at(problem->ranges, i), spec))
      return error;
  ExtentPoint first, last;
  for (const ExtentRange &range : spec.ranges) {
    first.push_back(std::min(std::max<int64_t>(range.first, 1), range.last));
    last.push_back(range.last);
  }
  auto smallest = spec.at(first);
  if (!smallest)
    return smallest.takeError();
  auto largest = spec.at(last);
  if (!largest)
    return largest.takeError();
  spec.followsExtents =
      !spec.ranges.empty() && arePackedApart(spec, *smallest, *largest);
  spec.problem = std::move(*largest);
  return spec;
}

llvm::Expected<PoolSubject> readPoolSubject(const Registry &registry,
                                            const kiln_problem &problem) {
  if (auto error = checkInput(problem, "kiln_problem"))
    return error;
  if (problem.range_count)
    return makeError(ErrorCode::InvalidArgument,
                     "problem: a pool serves all values, it takes no ranges");
  if (problem.family != KILN_FAMILY_FROM_TEXT || !problem.text) {
    auto spec = ProblemSpec::parse(registry, &problem);
    if (!spec)
      return spec.takeError();
    return PoolSubject::of(*spec->family, std::move(spec->described));
  }
  auto [name, fields] = llvm::StringRef(problem.text).split(' ');
  auto family = registry.get(name);
  if (!family)
    return family.takeError();
  return PoolSubject::parse(**family, fields);
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

FieldValues ProblemSpec::valuesAt(llvm::ArrayRef<int64_t> extents) const {
  FieldValues values(described.array());
  for (size_t i = 0; i < ranges.size(); ++i)
    values[ranges[i].field] = extents[i];
  fitHints(described.schema(), values);
  return values;
}

llvm::Expected<Problem> ProblemSpec::at(llvm::ArrayRef<int64_t> extents) const {
  return makeProblem(*family, Values(described.schema(), valuesAt(extents)));
}

void ProblemSpec::readDefaults(llvm::ArrayRef<int64_t> values,
                               Arguments &arguments) const {
  arguments = defaults;
  arguments.problem = values.data();
  if (!followsExtents)
    return;
  Problem launched;
  launched.values = Values::over(family->problemSchema(), values);
  Arguments packed = family->defaultArguments(launched);
  for (int i = 0; i < Arguments::kMaxOperands; ++i) {
    OperandArgument &to = arguments.operands[i];
    to.leadingDimension = packed.operands[i].leadingDimension;
    to.planeStride = packed.operands[i].planeStride;
    if (valuesHaveStrides)
      to.batchStride = packed.operands[i].batchStride;
  }
}

} // namespace kiln
