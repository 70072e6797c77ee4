//===- ProblemLine.cpp - a problem and its ranges as a line of text -------===//
#include "Call/ProblemLine.h"

#include "Support/Error.h"

#include <llvm/ADT/SmallVector.h>

namespace kiln {

static constexpr char kBehindProblem = ';';

/// Reads "m=1..8192:64".
static bool parseRange(llvm::StringRef word, ProblemLine::Range &range) {
  auto [key, values] = word.split('=');
  auto [bounds, hint] = values.split(':');
  auto [first, last] = bounds.split("..");
  range.key = key.str();
  return !key.empty() && !first.getAsInteger(10, range.first) &&
         !last.getAsInteger(10, range.last) &&
         values.contains(':') == !hint.empty() &&
         (hint.empty() || !hint.getAsInteger(10, range.hint));
}

llvm::Expected<ProblemLine> ProblemLine::parse(llvm::StringRef line) {
  auto [problem, ranges] = line.split(kBehindProblem);
  ProblemLine parsed{problem.trim().str(), {}};
  if (parsed.problem.empty())
    return makeError(ErrorCode::InvalidArgument, "'{}' has no problem",
                     line.str());
  llvm::SmallVector<llvm::StringRef, 4> words;
  ranges.split(words, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words)
    if (!parseRange(word, parsed.ranges.emplace_back()))
      return makeError(ErrorCode::InvalidArgument,
                       "'{}' is not a range such as m=1..8192", word.str());
  return parsed;
}

ProblemLine ProblemLine::of(const ProblemSpec &spec) {
  ProblemLine line{spec.described.text(), {}};
  const llvm::ArrayRef<Field> fields = spec.described.schema().fields();
  for (const ExtentRange &range : spec.ranges)
    line.ranges.push_back({fields[static_cast<size_t>(range.field)].key.str(),
                           range.first, range.last, range.hint});
  return line;
}

std::string ProblemLine::text() const {
  std::string line = problem;
  if (!ranges.empty())
    line += kBehindProblem;
  for (const Range &range : ranges) {
    line += fmt::format(" {}={}..{}", range.key, range.first, range.last);
    if (range.hint)
      line += fmt::format(":{}", range.hint);
  }
  return line;
}

std::vector<kiln_range> ProblemLine::givenRanges() const {
  std::vector<kiln_range> given;
  for (const Range &range : ranges) {
    kiln_range &added = given.emplace_back(KILN_INIT(kiln_range));
    added.name = range.key.c_str();
    added.first = range.first;
    added.last = range.last;
    added.hint = range.hint;
  }
  return given;
}

kiln_problem ProblemLine::given(llvm::ArrayRef<kiln_range> ranges) const {
  kiln_problem asked = KILN_INIT(kiln_problem);
  asked.family = KILN_FAMILY_FROM_TEXT;
  asked.text = problem.c_str();
  asked.ranges = ranges.data();
  asked.range_count = static_cast<uint32_t>(ranges.size());
  return asked;
}

llvm::Expected<ProblemSpec> ProblemLine::read(const Registry &registry) const {
  const std::vector<kiln_range> ranges = givenRanges();
  const kiln_problem asked = given(ranges);
  return ProblemSpec::parse(registry, &asked);
}

} // namespace kiln
