//===- CalibrationReport.h - what kiln calibrate tells --------------------===//
#pragma once

#include "Device/Calibration.h"
#include "Device/DeviceModel.h"
#include "Support/Report.h"
#include "calibrate/Judge.h"

#include <string>
#include <vector>

namespace kiln::cli {

/// A calibration that was measured now, or one that was found in the cache.
class CalibrationReport final : public Report {
public:
  /// \p device, which must outlive the report, has the values before.
  explicit CalibrationReport(const DeviceModel &device) : device(device) {}

  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  /// Fields whose value was refused.
  size_t refusals() const;

  Calibration calibration;
  std::vector<Judged> judged; ///< empty: it was found
  std::string unstored;       ///< why it is not on disk; empty: it is
  bool isForClass = false;    ///< and not for this board alone
  double seconds = 0;

private:
  void printFields(llvm::raw_ostream &os) const;
  void printCurves(llvm::raw_ostream &os) const;
  void printFound(llvm::raw_ostream &os) const;

  const DeviceModel &device;
};

} // namespace kiln::cli
