//===- Verdicts.cpp - which kernels compute wrong results -----------------===//
#include "Store/Verdicts.h"

#include "Store/Records.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringSet.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

namespace kiln {

/// Kernels of earlier sources never come back, so old verdicts are of no use:
/// beyond so many the oldest go.
static constexpr size_t kMostVerdicts = 4096;

static constexpr llvm::StringLiteral kVerdictKey = "kiln verdicts 1\ndevice ";

//===----------------------------------------------------------------------===//
// One entry
//===----------------------------------------------------------------------===//

using VerdictMap = std::map<std::string, Verdict>; ///< by kernel

static std::string verdictKey(llvm::StringRef deviceClass) {
  return fmt::format("{}{}\n", kVerdictKey, deviceClass);
}

static constexpr llvm::StringLiteral kVerdictFields[] = {
    "kernel", "config", "problem", "reason", "foundAtMs"};

static std::optional<Verdict> readVerdict(const llvm::json::Value &value) {
  const llvm::json::Object *object = value.getAsObject();
  if (!object)
    return std::nullopt;
  Verdict verdict;
  auto take = [&](const char *key, std::string &text) {
    if (auto given = object->getString(key))
      text = given->str();
  };
  take("kernel", verdict.kernel);
  take("config", verdict.config);
  take("problem", verdict.problem);
  take("reason", verdict.reason);
  verdict.foundAtMs = object->getInteger("foundAtMs").value_or(0);
  if (verdict.kernel.empty() || verdict.config.empty())
    return std::nullopt;
  for (const auto &[key, field] : *object)
    if (!llvm::is_contained(kVerdictFields, key.str()))
      verdict.unknown[key.str()] = field;
  return verdict;
}

static llvm::json::Object toJson(const Verdict &verdict) {
  llvm::json::Object object = verdict.unknown;
  object["kernel"] = jsonText(verdict.kernel);
  object["config"] = jsonText(verdict.config);
  object["problem"] = jsonText(verdict.problem);
  object["reason"] = jsonText(verdict.reason);
  object["foundAtMs"] = verdict.foundAtMs;
  return object;
}

/// None where \p text is no list of verdicts. Of a list, what cannot be read is
/// left out: the kernel is compared again one day.
static std::optional<VerdictMap> parseVerdicts(llvm::StringRef text) {
  auto parsed = llvm::json::parse(text);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return std::nullopt;
  }
  const llvm::json::Object *object = parsed->getAsObject();
  const llvm::json::Array *list =
      object ? object->getArray("verdicts") : nullptr;
  if (!list)
    return std::nullopt;
  VerdictMap verdicts;
  for (const llvm::json::Value &value : *list)
    if (auto verdict = readVerdict(value))
      verdicts[verdict->kernel] = std::move(*verdict);
  return verdicts;
}

static std::string verdictText(const VerdictMap &verdicts) {
  std::vector<const Verdict *> order;
  for (const auto &[kernel, verdict] : verdicts)
    order.push_back(&verdict);
  if (order.size() > kMostVerdicts) {
    llvm::stable_sort(order, [](const Verdict *a, const Verdict *b) {
      return a->foundAtMs > b->foundAtMs;
    });
    order.resize(kMostVerdicts);
  }
  llvm::json::Array list;
  for (const Verdict *verdict : order)
    list.push_back(toJson(*verdict));
  return printJson(llvm::json::Object{{"verdicts", std::move(list)}});
}

using VerdictChange = llvm::function_ref<void(VerdictMap &)>;

static cache::PublishResult updateVerdicts(cache::Store &cache,
                                           llvm::StringRef deviceClass,
                                           VerdictChange change) {
  llvm::json::Object attributes{{"verdicts", true},
                                {"device", jsonText(deviceClass)}};
  return cache.update(cache::Kind::Record, verdictKey(deviceClass), attributes,
                      [&](std::optional<llvm::StringRef> old) {
                        VerdictMap verdicts;
                        if (old)
                          verdicts = parseVerdicts(*old).value_or(VerdictMap());
                        change(verdicts);
                        return verdictText(verdicts);
                      });
}

//===----------------------------------------------------------------------===//
// All of a process
//===----------------------------------------------------------------------===//

struct Verdicts::Impl {
  using Clock = std::chrono::steady_clock;
  struct Known {
    VerdictMap stored; ///< as the cache had it
    VerdictMap own;    ///< found here: true also where nothing can be written
    llvm::StringSet<> configs; ///< of both
    cache::Stamp stamp;
    bool isRead = false;
    Clock::time_point recheckAt;
    uint64_t begun = 0, taken = 0; ///< readings, counted

    void index() {
      configs.clear();
      for (const VerdictMap *all : {&stored, &own})
        for (const auto &[kernel, verdict] : *all)
          configs.insert(verdict.config);
    }
  };

  cache::Store &cache;
  const std::chrono::milliseconds recheckInterval;
  Listener listener;
  std::mutex mutex; ///< guards what follows
  llvm::StringMap<Known> devices;

  /// Whether some verdict on \p kernel stands.
  static bool isWrong(const Known &known, const std::string &kernel) {
    return known.own.count(kernel) || known.stored.count(kernel);
  }

  enum class When { Due, Now };
  void refresh(llvm::StringRef deviceClass, When when = When::Due);
  template <class Ask> auto ask(llvm::StringRef deviceClass, const Ask &what) {
    refresh(deviceClass);
    std::lock_guard<std::mutex> lock(mutex);
    return what(devices[deviceClass]);
  }
};

/// Reads again what is known of \p deviceClass, if that is due. Without the
/// lock: a slow file system delays no other thread.
void Verdicts::Impl::refresh(llvm::StringRef deviceClass, When when) {
  cache::Stamp seen;
  bool isRead = false;
  uint64_t number = 0;
  {
    std::lock_guard<std::mutex> lock(mutex);
    Known &known = devices[deviceClass];
    const Clock::time_point now = Clock::now();
    if (known.isRead && when == When::Due && now < known.recheckAt)
      return;
    number = ++known.begun;
    known.recheckAt = now + recheckInterval;
    isRead = known.isRead;
    seen = known.stamp;
  }
  const std::string key = verdictKey(deviceClass);
  const cache::Stamp stamp = cache.stampOf(cache::Kind::Record, key);
  if (isRead && seen.value == stamp.value &&
      (seen.isSettled || !stamp.isSettled))
    return;
  const auto entry = cache.lookup(cache::Kind::Record, key);
  std::optional<VerdictMap> read =
      entry ? parseVerdicts(entry->payload) : VerdictMap();
  // Where something is and cannot be read now, what was known stands.
  const bool isUnread = !entry && !stamp.isNothing;
  std::vector<std::pair<Verdict, bool>> changes;
  {
    std::lock_guard<std::mutex> lock(mutex);
    Known &known = devices[deviceClass];
    if (number < known.taken) // a later reading was faster
      return;
    known.taken = number;
    VerdictMap stored = read && !isUnread ? std::move(*read) : known.stored;
    std::swap(known.stored, stored);
    // The first reading changes nothing: no plan is loaded yet.
    if (known.isRead) {
      for (const auto &[kernel, verdict] : known.stored)
        if (!stored.count(kernel) && !known.own.count(kernel))
          changes.emplace_back(verdict, true);
      for (const auto &[kernel, verdict] : stored)
        if (!isWrong(known, kernel))
          changes.emplace_back(verdict, false);
    }
    known.isRead = true;
    if (!isUnread)
      known.stamp = stamp;
    known.index();
  }
  for (const auto &[verdict, isWrongNow] : changes)
    if (listener)
      listener(deviceClass, verdict, isWrongNow);
}

Verdicts::Verdicts(cache::Store &cache,
                   std::chrono::milliseconds recheckInterval)
    : impl(new Impl{cache, recheckInterval, nullptr, {}, {}}) {}

Verdicts::~Verdicts() = default;

void Verdicts::listen(Listener listener) {
  impl->listener = std::move(listener);
}

std::optional<Verdict> Verdicts::find(llvm::StringRef deviceClass,
                                      llvm::StringRef kernel) const {
  return impl->ask(
      deviceClass, [&](const Impl::Known &known) -> std::optional<Verdict> {
        for (const VerdictMap *all : {&known.own, &known.stored})
          if (auto found = all->find(kernel.str()); found != all->end())
            return found->second;
        return std::nullopt;
      });
}

bool Verdicts::isKnownWrong(llvm::StringRef deviceClass,
                            llvm::StringRef kernel) const {
  std::lock_guard<std::mutex> lock(impl->mutex);
  return Impl::isWrong(impl->devices[deviceClass], kernel.str());
}

void Verdicts::recheck(llvm::StringRef deviceClass) {
  impl->refresh(deviceClass, Impl::When::Now);
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
    all.insert(known.stored.begin(), known.stored.end());
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
  if (impl->listener)
    impl->listener(deviceClass, verdict, true);
  return updateVerdicts(impl->cache, deviceClass, [&](VerdictMap &all) {
    all.try_emplace(verdict.kernel, verdict);
  });
}

void Verdicts::withdraw(llvm::StringRef deviceClass, llvm::StringRef kernel,
                        llvm::StringRef problem) {
  const std::string name = kernel.str();
  // Two processes may have found it for different problems.
  auto isMeant = [&](const VerdictMap &all) {
    auto found = all.find(name);
    return found != all.end() && found->second.problem == problem;
  };
  auto [isKnown, known] = impl->ask(deviceClass, [&](const Impl::Known &here) {
    for (const VerdictMap *all : {&here.own, &here.stored})
      if (isMeant(*all))
        return std::pair(true, all->find(name)->second);
    return std::pair(false, Verdict());
  });
  if (!isKnown)
    return;
  updateVerdicts(impl->cache, deviceClass, [&](VerdictMap &all) {
    if (isMeant(all))
      all.erase(name);
  });
  bool isRight = false;
  {
    std::lock_guard<std::mutex> lock(impl->mutex);
    Impl::Known &here = impl->devices[deviceClass];
    here.taken = ++here.begun; // readings that began before are old
    for (VerdictMap *all : {&here.own, &here.stored})
      if (isMeant(*all))
        all->erase(name);
    here.index();
    isRight = !Impl::isWrong(here, name);
  }
  if (isRight && impl->listener)
    impl->listener(deviceClass, known, false);
}

//===----------------------------------------------------------------------===//
// For tools
//===----------------------------------------------------------------------===//

std::vector<DeviceVerdicts> Verdicts::readAll(cache::Store &cache) {
  std::map<std::string, VerdictMap> all;
  for (const cache::EntryInfo &info : cache.list(cache::Kind::Record)) {
    llvm::StringRef key = info.key;
    if (!key.consume_front(kVerdictKey))
      continue;
    if (auto entry = cache.lookup(cache::Kind::Record, info.key))
      all[key.rtrim('\n').str()] =
          parseVerdicts(entry->payload).value_or(VerdictMap());
  }
  std::vector<DeviceVerdicts> devices;
  for (auto &[deviceClass, verdicts] : all) {
    DeviceVerdicts &device = devices.emplace_back();
    device.deviceClass = deviceClass;
    for (auto &[kernel, verdict] : verdicts)
      device.verdicts.push_back(std::move(verdict));
  }
  return devices;
}

size_t Verdicts::clear(
    cache::Store &cache,
    llvm::function_ref<bool(llvm::StringRef, const Verdict &)> isMeant) {
  size_t cleared = 0;
  for (const DeviceVerdicts &device : readAll(cache)) {
    size_t here = 0;
    updateVerdicts(cache, device.deviceClass, [&](VerdictMap &all) {
      here = std::erase_if(all, [&](const auto &entry) {
        return isMeant(device.deviceClass, entry.second);
      });
    });
    cleared += here;
  }
  return cleared;
}

} // namespace kiln
