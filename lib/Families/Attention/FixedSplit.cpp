//===- FixedSplit.cpp -----------------------------------------------------===//
#include "Families/Attention/FixedSplit.h"

#include <algorithm>

namespace kiln {

AttentionProblem oneSequenceOf(const AttentionProblem &problem) {
  AttentionProblem one = problem;
  one.batch = 1;
  one.totalQueries = std::min(problem.totalQueries, problem.queries);
  one.totalKeys = std::min(problem.totalKeys, problem.keys);
  one.fixedSplit = 0;
  return one;
}

Rejection notForFixedSplit(const AttentionProblem &problem,
                           llvm::StringRef allowed) {
  return {PruneReason::Dominated, double(problem.fixedSplit), 0,
          "keys of a fixed split", allowed};
}

} // namespace kiln
