//===- BackgroundReport.cpp -----------------------------------------------===//
#include "kiln/bench/BackgroundReport.h"

#include "Support/Json.h"
#include "kiln/Commands.h"
#include "kiln/Console.h"

namespace kiln::cli {

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

static std::string percent(double share) {
  return fmt::format("{:.2f} %", 100 * share);
}

static std::string timesText(llvm::ArrayRef<double> us) {
  const TimeFigures figures = TimeFigures::of(us);
  return fmt::format("{} calls: median {:.1f}, p99 {:.1f}, p99.9 {:.1f}, most "
                     "{:.1f} us",
                     figures.count, figures.median, figures.p99,
                     quantile(us, 0.999), figures.most);
}

void BackgroundReport::print(llvm::raw_ostream &os) const {
  os << fmt::format("{}; {}, driver {}\n", setting.what, setting.gpu,
                    setting.driver)
     << wrapText(setting.protocol);
  Table table({"of", "measured"});
  if (!firstUs.empty())
    table.addRow({"first calls of signatures", timesText(firstUs)});
  if (fresh)
    table.addRow({"calls behind these", timesText(fresh->us)});
  if (busy) {
    table.addRow({"calls while it works", timesText(busy->us)});
    table.addRow({"the GPU, by trials",
                  fmt::format("{} of {} allowed; {} trials, {} swaps",
                              percent(busy->share()), percent(share),
                              busy->trials, busy->swaps)});
  }
  if (foreground)
    table.addRow({"calls lost to it", percent(foreground->loss())});
  if (checked) {
    table.addRow({"results",
                  fmt::format("{} wrong and {} calls failed of {}, {} swaps{}",
                              checked->wrong, checked->failed, checked->calls,
                              checked->swaps,
                              checked->isQuiet ? "" : ", not quiet yet")});
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

static llvm::json::Object callsToJson(const CallTimes &calls) {
  return llvm::json::Object{{"us", timesToJson(calls.us)},
                            {"seconds", rounded(calls.seconds)},
                            {"share", rounded(calls.share(), 4)},
                            {"trials", int64_t(calls.trials)},
                            {"swaps", int64_t(calls.swaps)}};
}

static llvm::json::Object checkedToJson(const CheckedCalls &checked) {
  return llvm::json::Object{
      {"calls", int64_t(checked.calls)},
      {"wrong", int64_t(checked.wrong)},
      {"failed", int64_t(checked.failed)},
      {"swaps", int64_t(checked.swaps)},
      {"seconds", rounded(checked.seconds)},
      {"quiet", checked.isQuiet},
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
                             {"tuned_us", rounded(speed.tunedUs)},
                             {"ratio", rounded(speed.ratio(), 4)}});
    figures["speed"] = llvm::json::Object{{"summary", ratios().toJson()},
                                          {"values", std::move(values)}};
  }
  return llvm::json::Object{
      {"what", setting.what},       {"commit", setting.commit},
      {"gpu", setting.gpu},         {"driver", setting.driver},
      {"cuda", setting.cuda},       {"protocol", setting.protocol},
      {"interrupted", interrupted}, {"background", std::move(figures)}};
}

int BackgroundReport::exitCode() const {
  const bool isGood = checked && checked->isGood() && checked->isQuiet;
  return interrupted || !isGood ? kExitSomeFailed : kExitDone;
}

} // namespace kiln::cli
