//===- Evidence.h - what measured times say about other configs -----------===//
//
// Problem: trials time a few configs at a few points, and a choice has to be
// made among others, at other points. The logarithm of measured over predicted
// is taken as a sum of independent errors, each of which some times share:
//   of the series     one run, in which times are interleaved; between runs a
//                     card's clock drifts, so only ratios within one count
//   of the template   and of what bounds it
//   of the kernel     which other layers of its signature share
//   of its place      the same kernel at nearby extents
//   of the reading    noise, and what is peculiar to one point
// All are normal, so what is expected of a config, and how far two configs may
// differ, follow exactly (best linear prediction, as in kriging): by one
// Cholesky factorisation of the covariances of all times. Few times of a kernel
// leave much to its template's; a config that was never timed keeps the
// uncertainty that it had.
//
// Rejected: factors interpolated between the points of one kernel. They know no
// uncertainty, so a kernel that was timed went before one that was not.
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

/// A config at a point, as far as errors of predictions tell it from others.
struct TimedSubject {
  TimedSubject(const Template &tmpl, const Values &config,
               llvm::ArrayRef<int64_t> point, llvm::StringRef bound);

  const Template *tmpl = nullptr;
  uint64_t kernel = 0;               ///< a hash of the compiled knobs
  uint64_t config = 0;               ///< of all knobs
  llvm::StringRef bound;             ///< Estimate::bound
  llvm::SmallVector<float, 3> place; ///< logarithms of the extents
};

/// Immutable once fit() was called; then thread-safe.
class Evidence {
public:
  /// Adds that \p subject took exp(\p logFactor) times its prediction in
  /// \p series.
  void add(const TimedSubject &subject, uint32_t series, double logFactor);
  /// Has to follow what add() added. Cost: the third power of the times; 200 of
  /// them take a millisecond.
  void fit();
  bool empty() const { return times.empty(); }

  /// The expected log(measured/predicted) of \p subject. Cost: the times.
  double expect(const TimedSubject &subject) const;

  /// The standard deviation of the difference of both errors, given the times.
  /// Cost: the square of the times.
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
  std::vector<double> factor;  ///< Cholesky's, by columns, see columnAt()
  std::vector<double> weights; ///< inverse covariance times logFactors
};

/// One of the configs that may be launched at a value.
struct Contender {
  TimedSubject subject;
  double predictedNs = 0;
  double expectedNs = 0; ///< by judge()
  size_t place = 0;      ///< the caller's
  int32_t order = 0;     ///< decides between equal predictions
  /// By judge(): it goes before the estimator's first choice, or is that.
  bool mayLead = false;
};

/// Orders \p contenders, of one value, of which the first is the estimator's
/// first choice. Measuring may only help. So only configs go before that one
/// which are expected to be faster, by more than the uncertainty of that: where
/// both ran beside each other, it is little more than their readings' noise.
/// The others follow by expected time, equal ones in the order that is given.
/// At most \p mostLeads have the lead: to tell whether one may takes the square
/// of the times.
void judge(std::vector<Contender> &contenders, const Evidence &evidence,
           size_t mostLeads = SIZE_MAX);

} // namespace kiln
