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
// kriging) from the inverse of the covariances of all times.
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

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
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

/// A symmetric matrix: its lower triangle, by columns from the diagonal down.
struct SymmetricMatrix {
  size_t rows = 0;
  std::vector<double> values;

  double at(size_t row, size_t column) const {
    const auto [first, last] = std::minmax(row, column);
    return this->column(first)[last - first];
  }
  /// The column \p index, whose first value is on the diagonal.
  llvm::ArrayRef<double> column(size_t index) const {
    return {values.data() + index * (2 * rows + 1 - index) / 2, rows - index};
  }
  llvm::MutableArrayRef<double> column(size_t index) {
    return {values.data() + index * (2 * rows + 1 - index) / 2, rows - index};
  }
};

/// Immutable once fit() was called; then thread-safe.
class Evidence {
public:
  /// A config, and how its error varies together with those of the times.
  struct View {
    TimedSubject subject;
    /// The groups whose shared errors it has; -1: it is the first of its kind.
    int ofTemplate = -1, ofBound = -1;
    /// Times of its kernel, with the covariance on top of that of its groups.
    llvm::SmallVector<std::pair<uint32_t, double>, 16> ofKernel;
  };

  /// Adds the fact that \p subject took exp(\p logFactor) times its prediction
  /// in \p series.
  void add(const TimedSubject &subject, uint32_t series, double logFactor);
  /// Has to be called after add(). The cost is the third power of the number of
  /// times; 200 of them take two milliseconds.
  void fit();
  bool empty() const { return times.empty(); }

  /// Costs time linear in the number of times of the subject's kernel.
  View viewOf(const TimedSubject &subject) const;

  /// The expected log(measured/predicted). The cost is that of viewOf().
  double expect(const View &view) const;
  double expect(const TimedSubject &subject) const {
    return expect(viewOf(subject));
  }

  /// The standard deviation of the difference of both errors, given the times.
  /// Costs the square of the number of times of the two kernels.
  double uncertainty(const View &a, const View &b) const;
  double uncertainty(const TimedSubject &a, const TimedSubject &b) const {
    return uncertainty(viewOf(a), viewOf(b));
  }

private:
  struct Time {
    TimedSubject subject;
    uint32_t series = 0;
    double logFactor = 0;
  };
  /// The times that share the error of a template, or of one of its bounds.
  struct Group {
    const Template *tmpl = nullptr;
    std::optional<llvm::StringRef> bound; ///< none: all bounds
    std::vector<uint32_t> members;
    double weight = 0;       ///< the sum of the members' weights
    std::vector<double> row; ///< the sum of the members' rows of the inverse
    std::vector<double> products; ///< by group: the sum of `row` over members
  };
  int findGroup(const Template &tmpl,
                std::optional<llvm::StringRef> bound) const;
  void addToGroup(const Template &tmpl, std::optional<llvm::StringRef> bound,
                  uint32_t time);
  void completeGroups();
  double explained(const View &a, const View &b) const;

  std::vector<Time> times;
  bool isFitted = true;
  SymmetricMatrix inverse;     ///< of the covariances of all times
  std::vector<double> weights; ///< inverse times logFactors
  std::vector<Group> groups;
  std::unordered_map<uint64_t, llvm::SmallVector<uint32_t, 8>> timesOfKernel;
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
/// ones in the given order. At most \p mostLeads lead, the first choice
/// included, because each comparison costs the square of the number of times of
/// two kernels.
void judge(std::vector<Contender> &contenders, const Evidence &evidence,
           size_t mostLeads = SIZE_MAX);

} // namespace kiln
