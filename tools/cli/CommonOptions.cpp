//===- CommonOptions.cpp --------------------------------------------------===//
#include "cli/CommonOptions.h"

#include "Cache/CachePaths.h"
#include "Device/Catalog.h"
#include "Device/DeviceProbe.h"
#include "Families/Families.h"
#include "Kernel/EngineLimits.h"
#include "Kernel/MemoryBound.h"
#include "Kernel/Sources.h"
#include "Support/Json.h"
#include "cli/Console.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>

namespace kiln::cli {

namespace fs = llvm::sys::fs;

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

/// The name that a device file gives, empty if none.
static std::string nameInFile(const llvm::json::Value &json) {
  const llvm::json::Object *object = json.getAsObject();
  const llvm::json::Value *name = object ? object->get("name") : nullptr;
  if (name && name->getAsObject())
    name = name->getAsObject()->get("value");
  return name ? name->getAsString().value_or("").str() : "";
}

/// A device from a file: its numbers in front of the catalog's where it bears
/// the name of a known GPU, else of its architecture's rules.
static llvm::Expected<AssembledDevice> readDevice(const std::string &path) {
  auto json = readJsonFile(path);
  if (!json)
    return json.takeError();
  AssembledDevice device;
  std::string name = nameInFile(*json);
  if (llvm::is_contained(catalogNames(), llvm::StringRef(name))) {
    auto model = findDevice(name, path);
    if (!model)
      return model.takeError();
    device.model = std::move(*model);
    return device;
  }
  std::vector<std::string> unanswered; // there is no device that could answer
  auto model = assembleDeviceModel({}, path, unanswered);
  if (!model)
    return model.takeError();
  if (originOf(*model, "ccMajor").source != ValueSource::Override)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: neither ccMajor nor the name of a known GPU is given",
                     path);
  device.model = std::move(*model);
  return device;
}

/// True when \p text is meant as a path.
static bool looksLikePath(llvm::StringRef text) {
  return text.contains('/') || text.ends_with(".json");
}

static llvm::Error unknownDevice(llvm::StringRef text) {
  std::vector<llvm::StringRef> names = catalogNames();
  llvm::StringRef meant = nearest(text, names);
  return makeError(
      ErrorCode::InvalidArgument,
      "device '{}' is neither a known GPU, a JSON file nor the number of a GPU "
      "that is here{}; known are {}",
      text, meant.empty() ? "" : fmt::format(", did you mean {}?", meant),
      fmt::join(names, ", "));
}

static llvm::Expected<ChosenDevice> chooseLive(int ordinal,
                                               const std::string &overridePath,
                                               const ParsedOptions &options,
                                               const Environment &environment) {
  ChosenDevice chosen;
  auto driver = Driver::load(environment);
  if (!driver)
    return addContext(driver.takeError(),
                      "no GPU here, name one with --device such as h200-sxm");
  chosen.driver = std::move(*driver);
  chosen.ordinal = ordinal;
  DeviceSelection selection;
  selection.ordinal = ordinal;
  selection.overridePath = overridePath;
  auto assembled = assembleDevice(chosen.driver.get(), environment, selection);
  if (!assembled)
    return assembled.takeError();
  chosen.assembled = std::move(*assembled);
  // Faults of the cache are told where the command opens it.
  std::vector<std::string> ignored;
  auto cache = chooseCache(options, environment, ignored);
  if (!cache)
    return cache.takeError();
  cache->createsWriteDir = false;
  cache->evicts = false;
  addCalibration(chosen.assembled, *cache::Store::open(std::move(*cache)));
  return chosen;
}

llvm::Expected<ChosenDevice> chooseDevice(llvm::StringRef text,
                                          const ParsedOptions &options,
                                          const Environment &environment) {
  std::string overridePath = options.value("--override").value_or("");
  int ordinal = 0;
  if (text == "auto" || !text.getAsInteger(10, ordinal))
    return chooseLive(ordinal, overridePath, options, environment);
  ChosenDevice chosen;
  if (llvm::is_contained(catalogNames(), text)) {
    auto assembled = assembleDevice(
        nullptr, environment,
        {.catalogName = text.str(), .overridePath = overridePath});
    if (!assembled)
      return assembled.takeError();
    chosen.assembled = std::move(*assembled);
    return chosen;
  }
  if (!looksLikePath(text))
    return unknownDevice(text);
  auto assembled = readDevice(text.str());
  if (!assembled)
    return assembled.takeError();
  chosen.assembled = std::move(*assembled);
  if (!overridePath.empty())
    if (llvm::Error error = applyJsonFile(chosen.assembled.model, overridePath,
                                          ValueSource::Override))
      return error;
  return chosen;
}

llvm::Expected<ChosenDevice> chooseDevice(const ParsedOptions &options,
                                          const Environment &environment) {
  return chooseDevice(options.value("--device").value_or("auto"), options,
                      environment);
}

llvm::Expected<ChosenDevice> chooseLiveDevice(const ParsedOptions &options,
                                              const Environment &environment,
                                              llvm::StringRef why) {
  auto chosen = chooseDevice(options, environment);
  if (chosen && !chosen->driver)
    return makeError(ErrorCode::InvalidArgument,
                     "--device={}: {} on a GPU that is here, give its number "
                     "or auto",
                     options.value("--device").value_or(""), why);
  return chosen;
}

llvm::Expected<Allowance> chooseAllowance(const ParsedOptions &options) {
  auto limit = options.bytes("--workspace-limit");
  if (!limit)
    return limit.takeError();
  const bool isUnlimited = options.has("--unlimited");
  if (isUnlimited && *limit)
    return makeError(ErrorCode::InvalidArgument,
                     "--workspace-limit={} and --unlimited are both given",
                     *options.value("--workspace-limit"));
  Allowance allowance;
  if (!isUnlimited)
    allowance.workspaceBytes = limit->value_or(kEngineWorkspaceBytes);
  return allowance;
}

//===----------------------------------------------------------------------===//
// Cache and compiler
//===----------------------------------------------------------------------===//

/// The absolute path of \p folder, a value of \p option. Errors:
/// InvalidArgument.
static llvm::Expected<std::string> cacheFolder(llvm::StringRef option,
                                               const std::string &folder) {
  llvm::SmallString<128> path(folder);
  if (!path.empty())
    fs::make_absolute(path);
  if (auto bad = cache::describeBadPath(path))
    return makeError(ErrorCode::InvalidArgument, "{}={}: {}", option, folder,
                     *bad);
  if (fs::exists(path) && !fs::is_directory(path))
    return makeError(ErrorCode::InvalidArgument, "{}={}: it is no folder",
                     option, folder);
  return path.str().str();
}

llvm::Expected<cache::StoreOptions>
chooseCache(const ParsedOptions &options, const Environment &environment,
            std::vector<std::string> &notes) {
  cache::StoreOptions storeOptions;
  if (options.has("--no-cache"))
    return storeOptions;
  storeOptions.readDirs = cache::chooseReadDirs(environment);
  if (options.has("--cache-read-dir"))
    storeOptions.readDirs.clear();
  for (const std::string &folder : options.values("--cache-read-dir")) {
    auto path = cacheFolder("--cache-read-dir", folder);
    if (!path)
      return path.takeError();
    storeOptions.readDirs.push_back(std::move(*path));
  }
  if (std::optional<std::string> folder = options.value("--cache-dir")) {
    auto path = cacheFolder("--cache-dir", *folder);
    if (!path)
      return path.takeError();
    storeOptions.writeDir = std::move(*path);
    return storeOptions;
  }
  cache::CacheRoot root = cache::findCacheRoot(environment);
  notes = std::move(root.notes);
  storeOptions.writeDir = std::move(root.path);
  return storeOptions;
}

llvm::Expected<std::unique_ptr<cache::Store>>
openCache(const ParsedOptions &options, const Environment &environment,
          ByteGaugePtr gauge) {
  std::vector<std::string> notes;
  auto storeOptions = chooseCache(options, environment, notes);
  if (!storeOptions)
    return storeOptions.takeError();
  for (const std::string &note : notes)
    printWarning(note);
  storeOptions->limitBytes = cache::kDefaultLimitBytes;
  storeOptions->evicts = false;
  storeOptions->gauge = std::move(gauge);
  // The store warns once for each cause, of its folder when it is opened.
  storeOptions->log =
      Log([](LogLevel, llvm::StringRef message) { printWarning(message); },
          LogLevel::Warning);
  return cache::Store::open(std::move(*storeOptions));
}

NvrtcSearch nvrtcSearch(const ParsedOptions &options,
                        const Environment &environment) {
  NvrtcSearch search =
      NvrtcSearch::fromEnvironment(environment, {buildTreeToolkit()});
  if (std::optional<std::string> path = options.value("--nvrtc"))
    search.explicitPath = std::move(path);
  return search;
}

llvm::Expected<ArtifactStoreOptions>
artifactOptions(const ParsedOptions &options, const Environment &environment) {
  ArtifactStoreOptions store;
  store.nvrtc = nvrtcSearch(options, environment);
  constexpr unsigned kMaxThreads = 1024;
  auto threads = options.number("--threads", 0, 1, kMaxThreads);
  if (!threads)
    return threads.takeError();
  store.pool.threads = *threads;
  store.cancel = interruptFlag();
  if (environment.kilnKernelSrc)
    if (llvm::Error error = overrideKernelSources(*environment.kilnKernelSrc))
      return addContext(std::move(error), "KILN_KERNEL_SRC");
  return store;
}

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

/// ", such as EXAMPLE"; empty without one.
static std::string suchAs(llvm::StringRef example) {
  return example.empty() ? "" : fmt::format(", such as {}", example);
}

llvm::Expected<std::vector<Case>> readOperands(const ParsedOptions &options,
                                               const Registry &registry) {
  std::vector<Case> cases;
  std::vector<std::string> texts;
  for (const std::string &operand : options.operands()) {
    llvm::SmallVector<llvm::StringRef, 16> words;
    llvm::SplitString(operand, words);
    for (llvm::StringRef word : words) {
      // A word that is no "key=value" is a family: it begins a problem.
      if (!word.contains('='))
        texts.push_back(word.str());
      else if (texts.empty())
        return makeError(ErrorCode::InvalidArgument,
                         "a problem begins with its family{}; got '{}'",
                         suchAs(llvm::getToken(registry.example()).first),
                         word);
      else
        texts.back().append(" ").append(word);
    }
  }
  for (const std::string &text : texts) {
    auto named = registry.parseProblem(text);
    if (!named)
      return named.takeError();
    std::string name = named->problem.text();
    cases.push_back({std::move(name), std::move(*named)});
  }
  return cases;
}

llvm::Expected<std::vector<Case>> readCases(const ParsedOptions &options,
                                            const Registry &registry) {
  auto operands = readOperands(options, registry);
  if (!operands)
    return operands.takeError();
  std::vector<Case> cases = std::move(*operands);
  if (std::optional<std::string> path = options.value("--suite")) {
    auto json = readJsonFile(*path);
    if (!json)
      return json.takeError();
    auto suite = parseSuite(*json, *path, registry);
    if (!suite)
      return suite.takeError();
    std::string filter = options.value("--filter").value_or("");
    for (Case &entry : *suite)
      if (llvm::StringRef(entry.name).contains(filter))
        cases.push_back(std::move(entry));
    if (cases.empty())
      return makeError(
          ErrorCode::InvalidArgument, "{}: no case{}", *path,
          filter.empty() ? "" : fmt::format(" has '{}' in its name", filter));
  }
  if (cases.empty())
    return makeError(ErrorCode::InvalidArgument, "no problem given{}",
                     suchAs(registry.example()));
  return cases;
}

llvm::Expected<Subject> Subject::read(const ParsedOptions &options) {
  Subject subject;
  subject.environment = Environment::fromProcess();
  subject.registry = makeBuiltinRegistry();
  auto allowance = chooseAllowance(options);
  if (!allowance)
    return allowance.takeError();
  subject.allowance = *allowance;
  auto cases = readCases(options, subject.registry);
  if (!cases)
    return cases.takeError();
  subject.cases = std::move(*cases);
  return subject;
}

bool isMemoryBound(const Case &which) {
  return kiln::isMemoryBound(*which.named.family, which.named.problem);
}

std::vector<Registry::NamedProblem> problemsOf(llvm::ArrayRef<Case> cases) {
  std::vector<Registry::NamedProblem> problems;
  for (const Case &entry : cases)
    problems.push_back(entry.named);
  return problems;
}

} // namespace kiln::cli
