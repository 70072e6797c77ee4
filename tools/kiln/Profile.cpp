//===- Profile.cpp - kiln profile: device time by kernel ------------------===//
//
// Times come from the helper (tools/profiler) inside the command's processes,
// counters from ncu, which runs the command a second time: a launch that is
// repeated for its counters is slower, and alone.
//
//===----------------------------------------------------------------------===//
#include "Choice/Explanation.h"
#include "Families/Families.h"
#include "Kernel/KernelName.h"
#include "cli/CommonOptions.h"
#include "cli/Console.h"
#include "cli/CounterProfiler.h"
#include "cli/Finish.h"
#include "kiln/Commands.h"
#include "kiln/CounterReport.h"
#include "kiln/ProfileReport.h"
#include "kiln/ProfiledCommand.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/FileSystem.h>

#include <sys/ioctl.h>
#include <unistd.h>

namespace kiln::cli {

namespace {

struct ProfileRequest {
  Environment environment;
  Registry registry;
  std::vector<Case> cases; ///< empty: a command is profiled
  ProfiledCommand command;
  ProfileReport::Options report;
  std::optional<std::string> csv;
  std::optional<CounterRequest> counters;
};

/// Times, and counters where they are asked for.
class WholeReport final : public Report {
public:
  WholeReport(const ProfileReport &times, const CounterReport *counters)
      : times(times), counters(counters) {}
  void print(llvm::raw_ostream &os) const override {
    times.print(os);
    if (counters && !counters->rows.empty()) {
      os << '\n';
      counters->print(os);
    }
  }
  llvm::json::Object toJson() const override {
    llvm::json::Object object = times.toJson();
    if (counters)
      object["counters"] = counters->toJson();
    return object;
  }

private:
  const ProfileReport &times;
  const CounterReport *counters;
};

} // namespace

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// Columns of the terminal on stdout; 0: it is not a terminal.
static size_t outputColumns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static llvm::Error readReport(const ParsedOptions &options,
                              ProfileReport::Options &report) {
  const std::string by = options.value("--by").value_or(kProfileByNames[0]);
  const auto *found = llvm::find(kProfileByNames, by);
  if (found == std::end(kProfileByNames))
    return makeError(ErrorCode::InvalidArgument, "--by={} is not one of {}", by,
                     fmt::join(kProfileByNames, ", "));
  report.by = static_cast<ProfileBy>(found - std::begin(kProfileByNames));
  auto top = options.number("--top", static_cast<unsigned>(report.top));
  if (!top)
    return top.takeError();
  report.top = *top;
  auto width =
      options.number("--width", static_cast<unsigned>(outputColumns()), 40);
  if (!width)
    return width.takeError();
  report.width = *width;
  return llvm::Error::success();
}

/// This tool as the command that launches \p problems.
static std::vector<std::string> runCommand(const ParsedOptions &options,
                                           llvm::StringRef launches) {
  static int here; // an address of this program
  std::vector<std::string> words = {
      llvm::sys::fs::getMainExecutable("kiln", &here), "run",
      "--launches=" + launches.str()};
  for (const char *option : {"--device", "--override", "--cache-dir", "--nvrtc",
                             "--threads", "--mode", "--graph"})
    if (auto value = options.value(option))
      words.push_back(std::string(option) + "=" + *value);
  for (const std::string &folder : options.values("--cache-read-dir"))
    words.push_back("--cache-read-dir=" + folder);
  for (const char *flag : {"--no-cache", "--hot"})
    if (options.has(flag))
      words.push_back(flag);
  return words;
}

/// The problems' texts: not the suite, so that --filter has been applied.
static void addProblems(llvm::ArrayRef<Case> cases,
                        std::vector<std::string> &words) {
  for (const Case &which : cases)
    words.push_back(which.text());
}

static llvm::Expected<std::optional<CounterRequest>>
readCounters(const ParsedOptions &options, const Environment &environment,
             bool fromStart) {
  if (!options.has("--counters"))
    return std::nullopt;
  CounterRequest request;
  auto ncu = findProfiler(options.value("--ncu"), environment, "--counters");
  if (!ncu)
    return ncu.takeError();
  request.ncu = std::move(*ncu);
  request.metrics = reportedMetrics();
  if (!options.has("--all"))
    request.kernels = "^" + kKernelPrefix.str();
  constexpr unsigned kDefaultCount = 8;
  auto count = options.number("--launch-count", kDefaultCount);
  if (!count)
    return count.takeError();
  request.count = *count;
  auto skip = options.number("--launch-skip", 0, 0);
  if (!skip)
    return skip.takeError();
  request.skip = *skip;
  request.fromStart = fromStart;
  return request;
}

/// Whether operands are problems: the first word is a family's name, which no
/// program has. ParsedOptions does not tell whether they stood behind "--".
static bool namesProblem(llvm::ArrayRef<std::string> operands,
                         const Registry &registry) {
  llvm::StringRef first = llvm::StringRef(operands.front()).split(' ').first;
  return registry.find(first) != nullptr;
}

static llvm::Expected<bool> startsAtOnce(const ParsedOptions &options,
                                         bool ofProblems) {
  auto given = options.value("--from-start");
  if (!given)
    return !ofProblems;
  if (ofProblems)
    return makeError(ErrorCode::InvalidArgument,
                     "--from-start is for commands: of problems, the launches "
                     "behind the first are profiled");
  if (*given != "on" && *given != "off")
    return makeError(ErrorCode::InvalidArgument,
                     "--from-start={} is neither on nor off", *given);
  return *given == "on";
}

static llvm::Error readRequest(const ParsedOptions &options,
                               ProfileRequest &request) {
  request.environment = Environment::fromProcess();
  request.registry = makeBuiltinRegistry();
  if (llvm::Error error = readReport(options, request.report))
    return error;
  const bool isCommand = !options.operands().empty() &&
                         !namesProblem(options.operands(), request.registry);
  if (isCommand && options.has("--suite"))
    return makeError(ErrorCode::InvalidArgument,
                     "profile: --suite and a command are given");
  if (isCommand) {
    request.command.words = options.operands().vec();
  } else {
    auto cases = readCases(options, request.registry);
    if (!cases)
      return cases.takeError();
    request.cases = std::move(*cases);
    request.command.words =
        runCommand(options, options.value("--launches").value_or("100"));
    addProblems(request.cases, request.command.words);
  }
  auto atOnce = startsAtOnce(options, !isCommand);
  if (!atOnce)
    return atOnce.takeError();
  request.command.fromStart = *atOnce;
  auto counters = readCounters(options, request.environment, *atOnce);
  if (!counters)
    return counters.takeError();
  request.counters = std::move(*counters);
  auto helper = findHelper(options.value("--helper"));
  if (!helper)
    return helper.takeError();
  request.command.helper = std::move(*helper);
  request.csv = options.value("--csv");
  request.command.hidesOutput =
      !isCommand || options.wantsJson() || request.csv == "-";
  return checkOutput(request.csv);
}

//===----------------------------------------------------------------------===//
// Counters
//===----------------------------------------------------------------------===//

/// The estimate of the config that \p row's kernel has; nullopt for a kernel
/// without one.
static std::optional<CounterEstimate> estimateOf(const CounterRow &row,
                                                 const DeviceModel &device,
                                                 const Registry &registry) {
  auto name = parseKernelName(registry, row.name);
  if (!name || !name->tmpl) {
    if (!name)
      llvm::consumeError(name.takeError());
    return std::nullopt;
  }
  const auto &[family, problem] = row.which->named;
  auto explanation =
      explain({*family, problem, device, {}, name->config.text()});
  if (!explanation) {
    llvm::consumeError(explanation.takeError());
    return std::nullopt;
  }
  return CounterEstimate::of(*explanation);
}

/// Counts each problem in a run of its own, so that launches are the problem's.
static llvm::Error countProblems(const ParsedOptions &options,
                                 const ProfileRequest &request,
                                 CounterReport &report) {
  auto device = chooseLiveDevice(options, request.environment,
                                 "profile --counters measures");
  if (!device)
    return device.takeError();
  for (const Case &which : request.cases) {
    CounterRequest counted = *request.counters;
    counted.command =
        runCommand(options, fmt::format("{}", counted.skip + counted.count));
    addProblems(which, counted.command);
    auto launches = countLaunches(counted);
    if (!launches)
      return addContext(launches.takeError(), which.name);
    report.add(*launches, &which, request.registry);
  }
  for (CounterRow &row : report.rows)
    row.estimate = estimateOf(row, device->model(), request.registry);
  return llvm::Error::success();
}

static llvm::Error count(const ParsedOptions &options,
                         const ProfileRequest &request, CounterReport &report) {
  if (!request.cases.empty())
    return countProblems(options, request, report);
  CounterRequest counted = *request.counters;
  counted.command = request.command.words;
  auto launches = countLaunches(counted);
  if (!launches)
    return launches.takeError();
  report.add(*launches, nullptr, request.registry);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

/// Says why there is no row, and answers the exit code of a command that
/// succeeded all the same.
static int tellNothing(const ProfileData &data) {
  if (!data.errors.empty()) {
    printError(data.errors.front());
    return kExitNoDevice;
  }
  printError(data.processes == 0
                 ? "no process of the command initialised CUDA, or it could "
                   "not load the profiler's helper"
                 : "the command launched no kernel");
  return kExitSomeFailed;
}

static int exitCodeOf(const ProfiledRun &run, bool isOwnTool) {
  if (run.exitCode != 0) {
    // The tool itself has said why.
    if (!isOwnTool)
      printWarning(fmt::format("the command ended with {}", run.exitCode));
    return run.exitCode;
  }
  return run.data.work.empty() ? tellNothing(run.data) : kExitDone;
}

static llvm::Expected<int> runProfile(const ParsedOptions &options) {
  ProfileRequest request;
  if (llvm::Error error = readRequest(options, request))
    return error;
  auto run = runProfiled(request.command);
  if (!run)
    return run.takeError();
  int code = exitCodeOf(*run, !request.cases.empty());
  const ProfileReport times(run->data, request.registry, request.report);
  llvm::Error failure = llvm::Error::success();
  if (request.csv)
    failure = writeFile(*request.csv, times.toCsv());
  CounterReport counters;
  if (request.counters && code == kExitDone)
    failure =
        llvm::joinErrors(std::move(failure), count(options, request, counters));
  const WholeReport report(times, request.counters ? &counters : nullptr);
  // A CSV on stdout stands alone.
  if (request.csv == "-") {
    if (!failure)
      return code;
    return failure;
  }
  return finish(report, std::nullopt, options.wantsJson(), std::move(failure),
                code);
}

static constexpr OptionSpec kProfileOwnOptions[] = {
    {"--by", "WHAT",
     "rows are a kernel (default), a range, layer or step of the program's "
     "NVTX ranges, or a device"},
    {"--top", "N", "rows of the table; default 20"},
    {"--width", "N",
     "columns of the table; default: the terminal's, else as many as it takes"},
    {"--csv", "FILE", "write all rows there as CSV; - is stdout"},
    {"--from-start", "on|off",
     "off: from cuProfilerStart to cuProfilerStop; default on"},
    {"--launches", "N", "launches of each problem; default 100"},
    {"--graph", "N", "replay the launches of each problem N times in a graph"},
    {"--mode", "NAME", "mode of the problems' engine; default tune"},
    {"--hot", nullptr, "problems have one copy of their operands"},
    {"--counters", nullptr, "run ncu as well, for counters of the kernels"},
    {"--all", nullptr, "--counters: kernels of others, too"},
    {"--launch-count", "N", "--counters: launches that count; default 8"},
    {"--launch-skip", "N", "--counters: launches before them; default 0"},
    {"--ncu", "PATH", "--counters: the profiler; default: it is searched"},
    {"--helper", "PATH",
     "libkiln_profiler.so; default: the one installed with the tool"},
};
static constexpr auto kProfileOptions =
    joinOptions(kSubjectOptions, kProfileOwnOptions, kCompilerOptions);

const CommandSpec kProfileCommand = {
    "profile",
    "PROBLEM...|-- COMMAND...",
    "show where the device time of problems or of a program goes, by kernel",
    "Runs the command with a helper inside that has CUPTI record every kernel, "
    "copy and memset, those in graphs included, and sums them up. Kernels of "
    "Kiln are shown by family and config. Times by layer and step need ranges "
    "of these NVTX categories, as Kiln's ranges have; a kernel of a graph "
    "counts for the layer in which it was captured and the step in which the "
    "graph was launched. A process that is killed leaves most of its sums, but "
    "not the last ones. KILN_CUPTI names CUPTI's library. Ends with the exit "
    "code of the command; else with 1 if nothing was launched, with 3 if CUPTI "
    "cannot be used.\n  kiln profile -- python3 serve.py\n  kiln profile "
    "PROBLEM --counters",
    kProfileOptions,
    runProfile,
};

} // namespace kiln::cli
