//===- PoolStore.cpp - the kernels of a signature, stored -----------------===//
#include "Store/PoolStore.h"

#include "Store/ArtifactStore.h"
#include "Store/PortfolioStore.h"
#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringMap.h>

#include <algorithm>
#include <cmath>
#include <mutex>

namespace kiln {

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::vector<std::string> readTexts(const llvm::json::Array *list) {
  std::vector<std::string> texts;
  for (const llvm::json::Value &value : list ? *list : llvm::json::Array())
    if (auto text = value.getAsString(); text && !text->empty())
      texts.push_back(text->str());
  return texts;
}

llvm::Expected<StoredPool> StoredPool::parse(llvm::StringRef json) {
  auto value = parseJson(json, "pool");
  if (!value)
    return value.takeError();
  const llvm::json::Object *object = value->getAsObject();
  const llvm::json::Array *list =
      object ? object->getArray("kernels") : nullptr;
  if (!list)
    return makeError(ErrorCode::InvalidArgument, "pool: no array 'kernels'");
  StoredPool pool;
  auto regret = [&](llvm::StringRef key) {
    const double known = object->getNumber(key).value_or(0);
    return std::isfinite(known) ? std::max(0.0, known) : 0;
  };
  pool.meanRegret = regret("mean");
  pool.mostRegret = regret("most");
  for (const llvm::json::Value &element : *list) {
    const llvm::json::Object *item = element.getAsObject();
    if (!item)
      continue;
    StoredPoolKernel kernel{readTexts(item->getArray("configs")),
                            readTexts(item->getArray("artifacts"))};
    if (!kernel.configs.empty())
      pool.kernels.push_back(std::move(kernel));
  }
  return pool;
}

llvm::json::Object StoredPool::toJson() const {
  llvm::json::Array list;
  for (const StoredPoolKernel &kernel : kernels)
    list.push_back(
        llvm::json::Object{{"configs", llvm::json::Array(kernel.configs)},
                           {"artifacts", llvm::json::Array(kernel.artifacts)}});
  return llvm::json::Object{
      {"kernels", std::move(list)}, {"mean", meanRegret}, {"most", mostRegret}};
}

std::vector<std::string> StoredPool::artifacts() const {
  std::vector<std::string> names;
  for (const StoredPoolKernel &kernel : kernels)
    llvm::append_range(names, kernel.artifacts);
  llvm::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string artifactName(const TranslationUnit &unit) {
  return cache::fileNameOf(cache::Kind::Artifact, artifactKey(unit));
}

std::string poolKey(const KernelFamily &family, const Values &signature,
                    const DeviceModel &device) {
  return fmt::format("kiln pool 1\nfamily {}\nsignature {}\ndevice {}\n",
                     family.name(), signature.text(), productKey(device));
}

//===----------------------------------------------------------------------===//
// Choosing
//===----------------------------------------------------------------------===//

std::vector<KnownPool::Pick> KnownPool::rank(const Problem &problem,
                                             const DeviceModel &device) const {
  std::vector<Pick> picks;
  for (const Kernel &kernel : kernels)
    if (auto fastest =
            kernel.tmpl->fastestAt({}, problem, kernel.configs, device))
      picks.push_back({kernel.tmpl, std::move(fastest->config), fastest->ns});
  llvm::stable_sort(picks, [](const Pick &a, const Pick &b) {
    return a.predictedNs < b.predictedNs;
  });
  return picks;
}

static std::shared_ptr<const KnownPool> know(const KernelFamily &family,
                                             StoredPool stored) {
  auto known = std::make_shared<KnownPool>();
  for (const StoredPoolKernel &kernel : stored.kernels) {
    KnownPool::Kernel made;
    for (const std::string &text : kernel.configs) {
      auto named = family.parseConfig(text);
      if (!named) {
        llvm::consumeError(named.takeError()); // of another version of Kiln
        continue;
      }
      if (made.tmpl && made.tmpl != named->tmpl)
        continue;
      made.tmpl = named->tmpl;
      made.configs.push_back(std::move(named->config));
    }
    if (made.tmpl)
      known->kernels.push_back(std::move(made));
  }
  known->stored = std::move(stored);
  return known;
}

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

struct PoolStore::Impl {
  using Clock = std::chrono::steady_clock;
  struct Kept {
    std::shared_ptr<const KnownPool> pool; ///< null: there is none
    cache::Stamp stamp;
    Clock::time_point recheckAt;
  };

  cache::Store &cache;
  const std::chrono::milliseconds recheckInterval;
  std::mutex mutex; ///< guards what follows
  llvm::StringMap<Kept> kept;

  std::shared_ptr<const KnownPool> find(const KernelFamily &family,
                                        const std::string &key);
};

/// The pool in an entry; nullopt if there is no usable one.
static std::optional<StoredPool>
poolIn(const std::optional<cache::Entry> &entry) {
  if (!entry)
    return std::nullopt;
  auto pool = StoredPool::parse(entry->payload);
  if (pool && !pool->kernels.empty())
    return std::move(*pool);
  if (!pool)
    llvm::consumeError(pool.takeError());
  return std::nullopt;
}

PoolStore::PoolStore(cache::Store &cache,
                     std::chrono::milliseconds recheckInterval)
    : impl(new Impl{cache, recheckInterval, {}, {}}) {}

PoolStore::~PoolStore() = default;

std::shared_ptr<const KnownPool>
PoolStore::Impl::find(const KernelFamily &family, const std::string &key) {
  const Clock::time_point now = Clock::now();
  std::optional<Kept> known;
  {
    std::lock_guard lock(mutex);
    auto found = kept.find(key);
    if (found != kept.end()) {
      if (now < found->second.recheckAt)
        return found->second.pool;
      found->second.recheckAt = now + recheckInterval;
      known = found->second;
    }
  }
  const cache::Stamp stamp = cache.stampOf(cache::Kind::Pool, key);
  if (known && known->stamp.value == stamp.value &&
      (known->stamp.isSettled || !stamp.isSettled))
    return known->pool;
  Kept fresh;
  fresh.stamp = stamp;
  fresh.recheckAt = now + recheckInterval;
  if (auto pool = poolIn(cache.lookup(cache::Kind::Pool, key)))
    fresh.pool = know(family, std::move(*pool));
  std::lock_guard lock(mutex);
  kept[key] = fresh;
  return fresh.pool;
}

std::shared_ptr<const KnownPool>
PoolStore::find(const KernelFamily &family, const Values &signature,
                const DeviceModel &device) const {
  auto pool = impl->find(family, poolKey(family, signature, device));
  // One that was made without this GPU: its kernels are chosen by today's
  // numbers all the same.
  if (!pool && device.uncalibrated)
    pool = impl->find(family, poolKey(family, signature, *device.uncalibrated));
  return pool;
}

size_t PoolStore::missing(const StoredPool &pool) const {
  return static_cast<size_t>(
      llvm::count_if(pool.artifacts(), [&](const std::string &name) {
        return !impl->cache.isNameOnDisk(cache::Kind::Artifact, name);
      }));
}

PoolStore::StoreResult PoolStore::store(const KernelFamily &family,
                                        const Values &signature,
                                        const DeviceModel &device,
                                        const StoredPool &pool) {
  const std::string key = poolKey(family, signature, device);
  // An equal pool costs a read instead of two fsyncs.
  cache::TierKind from = cache::TierKind::Memory;
  auto there = impl->cache.lookup(cache::Kind::Pool, key, nullptr, &from);
  if (from != cache::TierKind::Memory && poolIn(there) == pool)
    return {{}, true};
  llvm::json::Object attributes{
      {"family", family.name()},
      {"signature", signature.text()},
      {"device", device.name},
      {cache::kPinsAttribute, llvm::json::Array(pool.artifacts())}};
  StoreResult result;
  result.publish = impl->cache.publish(cache::Kind::Pool, key, attributes,
                                       printJson(pool.toJson()));
  std::lock_guard lock(impl->mutex);
  impl->kept.erase(key);
  return result;
}

bool PoolStore::isOnDisk(const KernelFamily &family, const Values &signature,
                         const DeviceModel &device) const {
  return impl->cache.isOnDisk(cache::Kind::Pool,
                              poolKey(family, signature, device));
}

std::vector<PoolStore::Listed> PoolStore::list() const {
  std::vector<Listed> all;
  for (const cache::EntryInfo &info : impl->cache.list(cache::Kind::Pool)) {
    auto pool = poolIn(impl->cache.lookup(cache::Kind::Pool, info.key));
    if (!pool)
      continue;
    auto attribute = [&](llvm::StringRef key) {
      return info.attributes.getString(key).value_or("").str();
    };
    Listed &one = all.emplace_back(Listed{attribute("family"),
                                          attribute("signature"),
                                          attribute("device"),
                                          {},
                                          0});
    one.missing = missing(*pool);
    one.pool = std::move(*pool);
  }
  return all;
}

} // namespace kiln
