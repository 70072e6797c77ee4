//===- PortfolioStore.cpp - what serves a range, stored -------------------===//
#include "Store/PortfolioStore.h"

#include "Store/Decisions.h"
#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringMap.h>

#include <algorithm>
#include <cmath>
#include <mutex>

namespace kiln {

/// An entry keeps so many ranges; what was measured longest ago goes first.
static constexpr size_t kMaxRanges = 8;

//===----------------------------------------------------------------------===//
// What there is
//===----------------------------------------------------------------------===//

bool StoredPortfolio::contains(llvm::ArrayRef<int64_t> from,
                               llvm::ArrayRef<int64_t> to) const {
  if (from.size() != low.size() || to.size() != high.size())
    return false;
  for (size_t i = 0; i < low.size(); ++i)
    if (from[i] < low[i] || to[i] > high[i])
      return false;
  return true;
}

size_t StoredPortfolio::measuredMembers() const {
  return static_cast<size_t>(
      llvm::count_if(members, [](const StoredMember &member) {
        return !member.times.empty();
      }));
}

/// How much \p portfolio spans: the product over its fields.
static double extentOf(const StoredPortfolio &portfolio) {
  double extent = 1;
  for (auto [low, high] : llvm::zip_equal(portfolio.low, portfolio.high))
    extent *= static_cast<double>(high - low + 1);
  return extent;
}

const StoredPortfolio *
StoredPortfolios::find(llvm::ArrayRef<int64_t> low,
                       llvm::ArrayRef<int64_t> high) const {
  const StoredPortfolio *best = nullptr;
  for (const StoredPortfolio &portfolio : ranges) {
    if (!portfolio.contains(low, high))
      continue;
    // A measured one of a wider range is better than an estimated narrow one.
    auto rank = [](const StoredPortfolio &one) {
      return std::make_tuple(one.measuredMembers() == 0, extentOf(one));
    };
    if (!best || rank(portfolio) < rank(*best))
      best = &portfolio;
  }
  return best;
}

bool StoredPortfolios::merge(const StoredPortfolio &added, bool replaces) {
  for (StoredPortfolio &known : ranges) {
    if (known.low != added.low || known.high != added.high)
      continue;
    if (!replaces && known.measuredMembers() > added.measuredMembers())
      return false;
    known = added;
    return true;
  }
  llvm::erase_if(ranges, [&](const StoredPortfolio &known) {
    if (!added.contains(known.low, known.high))
      return false;
    const bool isAlone = known.isComplete && !added.isComplete;
    return replaces ||
           (!isAlone && known.measuredMembers() <= added.measuredMembers());
  });
  ranges.push_back(added);
  while (ranges.size() > kMaxRanges)
    ranges.erase(std::min_element(
        ranges.begin(), std::prev(ranges.end()),
        [](const StoredPortfolio &a, const StoredPortfolio &b) {
          return a.measuredAtMs < b.measuredAtMs;
        }));
  return true;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Values of the extents of a point; false: they are no such values.
static bool readPoint(const llvm::json::Object &object, llvm::StringRef key,
                      std::vector<int64_t> &point) {
  const llvm::json::Array *list = object.getArray(key);
  if (!list || list->empty() || list->size() > 8)
    return false;
  for (const llvm::json::Value &value : *list) {
    std::optional<int64_t> number = value.getAsInteger();
    if (!number || *number < 1)
      return false;
    point.push_back(*number);
  }
  return true;
}

static std::optional<double> readTime(const llvm::json::Object &object,
                                      llvm::StringRef key) {
  std::optional<double> number = object.getNumber(key);
  if (!number || !std::isfinite(*number) || *number <= 0)
    return std::nullopt;
  return number;
}

static std::optional<StoredMember> readMember(const llvm::json::Object &object,
                                              const StoredPortfolio &range) {
  StoredMember member;
  auto config = object.getString("config"), kernel = object.getString("kernel");
  auto validated = object.getBoolean("validated");
  if (!config || config->empty() || !kernel || kernel->empty() || !validated ||
      !readPoint(object, "low", member.low) ||
      !readPoint(object, "high", member.high) ||
      member.low.size() != member.high.size() ||
      !range.contains(member.low, member.high))
    return std::nullopt;
  for (auto [low, high] : llvm::zip_equal(member.low, member.high))
    if (low > high)
      return std::nullopt;
  member.config = config->str();
  member.kernel = kernel->str();
  member.validated = *validated;
  const llvm::json::Array *times = object.getArray("times");
  for (const llvm::json::Value &value : times ? *times : llvm::json::Array()) {
    const llvm::json::Object *item = value.getAsObject();
    if (!item)
      continue;
    StoredTime time;
    auto measured = readTime(*item, "measuredNs");
    auto predicted = readTime(*item, "predictedNs");
    if (!measured || !predicted || !readPoint(*item, "point", time.point) ||
        !range.contains(time.point, time.point))
      continue;
    time.measuredNs = *measured;
    time.predictedNs = *predicted;
    member.times.push_back(std::move(time));
  }
  return member;
}

static std::optional<StoredPortfolio>
readPortfolio(const llvm::json::Object &object) {
  StoredPortfolio portfolio;
  auto regret = object.getNumber("regret");
  auto isComplete = object.getBoolean("complete");
  auto measuredAtMs = object.getInteger("measuredAtMs");
  const llvm::json::Array *members = object.getArray("members");
  if (!regret || !std::isfinite(*regret) || *regret < 0 || !isComplete ||
      !measuredAtMs || !members || !readPoint(object, "low", portfolio.low) ||
      !readPoint(object, "high", portfolio.high) ||
      !portfolio.contains(portfolio.low, portfolio.low) ||
      !portfolio.contains(portfolio.high, portfolio.high))
    return std::nullopt;
  portfolio.regret = *regret;
  portfolio.isComplete = *isComplete;
  portfolio.measuredAtMs = *measuredAtMs;
  for (const llvm::json::Value &value : *members) {
    const llvm::json::Object *item = value.getAsObject();
    auto member = item ? readMember(*item, portfolio) : std::nullopt;
    if (member)
      portfolio.members.push_back(std::move(*member));
    else
      portfolio.isComplete = false; // something is damaged
  }
  const llvm::json::Array *faults = object.getArray("faults");
  for (const llvm::json::Value &value :
       faults ? *faults : llvm::json::Array()) {
    const llvm::json::Object *item = value.getAsObject();
    if (!item)
      continue;
    auto config = item->getString("config"), kernel = item->getString("kernel");
    auto reason = item->getString("reason");
    if (config && kernel && reason && !config->empty() && !kernel->empty())
      portfolio.faults.push_back({config->str(), kernel->str(), reason->str()});
  }
  if (portfolio.members.empty() && portfolio.faults.empty())
    return std::nullopt;
  return portfolio;
}

llvm::Expected<StoredPortfolios> StoredPortfolios::parse(llvm::StringRef json) {
  auto value = parseJson(json, "portfolio");
  if (!value)
    return value.takeError();
  const llvm::json::Object *object = value->getAsObject();
  const llvm::json::Array *list = object ? object->getArray("ranges") : nullptr;
  if (!list)
    return makeError(ErrorCode::InvalidArgument,
                     "portfolio: no array 'ranges'");
  StoredPortfolios all;
  for (const llvm::json::Value &element : *list)
    if (const llvm::json::Object *item = element.getAsObject())
      if (auto portfolio = readPortfolio(*item))
        all.ranges.push_back(std::move(*portfolio));
  return all;
}

static llvm::json::Object writeMember(const StoredMember &member) {
  llvm::json::Array times;
  for (const StoredTime &time : member.times)
    times.push_back(llvm::json::Object{{"point", llvm::json::Array(time.point)},
                                       {"measuredNs", time.measuredNs},
                                       {"predictedNs", time.predictedNs}});
  return llvm::json::Object{{"config", jsonText(member.config)},
                            {"kernel", jsonText(member.kernel)},
                            {"low", llvm::json::Array(member.low)},
                            {"high", llvm::json::Array(member.high)},
                            {"validated", member.validated},
                            {"times", std::move(times)}};
}

llvm::json::Object StoredPortfolios::toJson() const {
  llvm::json::Array list;
  for (const StoredPortfolio &portfolio : ranges) {
    llvm::json::Array members, faults;
    for (const StoredMember &member : portfolio.members)
      members.push_back(writeMember(member));
    for (const StoredFault &fault : portfolio.faults)
      faults.push_back(llvm::json::Object{{"config", jsonText(fault.config)},
                                          {"kernel", jsonText(fault.kernel)},
                                          {"reason", jsonText(fault.reason)}});
    list.push_back(
        llvm::json::Object{{"low", llvm::json::Array(portfolio.low)},
                           {"high", llvm::json::Array(portfolio.high)},
                           {"regret", portfolio.regret},
                           {"complete", portfolio.isComplete},
                           {"measuredAtMs", portfolio.measuredAtMs},
                           {"members", std::move(members)},
                           {"faults", std::move(faults)}});
  }
  return llvm::json::Object{{"ranges", std::move(list)}};
}

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

PortfolioKey PortfolioKey::measured(llvm::StringRef layer,
                                    llvm::StringRef deviceClass) {
  return {layer.str(), fmt::format("class {}", deviceClass)};
}

PortfolioKey PortfolioKey::estimated(llvm::StringRef layer,
                                     const DeviceModel &device) {
  return {layer.str(), "product " + productKey(device)};
}

std::string PortfolioKey::text() const {
  return fmt::format("kiln portfolio 1\n{}device {}\n", layer, device);
}

using StoredPtr = std::shared_ptr<const StoredPortfolios>;

static StoredPortfolios parseAll(llvm::StringRef text) {
  auto parsed = StoredPortfolios::parse(text);
  if (parsed)
    return std::move(*parsed);
  llvm::consumeError(parsed.takeError());
  return {};
}

struct PortfolioStore::Impl {
  using Clock = std::chrono::steady_clock;
  struct Kept {
    StoredPtr value;
    cache::Stamp stamp;
    Clock::time_point recheckAt;
  };

  cache::Store &cache;
  const std::chrono::milliseconds recheckInterval;
  std::mutex mutex; ///< guards what follows
  llvm::StringMap<Kept> kept;

  StoredPtr load(const std::string &key, RecordAge age);
};

StoredPtr PortfolioStore::Impl::load(const std::string &key, RecordAge age) {
  StoredPtr known;
  cache::Stamp knownStamp;
  {
    std::lock_guard guard(mutex);
    auto found = kept.find(key);
    if (found != kept.end()) {
      Kept &entry = found->second;
      const Clock::time_point now = Clock::now();
      if (age == RecordAge::Recent && now < entry.recheckAt)
        return entry.value;
      known = entry.value;
      knownStamp = entry.stamp;
      entry.recheckAt = now + recheckInterval;
    }
  }
  const cache::Stamp stamp = cache.stampOf(cache::Kind::Portfolio, key);
  if (known && knownStamp.value == stamp.value &&
      (knownStamp.isSettled || !stamp.isSettled))
    return known;
  StoredPortfolios read;
  if (auto entry = cache.lookup(cache::Kind::Portfolio, key))
    read = parseAll(entry->payload);
  if (!known || known->ranges != read.ranges)
    known = std::make_shared<const StoredPortfolios>(std::move(read));
  std::lock_guard guard(mutex);
  kept[key] = {known, stamp, Clock::now() + recheckInterval};
  return known;
}

PortfolioStore::PortfolioStore(cache::Store &cache,
                               std::chrono::milliseconds recheckInterval)
    : impl(new Impl{cache, recheckInterval, {}, {}}) {}

PortfolioStore::~PortfolioStore() = default;

StoredPtr PortfolioStore::load(const PortfolioKey &key, RecordAge age) const {
  return impl->load(key.text(), age);
}

std::optional<StoredPortfolio>
PortfolioStore::find(const PortfolioKey &key, llvm::ArrayRef<int64_t> low,
                     llvm::ArrayRef<int64_t> high, RecordAge age) const {
  StoredPtr all = load(key, age);
  if (const StoredPortfolio *found = all->find(low, high))
    return *found;
  return std::nullopt;
}

PortfolioStore::StoreResult
PortfolioStore::store(const PortfolioKey &key, const StoredPortfolio &portfolio,
                      bool replaces) {
  const std::string text = key.text();
  // An equal one costs a read instead of two fsyncs.
  cache::LayerKind from = cache::LayerKind::Memory;
  auto there = impl->cache.lookup(cache::Kind::Portfolio, text, nullptr, &from);
  if (there && from != cache::LayerKind::Memory) {
    StoredPortfolios known = parseAll(there->payload), merged = known;
    const bool isIn = merged.merge(portfolio, replaces);
    if (merged.ranges == known.ranges)
      return {{}, true, !isIn};
  }
  llvm::json::Object attributes{{"layer", jsonText(key.layer)},
                                {"device", jsonText(key.device)}};
  StoreResult result;
  result.publish = impl->cache.update(cache::Kind::Portfolio, text, attributes,
                                      [&](std::optional<llvm::StringRef> old) {
                                        StoredPortfolios all;
                                        if (old)
                                          all = parseAll(*old);
                                        result.isOutdone =
                                            !all.merge(portfolio, replaces);
                                        return printJson(all.toJson());
                                      });
  std::lock_guard guard(impl->mutex);
  impl->kept.erase(text);
  return result;
}

bool PortfolioStore::isOnDisk(const PortfolioKey &key) const {
  return impl->cache.isOnDisk(cache::Kind::Portfolio, key.text());
}

} // namespace kiln
