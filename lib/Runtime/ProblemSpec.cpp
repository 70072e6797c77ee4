//===- ProblemSpec.cpp - a kiln_problem, understood -----------------------===//
#include "Runtime/ProblemSpec.h"

#include "Runtime/Dispatch.h"
#include "Runtime/GemmCall.h"
#include "Runtime/StructAccess.h"
#include "Store/Records.h"

#include <algorithm>
#include <bit>

namespace kiln {

llvm::Expected<Problem> makeProblem(const KernelFamily &family, Record record) {
  auto problem = family.canonicalise(std::move(record));
  if (!problem)
    return problem.takeError();
  const RecordSchema &schema = family.problemSchema();
  llvm::SmallVector<int64_t, 24> values(problem->record.values());
  normaliseScalars(schema, values);
  for (size_t i = 0; i < values.size(); ++i)
    problem->record.set(static_cast<int>(i), values[i]);
  return problem;
}

Record recordOf(const RecordSchema &schema, llvm::ArrayRef<int64_t> values) {
  Record record(schema);
  for (size_t i = 0; i < values.size(); ++i)
    record.set(static_cast<int>(i), values[i]);
  return record;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// kiln_arguments slot of each operand. Only a gemm's differ from the order of
/// its operands.
static llvm::SmallVector<uint32_t, 8> slotsOf(const KernelFamily &family,
                                              const Problem &problem) {
  if (family.name() == "gemm")
    return gemmSlots(problem.record.get("pointwise"));
  llvm::SmallVector<uint32_t, 8> slots;
  size_t count = family.operands(problem).operands.size();
  for (uint32_t i = 0; i < count; ++i)
    slots.push_back(i);
  return slots;
}

/// The problem's text with the scalars that were given by value.
static std::string textWithScalars(const Problem &problem,
                                   const Arguments &given) {
  Record record = problem.record;
  llvm::ArrayRef<Field> fields = record.schema().fields();
  int scalar = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].role != FieldRole::Scalar)
      continue;
    if (!given.scalarAddresses[scalar])
      record.set(static_cast<int>(i), encodeReal(given.scalars[scalar]));
    ++scalar;
  }
  return record.text();
}

/// Reads \p given into the spec's problem: canonical, and as described.
static llvm::Error readRecord(const Record &given, ProblemSpec &spec) {
  auto problem = makeProblem(*spec.family, given);
  if (!problem)
    return problem.takeError();
  spec.problem = std::move(*problem);
  spec.described = spec.problem.record;
  // A leading dimension that equals the length of its row is no field of the
  // canonical record; at another extent it would not be what was asked for.
  llvm::ArrayRef<Field> fields = given.schema().fields();
  for (int i = 0; i < static_cast<int>(fields.size()); ++i)
    if (fields[i].role == FieldRole::LeadingDimension &&
        spec.described[i] == fields[i].defaultValue)
      spec.described.set(i, given[i]);
  return llvm::Error::success();
}

/// Last value of a range over the batch; 0 if there is none.
static int64_t largestBatchOf(const RecordSchema &schema,
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

static llvm::Error readStruct(const Registry &registry, CallKind kind,
                              const kiln_problem &problem, ProblemSpec &spec) {
  const CallReader &reader = readerOf(kind);
  spec.family = registry.find(reader.family);
  if (!spec.family)
    return makeError(ErrorCode::Unsupported,
                     "problem: family {} is not available", reader.family);
  CallUse use(CallAddresses::Ignored,
              largestBatchOf(spec.family->problemSchema(), problem));
  if (auto error = reader.check(problem.args, use))
    return error;
  FamilyCall call;
  if (!reader.read(problem.args, use, call))
    return makeError(ErrorCode::Internal, "{}: checked arguments not read",
                     reader.family);
  if (auto error = readRecord(
          recordOf(spec.family->problemSchema(), call.fields()), spec))
    return error;
  spec.text = textWithScalars(spec.problem, call.arguments);
  spec.defaults = call.arguments;
  spec.slots = slotsOf(*spec.family, spec.problem);
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
  spec.hasPackedBatches = true;
  auto given = Record::parse(spec.family->problemSchema(), text);
  if (!given)
    return given.takeError();
  if (auto error = readRecord(*given, spec))
    return error;
  spec.slots = slotsOf(*spec.family, spec.problem);
  return llvm::Error::success();
}

static llvm::Error readRange(const kiln_range &from, ProblemSpec &spec) {
  if (from.flags)
    return makeError(ErrorCode::Unsupported, "range: flags {:#x}", from.flags);
  if (!from.name)
    return makeError(ErrorCode::InvalidArgument, "range: name is null");
  const RecordSchema &schema = spec.family->problemSchema();
  ExtentRange range;
  range.field = schema.find(from.name);
  if (range.field < 0 || !schema.fields()[range.field].mayVary())
    return makeError(ErrorCode::InvalidArgument,
                     "range: {} has no dynamic extent \"{}\"",
                     spec.family->name(), from.name);
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
        (spec.hasPackedBatches && l.batchStride != r.batchStride))
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
  std::optional<CallKind> kind = callKindOf(problem.family);
  if (!kind)
    return makeError(ErrorCode::Unsupported,
                     "problem: family {} is not available", problem.family);
  if (!problem.args || problem.text)
    return makeError(ErrorCode::InvalidArgument,
                     "problem: family {} takes args and no text",
                     readerOf(*kind).family);
  return readStruct(registry, *kind, problem, spec);
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
  llvm::SmallVector<int64_t, 2> first, last;
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

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

Record ProblemSpec::recordAt(llvm::ArrayRef<int64_t> extents) const {
  Record record = described;
  for (size_t i = 0; i < ranges.size(); ++i)
    record.set(ranges[i].field, extents[i]);
  return record;
}

llvm::Expected<Problem> ProblemSpec::at(llvm::ArrayRef<int64_t> extents) const {
  return makeProblem(*family, recordAt(extents));
}

void ProblemSpec::readDefaults(llvm::ArrayRef<int64_t> values,
                               Arguments &arguments) const {
  arguments = defaults;
  arguments.problem = values.data();
  if (!followsExtents)
    return;
  Problem launched;
  launched.record = recordOf(family->problemSchema(), values);
  Arguments packed = family->defaultArguments(launched);
  for (int i = 0; i < Arguments::kMaxOperands; ++i) {
    arguments.operands[i].leadingDimension =
        packed.operands[i].leadingDimension;
    if (hasPackedBatches)
      arguments.operands[i].batchStride = packed.operands[i].batchStride;
  }
}

bool ExtentBox::contains(const std::vector<ExtentRange> &ranges,
                         llvm::ArrayRef<int64_t> values) const {
  for (size_t i = 0; i < ranges.size(); ++i)
    if (values[ranges[i].field] < low[i] || values[ranges[i].field] > high[i])
      return false;
  return true;
}

bool ExtentBox::covers(const KernelFamily &family,
                       const std::vector<ExtentRange> &ranges,
                       llvm::ArrayRef<int64_t> values) const {
  if (!contains(ranges, values))
    return false;
  // A leading dimension is no field of the one problem whose rows it packs, so
  // what was described is made canonical at these extents.
  Record record = described;
  for (const ExtentRange &range : ranges)
    record.set(range.field, values[range.field]);
  auto problem = makeProblem(family, std::move(record));
  if (!problem) {
    llvm::consumeError(problem.takeError());
    return false;
  }
  llvm::ArrayRef<int64_t> own = problem->record.values();
  return own == values.take_front(own.size()) &&
         problem->signature == largest.signature;
}

namespace {
/// One bucket of one range.
struct Interval {
  int64_t low, high, common;
};
} // namespace

static std::vector<Interval> intervalsOf(const ExtentRange &range) {
  std::vector<Interval> intervals;
  for (int64_t low = std::max<int64_t>(range.first, 1); low <= range.last;) {
    // Buckets end at powers of two.
    int64_t high = std::min(range.last, static_cast<int64_t>(std::bit_ceil(
                                            static_cast<uint64_t>(low))));
    bool hasHint = low <= range.hint && range.hint <= high;
    intervals.push_back({low, high, hasHint ? range.hint : high});
    low = high + 1;
  }
  return intervals;
}

/// Adds a box for each signature that the values of \p box take.
static llvm::Error addBoxes(const ProblemSpec &spec, const ExtentBox &box,
                            llvm::ArrayRef<int64_t> common,
                            std::vector<ExtentBox> &boxes) {
  size_t firstOfBox = boxes.size();
  auto smallest = spec.at(box.low);
  if (!smallest)
    return smallest.takeError();
  for (int64_t back = 0; back < spec.family->signaturePeriod(); ++back) {
    llvm::SmallVector<int64_t, 2> values(box.high);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::max(box.low[i], values[i] - back);
    auto largest = spec.at(values);
    if (!largest)
      return largest.takeError();
    bool isKnown = false;
    for (size_t i = firstOfBox; i < boxes.size(); ++i)
      isKnown |= boxes[i].largest.signature == largest->signature;
    if (isKnown)
      continue;
    ExtentBox added = box;
    auto typical = spec.at(common);
    if (!typical)
      return typical.takeError();
    added.common =
        typical->signature == largest->signature ? *typical : *largest;
    added.largest = std::move(*largest);
    added.described = spec.recordAt(values);
    added.smallest = smallest->record;
    boxes.push_back(std::move(added));
    if (spec.ranges.empty())
      break;
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<ExtentBox>> ProblemSpec::boxes() const {
  std::vector<std::vector<Interval>> choices;
  for (const ExtentRange &range : ranges)
    choices.push_back(intervalsOf(range));
  std::vector<ExtentBox> boxes;
  for (const auto &intervals : choices)
    if (intervals.empty())
      return boxes;
  // Counts through all combinations of one interval of each range.
  std::vector<size_t> digit(ranges.size(), 0);
  for (;;) {
    ExtentBox box;
    llvm::SmallVector<int64_t, 2> common;
    for (size_t i = 0; i < ranges.size(); ++i) {
      const Interval &interval = choices[i][digit[i]];
      box.low.push_back(interval.low);
      box.high.push_back(interval.high);
      common.push_back(interval.common);
    }
    if (auto error = addBoxes(*this, box, common, boxes))
      return error;
    size_t position = 0;
    while (position < digit.size() &&
           ++digit[position] == choices[position].size())
      digit[position++] = 0;
    if (position == digit.size())
      return boxes;
  }
}

} // namespace kiln
