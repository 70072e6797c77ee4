//===- Info.cpp - kiln info: libraries, devices, where numbers come from --===//
#include "Compile/Nvrtc.h"
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Support/Json.h"
#include "Support/Printable.h"
#include "cli/CommonOptions.h"
#include "cli/Console.h"
#include "cli/Report.h"
#include "cli/Tool.h"
#include "kiln/Commands.h"

namespace kiln::cli {

namespace {

/// A library that may or may not be there.
struct LibraryState {
  std::string what; ///< "NVRTC"
  std::string identity, path;
  std::string error; ///< empty if it was found
};

/// Version, libraries, cache and catalog.
class SystemSection final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

  std::vector<LibraryState> libraries;
  std::optional<std::string> cacheRoot;
  bool isCachePersistent = false;
  std::vector<std::string> cacheNotes;
  std::vector<std::string> families;
};

/// Every number of one device with unit and source.
class DeviceSection final : public Report {
public:
  explicit DeviceSection(ChosenDevice device) : device(std::move(device)) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  ChosenDevice device;
};

class InfoReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override {
    system.print(os);
    for (const DeviceSection &device : devices) {
      os << '\n';
      device.print(os);
    }
  }
  llvm::json::Object toJson() const override {
    llvm::json::Object object = system.toJson();
    llvm::json::Array list;
    for (const DeviceSection &device : devices)
      list.push_back(device.toJson());
    object["devices"] = std::move(list);
    return object;
  }

  SystemSection system;
  std::vector<DeviceSection> devices;
};

} // namespace

void SystemSection::print(llvm::raw_ostream &os) const {
  os << "kiln " << version() << "\n";
  for (const LibraryState &library : libraries)
    if (library.error.empty())
      os << fmt::format("{}: {}, {}\n", library.what, library.identity,
                        printable(library.path));
    else
      os << fmt::format("{}: not usable: {}\n", library.what,
                        onOneLine(library.error));
  os << fmt::format("cache: {}{}\n",
                    printable(cacheRoot.value_or("in memory only")),
                    cacheRoot && !isCachePersistent ? ", not usable" : "");
  for (const std::string &note : cacheNotes)
    os << fmt::format("    {}\n", onOneLine(note));
  os << fmt::format("families: {}\n", fmt::join(families, ", "))
     << fmt::format("known GPUs: {}\n", fmt::join(catalogNames(), ", "));
}

llvm::json::Object SystemSection::toJson() const {
  llvm::json::Object object{{"version", version()}};
  for (const LibraryState &library : libraries) {
    llvm::json::Object state{{"found", library.error.empty()}};
    if (library.error.empty()) {
      state["identity"] = library.identity;
      state["path"] = jsonText(library.path);
    } else {
      state["error"] = jsonText(library.error);
    }
    object[llvm::StringRef(library.what).lower()] = std::move(state);
  }
  llvm::json::Array names;
  for (llvm::StringRef name : catalogNames())
    names.push_back(name);
  object["cache"] = llvm::json::Object{
      {"root", cacheRoot ? llvm::json::Value(jsonText(*cacheRoot)) : nullptr},
      {"persistent", isCachePersistent},
      {"notes", textsToJson(cacheNotes)}};
  object["catalog"] = std::move(names);
  object["families"] = llvm::json::Array(families);
  return object;
}

/// A table of all values, a line each: key, value, unit, source, note.
static std::string valuesText(const DeviceModel &model) {
  std::string result;
  for (const DeviceField &field : deviceFields()) {
    const ValueOrigin &origin = model.origins[field.index()];
    std::string value =
        std::visit([](const auto &v) { return fmt::format("{}", v); },
                   field.valueOf(model));
    std::string line =
        fmt::format("{:<28} {:>14} {:<9} {:<12} {}", field.key, value,
                    field.unit, nameOf(origin.source), origin.note);
    result += llvm::StringRef(line).rtrim();
    result += '\n';
  }
  return result;
}

void DeviceSection::print(llvm::raw_ostream &os) const {
  const DeviceModel &model = device.model();
  os << (device.driver ? fmt::format("device {}: ", device.ordinal)
                       : std::string("device: "))
     << fmt::format("{} ({})\n", model.name, model.archName())
     << valuesText(model);
  for (const std::string &note : device.assembled.notes)
    os << fmt::format("note: {}\n", onOneLine(note));
  os << fmt::format("device class: {}\n", deviceClassKey(model));
}

llvm::json::Object DeviceSection::toJson() const {
  const DeviceModel &model = device.model();
  llvm::json::Object object{{"name", model.name},
                            {"arch", model.archName()},
                            {"live", device.assembled.live},
                            {"class", deviceClassKey(model)},
                            {"numbers", kiln::toJson(model)},
                            {"notes", textsToJson(device.assembled.notes)}};
  if (device.driver)
    object["ordinal"] = device.ordinal;
  return object;
}

static LibraryState findNvrtc(const ParsedOptions &options,
                              const Environment &environment) {
  LibraryState state{"NVRTC", "", "", ""};
  auto nvrtc = Nvrtc::load(nvrtcSearch(options, environment));
  if (nvrtc) {
    state.identity = (*nvrtc)->identity();
    state.path = (*nvrtc)->path();
  } else {
    state.error = summarize(nvrtc.takeError()).message;
  }
  return state;
}

static LibraryState findDriver(const Environment &environment, int &devices) {
  LibraryState state{"driver", "", "", ""};
  auto driver = Driver::load(environment);
  if (driver) {
    devices = (*driver)->deviceCount();
    state.identity = fmt::format("CUDA {}, {} device{}",
                                 formatCudaVersion((*driver)->version()),
                                 devices, devices == 1 ? "" : "s");
    state.path = (*driver)->path();
  } else {
    state.error = summarize(driver.takeError()).message;
  }
  return state;
}

static llvm::Expected<int> runInfo(const ParsedOptions &options) {
  Environment environment = Environment::fromProcess();
  InfoReport report;
  auto cacheOptions =
      chooseCache(options, environment, report.system.cacheNotes);
  if (!cacheOptions)
    return cacheOptions.takeError();
  report.system.cacheRoot = cacheOptions->writeDir;
  Registry registry = makeBuiltinRegistry();
  for (const auto &family : registry.families())
    report.system.families.push_back(family->name().str());

  int devices = 0;
  report.system.libraries.push_back(findDriver(environment, devices));
  std::vector<std::string> wanted = options.values("--device");
  if (wanted.empty())
    for (int i = 0; i < devices; ++i)
      wanted.push_back(fmt::format("{}", i));
  for (const std::string &text : wanted) {
    auto device = chooseDevice(text, options, environment);
    if (!device)
      return device.takeError();
    report.devices.push_back(DeviceSection(std::move(*device)));
  }
  report.system.libraries.push_back(findNvrtc(options, environment));
  auto store = cache::Store::open(std::move(*cacheOptions));
  report.system.isCachePersistent = store->isPersistent();
  report.system.cacheNotes.insert(report.system.cacheNotes.end(),
                                  store->notes().begin(), store->notes().end());
  return emit(report, options.wantsJson());
}

static constexpr OptionSpec kInfoOptions[] = {
    {"--device", "NAME|FILE|N|auto",
     "show every number of this GPU; default: all that are here", true},
    kOverrideOption,
    kCacheDirOption,
    kCacheReadDirOption,
    kNoCacheOption,
    kNvrtcOption,
};

const CommandSpec kInfoCommand = {
    "info",
    "",
    "show libraries, devices, and where each number comes from",
    "A library or GPU that is missing is reported, not an error.\n  kiln info "
    "--device h200-sxm",
    kInfoOptions,
    runInfo,
};

} // namespace kiln::cli
