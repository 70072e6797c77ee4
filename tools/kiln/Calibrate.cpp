//===- Calibrate.cpp - kiln calibrate: measure this GPU's own numbers -----===//
#include "Store/CalibrationStore.h"
#include "calibrate/Benchmarks.h"
#include "calibrate/CalibrationReport.h"
#include "cli/Console.h"
#include "cli/LiveSession.h"
#include "cli/Report.h"
#include "cli/Stopwatch.h"
#include "kiln/Commands.h"

#include <chrono>
#include <ctime>
#include <thread>

namespace kiln::cli {

/// Waits while another process measures, and claims the next turn. The claim is
/// not Mine after far too long a wait, or where the cache knows no claims: this
/// process then measures beside the other.
static cache::Claim awaitTurn(CalibrationStore &store,
                              const DeviceModel &device, bool own) {
  constexpr std::chrono::milliseconds kPause(200), kLongest(60000);
  for (std::chrono::milliseconds waited(0);; waited += kPause) {
    cache::Claim claim = store.claim(device, own);
    if (claim.state != cache::Claim::State::Theirs || waited >= kLongest ||
        *interruptFlag())
      return claim;
    std::this_thread::sleep_for(kPause);
  }
}

/// Measures all of it into \p report.
static llvm::Error measure(LiveSession &session, const DeviceModel &device,
                           CalibrationReport &report) {
  const Stopwatch watch;
  auto rig = Rig::create(session.driver(), *session.artifacts, device);
  if (!rig)
    return rig.takeError();
  const std::vector<Benchmark> benchmarks = allBenchmarks(**rig);
  ProgressBar progress("calibrate");
  size_t begun = 0;
  JudgeOptions options;
  options.cancel = interruptFlag();
  options.isShared = [&] { return isShared(**rig); };
  options.begins = [&](const Benchmark &benchmark) {
    progress.update(begun++, benchmarks.size(), benchmark.name);
  };
  auto judged = judge(benchmarks, device, options);
  if (!judged)
    return judged.takeError();
  report.judged = std::move(*judged);
  report.calibration = {device.uuid, driverVersionText(session.driver()),
                        std::time(nullptr), valuesOf(report.judged)};
  for (const Judged &one : report.judged)
    if (!one.key.empty() && !one.refused.empty())
      report.calibration.refused.push_back(one.key);
  report.seconds = watch.ms() * 1e-3;
  return llvm::Error::success();
}

static llvm::Expected<int> runCalibrate(const ParsedOptions &options) {
  InterruptGuard interrupt;
  Environment environment = Environment::fromProcess();
  auto session = LiveSession::open(options, environment, "calibrate measures");
  if (!session)
    return session.takeError();
  // The numbers without the calibration that there may be.
  DeviceSelection selection;
  selection.ordinal = (*session)->device.ordinal;
  auto assembled =
      assembleDevice(&(*session)->driver(), environment, selection);
  if (!assembled)
    return assembled.takeError();
  const DeviceModel &device = assembled->model;
  CalibrationReport report(device);
  CalibrationStore store(*(*session)->cache);
  const bool isForced = options.has("--force");
  std::vector<std::string> notes;
  std::optional<Calibration> before = store.find(device, notes);
  std::optional<Calibration> found;
  if (!isForced && before && before->refused.empty())
    found = before;
  const cache::Claim turn =
      found ? cache::Claim() : awaitTurn(store, device, isForced);
  if (!found) {
    // A process whose turn came before may have stored another one.
    std::optional<Calibration> now = store.find(device, notes);
    if (!isForced && now && !(before && now->time == before->time))
      found = now;
    before = std::move(now);
  }
  for (const std::string &note : notes)
    printWarning(note);
  if (found) {
    report.calibration = std::move(*found);
    return emit(report, options.wantsJson(),
                report.calibration.refused.empty() ? kExitDone
                                                   : kExitSomeFailed);
  }
  if (llvm::Error error = measure(**session, device, report))
    return error;
  if (report.calibration.values.empty()) {
    report.unstored = "no value was measured";
  } else {
    if (before)
      report.calibration.keepRefused(*before);
    const auto [result, isForClass] = store.store(device, report.calibration);
    report.isForClass = isForClass;
    if (result.status != cache::PublishStatus::Stored)
      report.unstored =
          result.reason.empty() ? "there is no cache" : result.reason;
  }
  const bool isGood = report.refusals() == 0 &&
                      (report.unstored.empty() || options.has("--no-cache"));
  return emit(report, options.wantsJson(),
              isGood ? kExitDone : kExitSomeFailed);
}

static constexpr OptionSpec kCalibrateOwnOptions[] = {
    {"--device", "N|auto",
     "the number of a GPU that is here, or auto, the first one (default)"},
    {"--force", nullptr,
     "measure this GPU, although it or one of its class was measured"},
};
static constexpr auto kCalibrateOptions =
    joinOptions(kCalibrateOwnOptions, kCompilerOptions);

const CommandSpec kCalibrateCommand = {
    "calibrate",
    "",
    "measure the numbers of this GPU that estimates depend on",
    "Runs micro-benchmarks for some 10 s on a GPU that nothing else uses: "
    "bandwidths, latencies, rates, launches, clocks under load. The cache "
    "keeps the values for all GPUs of this class; engines and commands then "
    "take them in place of the catalog's. kiln info shows the values and their "
    "sources. GPUs of a class share the values of the first one that was "
    "measured; with --force each has its own.\n  kiln calibrate\n  kiln "
    "calibrate --device 1 --force --json",
    kCalibrateOptions,
    runCalibrate,
};

} // namespace kiln::cli
