//===- Judge.h - from samples of benchmarks to values of a device ---------===//
//
// A benchmark is asked several times. Where its answers differ too much, or
// work of another program was seen, it is asked again, up to three times; then
// its values are given up, and the catalog's stay. A value that cannot be right
// is refused.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/Calibration.h"
#include "Device/DeviceModel.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace kiln::cli {

/// One answer of a benchmark.
struct Sample {
  std::string name; ///< "in flight 32 KiB"
  double value = 0;
  const char *unit = "";
  const char *key = nullptr; ///< of the field that it is; null: none
};

/// One micro-benchmark.
struct Benchmark {
  const char *name;        ///< "dram read"
  double mostSpread = 0.1; ///< of the values that fields get, over the median
  /// Measures once. The names, units and keys are the same each time.
  std::function<llvm::Expected<std::vector<Sample>>()> run;
};

/// The judged answers of one name of a benchmark.
struct Judged {
  std::string benchmark, name, unit;
  std::string key;     ///< of the field; empty: none
  double value = 0;    ///< that the field gets, or the median
  double median = 0;   ///< of the samples
  double spread = 0;   ///< the greatest less the least, over the median
  std::string refused; ///< why the field does not get it
  double known = 0;    ///< the field's value before
  std::string source;  ///< of that one

  llvm::json::Object toJson() const;
};

struct JudgeOptions {
  unsigned samples = 5; ///< after one that does not count
  unsigned series = 3;
  std::function<void(const Benchmark &)> begins; ///< progress; may be null
  /// Whether another program uses the GPU now: asked behind each series. May be
  /// null.
  std::function<llvm::Expected<bool>()> isShared;
  const std::atomic<bool> *cancel = nullptr;
};

/// Runs \p benchmarks one after the other. \p device has the values before.
/// Errors: a benchmark failed; Cancelled.
llvm::Expected<std::vector<Judged>> judge(llvm::ArrayRef<Benchmark> benchmarks,
                                          const DeviceModel &device,
                                          const JudgeOptions &options = {});

/// The value that field \p field of \p device gets for a \p measured one. Rates
/// per clock are properties of the hardware: one that is hardly off
/// the known one confirms it. Other values have three significant digits, so
/// that noise does not change the estimator's decisions.
double fieldValue(const DeviceModel &device, const DeviceField &field,
                  double measured);

/// The values that fields get.
std::vector<CalibratedValue> valuesOf(llvm::ArrayRef<Judged> judged);

} // namespace kiln::cli
