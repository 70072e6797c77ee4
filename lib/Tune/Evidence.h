//===- Evidence.h - measured times as evidence about configs --------------===//
//
// Problem: trials time a few configs at a few points, and a choice has to be
// made among others, at other points. The logarithm of measured over predicted
// time is modelled as a sum of independent errors. Each error is shared by some
// of the times:
//   series     one run, in which times are interleaved; between runs a card's
//              clock drifts, so only ratios within one count
//   template   and its bound
//   kernel     which other layers of its signature share
//   place      the same kernel at nearby extents
//   reading    noise, and deviations of one point
// All errors are normal. So the expected time of a config, and the uncertainty
// of the difference of two, follow exactly (best linear prediction, as in
// kriging) from one Cholesky factorisation of the covariances of all times.
// With few times of a kernel, its template's times count for much; a config
// that was never timed keeps its full uncertainty.
//
// Rejected: factors interpolated between the points of one kernel. They have no
// uncertainty, so a timed kernel always went before an untimed one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Family.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

#include <cstdint>
#include <vector>

namespace kiln {

/// A config at a point, with all that the errors of its prediction depend on.
struct TimedSubject {
  TimedSubject(const Template &tmpl, const Values &config,
               llvm::ArrayRef<int64_t> point, llvm::StringRef bound);

  const Template *tmpl = nullptr;
  uint64_t kernel = 0;               ///< a hash of the compiled knobs
  uint64_t config = 0;               ///< a hash of all knobs
  llvm::StringRef bound;             ///< Estimate::bound
  llvm::SmallVector<float, 3> place; ///< logarithms of the extents
};

/// Immutable once fit() was called; then thread-safe.
class Evidence {
public:
  /// Adds the fact that \p subject took exp(\p logFactor) times its prediction
  /// in \p series.
  void add(const TimedSubject &subject, uint32_t series, double logFactor);
  /// Has to be called after add(). The cost is the third power of the number of
  /// times; 200 of them take a millisecond.
  void fit();
  bool empty() const { return times.empty(); }

  /// The expected log(measured/predicted) of \p subject. The cost is linear in
  /// the number of times.
  double expect(const TimedSubject &subject) const;

  /// The standard deviation of the difference of both errors, given the times.
  /// The cost is the square of the number of times.
  double uncertainty(const TimedSubject &a, const TimedSubject &b) const;

private:
  struct Time {
    TimedSubject subject;
    uint32_t series = 0;
    double logFactor = 0;
  };
  std::vector<double> covariances(const TimedSubject &subject) const;
  std::vector<double> solveLower(std::vector<double> right) const;

  std::vector<Time> times;
  std::vector<double> factor;  ///< the Cholesky factor by columns, see
                               ///< columnAt()
  std::vector<double> weights; ///< inverse covariance times logFactors
};

/// One of the configs that may be launched at a value.
struct Contender {
  TimedSubject subject;
  double predictedNs = 0;
  double expectedNs = 0; ///< set by judge()
  size_t place = 0;      ///< the caller's
  int32_t order = 0;     ///< decides between equal predictions
  /// Set by judge(): it is the estimator's first choice or goes before that.
  bool mayLead = false;
};

/// Orders \p contenders of one value, of which the first is the estimator's
/// first choice. Measuring must not make a choice worse. So a config goes
/// before the first choice only if it is expected to be faster by more than the
/// uncertainty of the difference, which is little more than the noise of the
/// readings if both ran side by side. The others follow by expected time, equal
/// ones in the given order. At most \p mostLeads may go before it, because each
/// test costs the square of the number of times.
void judge(std::vector<Contender> &contenders, const Evidence &evidence,
           size_t mostLeads = SIZE_MAX);

} // namespace kiln
