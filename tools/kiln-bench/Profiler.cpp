//===- Profiler.cpp -------------------------------------------------------===//
#include "kiln-bench/Profiler.h"

#include "Support/Error.h"
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

/// A figure as ncu writes it: "1,234.5" has commas of thousands.
double numberOf(llvm::StringRef text) {
  std::string digits;
  llvm::copy_if(text, std::back_inserter(digits),
                [](char c) { return c != ','; });
  double value = 0;
  llvm::StringRef(digits).trim().getAsDouble(value);
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

} // namespace

llvm::Expected<std::string>
findProfiler(const std::optional<std::string> &given,
             const Environment &environment) {
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
                   "--profile needs ncu (Nsight Compute), which is not there "
                   "(searched: {}); install the package nsight-compute of the "
                   "CUDA toolkit, or name the program with --ncu",
                   searched);
}

llvm::Expected<std::vector<ProfiledLaunch>>
parseProfile(llvm::StringRef csv, llvm::StringRef prefix) {
  std::vector<ProfiledLaunch> launches;
  llvm::SmallVector<llvm::StringRef, 0> lines;
  csv.split(lines, '\n', -1, /*KeepEmpty=*/false);
  auto isHeader = [](llvm::StringRef line) {
    return line.starts_with("\"ID\"");
  };
  auto header = llvm::find_if(lines, isHeader);
  if (header == lines.end())
    return makeError(ErrorCode::Unsupported,
                     "ncu wrote no table; its last line: {}",
                     lines.empty() ? "(nothing)" : lines.back().trim().str());
  auto names = cellsOf(header->trim());
  auto columnOf = [&](llvm::StringRef name) {
    return static_cast<size_t>(llvm::find(names, name) - names.begin());
  };
  for (llvm::StringRef name :
       {llvm::StringRef("Kernel Name"), llvm::StringRef(kDuration),
        llvm::StringRef(kCycles), llvm::StringRef(kRegisters),
        llvm::StringRef(kL2Hits)})
    if (columnOf(name) == names.size())
      return makeError(ErrorCode::Unsupported, "ncu's table has no column '{}'",
                       name.str());
  for (llvm::StringRef line : llvm::make_range(header + 1, lines.end())) {
    auto cells = cellsOf(line.trim());
    // The line of units has no kernel.
    if (cells.size() != names.size() ||
        !llvm::StringRef(cells[columnOf("Kernel Name")]).starts_with(prefix))
      continue;
    launches.push_back({cells[columnOf("Kernel Name")],
                        numberOf(cells[columnOf(kDuration)]),
                        numberOf(cells[columnOf(kCycles)]),
                        numberOf(cells[columnOf(kRegisters)]),
                        numberOf(cells[columnOf(kL2Hits)])});
  }
  return launches;
}

llvm::Expected<std::vector<ProfiledLaunch>>
profile(const std::string &ncu, llvm::ArrayRef<std::string> command,
        llvm::StringRef prefix) {
  auto log = TemporaryFile::make();
  if (!log)
    return log.takeError();
  std::string metrics = llvm::join(
      llvm::ArrayRef<llvm::StringRef>{kDuration, kCycles, kRegisters, kL2Hits},
      ",");
  std::vector<std::string> words = {ncu,
                                    "--csv",
                                    "--page",
                                    "raw",
                                    "--print-units",
                                    "base",
                                    "--metrics",
                                    metrics,
                                    "--kernel-name",
                                    "regex:^" + prefix.str(),
                                    "--log-file",
                                    log->text(),
                                    "--force-overwrite"};
  llvm::append_range(words, command);
  std::vector<llvm::StringRef> arguments(words.begin(), words.end());
  std::string message;
  // The output of the profiled command is dropped.
  std::optional<llvm::StringRef> redirects[] = {
      llvm::StringRef(""), llvm::StringRef(""), std::nullopt};
  int code = llvm::sys::ExecuteAndWait(ncu, arguments, std::nullopt, redirects,
                                       0, 0, &message);
  constexpr uint64_t kMostBytes = 64 << 20;
  auto text = readNamedFile(log->text(), kMostBytes);
  if (!text)
    return text.takeError();
  auto launches = parseProfile(*text, prefix);
  if (!launches)
    return addContext(
        launches.takeError(),
        code == 0 ? "ncu" : "ncu ended with " + std::to_string(code) + message);
  return launches;
}

} // namespace kiln::cli
