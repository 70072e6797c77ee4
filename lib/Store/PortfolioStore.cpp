//===- PortfolioStore.cpp - what serves a range, stored -------------------===//
#include "Store/PortfolioStore.h"

#include "Store/Decisions.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace kiln {

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

/// The item of \p list that says the same kernel as \p like; null: none does.
template <class Item>
static const Item *findKernel(const std::vector<Item> &list, const Item &like) {
  auto found = llvm::find_if(list, [&](const Item &item) {
    return item.config == like.config && item.kernel == like.kernel;
  });
  return found == list.end() ? nullptr : &*found;
}

size_t
StoredPortfolio::measuredMembersBeside(const StoredPortfolio &later) const {
  const bool isOfEarlier = llvm::any_of(members, [&](const StoredMember &mine) {
    return llvm::any_of(later.members, [&](const StoredMember &other) {
      return other.config == mine.config && other.kernel != mine.kernel;
    });
  });
  if (!isOfEarlier)
    return measuredMembers();
  return static_cast<size_t>(
      llvm::count_if(members, [&](const StoredMember &member) {
        return !member.times.empty() && findKernel(later.members, member);
      }));
}

/// How much \p portfolio spans: the product over its fields.
static double extentOf(const StoredPortfolio &portfolio) {
  double extent = 1;
  for (auto [low, high] : llvm::zip_equal(portfolio.low, portfolio.high))
    extent *= static_cast<double>(high - low + 1);
  return extent;
}

std::vector<const StoredPortfolio *>
StoredPortfolios::findAll(llvm::ArrayRef<int64_t> low,
                          llvm::ArrayRef<int64_t> high) const {
  std::vector<const StoredPortfolio *> found;
  for (const StoredPortfolio &portfolio : ranges)
    if (portfolio.contains(low, high))
      found.push_back(&portfolio);
  // A measured one of a wider range is better than an estimated narrow one.
  auto rank = [](const StoredPortfolio *one) {
    return std::tuple(one->measuredMembers() == 0, extentOf(*one));
  };
  llvm::stable_sort(
      found, [&](const auto *a, const auto *b) { return rank(a) < rank(b); });
  return found;
}

const StoredPortfolio *
StoredPortfolios::find(llvm::ArrayRef<int64_t> low,
                       llvm::ArrayRef<int64_t> high) const {
  const auto found = findAll(low, high);
  return found.empty() ? nullptr : found.front();
}

static void addAll(llvm::json::Array &into, const llvm::json::Array &from) {
  into.insert(into.end(), from.begin(), from.end());
}

/// Takes into \p added what other versions wrote of the same range in \p old.
static void keepOther(StoredPortfolio &added, const StoredPortfolio &old) {
  addMissing(added.unknown, old.unknown);
  addAll(added.unreadMembers, old.unreadMembers);
  addAll(added.unreadFaults, old.unreadFaults);
  for (StoredFault &fault : added.faults)
    if (const StoredFault *known = findKernel(old.faults, fault))
      addMissing(fault.unknown, known->unknown);
  for (StoredMember &member : added.members) {
    const StoredMember *known = findKernel(old.members, member);
    if (!known)
      continue;
    addMissing(member.unknown, known->unknown);
    addAll(member.unread, known->unread);
    for (StoredTime &time : member.times)
      for (const StoredTime &there : known->times)
        if (there.point == time.point)
          addMissing(time.unknown, there.unknown);
  }
}

bool StoredPortfolios::merge(const StoredPortfolio &added, bool replaces,
                             int64_t nowMs) {
  const size_t measured = added.measuredMembers();
  for (StoredPortfolio &known : ranges) {
    if (known.low != added.low || known.high != added.high)
      continue;
    if (!replaces && known.measuredMembersBeside(added) > measured)
      return false;
    const StoredPortfolio old = std::exchange(known, added);
    keepOther(known, old);
    return true;
  }
  llvm::erase_if(ranges, [&](const StoredPortfolio &known) {
    if (!added.contains(known.low, known.high))
      return false;
    const size_t knownMembers = known.measuredMembersBeside(added);
    const bool isAlone =
        known.isComplete && knownMembers > 0 && !added.isComplete;
    return replaces || (!isAlone && knownMembers <= measured);
  });
  ranges.push_back(added);
  auto isOlder = [&](const StoredPortfolio &a, const StoredPortfolio &b) {
    return believedMs(a.measuredAtMs, nowMs) <
           believedMs(b.measuredAtMs, nowMs);
  };
  while (ranges.size() > kMaxRanges)
    ranges.erase(
        std::min_element(ranges.begin(), std::prev(ranges.end()), isOlder));
  return true;
}

size_t StoredPortfolios::shrink(size_t most) {
  const int64_t nowMs = unixTimeMs();
  auto dropOne = [&] {
    if (ranges.size() <= 1)
      return false;
    ranges.erase(std::min_element(
        ranges.begin(), ranges.end(),
        [&](const StoredPortfolio &a, const StoredPortfolio &b) {
          return believedMs(a.measuredAtMs, nowMs) <
                 believedMs(b.measuredAtMs, nowMs);
        }));
    return true;
  };
  return shrinkText(
      most, [&] { return text(); }, dropOne);
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::optional<StoredTime> readTime(const llvm::json::Object &object,
                                          const StoredPortfolio &range) {
  StoredTime time;
  FieldReader reader(object);
  reader.require("point", time.point);
  reader.require("measuredNs", time.measuredNs);
  reader.require("predictedNs", time.predictedNs);
  if (reader.isDamaged || !isTime(time.measuredNs) ||
      !isTime(time.predictedNs) || !range.contains(time.point, time.point))
    return std::nullopt;
  time.unknown = reader.unknown();
  return time;
}

static std::optional<StoredMember> readMember(const llvm::json::Object &object,
                                              const StoredPortfolio &range) {
  StoredMember member;
  FieldReader reader(object);
  reader.require("config", member.config);
  reader.require("kernel", member.kernel);
  reader.require("low", member.low);
  reader.require("high", member.high);
  reader.require("validated", member.validated);
  reader.readItems("times", member.unread, [&](const llvm::json::Object &item) {
    auto time = readTime(item, range);
    if (time)
      member.times.push_back(std::move(*time));
    return time.has_value();
  });
  if (reader.isDamaged || member.config.empty() || member.kernel.empty() ||
      !range.contains(member.low, member.high) ||
      !llvm::all_of(llvm::zip_equal(member.low, member.high), [](auto ends) {
        return std::get<0>(ends) <= std::get<1>(ends);
      }))
    return std::nullopt;
  member.unknown = reader.unknown();
  return member;
}

static std::optional<StoredFault> readFault(const llvm::json::Object &object) {
  StoredFault fault;
  FieldReader reader(object);
  reader.require("config", fault.config);
  reader.require("kernel", fault.kernel);
  reader.require("reason", fault.reason);
  if (reader.isDamaged || fault.config.empty() || fault.kernel.empty())
    return std::nullopt;
  fault.unknown = reader.unknown();
  return fault;
}

/// Whether a range has an extent of 1 or more in each of a few fields.
static bool isRange(const StoredPortfolio &portfolio) {
  constexpr size_t kMostFields = 8;
  const auto &low = portfolio.low;
  return !low.empty() && low.size() <= kMostFields &&
         llvm::all_of(low, [](int64_t value) { return value >= 1; }) &&
         portfolio.contains(low, low) &&
         portfolio.contains(portfolio.high, portfolio.high);
}

static std::optional<StoredPortfolio>
readPortfolio(const llvm::json::Object &object) {
  StoredPortfolio portfolio;
  FieldReader reader(object);
  reader.require("low", portfolio.low);
  reader.require("high", portfolio.high);
  reader.require("regret", portfolio.regret);
  reader.require("complete", portfolio.isComplete);
  reader.require("measuredAtMs", portfolio.measuredAtMs);
  if (reader.isDamaged || !isRange(portfolio) ||
      !std::isfinite(portfolio.regret) || portfolio.regret < 0 ||
      !object.get("members"))
    return std::nullopt;
  const uint64_t skipped = reader.readItems(
      "members", portfolio.unreadMembers, [&](const llvm::json::Object &item) {
        auto member = readMember(item, portfolio);
        if (member)
          portfolio.members.push_back(std::move(*member));
        return member.has_value();
      });
  portfolio.isComplete &= skipped == 0;
  reader.readItems("faults", portfolio.unreadFaults,
                   [&](const llvm::json::Object &item) {
                     auto fault = readFault(item);
                     if (fault)
                       portfolio.faults.push_back(std::move(*fault));
                     return fault.has_value();
                   });
  if (reader.isDamaged ||
      (portfolio.members.empty() && portfolio.faults.empty()))
    return std::nullopt;
  portfolio.unknown = reader.unknown();
  return portfolio;
}

llvm::Expected<StoredPortfolios> StoredPortfolios::open(std::string text) {
  StoredPortfolios all;
  auto take = [&](const llvm::json::Object &item) {
    auto portfolio = readPortfolio(item);
    if (portfolio)
      all.ranges.push_back(std::move(*portfolio));
    return portfolio.has_value();
  };
  if (llvm::Error error = readLines(text, kKind.name, all.other, take))
    return error;
  return all;
}

/// \p items as \p write has them, then \p unread.
template <class Item>
static llvm::json::Array writeAll(const std::vector<Item> &items,
                                  const llvm::json::Array &unread,
                                  llvm::json::Object (*write)(const Item &)) {
  llvm::json::Array list;
  for (const Item &item : items)
    list.push_back(write(item));
  addAll(list, unread);
  return list;
}

static llvm::json::Object writeTime(const StoredTime &time) {
  llvm::json::Object object = time.unknown;
  object["point"] = llvm::json::Array(time.point);
  object["measuredNs"] = time.measuredNs;
  object["predictedNs"] = time.predictedNs;
  return object;
}

static llvm::json::Object writeMember(const StoredMember &member) {
  llvm::json::Object object = member.unknown;
  object["config"] = jsonText(member.config);
  object["kernel"] = jsonText(member.kernel);
  object["low"] = llvm::json::Array(member.low);
  object["high"] = llvm::json::Array(member.high);
  object["validated"] = member.validated;
  object["times"] = writeAll(member.times, member.unread, writeTime);
  return object;
}

static llvm::json::Object writeFault(const StoredFault &fault) {
  llvm::json::Object object = fault.unknown;
  object["config"] = jsonText(fault.config);
  object["kernel"] = jsonText(fault.kernel);
  object["reason"] = jsonText(fault.reason);
  return object;
}

static llvm::json::Object writePortfolio(const StoredPortfolio &portfolio) {
  llvm::json::Object object = portfolio.unknown;
  object["low"] = llvm::json::Array(portfolio.low);
  object["high"] = llvm::json::Array(portfolio.high);
  object["regret"] = portfolio.regret;
  object["complete"] = portfolio.isComplete;
  object["measuredAtMs"] = portfolio.measuredAtMs;
  object["members"] =
      writeAll(portfolio.members, portfolio.unreadMembers, writeMember);
  object["faults"] =
      writeAll(portfolio.faults, portfolio.unreadFaults, writeFault);
  return object;
}

std::string StoredPortfolios::text() const {
  return textOfItems(kKind.name, other, ranges, writePortfolio);
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
  return fmt::format("kiln portfolio 2\n{}device {}\n", layer, device);
}

std::optional<StoredPortfolio>
PortfolioStore::find(const PortfolioKey &key, llvm::ArrayRef<int64_t> low,
                     llvm::ArrayRef<int64_t> high, RecordAge age) const {
  auto all = load(key, age);
  if (const StoredPortfolio *found = all->find(low, high))
    return *found;
  return std::nullopt;
}

PortfolioStore::StoreResult
PortfolioStore::store(const PortfolioKey &key, const StoredPortfolio &portfolio,
                      bool replaces) {
  llvm::json::Object attributes{{"layer", jsonText(key.layer)},
                                {"device", jsonText(key.device)}};
  StoreResult result;
  auto updated = entries.update(
      key.text(), std::move(attributes), [&](StoredPortfolios &all) {
        result.isOutdone = !all.merge(portfolio, replaces);
      });
  result.publish = std::move(updated.publish);
  result.wasThere = updated.wasThere;
  return result;
}

} // namespace kiln
