//===- Warmup.cpp - kiln warmup: compile ahead, without a GPU -------------===//
#include "Tune/Warmup.h"

#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Support/Json.h"
#include "cli/CommonOptions.h"
#include "cli/Console.h"
#include "cli/Report.h"
#include "cli/Stopwatch.h"
#include "kiln/Commands.h"
#include "kiln/RangeReport.h"
#include "kiln/WarmupPool.h"
#include "kiln/WarmupRequests.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/FileSystem.h>

#include <deque>
#include <set>

namespace kiln::cli {

namespace {

/// The result of warming up for one device.
struct DeviceResult {
  DeviceModel device;
  WarmupResult result;
};

class WarmupReport final : public Report {
public:
  explicit WarmupReport(llvm::ArrayRef<Case> cases) : cases(cases) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;

  std::vector<DeviceResult> devices;
  double elapsedMs = 0;
  uint64_t damaged = 0; ///< entries of the cache that were met damaged
  bool interrupted = false;

private:
  void printDevice(llvm::raw_ostream &os, const DeviceResult &one) const;
  llvm::ArrayRef<Case> cases;
};

} // namespace

static std::string formatMs(const WarmupRow &row) {
  return row.compileMs > 0 ? fmt::format("{:.0f}", row.compileMs) : "";
}

static llvm::StringRef stateOf(const WarmupRow &row) {
  if (row.error.code != ErrorCode::Success)
    return row.isReplaced ? "replaced" : "failed";
  return row.cached ? "yes" : "no";
}

static bool isUnstored(const WarmupResult &result) {
  return result.unstoredKernels + result.unstoredDecisions > 0;
}

void WarmupReport::printDevice(llvm::raw_ostream &os,
                               const DeviceResult &one) const {
  os << fmt::format("{} ({})\n", one.device.name, one.device.archName());
  Table table(
      {"problem", "config", ">predicted us", "bound", ">compile ms", "cached"});
  std::set<std::string> errors;
  for (const WarmupRow &row : one.result.rows) {
    bool isEmpty = row.config.empty();
    table.addRow({cases[row.problem].name, isEmpty ? "-" : row.config,
                  isEmpty ? "" : formatUs(row.predictedNs), row.bound,
                  formatMs(row), stateOf(row).str()});
    if (row.error.code != ErrorCode::Success)
      errors.insert(fmt::format("{}: {}",
                                row.isReplaced ? "replaced" : "failed",
                                onOneLine(row.error.message)));
  }
  table.print(os);
  for (const std::string &error : errors)
    os << error << '\n';
  if (isUnstored(one.result))
    os << fmt::format("not stored: {} kernels, {} decisions: {}\n",
                      one.result.unstoredKernels, one.result.unstoredDecisions,
                      onOneLine(llvm::join(one.result.unstoredReasons, "; ")));
  os << fmt::format("{} kernels: {} compiled, {} from the cache, {} failed; "
                    "{} decisions stored, {} there already\n",
                    one.result.distinctKernels, one.result.compiled,
                    one.result.fromCache, one.result.failedKernels,
                    one.result.decisionsStored, one.result.decisionsFound);
}

void WarmupReport::print(llvm::raw_ostream &os) const {
  for (const DeviceResult &one : devices) {
    printDevice(os, one);
    os << '\n';
  }
  if (damaged)
    os << fmt::format(
        "{} entries of the cache were damaged and count as missing\n", damaged);
  os << fmt::format("{} problems in {:.2f} s{}\n", cases.size(),
                    elapsedMs * 1e-3, interrupted ? ", interrupted" : "");
}

static llvm::json::Object rowToJson(const WarmupRow &row, const Case &which) {
  llvm::json::Object object{{"name", which.name},
                            {"problem", which.text()},
                            {"config", row.config},
                            {"predicted_us", rounded(row.predictedNs * 1e-3)},
                            {"bound", row.bound},
                            {"kernels", static_cast<int64_t>(row.kernels)},
                            {"compile_ms", rounded(row.compileMs, 4)},
                            {"cached", row.cached}};
  if (row.isReplaced)
    object["replaced"] = true;
  if (row.error.code != ErrorCode::Success)
    object["error"] = jsonText(row.error.message);
  return object;
}

llvm::json::Object WarmupReport::toJson() const {
  llvm::json::Array list;
  for (const auto &[device, result] : devices) {
    llvm::json::Array rows;
    for (const WarmupRow &row : result.rows)
      rows.push_back(rowToJson(row, cases[row.problem]));
    llvm::json::Array notes;
    for (const std::string &reason : result.unstoredReasons)
      notes.push_back(jsonText(reason));
    auto number = [](size_t count) { return static_cast<int64_t>(count); };
    list.push_back(llvm::json::Object{
        {"device", device.name},
        {"arch", device.archName()},
        {"rows", std::move(rows)},
        {"kernels", number(result.distinctKernels)},
        {"compiled", number(result.compiled)},
        {"from_cache", number(result.fromCache)},
        {"failed_kernels", number(result.failedKernels)},
        {"failed_problems", number(result.failedProblems)},
        {"decisions_stored", number(result.decisionsStored)},
        {"decisions_found", number(result.decisionsFound)},
        {"unstored_kernels", number(result.unstoredKernels)},
        {"unstored_decisions", number(result.unstoredDecisions)},
        {"notes", std::move(notes)}});
  }
  return llvm::json::Object{{"devices", std::move(list)},
                            {"damaged_entries", static_cast<int64_t>(damaged)},
                            {"elapsed_ms", rounded(elapsedMs, 4)},
                            {"interrupted", interrupted}};
}

int WarmupReport::exitCode() const {
  int code = interrupted ? kExitSomeFailed : kExitDone;
  for (const auto &[device, result] : devices) {
    if (isUnstored(result))
      code = kExitSomeFailed;
    for (const WarmupRow &row : result.rows)
      if (row.error.code == ErrorCode::CompilerMissing)
        return kExitNoDevice;
      else if (row.error.code != ErrorCode::Success && !row.isReplaced)
        code = kExitSomeFailed;
  }
  return code;
}

/// A device for --arch: the first GPU of the catalog with that architecture,
/// else one of the architecture's rules alone.
static llvm::Expected<ChosenDevice> deviceOfArch(const std::string &arch) {
  ChosenDevice chosen;
  for (llvm::StringRef name : catalogNames()) {
    auto model = findDevice(name);
    if (!model)
      return model.takeError();
    if (model->archName() != arch && model->archName(true) != arch)
      continue;
    chosen.assembled.model = std::move(*model);
    return chosen;
  }
  return makeError(ErrorCode::InvalidArgument,
                   "--arch={}: no known GPU has this architecture; describe "
                   "one in a file for --device",
                   arch);
}

/// Every device that --device and --arch name.
static llvm::Expected<std::vector<ChosenDevice>>
chooseDevices(const ParsedOptions &options, const Environment &environment) {
  std::vector<ChosenDevice> devices;
  std::vector<std::string> names = options.values("--device");
  std::vector<std::string> archs = options.values("--arch");
  if (names.empty() && archs.empty())
    names.push_back("auto");
  for (const std::string &name : names) {
    auto device = chooseDevice(name, options, environment);
    if (!device)
      return device.takeError();
    devices.push_back(std::move(*device));
  }
  for (const std::string &arch : archs) {
    auto device = deviceOfArch(arch);
    if (!device)
      return device.takeError();
    devices.push_back(std::move(*device));
  }
  return devices;
}

/// Writes the text of every kernel that warm-up compiles for \p device into \p
/// folder, for kernel authors.
static llvm::Error dumpUnits(const std::string &folder,
                             llvm::ArrayRef<Case> cases,
                             const DeviceModel &device,
                             const WarmupOptions &options) {
  if (std::error_code failure = llvm::sys::fs::create_directories(folder))
    return makeErrnoError(failure.value(), folder);
  for (const Case &one : cases) {
    const auto &[family, problem] = one.named;
    if (family->isEmpty(problem))
      continue;
    auto space = exploreSpace(*family, problem, device,
                              {.allowance = options.allowance});
    if (!space)
      return space.takeError();
    for (const Candidate &candidate :
         llvm::ArrayRef<Candidate>(space->ranked).take_front(options.top))
      for (const TranslationUnit &unit :
           candidate.tmpl->plan(problem, candidate.config, device).kernels) {
        std::string name = fmt::format("{}.{}.{}.cu", unit.name(), unit.arch(),
                                       unit.digest().hex().substr(0, 12));
        if (llvm::Error error = writeFileIn(folder, name, unit.source()))
          return error;
      }
  }
  return llvm::Error::success();
}

/// The kernels of one device.
static DeviceResult warmDevice(const DeviceModel &device,
                               llvm::ArrayRef<Case> cases,
                               ArtifactStore &artifacts,
                               PortfolioStore &portfolios,
                               WarmupOptions options) {
  ProgressBar bar("compiling for " + device.name);
  options.progress = [&](const ArtifactStore::Progress &progress) {
    bar.update(progress.done, progress.total,
               progress.unit ? progress.unit->name() : llvm::StringRef());
  };
  return {device,
          warmup(problemsOf(cases), device, artifacts, portfolios, options)};
}

namespace {
/// Reports of the ranges of several devices.
class RangesReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override {
    for (const RangeReport &one : devices)
      one.print(os);
  }
  llvm::json::Object toJson() const override {
    llvm::json::Array list;
    for (const RangeReport &one : devices)
      list.push_back(one.toJson());
    return llvm::json::Object{{"devices", std::move(list)}};
  }
  int exitCode() const {
    int code = kExitDone;
    for (const RangeReport &one : devices)
      code = std::max(code, one.exitCode());
    return code;
  }

  std::deque<RangeReport> devices; // which moves none
};
} // namespace

/// Compiles what the estimator chooses for all values of ranges.
static llvm::Expected<int> warmRanges(const ParsedOptions &options) {
  const Environment environment = Environment::fromProcess();
  const Registry registry = makeBuiltinRegistry();
  for (const char *other : {"--top", "--with-generic", "--dump-dir"})
    if (options.has(other))
      return makeError(ErrorCode::InvalidArgument, "{} is not for --range",
                       other);
  auto storeOptions = artifactOptions(options, environment);
  if (!storeOptions)
    return storeOptions.takeError();
  auto allowance = chooseAllowance(options);
  if (!allowance)
    return allowance.takeError();
  auto cases = readRanges(options, registry);
  if (!cases)
    return cases.takeError();
  auto devices = chooseDevices(options, environment);
  if (!devices)
    return devices.takeError();
  auto cache = openCache(options, environment);
  if (!cache)
    return cache.takeError();
  InterruptGuard interrupt;
  RecordStore records(**cache);
  PortfolioStore portfolios(**cache);
  PortfolioOptions preparation;
  preparation.measures = false;
  preparation.workspaceBytes = allowance->workspaceBytes;
  preparation.cancel = interrupt.flag();
  RangesReport report;
  for (const ChosenDevice &device : *devices) {
    const Stopwatch watch;
    ArtifactStore artifacts(**cache, *storeOptions);
    const DeviceModel &model = device.model();
    PortfolioContext context{model,      artifacts, records,
                             portfolios, nullptr,   deviceClassKey(model)};
    RangeReport &one = report.devices.emplace_back(
        *cases, model,
        prepareRanges(context, *cases, preparation,
                      std::chrono::milliseconds(0),
                      "compiling for " + model.name),
        /*wantsTrials=*/false, /*wantsStored=*/!options.has("--no-cache"));
    one.artifacts = artifacts.statistics();
    one.interrupted = interrupt.flag()->load();
    one.elapsedMs = watch.ms();
  }
  return emit(report, options.wantsJson(), report.exitCode());
}

/// Compiles what serves all sizes of signatures.
static llvm::Expected<int> warmSignatures(const ParsedOptions &options) {
  for (const char *other : {"--top", "--with-generic", "--dump-dir", "--suite",
                            "--filter", "--range"})
    if (options.has(other))
      return makeError(ErrorCode::InvalidArgument, "{} is not for --pool",
                       other);
  const Environment environment = Environment::fromProcess();
  auto devices = chooseDevices(options, environment);
  if (!devices)
    return devices.takeError();
  return warmPools(options, environment, *devices);
}

/// Refuses options of \p table, which are for other forms of the command.
static llvm::Error refuseOthers(const ParsedOptions &options,
                                llvm::ArrayRef<OptionSpec> table,
                                const char *form) {
  for (const OptionSpec &other : table)
    if (options.has(other.name))
      return makeError(ErrorCode::InvalidArgument, "{} is for {} alone",
                       other.name, form);
  return llvm::Error::success();
}

/// Compiles what engines ask for.
static llvm::Expected<int> warmModel(const ParsedOptions &options) {
  const char *asked = options.has("--model") ? "--model" : "--history";
  if (!options.has("--model"))
    if (llvm::Error error = refuseOthers(options, kModelOptions, "--model"))
      return error;
  for (const char *other : {"--top", "--with-generic", "--dump-dir", "--suite",
                            "--filter", "--range", "--pool"})
    if (options.has(other))
      return makeError(ErrorCode::InvalidArgument, "{} is not for {}", other,
                       asked);
  if (!options.operands().empty())
    return makeError(ErrorCode::InvalidArgument,
                     "problems are those of {}, got '{}'", asked,
                     options.operands().front());
  const Environment environment = Environment::fromProcess();
  auto devices = chooseDevices(options, environment);
  if (!devices)
    return devices.takeError();
  return warmRequests(options, environment, *devices);
}

static llvm::Expected<int> runWarmup(const ParsedOptions &options) {
  const Stopwatch watch;
  if (options.has("--model") || options.has("--history"))
    return warmModel(options);
  if (llvm::Error error = refuseOthers(options, kModelOptions, "--model"))
    return error;
  if (llvm::Error error =
          refuseOthers(options, kHistoryOptions, "--model and --history"))
    return error;
  if (options.has("--pool"))
    return warmSignatures(options);
  if (llvm::Error error = refuseOthers(options, kPoolOptions, "--pool"))
    return error;
  if (options.has("--range"))
    return warmRanges(options);
  WarmupOptions warmupOptions;
  auto top = options.number("--top", 1, 1, 1000);
  if (!top)
    return top.takeError();
  warmupOptions.top = *top;
  warmupOptions.withGeneric = options.has("--with-generic");
  warmupOptions.store = !options.has("--no-cache");
  auto subject = Subject::read(options);
  if (!subject)
    return subject.takeError();
  const auto &[environment, registry, cases, allowance] = *subject;
  warmupOptions.allowance = allowance;
  auto storeOptions = artifactOptions(options, environment);
  if (!storeOptions)
    return storeOptions.takeError();
  auto devices = chooseDevices(options, environment);
  if (!devices)
    return devices.takeError();
  if (std::optional<std::string> folder = options.value("--dump-dir"))
    for (const ChosenDevice &device : *devices)
      if (llvm::Error error =
              dumpUnits(*folder, cases, device.model(), warmupOptions))
        return error;
  auto cache = openCache(options, environment);
  if (!cache)
    return cache.takeError();

  InterruptGuard interrupt;
  warmupOptions.cancel = interrupt.flag();
  ArtifactStore artifacts(**cache, *storeOptions);
  PortfolioStore portfolios(**cache);
  WarmupReport report(cases);
  for (const ChosenDevice &device : *devices)
    report.devices.push_back(warmDevice(device.model(), cases, artifacts,
                                        portfolios, warmupOptions));
  report.interrupted = interrupt.flag()->load();
  report.damaged = (*cache)->statistics().damaged;
  report.elapsedMs = watch.ms();
  return emit(report, options.wantsJson(), report.exitCode());
}

static constexpr OptionSpec kWarmupOwnOptions[] = {
    {"--device", "NAME|FILE|N|auto",
     "a GPU to compile for, which need not be here; may be repeated", true},
    {"--arch", "sm_XX",
     "the first known GPU of this architecture; may be repeated", true},
    kOverrideOption,
    kSuiteOption,
    kFilterOption,
    kRangesOption,
    {"--top", "N", "compile the N first choices of each problem; default 1"},
    {"--with-generic", nullptr,
     "compile the generic kernel of each signature as well"},
    {"--dump-dir", "DIR", "write the text of every kernel there"},
};
static constexpr auto kWarmupOptions =
    joinOptions(kWarmupOwnOptions, kModelOptions, kHistoryOptions, kPoolOptions,
                kAllowanceOptions, kCompilerOptions);

const CommandSpec kWarmupCommand = {
    "warmup",
    "PROBLEM...",
    "compile the first choices for named devices; needs no GPU",
    "Plans each problem as an engine does, compiles the kernels of its first "
    "choices in parallel and stores the kernels and the decisions in the "
    "cache. May be interrupted: compiled kernels are kept. Ends with 1 if a "
    "kernel or decision is not on disk at the end. With --range it compiles "
    "the few kernels that serve all values of an extent, with --pool those "
    "that serve all sizes of a signature, for models that are not known "
    "yet.\n  kiln warmup --suite benchmarks/suites/memory_bound.json --device "
    "h200-sxm\n  kiln warmup --suite benchmarks/suites/layers.json --range "
    "m=1..8192 --device h200-sxm\n  kiln warmup --pool FAMILY dtype=bf16 "
    "--device h200-sxm",
    kWarmupOptions,
    runWarmup,
};

} // namespace kiln::cli
