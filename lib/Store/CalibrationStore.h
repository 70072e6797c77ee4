//===- CalibrationStore.h - calibrations in the cache ---------------------===//
//
// Boards of one class are nearly alike, so one calibration serves all of them:
// the ranks of a node share it. A board that was measured itself has its own
// values, and all of them: values of two boards are never mixed. So there is an
// entry for each board that was measured, and one for the class: the first
// board's, until one with fewer refused fields is stored.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Device/Calibration.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// Calibrations in the cache. Thread-safe; the cache store must outlive it.
class CalibrationStore {
public:
  explicit CalibrationStore(cache::Store &cache) : cache(&cache) {}

  /// The calibration of the board that \p model was made for, or else of its
  /// class. An entry that cannot be read is a line in \p notes, one of another
  /// format counts as unaccepted. Takes some 50 us.
  std::optional<Calibration> find(const DeviceModel &model,
                                  std::vector<std::string> &notes) const;

  struct Stored {
    cache::PublishResult result;
    bool isForClass = false; ///< and not for this board alone
  };
  /// Keeps \p calibration, whose gpu is \p model's, for this board, and for its
  /// class unless that has one of another board, with no more refused fields.
  Stored store(const DeviceModel &model, const Calibration &calibration);

  /// Tells other processes that this one measures \p model's class, or, if it
  /// is \p own, this board.
  cache::Claim claim(const DeviceModel &model, bool own);

private:
  std::optional<Calibration> read(const std::string &key,
                                  std::vector<std::string> &notes) const;

  cache::Store *cache;
};

} // namespace kiln
