//===- Verdicts.cpp - kernels that compute wrong results ------------------===//
#include "Store/Verdicts.h"

#include "Store/MergedStore.h"
#include "Store/MergedText.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringSet.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

namespace kiln {

/// The most verdicts that are kept. Kernels of earlier sources never come back,
/// so the oldest verdicts go first.
static constexpr size_t kMostVerdicts = 4096;

static constexpr llvm::StringLiteral kVerdictKey = "kiln verdicts 2\ndevice ";

//===----------------------------------------------------------------------===//
// One entry
//===----------------------------------------------------------------------===//

using VerdictMap = std::map<std::string, Verdict>;            ///< by kernel
using VerdictChanges = std::vector<std::pair<Verdict, bool>>; ///< with whether
                                                              ///< it is wrong
                                                              ///< now

static std::string verdictKey(llvm::StringRef deviceClass) {
  return fmt::format("{}{}\n", kVerdictKey, deviceClass);
}

static std::optional<Verdict> readVerdict(const llvm::json::Object &object) {
  Verdict verdict;
  FieldReader reader(object);
  reader.require("kernel", verdict.kernel);
  reader.require("config", verdict.config);
  reader.read("problem", verdict.problem);
  reader.read("reason", verdict.reason);
  reader.read("foundAtMs", verdict.foundAtMs);
  if (reader.isDamaged || verdict.kernel.empty() || verdict.config.empty())
    return std::nullopt;
  verdict.unknown = reader.unknown();
  return verdict;
}

static llvm::json::Object
writeVerdict(const VerdictMap::value_type &kernelAndVerdict) {
  const Verdict &verdict = kernelAndVerdict.second;
  llvm::json::Object object = verdict.unknown;
  object["kernel"] = jsonText(verdict.kernel);
  object["config"] = jsonText(verdict.config);
  object["problem"] = jsonText(verdict.problem);
  object["reason"] = jsonText(verdict.reason);
  object["foundAtMs"] = verdict.foundAtMs;
  return object;
}

namespace {
/// An entry. Unreadable lines are left out: their kernels will be compared
/// again.
struct VerdictList {
  static constexpr MergedKind kKind{cache::Kind::Record, "list of verdicts",
                                    size_t(4) << 20};
  VerdictMap verdicts;
  OtherText other;

  static llvm::Expected<VerdictList> open(std::string text) {
    VerdictList list;
    auto take = [&](const llvm::json::Object &item) {
      auto verdict = readVerdict(item);
      if (verdict)
        list.verdicts[verdict->kernel] = *verdict;
      return verdict.has_value();
    };
    if (llvm::Error error = readLines(text, "verdicts", list.other, take))
      return error;
    return list;
  }
  std::string text() const {
    return textOfItems("verdicts", other, verdicts, writeVerdict);
  }
  size_t shrink(size_t most) {
    const int64_t nowMs = unixTimeMs();
    auto dropOldest = [&] {
      if (verdicts.empty())
        return false;
      auto foundAt = [&](const auto &one) {
        return believedMs(one.second.foundAtMs, nowMs);
      };
      verdicts.erase(std::min_element(verdicts.begin(), verdicts.end(),
                                      [&](const auto &a, const auto &b) {
                                        return foundAt(a) < foundAt(b);
                                      }));
      return true;
    };
    size_t dropped = 0;
    while (verdicts.size() > kMostVerdicts)
      dropped += dropOldest();
    return dropped + shrinkText(
                         most, [&] { return text(); }, dropOldest);
  }
};
} // namespace

using VerdictStore = MergedStore<VerdictList>;

static VerdictStore::Updated
updateVerdicts(VerdictStore &store, llvm::StringRef deviceClass,
               llvm::function_ref<void(VerdictMap &)> change) {
  llvm::json::Object attributes{{"verdicts", true},
                                {"device", jsonText(deviceClass)}};
  return store.update(verdictKey(deviceClass), std::move(attributes),
                      [&](VerdictList &list) { change(list.verdicts); });
}

//===----------------------------------------------------------------------===//
// The verdicts of a process
//===----------------------------------------------------------------------===//

struct Verdicts::Impl {
  struct Known {
    VerdictStore::Ptr stored = std::make_shared<const VerdictList>();
    VerdictStore::Ptr first;   ///< the stored ones that queries answer by;
                               ///< null: `stored`
    uint64_t version = 0;      ///< of the stored ones; 0: not read yet
    VerdictMap own;            ///< found by this process: valid even if the
                               ///< cache keeps nothing
    llvm::StringSet<> configs; ///< the configs of both

    bool isWrong(const std::string &kernel) const {
      return own.count(kernel) || stored->verdicts.count(kernel);
    }
    const VerdictMap &asked() const {
      return (first ? first : stored)->verdicts;
    }
    const Verdict *find(const std::string &kernel) const {
      for (const VerdictMap *all : {&own, &asked()})
        if (auto found = all->find(kernel); found != all->end())
          return &found->second;
      return nullptr;
    }
    VerdictChanges take(VerdictStore::Ptr document, uint64_t version,
                        bool keepsFirst);
  };

  Impl(cache::Store &cache, std::chrono::milliseconds recheckInterval,
       bool keepsFirst)
      : store(cache, {.recheckInterval = recheckInterval}),
        keepsFirst(keepsFirst) {}

  void refresh(llvm::StringRef deviceClass, RecordAge age);
  template <class Ask> auto ask(llvm::StringRef deviceClass, const Ask &what) {
    refresh(deviceClass, RecordAge::Recent);
    std::lock_guard<std::mutex> lock(mutex);
    return what(devices[deviceClass]);
  }
  void tell(llvm::StringRef deviceClass, const VerdictChanges &changes) const {
    for (const auto &[verdict, isWrongNow] : changes)
      if (listener)
        listener(deviceClass, verdict, isWrongNow);
  }

  VerdictStore store;
  const bool keepsFirst;
  Listener listener;
  std::mutex mutex; ///< guards what follows
  llvm::StringMap<Known> devices;
};

/// Takes the cache's verdicts, unless a later reading was taken. Returns the
/// verdicts that begin or end with it. The first reading changes nothing,
/// because no plan is loaded yet.
VerdictChanges Verdicts::Impl::Known::take(VerdictStore::Ptr document,
                                           uint64_t newVersion,
                                           bool keepsFirst) {
  VerdictChanges changes;
  if (newVersion <= version)
    return changes;
  const bool isFirst = version == 0;
  version = newVersion;
  const VerdictStore::Ptr before = std::exchange(stored, std::move(document));
  if (isFirst && keepsFirst)
    first = stored;
  configs.clear();
  for (const VerdictMap *all : {&asked(), &std::as_const(own)})
    for (const auto &[kernel, verdict] : *all)
      configs.insert(verdict.config);
  if (isFirst)
    return changes;
  for (const auto &[kernel, verdict] : stored->verdicts)
    if (!before->verdicts.count(kernel) && !own.count(kernel))
      changes.emplace_back(verdict, true);
  for (const auto &[kernel, verdict] : before->verdicts)
    if (!isWrong(kernel))
      changes.emplace_back(verdict, false);
  return changes;
}

/// Reads without the lock, so that a slow file system delays no other thread.
void Verdicts::Impl::refresh(llvm::StringRef deviceClass, RecordAge age) {
  VerdictStore::Loaded loaded = store.load(verdictKey(deviceClass), age);
  VerdictChanges changes;
  {
    std::lock_guard<std::mutex> lock(mutex);
    changes = devices[deviceClass].take(std::move(loaded.document),
                                        loaded.version, keepsFirst);
  }
  tell(deviceClass, changes);
}

Verdicts::Verdicts(cache::Store &cache,
                   std::chrono::milliseconds recheckInterval, bool keepsFirst)
    : impl(new Impl(cache, recheckInterval, keepsFirst)) {}

Verdicts::~Verdicts() = default;

void Verdicts::listen(Listener listener) {
  impl->listener = std::move(listener);
}

std::optional<Verdict> Verdicts::find(llvm::StringRef deviceClass,
                                      llvm::StringRef kernel) const {
  return impl->ask(deviceClass, [&](const Impl::Known &known) {
    const Verdict *found = known.find(kernel.str());
    return found ? std::optional(*found) : std::nullopt;
  });
}

bool Verdicts::isKnownWrong(llvm::StringRef deviceClass,
                            llvm::StringRef kernel) const {
  std::lock_guard<std::mutex> lock(impl->mutex);
  return impl->devices[deviceClass].isWrong(kernel.str());
}

void Verdicts::recheck(llvm::StringRef deviceClass) {
  impl->refresh(deviceClass, RecordAge::Now);
}

bool Verdicts::mayBeWrong(llvm::StringRef deviceClass,
                          llvm::StringRef config) const {
  return impl->ask(deviceClass, [&](const Impl::Known &known) {
    return known.configs.contains(config);
  });
}

std::vector<Verdict> Verdicts::list(llvm::StringRef deviceClass) const {
  return impl->ask(deviceClass, [](const Impl::Known &known) {
    VerdictMap all = known.own;
    all.insert(known.asked().begin(), known.asked().end());
    std::vector<Verdict> list;
    for (auto &[kernel, verdict] : all)
      list.push_back(std::move(verdict));
    return list;
  });
}

cache::PublishResult Verdicts::found(llvm::StringRef deviceClass,
                                     Verdict verdict) {
  if (verdict.foundAtMs == 0)
    verdict.foundAtMs = unixTimeMs();
  {
    std::lock_guard<std::mutex> lock(impl->mutex);
    Impl::Known &known = impl->devices[deviceClass];
    known.own[verdict.kernel] = verdict;
    known.configs.insert(verdict.config);
  }
  impl->tell(deviceClass, {{verdict, true}});
  return updateVerdicts(
             impl->store, deviceClass,
             [&](VerdictMap &all) { all.try_emplace(verdict.kernel, verdict); })
      .publish;
}

void Verdicts::withdraw(llvm::StringRef deviceClass, llvm::StringRef kernel,
                        llvm::StringRef problem) {
  const std::string name = kernel.str();
  // Two processes may have found it for different problems.
  auto isMeant = [&](const VerdictMap &all) {
    auto found = all.find(name);
    return found != all.end() && found->second.problem == problem;
  };
  auto known = impl->ask(
      deviceClass, [&](const Impl::Known &here) -> std::optional<Verdict> {
        for (const VerdictMap *all : {&here.own, &here.stored->verdicts})
          if (isMeant(*all))
            return all->find(name)->second;
        return std::nullopt;
      });
  if (!known)
    return;
  auto updated = updateVerdicts(impl->store, deviceClass, [&](VerdictMap &all) {
    if (isMeant(all))
      all.erase(name);
  });
  VerdictChanges changes;
  {
    std::lock_guard<std::mutex> lock(impl->mutex);
    Impl::Known &here = impl->devices[deviceClass];
    const bool wasOwn = isMeant(here.own);
    if (wasOwn)
      here.own.erase(name);
    changes = here.take(std::move(updated.document), updated.version,
                        impl->keepsFirst);
    const bool isTold = llvm::any_of(changes, [&](const auto &change) {
      return change.first.kernel == name;
    });
    if (wasOwn && !isTold && !here.isWrong(name))
      changes.emplace_back(*known, false);
  }
  impl->tell(deviceClass, changes);
}

//===----------------------------------------------------------------------===//
// For tools
//===----------------------------------------------------------------------===//

/// The device classes that \p cache has verdicts of.
static std::vector<std::string> classesOf(cache::Store &cache) {
  std::set<std::string> classes;
  for (const cache::EntryInfo &info : cache.list(cache::Kind::Record)) {
    llvm::StringRef key = info.key;
    if (key.consume_front(kVerdictKey) && key.count('\n') == 1)
      classes.insert(key.rtrim('\n').str());
  }
  return {classes.begin(), classes.end()};
}

std::vector<DeviceVerdicts> Verdicts::readAll(cache::Store &cache) {
  VerdictStore store(cache);
  std::vector<DeviceVerdicts> devices;
  for (const std::string &deviceClass : classesOf(cache)) {
    DeviceVerdicts &device = devices.emplace_back();
    device.deviceClass = deviceClass;
    auto list = store.load(verdictKey(deviceClass), RecordAge::Now).document;
    for (const auto &[kernel, verdict] : list->verdicts)
      device.verdicts.push_back(verdict);
  }
  return devices;
}

size_t Verdicts::clear(
    cache::Store &cache,
    llvm::function_ref<bool(llvm::StringRef, const Verdict &)> isMeant) {
  VerdictStore store(cache);
  size_t cleared = 0;
  for (const std::string &deviceClass : classesOf(cache)) {
    size_t here = 0;
    updateVerdicts(store, deviceClass, [&](VerdictMap &all) {
      here = std::erase_if(all, [&](const auto &entry) {
        return isMeant(deviceClass, entry.second);
      });
    });
    cleared += here;
  }
  return cleared;
}

} // namespace kiln
