//===- Stopwatch.h - time since it was made -------------------------------===//
#pragma once

#include <chrono>

namespace kiln::cli {

/// Runs from its construction on.
class Stopwatch {
public:
  using Clock = std::chrono::steady_clock;

  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  double ms() const { return seconds() * 1e3; }
  Clock::time_point start() const { return begin; }

private:
  Clock::time_point begin = Clock::now();
};

} // namespace kiln::cli
