//===- BackgroundReport.cpp -----------------------------------------------===//
#include "kiln-bench/BackgroundReport.h"

#include "Support/Json.h"
#include "cli/Console.h"

#include <algorithm>

namespace kiln::cli {

void CallTimes::addSlow(SlowCall call) {
  auto isSlower = [](double us, const SlowCall &other) {
    return us > other.time.us;
  };
  slowest.insert(
      std::upper_bound(slowest.begin(), slowest.end(), call.time.us, isSlower),
      std::move(call));
  if (slowest.size() > kSlowest)
    slowest.pop_back();
}

double Foreground::loss() const {
  if (calls[0] <= 0 || calls[1] <= 0)
    return 0;
  return 1 - calls[0] / seconds[0] / (calls[1] / seconds[1]);
}

RatioFigures BackgroundReport::ratios() const {
  std::vector<double> all;
  for (const QuietSpeed &speed : speeds)
    if (speed.ratio() > 0)
      all.push_back(speed.ratio());
  return RatioFigures::of(all);
}

static std::string exactPercent(double share) {
  return fmt::format("{:.2f} %", 100 * share);
}

static std::string timesText(llvm::ArrayRef<double> us) {
  const TimeFigures figures = TimeFigures::of(us);
  return fmt::format("{} calls: median {:.1f}, p99 {:.1f}, p99.9 {:.1f}, most "
                     "{:.1f} us",
                     figures.count, figures.median, figures.p99,
                     quantile(us, 0.999), figures.most);
}

static std::string slowText(const SlowCall &call) {
  return fmt::format("{:.1f} us at {:.2f} s, {}: {:.1f} us of CPU, {} waits, "
                     "{} times preempted{}{}",
                     call.time.us, call.atSeconds, call.name, call.time.cpuUs,
                     call.time.waits, call.time.preemptions,
                     call.isMiss ? ", a miss" : "",
                     call.growsArena ? ", a larger arena" : "");
}

static std::string quietText(const CheckedCalls &checked) {
  const std::string trials = fmt::format("{} trials, {:.1f} s of the GPU",
                                         checked.trials, checked.trialSeconds);
  return checked.isQuiet
             ? fmt::format("after {:.1f} s, {}", checked.quietSeconds, trials)
             : fmt::format("{} pending, {}", checked.pending, trials);
}

void BackgroundReport::print(llvm::raw_ostream &os) const {
  setting.print(os);
  Table table({"of", "measured"});
  if (!firstUs.empty())
    table.addRow({"first calls of signatures", timesText(firstUs)});
  if (fresh)
    table.addRow({"calls behind these", timesText(fresh->us)});
  if (busy) {
    table.addRow({"calls while it works", timesText(busy->us)});
    table.addRow({"the GPU, by trials",
                  fmt::format("{} of {} allowed; {} trials, {} swaps, {} "
                              "pending",
                              exactPercent(busy->share()), exactPercent(share),
                              busy->trials, busy->swaps, busy->pending)});
    for (const SlowCall &call : busy->slowest)
      table.addRow({"a slow call of these", slowText(call)});
  }
  if (foreground)
    table.addRow({"calls lost to it", exactPercent(foreground->loss())});
  if (checked) {
    table.addRow({"results",
                  fmt::format("{} wrong and {} calls failed of {}, {} swaps{}",
                              checked->wrong, checked->failed, checked->calls,
                              checked->swaps,
                              checked->isQuiet ? "" : ", not quiet yet")});
    table.addRow({"quiet", quietText(*checked)});
    table.addRow({"captures beside it",
                  fmt::format("{} failed of {}, {} calls not prepared",
                              checked->failedCaptures, checked->captures,
                              checked->notPrepared)});
  }
  if (const RatioFigures figures = ratios(); figures.count)
    table.addRow({"speed after quiet, tuned over it",
                  fmt::format("geomean {:.3f}, least {:.3f} of {} values",
                              figures.geomean, figures.least, figures.count)});
  table.print(os);
}

static llvm::json::Object timesToJson(llvm::ArrayRef<double> us) {
  llvm::json::Object object = TimeFigures::of(us).toJson();
  object["p99.9"] = rounded(quantile(us, 0.999));
  return object;
}

static llvm::json::Array slowestToJson(llvm::ArrayRef<SlowCall> calls) {
  llvm::json::Array array;
  for (const SlowCall &call : calls)
    array.push_back(llvm::json::Object{{"name", jsonText(call.name)},
                                       {"us", rounded(call.time.us)},
                                       {"at_seconds", rounded(call.atSeconds)},
                                       {"cpu_us", rounded(call.time.cpuUs)},
                                       {"waits", call.time.waits},
                                       {"preemptions", call.time.preemptions},
                                       {"miss", call.isMiss},
                                       {"grows_arena", call.growsArena}});
  return array;
}

static llvm::json::Object callsToJson(const CallTimes &calls) {
  return llvm::json::Object{{"us", timesToJson(calls.us)},
                            {"seconds", rounded(calls.seconds)},
                            {"share", rounded(calls.share(), 4)},
                            {"trials", int64_t(calls.trials)},
                            {"swaps", int64_t(calls.swaps)},
                            {"pending", int64_t(calls.pending)},
                            {"slowest", slowestToJson(calls.slowest)}};
}

static llvm::json::Object checkedToJson(const CheckedCalls &checked) {
  return llvm::json::Object{
      {"calls", int64_t(checked.calls)},
      {"wrong", int64_t(checked.wrong)},
      {"failed", int64_t(checked.failed)},
      {"swaps", int64_t(checked.swaps)},
      {"seconds", rounded(checked.seconds)},
      {"quiet", checked.isQuiet},
      {"quiet_seconds", rounded(checked.quietSeconds)},
      {"trials", int64_t(checked.trials)},
      {"trial_seconds", rounded(checked.trialSeconds)},
      {"pending", int64_t(checked.pending)},
      {"captures", int64_t(checked.captures)},
      {"failed_captures", int64_t(checked.failedCaptures)},
      {"not_prepared", int64_t(checked.notPrepared)}};
}

llvm::json::Object BackgroundReport::toJson() const {
  llvm::json::Object figures{{"allowed_share", rounded(share)}};
  if (!firstUs.empty())
    figures["first"] = timesToJson(firstUs);
  if (fresh)
    figures["fresh"] = callsToJson(*fresh);
  if (busy)
    figures["busy"] = callsToJson(*busy);
  if (foreground)
    figures["foreground"] =
        llvm::json::Object{{"loss", rounded(foreground->loss(), 4)},
                           {"share", rounded(foreground->share(), 4)}};
  if (checked)
    figures["checked"] = checkedToJson(*checked);
  if (!speeds.empty()) {
    llvm::json::Array values;
    for (const QuietSpeed &speed : speeds)
      values.push_back(
          llvm::json::Object{{"name", jsonText(speed.name)},
                             {"background_us", rounded(speed.backgroundUs)},
                             {"background_config", speed.backgroundConfig},
                             {"tuned_us", rounded(speed.tunedUs)},
                             {"tuned_config", speed.tunedConfig},
                             {"ratio", rounded(speed.ratio(), 4)}});
    figures["speed"] = llvm::json::Object{{"summary", ratios().toJson()},
                                          {"values", std::move(values)}};
  }
  llvm::json::Object object = setting.toJson();
  object["interrupted"] = interrupted;
  object["background"] = std::move(figures);
  return object;
}

int BackgroundReport::exitCode() const {
  const bool isGood = checked && checked->isGood() && checked->isQuiet;
  return interrupted || !isGood ? kExitSomeFailed : kExitDone;
}

} // namespace kiln::cli
