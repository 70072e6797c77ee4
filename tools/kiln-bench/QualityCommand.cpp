//===- QualityCommand.cpp - kiln-bench quality: recorded sweeps, replayed -===//
#include "Device/Calibration.h"
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Support/Json.h"
#include "cli/CommonOptions.h"
#include "cli/Console.h"
#include "cli/Finish.h"
#include "kiln-bench/Commands.h"
#include "kiln-bench/QualityPage.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>

namespace kiln::cli {

namespace {

/// A file of floors: the records that they are about, beside it, and floors.
struct CheckFile {
  std::string path;
  std::string what;                 ///< a sentence on the file, kept
  std::vector<std::string> records; ///< as the file names them
  QualityFloors floors;

  static llvm::Expected<CheckFile> read(const std::string &path);
  std::vector<std::string> recordPaths() const;
  llvm::Error write() const;
};

} // namespace

llvm::Expected<CheckFile> CheckFile::read(const std::string &path) {
  CheckFile file;
  file.path = path;
  auto json = readJsonFile(path);
  if (!json)
    return json.takeError();
  const llvm::json::Object *object = json->getAsObject();
  const llvm::json::Array *list =
      object ? object->getArray("records") : nullptr;
  const llvm::json::Object *floors =
      object ? object->getObject("floors") : nullptr;
  if (!list || !floors)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: there are no 'records' and 'floors'", path);
  for (const llvm::json::Value &value : *list) {
    auto name = value.getAsString();
    if (!name)
      return makeError(ErrorCode::InvalidArgument,
                       "{}: a record is not the name of a file", path);
    file.records.push_back(name->str());
  }
  file.what = object->getString("what").value_or("").str();
  auto parsed = QualityFloors::parse(*floors);
  if (!parsed)
    return addContext(parsed.takeError(), path);
  file.floors = std::move(*parsed);
  return file;
}

std::vector<std::string> CheckFile::recordPaths() const {
  std::vector<std::string> paths;
  for (const std::string &record : records) {
    llvm::SmallString<128> full(llvm::sys::path::parent_path(path));
    llvm::sys::path::append(full, record);
    paths.push_back(full.str().str());
  }
  return paths;
}

llvm::Error CheckFile::write() const {
  llvm::json::Object json{{"records", textsToJson(records)},
                          {"floors", floors.toJson()}};
  if (!what.empty())
    json["what"] = jsonText(what);
  return writeFile(path, printJson(std::move(json)));
}

/// A file, and its name in reports.
struct NamedFile {
  std::string path, name;
};

/// All records of the folder \p sweeps, which are in it as
/// <gpu>/<family>/<what>.json; files of floors lie beside those folders.
/// Errors: Io; InvalidArgument where there are none.
static llvm::Expected<std::vector<NamedFile>>
recordsIn(const std::string &sweeps) {
  std::vector<NamedFile> files;
  std::error_code failure;
  llvm::sys::fs::recursive_directory_iterator entry(sweeps, failure), end;
  for (; entry != end && !failure; entry.increment(failure)) {
    llvm::StringRef path = entry->path();
    if (entry.level() == 0 || !path.ends_with(".json"))
      continue;
    files.push_back(
        {path.str(), path.drop_front(sweeps.size()).ltrim('/').str()});
  }
  if (failure)
    return makeError(ErrorCode::Io, "{}: {}", sweeps, failure.message());
  if (files.empty())
    return makeError(ErrorCode::InvalidArgument,
                     "{}: there is no record of kiln-bench sweep --record",
                     sweeps);
  llvm::sort(files, [](const NamedFile &a, const NamedFile &b) {
    return a.name < b.name;
  });
  return files;
}

/// The records that are asked for: the command line's and \p check's, or else
/// all.
static llvm::Expected<std::vector<NamedFile>>
recordsOf(const ParsedOptions &options, const std::optional<CheckFile> &check) {
  std::vector<NamedFile> files;
  for (const std::string &path : options.operands())
    files.push_back({path, path});
  if (check)
    for (auto [path, name] : llvm::zip(check->recordPaths(), check->records))
      files.push_back({path, name});
  if (!files.empty() || check)
    return files;
  return recordsIn(options.value("--sweeps").value_or(KILN_BENCH_SWEEPS));
}

/// Replays the record \p file into \p report, on the device of --device or else
/// on that of the record, which \p isUnknown: not in the catalog.
static llvm::Error replayFile(const NamedFile &file,
                              const std::optional<DeviceModel> &given,
                              bool isUnknown, const Registry &registry,
                              QualityReport &report) {
  const auto &[path, name] = file;
  auto json = readJsonFile(path);
  if (!json)
    return json.takeError();
  auto record = SweepRecord::parse(*json, path);
  if (!record)
    return record.takeError();
  std::optional<DeviceModel> device = given;
  if (!device) {
    auto found = findDevice(record->device);
    if (!found)
      return addContext(found.takeError(), path);
    device = std::move(*found);
  }
  if (isUnknown)
    forgetCatalog(*device);
  report.device = device->name;
  for (const RecordedSpace &space : record->spaces) {
    auto replayed = replay(space, registry, *device);
    if (!replayed) {
      report.left.push_back(summarize(replayed.takeError()).message);
      continue;
    }
    replayed->record = report.records.size();
    report.spaces.push_back(std::move(*replayed));
  }
  report.records.push_back(QualityRecord::of(name, *record));
  return llvm::Error::success();
}

static llvm::Expected<int> runQuality(const ParsedOptions &options) {
  auto commit = commitOf(options);
  if (!commit)
    return commit.takeError();
  for (const char *file : {"--out", "--html"})
    if (llvm::Error error = checkOutput(options.value(file)))
      return error;
  Environment environment = Environment::fromProcess();
  Registry registry = makeBuiltinRegistry();
  std::optional<DeviceModel> device;
  if (options.has("--device")) {
    auto chosen = chooseDevice(options, environment);
    if (!chosen)
      return chosen.takeError();
    device = chosen->model();
  }
  std::optional<CheckFile> check;
  for (const char *option : {"--check", "--update"})
    if (std::optional<std::string> path = options.value(option)) {
      auto file = CheckFile::read(*path);
      if (!file)
        return file.takeError();
      check = std::move(*file);
    }
  auto files = recordsOf(options, check);
  if (!files)
    return files.takeError();
  QualityReport report;
  report.commit = *commit;
  for (const auto &family : registry.families())
    report.families.push_back(family->name().str());
  for (const NamedFile &file : *files)
    if (llvm::Error error = replayFile(
            file, device, options.has("--no-catalog"), registry, report))
      return error;
  const QualityTable table = tabulate(report.spaces);
  if (options.has("--update")) {
    check->floors = QualityFloors::of(table);
    if (llvm::Error error = check->write())
      return error;
  } else if (check) {
    report.violations = check->floors.violations(table);
  }
  llvm::Error failure = llvm::Error::success();
  if (std::optional<std::string> path = options.value("--html"))
    failure = writeFile(*path, qualityPage(report));
  if (std::optional<std::string> path = options.value("--out"))
    failure = llvm::joinErrors(std::move(failure),
                               writeFile(*path, report.resultText()));
  const bool isGood = report.left.empty() && report.violations.empty();
  return finish(report, std::nullopt, options.wantsJson(), std::move(failure),
                isGood ? kExitDone : kExitSomeFailed);
}

static constexpr OptionSpec kOwnQualityOptions[] = {
    {"--html", "FILE", "write a page with plots there"},
    {"--sweeps", "DIR",
     "the folder of all records, for a command line without a FILE; default: "
     "benchmarks/sweeps of the source tree"},
    {"--check", "FILE",
     "replay the records that FILE names and end with 1 if a figure is worse "
     "than its floor there"},
    {"--update", "FILE", "write today's figures into FILE as its floors"},
    {"--device", "NAME|FILE|N|auto",
     "the GPU to estimate for; default: the one that a record names"},
    kOverrideOption,
    {"--no-catalog", nullptr,
     "numbers that no driver answers are those of an unknown GPU; with "
     "--override, the values of kiln calibrate show what a calibration is "
     "worth"},
};

static constexpr auto kQualityOptions =
    joinOptions(kOwnQualityOptions, kDocumentOptions);

const CommandSpec kQualityCommand = {
    "quality",
    "[FILE...]",
    "tell how good the estimate's order of configs is",
    "Replays the times of kiln-bench sweep --record: orders each space's "
    "measured configs by today's estimate and tells which share of the best "
    "the first choice and the first five reach, beside the classic model and "
    "the expectation of a random order. Needs no GPU. A third of all problems "
    "is for tests: an estimate is not fitted to these. Without a FILE all "
    "recorded sweeps are replayed.\n  kiln-bench quality --html quality.html",
    kQualityOptions,
    runQuality,
};

} // namespace kiln::cli
