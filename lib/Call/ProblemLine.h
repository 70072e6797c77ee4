//===- ProblemLine.h - a problem and its ranges as a line of text ---------===//
//
// "gemm m=8192 n=6144 k=4096 dtype=bf16 layout=NT; m=1..8192:64": the problem's
// text, and for each range its extent, its first and last value and, behind a
// colon, the hint if it has one. The line of a kiln_problem with a struct
// describes the same problems; scalars are 1 where no choice depends on their
// value.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemSpec.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

struct ProblemLine {
  struct Range {
    std::string key;
    int64_t first = 1, last = 1, hint = 0; ///< hint 0: none
  };

  std::string problem;
  std::vector<Range> ranges;

  /// Reads the form of a line, but not the problem. Error: InvalidArgument.
  static llvm::Expected<ProblemLine> parse(llvm::StringRef line);
  static ProblemLine of(const ProblemSpec &spec);
  std::string text() const;

  /// The ranges of a kiln_problem; their names point into this object.
  std::vector<kiln_range> givenRanges() const;
  /// The kiln_problem, which points into this object and \p ranges, the result
  /// of givenRanges().
  kiln_problem given(llvm::ArrayRef<kiln_range> ranges) const;
  /// Errors: those of ProblemSpec::parse().
  llvm::Expected<ProblemSpec> read(const Registry &registry) const;
};

} // namespace kiln
