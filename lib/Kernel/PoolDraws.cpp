//===- PoolDraws.cpp - the problems that a pool is judged on --------------===//
#include "Kernel/PoolDraws.h"

#include "Kernel/Family.h"
#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <cassert>

namespace kiln {

//===----------------------------------------------------------------------===//
// Exact logarithms
//===----------------------------------------------------------------------===//

/// The fraction bits of a logarithm.
static constexpr int kLogBits = 32;

/// The logarithm to base 2 of \p value, from 1 to 2^31, linear between powers
/// of two.
static uint64_t logOf(int64_t value) {
  assert(value >= 1 && value <= INT64_C(1) << 31 && "out of range");
  const auto bits = static_cast<uint64_t>(value);
  const unsigned exponent = llvm::Log2_64(bits);
  const uint64_t mantissa = (bits << kLogBits) >> exponent; // in [2^32, 2^33)
  return (static_cast<uint64_t>(exponent) << kLogBits) + mantissa -
         (UINT64_C(1) << kLogBits);
}

/// The nearest value to the one whose logarithm is \p log.
static int64_t valueOf(uint64_t log) {
  const uint64_t one = UINT64_C(1) << kLogBits;
  const uint64_t exponent = log >> kLogBits;
  const uint64_t scaled = ((log & (one - 1)) + one) << exponent;
  const uint64_t half = one >> 1;
  return static_cast<int64_t>((scaled + std::min(half, ~scaled)) >> kLogBits);
}

int64_t gridValue(int64_t low, int64_t high, size_t place, size_t places) {
  assert(place < places && low <= high && "no place of the grid");
  const uint64_t from = logOf(low), span = logOf(high) - from;
  const uint64_t parts = std::max<uint64_t>(places - 1, 1);
  // Below 2^36 times the places.
  return valueOf(from + span * place / parts);
}

using Random = PoolSubject::Random;

static uint64_t below(Random &random, uint64_t bound) {
  return random() % bound;
}

static int64_t drawLog(int64_t low, int64_t high, Random &random) {
  const uint64_t from = logOf(low);
  return valueOf(from + below(random, logOf(high) - from + 1));
}

//===----------------------------------------------------------------------===//
// The subject
//===----------------------------------------------------------------------===//

/// The percentage of draws with values of any alignment.
static constexpr unsigned kAnyPercent = 25;
/// The most draws until one has the signature: some 1 in 100 products has it,
/// with three alignment classes of four values each.
static constexpr int kMostDraws = 4000;
/// The number of layers that are drawn to find all signatures.
static constexpr int kClassDraws = 4000;

/// Parses \p text, in which required fields may be missing: sizes then have the
/// least value. \p stated gets the keys of the text.
static llvm::Expected<Values>
parsePartial(const Schema &schema, llvm::StringRef text,
             llvm::SmallVectorImpl<llvm::StringRef> &stated) {
  llvm::SmallVector<llvm::StringRef, 16> words;
  text.split(words, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words)
    if (word.contains('='))
      stated.push_back(word.split('=').first);
  std::string complete = text.str();
  for (const Field &field : schema.fields()) {
    const bool isSize = field.role == FieldRole::Extent ||
                        field.role == FieldRole::DynamicExtent ||
                        field.role == FieldRole::Batch;
    if (field.required && isSize && !llvm::is_contained(stated, field.key))
      complete +=
          fmt::format(" {}={}", field.key, std::max<int64_t>(1, field.minimum));
  }
  return Values::parse(schema, complete);
}

llvm::Expected<PoolSubject> PoolSubject::parse(const KernelFamily &family,
                                               llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 16> stated;
  const Schema &schema = family.problemSchema();
  auto values = parsePartial(schema, text, stated);
  if (!values)
    return values.takeError();
  const PoolDraws draws = family.poolDraws(*values);
  for (const auto *list : {&draws.layer, &draws.extents})
    for (const DrawnField &drawn : *list) {
      llvm::StringRef key = schema.fields()[drawn.field].key;
      if (llvm::is_contained(stated, key))
        return makeError(ErrorCode::InvalidArgument,
                         "{}: leave out {}, a pool serves all values of it",
                         family.name(), key);
    }
  return of(family, std::move(*values));
}

llvm::Expected<PoolSubject> PoolSubject::of(const KernelFamily &family,
                                            Values described) {
  PoolSubject subject;
  subject.owner = &family;
  subject.draws = family.poolDraws(described);
  if (subject.draws.empty())
    return makeError(ErrorCode::Unsupported, "{} has no pools", family.name());
  llvm::ArrayRef<Field> fields = described.schema().fields();
  for (auto *list : {&subject.draws.layer, &subject.draws.extents})
    for (const DrawnField &drawn : *list)
      described.set(drawn.field, fields[drawn.field].unset());
  // Fields that follow from extents were set for the ignored ones.
  for (auto [i, field] : llvm::enumerate(fields))
    if (field.followsExtents())
      described.set(static_cast<int>(i), field.unset());
  subject.described = std::move(described);
  // Multiples of all steps have the greatest alignment.
  Values example = subject.described;
  Random random;
  for (auto *list : {&subject.draws.layer, &subject.draws.extents})
    for (const DrawnField &drawn : *list) {
      constexpr int64_t kUsual = 128;
      const int64_t value = std::clamp(kUsual, drawn.low, drawn.high);
      if (drawn.percent == 100)
        subject.drawField(drawn, value, /*isAny=*/false, random, example);
    }
  auto problem = family.canonicalise(std::move(example));
  if (!problem)
    return problem.takeError();
  subject.itsSignature = std::move(problem->signature);
  return subject;
}

std::string PoolSubject::text() const {
  std::string text = owner->name().str();
  for (auto [i, field] : llvm::enumerate(described.schema().fields())) {
    const int place = static_cast<int>(i);
    if (described[place] != field.unset())
      text += fmt::format(" {}={}", field.key, described.valueText(place));
  }
  return text;
}

std::vector<PoolSubject> PoolSubject::allAlignments() const {
  std::vector<PoolSubject> all{*this};
  Random random(1);
  for (int i = 0; i < kClassDraws; ++i) {
    Values layer = drawAnyLayer(random);
    for (const DrawnField &drawn : draws.extents)
      drawField(drawn, drawn.low * drawn.step, below(random, 2), random, layer);
    auto problem = owner->canonicalise(std::move(layer));
    if (!problem) {
      llvm::consumeError(problem.takeError()); // drawn values do not go along
      continue;
    }
    if (llvm::any_of(all, [&](const PoolSubject &known) {
          return known.itsSignature == problem->signature;
        }))
      continue;
    PoolSubject added = *this;
    added.itsSignature = std::move(problem->signature);
    all.push_back(std::move(added));
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Drawing
//===----------------------------------------------------------------------===//

/// Sets a field of \p values to \p value, rounded to the field's step or, with
/// \p isAny, to a multiple of a part of it.
void PoolSubject::drawField(const DrawnField &drawn, int64_t value, bool isAny,
                            Random &random, Values &values) const {
  int64_t step = drawn.step;
  if (isAny && step > 1)
    step >>= below(random, llvm::Log2_64_Ceil(static_cast<uint64_t>(step)) + 1);
  step = std::max<int64_t>(step, 1);
  value = std::max<int64_t>(step, (value + step / 2) / step * step);
  if (drawn.factorOf >= 0)
    value *= std::max<int64_t>(1, values[drawn.factorOf]);
  if (drawn.addendTo >= 0)
    value += values[drawn.addendTo];
  const Field &field = values.schema().fields()[drawn.field];
  values.set(drawn.field, std::clamp(value, field.minimum, field.maximum));
}

/// Draws a layer of any signature.
Values PoolSubject::drawAnyLayer(Random &random) const {
  Values values = described;
  for (const DrawnField &drawn : draws.layer) {
    // All numbers are drawn in all cases, so that later fields do not depend on
    // earlier ones.
    const int64_t value = drawLog(drawn.low, drawn.high, random);
    const bool isDrawn = below(random, 100) < drawn.percent;
    const bool isAny = below(random, 100) < kAnyPercent;
    if (isDrawn)
      drawField(drawn, value, isAny, random, values);
    else if (drawn.factorOf >= 0)
      values.set(drawn.field, values[drawn.factorOf]);
  }
  return values;
}

/// The problem of \p values, if it is one of the pool's.
std::optional<Problem> PoolSubject::complete(Values values) const {
  auto problem = owner->canonicalise(std::move(values));
  if (!problem) {
    llvm::consumeError(problem.takeError()); // drawn values do not go along
    return std::nullopt;
  }
  if (!(problem->signature == itsSignature) || owner->isEmpty(*problem))
    return std::nullopt;
  return std::move(*problem);
}

std::optional<Values> PoolSubject::drawLayer(Random &random) const {
  for (int i = 0; i < kMostDraws; ++i) {
    Values layer = drawAnyLayer(random);
    Values smallest = layer;
    for (const DrawnField &drawn : draws.extents)
      drawField(drawn, drawn.low, /*isAny=*/true, random, smallest);
    auto problem = complete(std::move(smallest));
    if (problem && owner->compulsoryBytes(*problem) <= draws.mostBytes)
      return layer;
  }
  return std::nullopt;
}

std::optional<Problem> PoolSubject::drawAt(const Values &layer, size_t place,
                                           size_t places,
                                           Random &random) const {
  constexpr int kTries = 32;
  for (int i = 0; i < kTries; ++i) {
    Values values = layer;
    for (auto [index, drawn] : llvm::enumerate(draws.extents)) {
      const size_t at = index == 0 ? place : below(random, places);
      const int64_t value = gridValue(drawn.low, drawn.high, at, places);
      const bool isDrawn = below(random, 100) < drawn.percent;
      if (isDrawn)
        drawField(drawn, value, below(random, 100) < kAnyPercent, random,
                  values);
      else if (int other = std::max(drawn.factorOf, drawn.addendTo); other >= 0)
        values.set(drawn.field, values[other]);
      else
        values.set(drawn.field, drawn.low);
    }
    auto problem = complete(std::move(values));
    if (problem && owner->compulsoryBytes(*problem) <= draws.mostBytes)
      return problem;
    // Further draws would give the same problem.
    if (draws.extents.size() == 1 && draws.extents.front().step == 1)
      break;
  }
  return std::nullopt;
}

} // namespace kiln
