//===- QualityCommand.cpp - kiln-bench quality: recorded sweeps, replayed -===//
#include "Device/Calibration.h"
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Support/Json.h"
#include "cli/CommonOptions.h"
#include "cli/Console.h"
#include "kiln-bench/Commands.h"
#include "kiln-bench/QualityReport.h"

#include <llvm/ADT/SmallString.h>
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

/// Replays the record \p path into \p report, on the device of --device or else
/// on that of the record, which \p isUnknown: not in the catalog.
static llvm::Error replayFile(const std::string &path,
                              const std::optional<DeviceModel> &given,
                              bool isUnknown, const Registry &registry,
                              QualityReport &report) {
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
    if (replayed)
      report.spaces.push_back(std::move(*replayed));
    else
      report.left.push_back(summarize(replayed.takeError()).message);
  }
  return llvm::Error::success();
}

static llvm::Expected<int> runQuality(const ParsedOptions &options) {
  Environment environment = Environment::fromProcess();
  Registry registry = makeBuiltinRegistry();
  std::optional<DeviceModel> device;
  if (options.has("--device")) {
    auto chosen = chooseDevice(options, environment);
    if (!chosen)
      return chosen.takeError();
    device = chosen->model();
  }
  std::vector<std::string> paths = options.operands().vec();
  std::optional<CheckFile> check;
  for (const char *option : {"--check", "--update"})
    if (std::optional<std::string> path = options.value(option)) {
      auto file = CheckFile::read(*path);
      if (!file)
        return file.takeError();
      check = std::move(*file);
      for (std::string &record : check->recordPaths())
        paths.push_back(std::move(record));
    }
  if (paths.empty())
    return makeError(ErrorCode::InvalidArgument,
                     "no record of kiln-bench sweep --record is given");
  QualityReport report;
  for (const std::string &path : paths)
    if (llvm::Error error = replayFile(
            path, device, options.has("--no-catalog"), registry, report))
      return error;
  const QualityTable table = tabulate(report.spaces);
  if (options.has("--update")) {
    check->floors = QualityFloors::of(table);
    if (llvm::Error error = check->write())
      return error;
  } else if (check) {
    report.violations = check->floors.violations(table);
  }
  const bool isGood = report.left.empty() && report.violations.empty();
  return emit(report, options.wantsJson(),
              isGood ? kExitDone : kExitSomeFailed);
}

static constexpr OptionSpec kQualityOptions[] = {
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

const CommandSpec kQualityCommand = {
    "quality",
    "FILE...",
    "tell how good the estimate's order of configs is",
    "Replays the times of kiln-bench sweep --record: orders each space's "
    "measured configs by today's estimate and tells which share of the best "
    "the first choice and the first five reach, beside the classic model and "
    "the expectation of a random order. Needs no GPU. A third of all problems "
    "is for tests: an estimate is not fitted to these.\n  kiln-bench quality "
    "--check benchmarks/sweeps/quality.json",
    kQualityOptions,
    runQuality,
};

} // namespace kiln::cli
