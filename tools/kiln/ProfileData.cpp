//===- ProfileData.cpp ----------------------------------------------------===//
#include "kiln/ProfileData.h"

#include "Support/Error.h"
#include "Support/Json.h"
#include "Support/ReadFile.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>

#include <algorithm>
#include <map>

namespace kiln::cli {

void ProfiledTimes::add(const ProfiledTimes &other) {
  if (other.calls == 0)
    return;
  minNs = calls ? std::min(minNs, other.minNs) : other.minNs;
  maxNs = std::max(maxNs, other.maxNs);
  calls += other.calls;
  totalNs += other.totalNs;
}

static std::string textOf(const llvm::json::Object &object,
                          llvm::StringRef key) {
  return object.getString(key).value_or("").str();
}

static double numberOf(const llvm::json::Object &object, llvm::StringRef key) {
  return object.getNumber(key).value_or(0);
}

static std::vector<int64_t> numbersOf(const llvm::json::Object &object,
                                      llvm::StringRef key) {
  std::vector<int64_t> numbers;
  if (const llvm::json::Array *list = object.getArray(key))
    for (const llvm::json::Value &value : *list)
      numbers.push_back(value.getAsInteger().value_or(0));
  return numbers;
}

/// Calls \p take with each object of a list.
static void eachOf(const llvm::json::Object &object, llvm::StringRef key,
                   llvm::function_ref<void(const llvm::json::Object &)> take) {
  if (const llvm::json::Array *list = object.getArray(key))
    for (const llvm::json::Value &value : *list)
      if (const llvm::json::Object *each = value.getAsObject())
        take(*each);
}

static ProfiledWork workOf(const llvm::json::Object &row) {
  ProfiledWork work;
  work.kind = textOf(row, "kind");
  work.name = textOf(row, "name");
  work.times.calls = static_cast<uint64_t>(row.getInteger("calls").value_or(0));
  work.times.totalNs = numberOf(row, "totalNs");
  work.times.minNs = numberOf(row, "minNs");
  work.times.maxNs = numberOf(row, "maxNs");
  work.bytes = static_cast<uint64_t>(row.getInteger("bytes").value_or(0));
  eachOf(row, "range", [&](const llvm::json::Object &range) {
    work.ranges.push_back({textOf(range, "name"), textOf(range, "category")});
  });
  ProfiledResources &resources = work.resources;
  resources.registers = row.getInteger("registers").value_or(0);
  resources.staticShared = row.getInteger("staticShared").value_or(0);
  resources.dynamicShared = row.getInteger("dynamicShared").value_or(0);
  resources.localBytes = row.getInteger("localBytes").value_or(0);
  resources.grid = numbersOf(row, "grid");
  resources.block = numbersOf(row, "block");
  return work;
}

/// The place of a process's device among all. Processes number devices by what
/// they see, so only the UUID says which are the same.
size_t ProfileData::deviceOf(const llvm::json::Object &object, int64_t pid) {
  std::string uuid = textOf(object, "uuid");
  if (uuid.empty())
    uuid = "process " + std::to_string(pid) + " device " +
           std::to_string(object.getInteger("id").value_or(0));
  auto known = llvm::find_if(
      devices, [&](const ProfiledDevice &each) { return each.uuid == uuid; });
  if (known == devices.end()) {
    devices.push_back({textOf(object, "name"), uuid});
    known = std::prev(devices.end());
  }
  const double first = numberOf(object, "firstNs"),
               last = numberOf(object, "lastNs");
  if (last <= first)
    return static_cast<size_t>(known - devices.begin());
  const bool isNew = known->lastNs == 0;
  known->firstNs = isNew ? first : std::min(known->firstNs, first);
  known->lastNs = std::max(known->lastNs, last);
  known->busyNs =
      std::min(known->busyNs + numberOf(object, "busyNs"), known->spanNs());
  return static_cast<size_t>(known - devices.begin());
}

llvm::Error ProfileData::add(const llvm::json::Object &process) {
  if (process.getInteger("kilnProfile") != 1)
    return makeError(ErrorCode::InvalidArgument,
                     "it is not of this version's helper");
  const int64_t pid = process.getInteger("pid").value_or(0);
  ++processes;
  cutProcesses += !process.getBoolean("complete").value_or(false);
  tooManyRanges |= process.getBoolean("tooManyRanges").value_or(false);
  dropped += static_cast<uint64_t>(process.getInteger("dropped").value_or(0));
  if (auto error = process.getString("error"))
    errors.push_back(error->str());
  std::map<int64_t, size_t> places;
  eachOf(process, "devices", [&](const llvm::json::Object &device) {
    places[device.getInteger("id").value_or(0)] = deviceOf(device, pid);
  });
  eachOf(process, "rows", [&](const llvm::json::Object &row) {
    ProfiledWork each = workOf(row);
    auto place = places.find(row.getInteger("device").value_or(0));
    if (each.times.calls == 0 || place == places.end())
      return;
    each.device = place->second;
    work.push_back(std::move(each));
  });
  return llvm::Error::success();
}

llvm::Expected<ProfileData> ProfileData::read(const std::string &folder) {
  std::vector<std::string> files;
  std::error_code failure;
  for (llvm::sys::fs::directory_iterator it(folder, failure), end;
       !failure && it != end; it.increment(failure))
    if (llvm::sys::path::extension(it->path()) == ".json")
      files.push_back(it->path());
  if (failure)
    return makeError(ErrorCode::Io, "{}: {}", folder, failure.message());
  llvm::sort(files);
  ProfileData data;
  for (const std::string &file : files) {
    auto text = readNamedFile(file, kMaxJsonBytes);
    if (!text)
      return text.takeError();
    auto json = parseJson(*text, file);
    if (!json)
      return json.takeError();
    const llvm::json::Object *process = json->getAsObject();
    if (llvm::Error error =
            process ? data.add(*process)
                    : makeError(ErrorCode::InvalidArgument, "no JSON object"))
      return addContext(std::move(error), file);
  }
  return data;
}

} // namespace kiln::cli
