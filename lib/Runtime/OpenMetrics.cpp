//===- OpenMetrics.cpp - the counts of an engine for monitoring -----------===//
//
// The text follows OpenMetrics 1.0 (github.com/OpenObservability/OpenMetrics):
// families of metrics with their type, unit and help, base units, counters that
// end in "_total", and an end mark.
//
//===----------------------------------------------------------------------===//
#include "Runtime/OpenMetrics.h"

#include "Support/Format.h"

#include <cstddef>
#include <iterator>

namespace kiln {

using Kind = Metric::Kind;
using Unit = Metric::Unit;
using Counts = kiln_statistics;

/// A line for each field, in their order.
static constexpr Metric kMetrics[] = {
    {&Counts::launches, "launches", Kind::Counter, Unit::None,
     "Launches of problems and plans."},
    {&Counts::dispatch_misses, "dispatch_misses", Kind::Counter, Unit::None,
     "Plans that were not in the table."},
    {&Counts::fallback_launches, "fallback_launches", Kind::Counter, Unit::None,
     "Launches for which a better plan may be found."},
    {&Counts::plans, "plans", Kind::Gauge, Unit::None, "Plans loaded now."},
    {&Counts::cache_hits, "cache_hits", Kind::Counter, Unit::None,
     "Kernels read from the cache on disk."},
    {&Counts::cache_misses, "cache_misses", Kind::Counter, Unit::None,
     "Kernels not found in the cache on disk."},
    {&Counts::cache_faults, "cache_faults", Kind::Counter, Unit::None,
     "Damaged or foreign entries of the cache, and failed writes."},
    {&Counts::compiles, "compiles", Kind::Counter, Unit::None,
     "Kernels compiled."},
    {&Counts::compile_failures, "compile_failures", Kind::Counter, Unit::None,
     "Compilations that failed."},
    {&Counts::trials, "trials", Kind::Counter, Unit::None, "Configs tried."},
    {&Counts::trial_failures, "trial_failures", Kind::Counter, Unit::None,
     "Configs that were wrong, crashed or timed out."},
    {&Counts::compile_ns, "compile_seconds", Kind::Counter, Unit::Seconds,
     "Time of compilations, summed over threads."},
    {&Counts::tune_ns, "tune_seconds", Kind::Counter, Unit::Seconds,
     "Time of tuning."},
    {&Counts::load_ns, "load_seconds", Kind::Counter, Unit::Seconds,
     "Time of loading plans."},
    {&Counts::arena_bytes, "arena_bytes", Kind::Gauge, Unit::Bytes,
     "Device memory of arenas."},
    {&Counts::background_pending, "background_pending", Kind::Gauge, Unit::None,
     "Layers, ranges and problems that the background has to look at."},
    {&Counts::background_done, "background_done", Kind::Gauge, Unit::None,
     "Layers, ranges and problems that the background has looked at."},
    {&Counts::background_swaps, "background_swaps", Kind::Counter, Unit::None,
     "Values that got a better plan."},
    {&Counts::background_gpu_ns, "background_gpu_seconds", Kind::Counter,
     Unit::Seconds, "GPU time of trials in the background, an upper bound."},
    {&Counts::background_paused, "background_paused", Kind::Gauge, Unit::None,
     "Whether the background is paused: not 0."},
    {&Counts::background_held_ns, "background_held_seconds", Kind::Counter,
     Unit::Seconds, "Time that captures kept trials waiting."},
    {&Counts::cache_evictions, "cache_evictions", Kind::Counter, Unit::None,
     "Entries removed to keep the cache under its limit."},
    {&Counts::arena_peak_bytes, "arena_peak_bytes", Kind::Gauge, Unit::Bytes,
     "The most device memory of arenas since the peaks were reset."},
    {&Counts::module_bytes, "module_bytes", Kind::Gauge, Unit::Bytes,
     "Device memory of loaded kernels."},
    {&Counts::module_peak_bytes, "module_peak_bytes", Kind::Gauge, Unit::Bytes,
     "The most device memory of kernels since the peaks were reset."},
    {&Counts::scratch_bytes, "scratch_bytes", Kind::Gauge, Unit::Bytes,
     "Device memory of trials."},
    {&Counts::scratch_peak_bytes, "scratch_peak_bytes", Kind::Gauge,
     Unit::Bytes,
     "The most device memory of trials since the peaks were reset."},
    {&Counts::host_bytes, "host_bytes", Kind::Gauge, Unit::Bytes,
     "Host memory of stores and of the table of plans."},
    {&Counts::host_peak_bytes, "host_peak_bytes", Kind::Gauge, Unit::Bytes,
     "The most host memory of these since the peaks were reset."},
    {&Counts::waits, "waits", Kind::Counter, Unit::None,
     "Calls that took longer than a millisecond."},
    {&Counts::wait_ns, "wait_seconds", Kind::Counter, Unit::Seconds,
     "Time of calls that took longer than a millisecond."},
    {&Counts::longest_wait_ns, "longest_wait_seconds", Kind::Gauge,
     Unit::Seconds, "The longest time of a call."},
};

static_assert(std::size(kMetrics) ==
                  (offsetof(Counts, reserved) - offsetof(Counts, launches)) /
                      sizeof(uint64_t),
              "each field of kiln_statistics is one metric");

llvm::ArrayRef<Metric> metrics() { return kMetrics; }

/// Nanoseconds in seconds, exactly.
static std::string secondsText(uint64_t ns) {
  constexpr uint64_t kNsPerSecond = 1'000'000'000;
  return fmt::format("{}.{:09}", ns / kNsPerSecond, ns % kNsPerSecond);
}

static void addMetric(const Metric &metric, uint64_t value, std::string &text) {
  const bool isCounter = metric.kind == Kind::Counter;
  text += fmt::format("# TYPE kiln_{} {}\n", metric.name,
                      isCounter ? "counter" : "gauge");
  if (metric.unit != Unit::None)
    text += fmt::format("# UNIT kiln_{} {}\n", metric.name,
                        metric.unit == Unit::Bytes ? "bytes" : "seconds");
  text += fmt::format("# HELP kiln_{} {}\n", metric.name, metric.help);
  text += fmt::format("kiln_{}{} {}\n", metric.name, isCounter ? "_total" : "",
                      metric.unit == Unit::Seconds ? secondsText(value)
                                                   : fmt::format("{}", value));
}

std::string openMetricsText(const kiln_statistics &statistics) {
  std::string text = "# TYPE kiln_build info\n"
                     "# HELP kiln_build The version of Kiln.\n"
                     "kiln_build_info{version=\"" KILN_VERSION "\"} 1\n";
  for (const Metric &metric : kMetrics)
    addMetric(metric, statistics.*metric.field, text);
  return text + "# EOF\n";
}

} // namespace kiln
