//===- CounterProfiler.cpp ------------------------------------------------===//
#include "cli/CounterProfiler.h"

#include "Support/Error.h"
#include "Support/Format.h"
#include "Support/ReadFile.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/Program.h>

namespace kiln::cli {

namespace {

constexpr llvm::StringLiteral kDuration = "gpu__time_duration.sum";
constexpr llvm::StringLiteral kCycles = "sm__cycles_elapsed.max";
constexpr llvm::StringLiteral kRegisters = "launch__registers_per_thread";
constexpr llvm::StringLiteral kL2Hits = "lts__t_sector_hit_rate.pct";

/// The cells of a line of CSV, quotes taken off.
llvm::SmallVector<std::string, 0> cellsOf(llvm::StringRef line) {
  llvm::SmallVector<std::string, 0> cells;
  std::string cell;
  bool isQuoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    if (c == '"' && isQuoted && line.substr(i + 1).starts_with("\"")) {
      cell += c;
      ++i;
    } else if (c == '"')
      isQuoted = !isQuoted;
    else if (c == ',' && !isQuoted) {
      cells.push_back(std::move(cell));
      cell.clear();
    } else
      cell += c;
  }
  cells.push_back(std::move(cell));
  return cells;
}

/// A figure as ncu writes it: "1,234.5" has commas of thousands. "n/a" is not
/// a figure.
std::optional<double> figureOf(llvm::StringRef text) {
  std::string digits;
  llvm::copy_if(text, std::back_inserter(digits),
                [](char c) { return c != ','; });
  double value = 0;
  if (llvm::StringRef(digits).trim().getAsDouble(value))
    return std::nullopt;
  return value;
}

/// A file that goes when it is left.
class TemporaryFile {
public:
  static llvm::Expected<TemporaryFile> make() {
    TemporaryFile file;
    if (std::error_code code = llvm::sys::fs::createTemporaryFile(
            "kiln-profile", "csv", file.path))
      return makeError(ErrorCode::Io, "no temporary file: {}", code.message());
    return file;
  }
  TemporaryFile(TemporaryFile &&other) { std::swap(path, other.path); }
  ~TemporaryFile() {
    if (!path.empty())
      (void)llvm::sys::fs::remove(path);
  }
  std::string text() const { return path.str().str(); }

private:
  TemporaryFile() = default;
  llvm::SmallString<128> path;
};

/// The launches of kernels whose names begin with \p prefix, as a study reports
/// them.
llvm::Expected<std::vector<ProfiledLaunch>>
studied(const CountedLaunches &counted, llvm::StringRef prefix) {
  if (!counted.missing.empty())
    return makeError(ErrorCode::Unsupported, "ncu's table has no column '{}'",
                     counted.missing.front());
  std::vector<ProfiledLaunch> launches;
  for (const CountedLaunch &each : counted.launches) {
    auto value = [&](llvm::StringRef metric) {
      auto found = each.values.find(metric.str());
      return found == each.values.end() ? 0 : found->second;
    };
    if (llvm::StringRef(each.kernel).starts_with(prefix))
      launches.push_back({each.kernel, value(kDuration), value(kCycles),
                          value(kRegisters), value(kL2Hits)});
  }
  return launches;
}

} // namespace

llvm::Expected<std::string>
findProfiler(const std::optional<std::string> &given,
             const Environment &environment, llvm::StringRef option) {
  std::string searched;
  auto isProgram = [&](const std::string &path) {
    searched += (searched.empty() ? "" : ", ") + path;
    return llvm::sys::fs::can_execute(path);
  };
  if (given) {
    if (isProgram(*given))
      return *given;
  } else {
    if (auto found = llvm::sys::findProgramByName("ncu"))
      return *found;
    searched = "PATH";
    for (const auto &folder : {environment.cudaHome, environment.cudaPath,
                               std::optional<std::string>("/usr/local/cuda")})
      if (folder && isProgram(*folder + "/bin/ncu"))
        return *folder + "/bin/ncu";
  }
  return makeError(ErrorCode::Unsupported,
                   "{} needs ncu (Nsight Compute), which is not there "
                   "(searched: {}); install the package nsight-compute of the "
                   "CUDA toolkit, or name the program with --ncu",
                   option, searched);
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// The error of an output without a table.
static llvm::Error noTable(llvm::ArrayRef<llvm::StringRef> lines) {
  if (llvm::any_of(lines, [](llvm::StringRef line) {
        return line.contains("ERR_NVGPUCTRPERM");
      }))
    return makeError(
        ErrorCode::Unsupported,
        "ncu may not read counters here (ERR_NVGPUCTRPERM): run as root, or "
        "load the kernel module nvidia with the option "
        "NVreg_RestrictProfilingToAdminUsers=0; a container needs the "
        "capability SYS_ADMIN");
  if (llvm::any_of(lines, [](llvm::StringRef line) {
        return line.contains("No kernels were profiled");
      }))
    return makeError(ErrorCode::Unsupported,
                     "ncu saw no launch of the kernels that are asked for");
  return makeError(ErrorCode::Unsupported,
                   "ncu wrote no table; its last line: {}",
                   lines.empty() ? "(nothing)" : lines.back().trim().str());
}

llvm::Expected<CountedLaunches>
parseCounters(llvm::StringRef csv, llvm::ArrayRef<std::string> metrics) {
  llvm::SmallVector<llvm::StringRef, 0> lines;
  csv.split(lines, '\n', -1, /*KeepEmpty=*/false);
  auto header = llvm::find_if(
      lines, [](llvm::StringRef line) { return line.starts_with("\"ID\""); });
  if (header == lines.end())
    return noTable(lines);
  auto names = cellsOf(header->trim());
  const size_t kernel = static_cast<size_t>(
      llvm::find(names, llvm::StringRef("Kernel Name")) - names.begin());
  if (kernel == names.size())
    return makeError(ErrorCode::Unsupported,
                     "ncu's table has no column 'Kernel Name'");
  CountedLaunches counted;
  for (llvm::StringRef line : llvm::make_range(header + 1, lines.end())) {
    auto cells = cellsOf(line.trim());
    // The line of units has no kernel.
    if (cells.size() != names.size() || cells[kernel].empty())
      continue;
    CountedLaunch &launch = counted.launches.emplace_back();
    launch.kernel = cells[kernel];
    for (size_t column = 0; column < names.size(); ++column)
      if (llvm::is_contained(metrics, names[column]))
        if (auto value = figureOf(cells[column]))
          launch.values[names[column]] = *value;
  }
  for (const std::string &metric : metrics)
    if (llvm::none_of(counted.launches, [&](const CountedLaunch &launch) {
          return launch.values.count(metric) > 0;
        }))
      counted.missing.push_back(metric);
  return counted;
}

llvm::Expected<std::vector<ProfiledLaunch>>
parseProfile(llvm::StringRef csv, llvm::StringRef prefix) {
  const std::string metrics[] = {kDuration.str(), kCycles.str(),
                                 kRegisters.str(), kL2Hits.str()};
  auto counted = parseCounters(csv, metrics);
  if (!counted)
    return counted.takeError();
  return studied(*counted, prefix);
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static std::vector<std::string> wordsOf(const CounterRequest &request,
                                        llvm::ArrayRef<std::string> metrics,
                                        const std::string &log) {
  std::vector<std::string> words = {request.ncu,
                                    "--csv",
                                    "--page",
                                    "raw",
                                    "--print-units",
                                    "base",
                                    "--metrics",
                                    llvm::join(metrics, ","),
                                    "--log-file",
                                    log,
                                    "--force-overwrite",
                                    "--target-processes",
                                    "all"};
  if (!request.kernels.empty())
    llvm::append_range(words, std::initializer_list<std::string>{
                                  "--kernel-name", "regex:" + request.kernels});
  if (request.skip)
    llvm::append_range(words,
                       std::initializer_list<std::string>{
                           "--launch-skip", fmt::format("{}", request.skip)});
  if (request.count)
    llvm::append_range(words,
                       std::initializer_list<std::string>{
                           "--launch-count", fmt::format("{}", request.count)});
  if (!request.fromStart)
    llvm::append_range(words, std::initializer_list<std::string>{
                                  "--profile-from-start", "off"});
  llvm::append_range(words, request.command);
  return words;
}

/// The metrics of \p asked that ncu's output says it does not know.
static std::vector<std::string> unknownIn(llvm::StringRef log,
                                          llvm::ArrayRef<std::string> asked) {
  std::vector<std::string> unknown;
  llvm::SmallVector<llvm::StringRef, 0> lines;
  log.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines)
    if (line.starts_with("==") && line.contains("ailed to find metric"))
      for (const std::string &metric : asked)
        if (line.contains(metric) && !llvm::is_contained(unknown, metric))
          unknown.push_back(metric);
  return unknown;
}

/// Returns the log of ncu; \p ending gets its exit code with a message.
static llvm::Expected<std::string> runNcu(const CounterRequest &request,
                                          llvm::ArrayRef<std::string> metrics,
                                          std::string &ending) {
  auto log = TemporaryFile::make();
  if (!log)
    return log.takeError();
  const std::vector<std::string> words = wordsOf(request, metrics, log->text());
  std::vector<llvm::StringRef> arguments(words.begin(), words.end());
  std::string message;
  // The output of the profiled command is dropped.
  std::optional<llvm::StringRef> redirects[] = {
      llvm::StringRef(""), llvm::StringRef(""), std::nullopt};
  const int code = llvm::sys::ExecuteAndWait(
      request.ncu, arguments, std::nullopt, redirects, 0, 0, &message);
  ending =
      code == 0 ? "ncu" : fmt::format("ncu ended with {}{}", code, message);
  constexpr uint64_t kMostBytes = 64 << 20;
  return readNamedFile(log->text(), kMostBytes);
}

llvm::Expected<CountedLaunches> countLaunches(const CounterRequest &request) {
  std::vector<std::string> metrics = request.metrics, unknown;
  for (;;) {
    std::string ending;
    auto text = runNcu(request, metrics, ending);
    if (!text)
      return text.takeError();
    // ncu counts nothing if it does not know one of the names.
    const std::vector<std::string> found = unknownIn(*text, metrics);
    auto counted = parseCounters(*text, metrics);
    if (counted) {
      llvm::append_range(counted->missing, unknown);
      return counted;
    }
    if (found.empty() || found.size() == metrics.size())
      return addContext(counted.takeError(), ending);
    llvm::consumeError(counted.takeError());
    llvm::erase_if(metrics, [&](const std::string &metric) {
      return llvm::is_contained(found, metric);
    });
    llvm::append_range(unknown, found);
  }
}

llvm::Expected<std::vector<ProfiledLaunch>>
profile(const std::string &ncu, llvm::ArrayRef<std::string> command,
        llvm::StringRef prefix) {
  CounterRequest request;
  request.ncu = ncu;
  request.command = command.vec();
  request.metrics = {kDuration.str(), kCycles.str(), kRegisters.str(),
                     kL2Hits.str()};
  request.kernels = "^" + prefix.str();
  auto counted = countLaunches(request);
  if (!counted)
    return counted.takeError();
  return studied(*counted, prefix);
}

} // namespace kiln::cli
