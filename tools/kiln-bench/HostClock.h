//===- HostClock.h - the host time of a call, and its delays --------------===//
#pragma once

#include <chrono>
#include <cstdint>

namespace kiln::cli {

/// The host time of one call.
struct HostTime {
  double us = 0;    ///< until it returned
  double cpuUs = 0; ///< that its thread ran
  /// How often its thread waited for something, and how often the system took
  /// the CPU from it.
  int64_t waits = 0, preemptions = 0;
};

/// From its construction on, on one thread. Costs about a microsecond, outside
/// of the measured time.
class HostClock {
public:
  HostClock();
  HostTime stop() const;

private:
  struct Usage {
    int64_t cpuNs = 0, waits = 0, preemptions = 0;
  };
  static Usage usage();

  const Usage before;
  const std::chrono::steady_clock::time_point start;
};

} // namespace kiln::cli
