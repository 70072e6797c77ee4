//===- WarmupRequests.cpp - kiln warmup --model and --history -------------===//
//
// The requests are known before their kernels are chosen, and the kernels
// before one is compiled. So it first prints how many there are, how long they
// will take and how large the cache will grow.
//
//===----------------------------------------------------------------------===//
#include "kiln/WarmupRequests.h"

#include "Families/Families.h"
#include "Support/Json.h"
#include "Tune/WarmupSet.h"
#include "cli/Console.h"
#include "cli/Report.h"
#include "cli/Stopwatch.h"
#include "kiln/RequestList.h"

#include <llvm/ADT/STLExtras.h>

#include <deque>

namespace kiln::cli {

namespace {

/// The warm-up of one device.
struct DeviceOutcome {
  DeviceModel device;
  WarmupNeeds needs;
  std::vector<WarmupSetOutcome> outcomes; ///< empty: a dry run
  size_t compiled = 0, failed = 0;
  double chooseMs = 0, elapsedMs = 0;
};

class RequestsReport final : public Report {
public:
  explicit RequestsReport(const RequestList &list)
      : skipped(list.skipped), requests(list.requests) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;

  std::deque<DeviceOutcome> devices;
  bool interrupted = false;

private:
  void printDevice(llvm::raw_ostream &os, const DeviceOutcome &one) const;
  llvm::ArrayRef<std::string> skipped;
  llvm::ArrayRef<WarmupRequest> requests;
};

} // namespace

//===----------------------------------------------------------------------===//
// Working
//===----------------------------------------------------------------------===//

static std::string needsText(const DeviceOutcome &one, size_t requests) {
  const WarmupNeeds &needs = one.needs;
  constexpr double kMiB = 1 << 20;
  std::string text = fmt::format(
      "{} ({}): {} requests, {} kernels, {} of them in the cache", // chosen
      one.device.name, one.device.archName(), requests, needs.kernels,
      needs.present);
  if (needs.present < needs.kernels)
    text += fmt::format("; {} to compile: about {:.0f} s and {:.1f} MiB",
                        needs.kernels - needs.present, needs.seconds,
                        static_cast<double>(needs.bytes) / kMiB);
  return text + '\n';
}

/// "about 12 s left", once that can be told.
static std::string timeLeft(const Stopwatch &watch,
                            const ArtifactStore::Progress &progress) {
  constexpr size_t kEnough = 8; // kernels take unlike times
  if (progress.done < kEnough)
    return "";
  return fmt::format("about {:.0f} s left",
                     watch.seconds() *
                         static_cast<double>(progress.total - progress.done) /
                         static_cast<double>(progress.done));
}

/// Chooses the kernels of all requests, tells how many there are, and compiles
/// them unless that is all.
static llvm::Error warmDevice(const ParsedOptions &options,
                              llvm::ArrayRef<WarmupRequest> requests,
                              const PortfolioContext &context,
                              WarmupSetOptions setOptions, DeviceOutcome &one) {
  const Stopwatch watch;
  const std::string &name = one.device.name;
  std::optional<ProgressBar> bar;
  std::optional<Stopwatch> compiling;
  setOptions.progress = [&](const ArtifactStore::Progress &progress) {
    if (!bar) {
      bar.emplace("compiling for " + name);
      compiling.emplace();
    }
    bar->update(progress.done, progress.total, timeLeft(*compiling, progress));
  };
  WarmupSet set(context, setOptions);
  {
    ProgressBar choosing("choosing for " + name);
    for (auto [i, request] : llvm::enumerate(requests)) {
      choosing.update(i, requests.size(), request.name);
      if (request.part)
        set.add(*request.part);
      else
        set.add(request.value);
    }
  }
  one.needs = set.needs();
  one.chooseMs = watch.ms();
  if (!options.wantsJson())
    if (llvm::Error error = writeOutput(needsText(one, requests.size())))
      return error;
  if (!options.has("--dry-run")) {
    one.outcomes = set.run();
    one.compiled = set.compiled();
    one.failed = set.failed();
  }
  one.elapsedMs = watch.ms();
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

static llvm::StringRef stateOf(const WarmupSetOutcome &outcome) {
  if (outcome.error.code != ErrorCode::Success)
    return "failed";
  return outcome.missing.empty() ? "ready" : "not stored";
}

void RequestsReport::printDevice(llvm::raw_ostream &os,
                                 const DeviceOutcome &one) const {
  if (one.outcomes.empty())
    return;
  Table table({"request", "range", ">kernels", ">regret %", "state"});
  OutcomeNotes notes;
  for (auto [request, outcome] : llvm::zip_equal(requests, one.outcomes)) {
    table.addRow(
        {request.name, request.range, fmt::format("{}", outcome.kernels),
         request.part ? fmt::format("{:.1f}", 100 * outcome.worst) : "",
         stateOf(outcome).str()});
    notes.add(request.name, outcome.error,
              outcome.missing.empty() ? llvm::ArrayRef<std::string>()
                                      : outcome.missing);
  }
  table.print(os);
  notes.print(os);
  os << fmt::format("{}: {} kernels compiled, {} failed, in {:.2f} s, {:.2f} s "
                    "of them to choose\n",
                    one.device.name, one.compiled, one.failed,
                    one.elapsedMs * 1e-3, one.chooseMs * 1e-3);
}

void RequestsReport::print(llvm::raw_ostream &os) const {
  for (const DeviceOutcome &one : devices)
    printDevice(os, one);
  for (const std::string &line : skipped)
    os << "skipped: " << line << '\n';
  if (interrupted)
    os << "interrupted\n";
}

llvm::json::Object RequestsReport::toJson() const {
  auto number = [](uint64_t count) { return static_cast<int64_t>(count); };
  llvm::json::Array list;
  for (const DeviceOutcome &one : devices) {
    llvm::json::Array rows;
    for (auto [i, request] : llvm::enumerate(requests)) {
      llvm::json::Object row{{"name", jsonText(request.name)},
                             {"problem", request.problem}};
      if (request.part)
        row["range"] = request.range;
      if (i < one.outcomes.size()) {
        const WarmupSetOutcome &outcome = one.outcomes[i];
        row["kernels"] = number(outcome.kernels);
        row["state"] = stateOf(outcome);
        if (request.part)
          row["regret"] = rounded(outcome.worst, 4);
        if (outcome.error.code != ErrorCode::Success)
          row["error"] = jsonText(outcome.error.message);
        else if (!outcome.missing.empty())
          row["missing"] = jsonText(outcome.missing);
      }
      rows.push_back(std::move(row));
    }
    list.push_back(
        llvm::json::Object{{"device", one.device.name},
                           {"arch", one.device.archName()},
                           {"requests", std::move(rows)},
                           {"kernels", number(one.needs.kernels)},
                           {"present", number(one.needs.present)},
                           {"estimated_s", rounded(one.needs.seconds, 3)},
                           {"estimated_bytes", number(one.needs.bytes)},
                           {"compiled", number(one.compiled)},
                           {"failed_kernels", number(one.failed)},
                           {"choose_ms", rounded(one.chooseMs, 4)},
                           {"elapsed_ms", rounded(one.elapsedMs, 4)}});
  }
  return llvm::json::Object{{"devices", std::move(list)},
                            {"skipped", textsToJson(skipped)},
                            {"interrupted", interrupted}};
}

int RequestsReport::exitCode() const {
  int code = interrupted ? kExitSomeFailed : kExitDone;
  for (const DeviceOutcome &one : devices)
    for (const WarmupSetOutcome &outcome : one.outcomes) {
      if (outcome.error.code == ErrorCode::CompilerMissing)
        return kExitNoDevice;
      if (outcome.error.code != ErrorCode::Success || !outcome.missing.empty())
        code = kExitSomeFailed;
    }
  return code;
}

llvm::Expected<int> warmRequests(const ParsedOptions &options,
                                 const Environment &environment,
                                 llvm::ArrayRef<ChosenDevice> devices) {
  const Registry registry = makeBuiltinRegistry();
  auto allowance = chooseAllowance(options);
  if (!allowance)
    return allowance.takeError();
  auto storeOptions = artifactOptions(options, environment);
  if (!storeOptions)
    return storeOptions.takeError();
  auto list = RequestList::read(options, registry);
  if (!list)
    return list.takeError();
  auto cache = openCache(options, environment);
  if (!cache)
    return cache.takeError();
  InterruptGuard interrupt;
  RecordStore records(**cache);
  PortfolioStore portfolios(**cache);
  WarmupSetOptions setOptions;
  setOptions.workspaceBytes = allowance->workspaceBytes;
  setOptions.wantsOnDisk = !options.has("--no-cache");
  setOptions.cancel = interrupt.flag();
  RequestsReport report(*list);
  for (const ChosenDevice &device : devices) {
    ArtifactStore artifacts(**cache, *storeOptions);
    DeviceOutcome &one = report.devices.emplace_back();
    one.device = device.model();
    const PortfolioContext context{one.device, artifacts,
                                   records,    portfolios,
                                   nullptr,    deviceClassKey(one.device)};
    if (auto error =
            warmDevice(options, list->requests, context, setOptions, one))
      return error;
  }
  report.interrupted = interrupt.flag()->load();
  return emit(report, options.wantsJson(), report.exitCode());
}

} // namespace kiln::cli
