//===- HostClock.cpp ------------------------------------------------------===//
#include "kiln-bench/HostClock.h"

#include <ctime>
#include <sys/resource.h>

namespace kiln::cli {

using Clock = std::chrono::steady_clock;

HostClock::Usage HostClock::usage() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  // Finer than the times of rusage, which some systems count in ticks.
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  return {cpu.tv_sec * kNsPerSecond + cpu.tv_nsec, used.ru_nvcsw,
          used.ru_nivcsw};
}

HostClock::HostClock() : before(usage()), start(Clock::now()) {}

HostTime HostClock::stop() const {
  const Clock::time_point end = Clock::now();
  const Usage after = usage();
  constexpr double kNsPerUs = 1e3;
  return {std::chrono::duration<double, std::micro>(end - start).count(),
          static_cast<double>(after.cpuNs - before.cpuNs) / kNsPerUs,
          after.waits - before.waits, after.preemptions - before.preemptions};
}

} // namespace kiln::cli
