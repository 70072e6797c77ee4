//===- Calibration.h - values that were measured on a GPU -----------------===//
//
// A data sheet does not say how fast a good kernel reads memory, or which clock
// a board holds under load. The catalog has such values for a few products, the
// rules of architectures guess the rest. A calibration has them measured, by
// `kiln calibrate`, on one board.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

/// One measured value of a field.
struct CalibratedValue {
  std::string key;       ///< of the field
  double value = 0;      ///< in the field's unit
  std::string benchmark; ///< "dram read"
};

/// The values of one board. Plain data.
struct Calibration {
  std::string gpu = {};    ///< the uuid of the board
  std::string driver = {}; ///< its version, "580.65.06"
  int64_t time = 0;        ///< seconds since 1970
  std::vector<CalibratedValue> values = {};
  /// The fields that no measurement was good enough for. Their values, if there
  /// are any, are of an earlier calibration.
  std::vector<std::string> refused = {};

  /// Takes values of refused fields over from \p earlier, if that is of the
  /// same board.
  void keepRefused(const Calibration &earlier);

  /// Error (InvalidArgument): \p json is no calibration.
  static llvm::Expected<Calibration> parse(llvm::StringRef json);
  llvm::json::Object toJson() const;
};

/// The keys of the fields that a calibration may have: neither the driver nor
/// NVML answers them.
llvm::ArrayRef<const char *> calibratedKeys();

/// Why \p value cannot be right for \p model, which has the value of a weaker
/// source: the field takes no such number, memory would be faster than its
/// pins, or it is another value altogether. "" if it may be right.
std::string implausible(const DeviceModel &model, const CalibratedValue &value);

/// Sets the fields of \p calibration, except those of an override, and keeps
/// the numbers before in \p model. Values that are not plausible are left out,
/// with a line in \p notes each.
void applyCalibration(DeviceModel &model, const Calibration &calibration,
                      std::vector<std::string> &notes);

/// Gives every field that a calibration may have the value that it would have
/// on a GPU that is not in the catalog. Answers of a driver stay, and so do
/// overrides.
void forgetCatalog(DeviceModel &model);

} // namespace kiln
