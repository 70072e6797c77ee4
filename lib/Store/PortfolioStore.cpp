//===- PortfolioStore.cpp - the kernels of a range, stored ----------------===//
#include "Store/PortfolioStore.h"

#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace kiln {

static constexpr size_t kMaxRanges = 8;

//===----------------------------------------------------------------------===//
// The portfolios of an entry
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
  return static_cast<size_t>(llvm::count_if(
      members, [](const StoredMember &member) { return member.isMeasured; }));
}

/// The member of \p list with the kernel of \p like; null if there is none.
static const StoredMember *findKernel(const std::vector<StoredMember> &list,
                                      const StoredMember &like) {
  auto found = llvm::find_if(list, [&](const StoredMember &item) {
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
        return member.isMeasured && findKernel(later.members, member);
      }));
}

/// The size of the range of \p portfolio: the product over its fields.
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
  // A measured portfolio of a wider range is better than an estimated narrow
  // one.
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

/// Copies fields of other versions for the same range from \p old to \p added.
static void keepOther(StoredPortfolio &added, const StoredPortfolio &old) {
  addMissing(added.unknown, old.unknown);
  added.unreadMembers.insert(added.unreadMembers.end(),
                             old.unreadMembers.begin(),
                             old.unreadMembers.end());
  for (StoredMember &member : added.members)
    if (const StoredMember *known = findKernel(old.members, member))
      addMissing(member.unknown, known->unknown);
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

static std::optional<StoredMember> readMember(const llvm::json::Object &object,
                                              const StoredPortfolio &range) {
  StoredMember member;
  FieldReader reader(object);
  reader.require("config", member.config);
  reader.require("kernel", member.kernel);
  reader.require("low", member.low);
  reader.require("high", member.high);
  reader.require("validated", member.validated);
  reader.read("measured", member.isMeasured);
  if (reader.isDamaged || member.config.empty() || member.kernel.empty() ||
      !range.contains(member.low, member.high) ||
      !llvm::all_of(llvm::zip_equal(member.low, member.high), [](auto ends) {
        return std::get<0>(ends) <= std::get<1>(ends);
      }))
    return std::nullopt;
  member.unknown = reader.unknown();
  return member;
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

/// Takes points that were written one after the other. False if one is not in
/// the range.
static bool takeAnchors(llvm::ArrayRef<int64_t> values,
                        StoredPortfolio &portfolio) {
  const size_t fields = portfolio.low.size();
  if (values.size() % fields != 0)
    return false;
  for (; !values.empty(); values = values.drop_front(fields)) {
    const llvm::ArrayRef<int64_t> anchor = values.take_front(fields);
    if (!portfolio.contains(anchor, anchor))
      return false;
    portfolio.anchors.push_back(anchor.vec());
  }
  return true;
}

static std::optional<StoredPortfolio>
readPortfolio(const llvm::json::Object &object) {
  StoredPortfolio portfolio;
  FieldReader reader(object);
  reader.require("low", portfolio.low);
  reader.require("high", portfolio.high);
  reader.require("regret", portfolio.regret);
  reader.require("complete", portfolio.isComplete);
  reader.read("grown", portfolio.hasGrown);
  reader.require("measuredAtMs", portfolio.measuredAtMs);
  if (reader.isDamaged || !isRange(portfolio) ||
      !std::isfinite(portfolio.regret) || portfolio.regret < 0 ||
      !object.get("members"))
    return std::nullopt;
  std::vector<int64_t> anchors;
  reader.read("anchors", anchors);
  if (!takeAnchors(anchors, portfolio))
    return std::nullopt;
  const uint64_t skipped = reader.readItems(
      "members", portfolio.unreadMembers, [&](const llvm::json::Object &item) {
        auto member = readMember(item, portfolio);
        if (member)
          portfolio.members.push_back(std::move(*member));
        return member.has_value();
      });
  portfolio.isComplete &= skipped == 0;
  // A portfolio without members has a meaning of its own, which damage must not
  // create.
  if (reader.isDamaged || (portfolio.members.empty() && skipped))
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

static llvm::json::Object writeMember(const StoredMember &member) {
  llvm::json::Object object = member.unknown;
  object["config"] = jsonText(member.config);
  object["kernel"] = jsonText(member.kernel);
  object["low"] = llvm::json::Array(member.low);
  object["high"] = llvm::json::Array(member.high);
  object["validated"] = member.validated;
  if (member.isMeasured)
    object["measured"] = true;
  return object;
}

static llvm::json::Object writePortfolio(const StoredPortfolio &portfolio) {
  llvm::json::Object object = portfolio.unknown;
  object["low"] = llvm::json::Array(portfolio.low);
  object["high"] = llvm::json::Array(portfolio.high);
  object["regret"] = portfolio.regret;
  object["complete"] = portfolio.isComplete;
  if (portfolio.hasGrown)
    object["grown"] = true;
  object["measuredAtMs"] = portfolio.measuredAtMs;
  llvm::json::Array anchors;
  for (const std::vector<int64_t> &anchor : portfolio.anchors)
    anchors.insert(anchors.end(), anchor.begin(), anchor.end());
  object["anchors"] = std::move(anchors);
  llvm::json::Array members;
  for (const StoredMember &member : portfolio.members)
    members.push_back(writeMember(member));
  members.insert(members.end(), portfolio.unreadMembers.begin(),
                 portfolio.unreadMembers.end());
  object["members"] = std::move(members);
  return object;
}

std::string StoredPortfolios::text() const {
  return textOfItems(kKind.name, other, ranges, writePortfolio);
}

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

std::string productKey(const DeviceModel &device) {
  return fmt::format("{} {} sms={} planned={}", device.name, device.archName(),
                     device.smCount, planningDigest(device));
}

PortfolioKey PortfolioKey::measured(llvm::StringRef layer,
                                    llvm::StringRef deviceClass) {
  return {layer.str(), fmt::format("class {}", deviceClass)};
}

PortfolioKey PortfolioKey::estimated(llvm::StringRef layer,
                                     const DeviceModel &device) {
  return {layer.str(), "product " + productKey(device)};
}

PortfolioKey PortfolioKey::ofValue(const Problem &problem,
                                   const DeviceModel &device) {
  return estimated("problem " + problem.text() + "\n", device);
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
