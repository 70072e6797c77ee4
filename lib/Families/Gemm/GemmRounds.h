//===- GemmRounds.h - a product in parts that share the workspace ---------===//
//
// Rows of A that are gathered or aligned, and results that are quantised, lie
// in the workspace. A launch of a large problem has one part of the rows there
// at a time, or one part of the matrices of a batch. Rows are independent of
// each other: a part is the same problem, with fewer of them, at other
// addresses. Only the device knows the ends of groups: each part computes the
// rows of groups that fall into it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"
#include "Kernel/Plan.h"

namespace kiln {

/// The most that a round has: rows of each of so many matrices. Several
/// matrices have all of their rows.
struct GemmRounds {
  /// Bytes of the workspace that the rows of a round should need. Half of what
  /// an engine allows by default (EngineLimits.h): the rest is for copies of
  /// operands. A round of this size has tens of waves of tiles. Generic
  /// templates, which run where little is allowed, have an eighth.
  static constexpr int64_t kBytes = int64_t(128) << 20;
  static int64_t bytes(bool isGeneric);

  /// More is pruned: a single row that needs it is long.
  static constexpr double kMostBytes = 4 * double(kBytes);

  int64_t rows = 0, matrices = 1;
  double needed = 0; ///< bytes of a round

  /// The rounds of \p problem, whose rows have a place in the workspace where
  /// its output is quantised, or where \p copiesRows of A; others have one
  /// round.
  static GemmRounds of(const GemmProblem &problem, bool copiesRows,
                       int64_t bytes);

  /// Rows of each round of a matrix of \p m, as equal as whole tiles allow.
  int64_t evenRows(int64_t m) const;
  int64_t count(int64_t m, int64_t batch) const;

  /// Makes of the values of \p problem those of a part of it: \p rows from
  /// \p firstRow on of \p matrices.
  static void toPart(const GemmProblem &problem, int64_t firstRow, int64_t rows,
                     int64_t matrices, int64_t *values);
};

/// The typicalProduct() of one of \p count rounds, for an even part of
/// \p product.
GemmProblem typicalRound(const GemmProblem &product, const GemmRounds &rounds,
                         int64_t count);

/// The time of \p count rounds of \p one each.
template <Number N> N withRounds(int64_t count, const N &one) {
  if (count <= 1)
    return one;
  const N round = named(one, "a round", "ns");
  return round + named(given<N>(double(count - 1), "rounds") * round,
                       "further rounds", "ns");
}

/// While it lives, rounds have so many bytes instead: small problems have
/// several, for tests.
class RoundsOfBytes {
public:
  explicit RoundsOfBytes(int64_t bytes);
  ~RoundsOfBytes();
  RoundsOfBytes(const RoundsOfBytes &) = delete;
};

/// Makes of the binder of \p plan, whose problem is one round, that of all.
void bindRounds(const GemmRounds &rounds, Plan &plan);

} // namespace kiln
