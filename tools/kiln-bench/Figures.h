//===- Figures.h - figures over many cases --------------------------------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/JSON.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace kiln::cli {

/// The first choices of an order that reports judge beside the very first.
inline constexpr size_t kTopFew = 5;

/// Values of a dynamic extent that want kernels of one kind.
struct Band {
  const char *name;
  int64_t first, last;

  bool holds(int64_t value) const { return first <= value && value <= last; }
};

/// All values are in one of them: a single step of decoding, decoding, small
/// and large prefills.
inline constexpr Band kBands[] = {
    {"1-16", 0, 16},
    {"17-64", 17, 64},
    {"65-256", 65, 256},
    {"257-1024", 257, 1024},
    {"above", 1025, std::numeric_limits<int64_t>::max()}};

/// Ratios to a peer, 0 without any.
struct RatioFigures {
  size_t count = 0;
  double geomean = 0, least = 0, greatest = 0;
  double tenth = 0;                ///< a tenth of all are below it
  double below95 = 0, below90 = 0; ///< shares below 0.95 and 0.90

  static RatioFigures of(llvm::ArrayRef<double> ratios);
  llvm::json::Object toJson() const;
};

/// Times of events, in the unit of the times; 0 without any.
struct TimeFigures {
  size_t count = 0;
  double sum = 0, median = 0, p99 = 0, most = 0;

  static TimeFigures of(llvm::ArrayRef<double> times);
  llvm::json::Object toJson() const;
};

/// The value that \p share of \p values are at most: the nearest rank. 0
/// without values.
double quantile(llvm::ArrayRef<double> values, double share);

/// Spearman's rank correlation of two series of equal length, in [-1, 1]: how
/// well the order of one predicts that of the other. Equal values share the
/// mean of their ranks. 0 if either has fewer than two different values.
double rankCorrelation(llvm::ArrayRef<double> a, llvm::ArrayRef<double> b);

/// \p share as a percentage for tables, "n/a" without one.
std::string percent(double share);

} // namespace kiln::cli
