//===- RangeIndex.h - finds the ranges that serve a problem ---------------===//
#pragma once

#include "Call/ProblemRange.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kiln {

/// \p point with 1 instead of 0: no range begins below 1, and a plan for the
/// least value also serves no work at all.
ExtentPoint aboveZero(ExtentPoint point);

/// Whether \p problem is in \p range, whatever its incidental fields. Takes
/// nanoseconds for a problem of another layer, microseconds otherwise.
bool serves(const ProblemRange &range, const Values &problem);

/// The key of the layer of \p problem and of its signature. (A leading
/// dimension is not a field of the one problem whose rows it packs, so fields
/// that follow extents do not count here.)
std::string layerKey(const KernelFamily &family, const Problem &problem);

/// Things that each serve a range: a \p T has a `const ProblemRange &range()`.
/// Thread-safe.
template <class T> class RangeIndex {
public:
  using Ptr = std::shared_ptr<const T>;

  /// Returns the latest that serves \p problem, or null. Takes some
  /// microseconds.
  Ptr find(const KernelFamily &family, const Problem &problem) const {
    return findFirst(family, problem, [](const T &) { return true; });
  }
  /// Like find(), among those that \p isMeant accepts.
  template <class Filter>
  Ptr findFirst(const KernelFamily &family, const Problem &problem,
                const Filter &isMeant) const {
    for (const Ptr &known : inLayer(layerKey(family, problem)))
      if (serves(known->range(), problem.values) && isMeant(*known))
        return known;
    return nullptr;
  }
  /// Returns the latest that serves all of \p range, or null.
  Ptr find(const ProblemRange &range) const {
    for (const Ptr &known : inLayer(keyOf(range)))
      if (isAlike(known->range(), range) && known->range().contains(range))
        return known;
    return nullptr;
  }
  /// Returns all of one layer and signature over the fields of \p range, the
  /// latest first.
  std::vector<Ptr> findAlike(const ProblemRange &range) const {
    std::vector<Ptr> all = inLayer(keyOf(range));
    std::erase_if(
        all, [&](const Ptr &known) { return !isAlike(known->range(), range); });
    return all;
  }
  /// Adds \p added and removes all that it makes superfluous.
  void add(Ptr added) {
    add(std::move(added), [](const T &) { return false; });
  }
  /// Like add(), behind those that \p goesFirst accepts.
  template <class Filter> void add(Ptr added, const Filter &goesFirst) {
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<Ptr> &all = layers[keyOf(added->range())];
    std::erase_if(all, [&](const Ptr &known) {
      return isAlike(known->range(), added->range()) &&
             added->range().contains(known->range());
    });
    auto place = std::find_if(all.begin(), all.end(), [&](const Ptr &known) {
      return !goesFirst(*known);
    });
    all.insert(place, std::move(added));
  }

  /// Adds \p added behind the others, and removes those that it makes
  /// superfluous and that \p mayGo accepts.
  template <class Filter> void addBehind(Ptr added, const Filter &mayGo) {
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<Ptr> &all = layers[keyOf(added->range())];
    std::erase_if(all, [&](const Ptr &known) {
      return mayGo(*known) && isAlike(known->range(), added->range()) &&
             added->range().contains(known->range());
    });
    all.push_back(std::move(added));
  }
  /// Removes all that serve all of \p range, or nothing beyond it.
  void drop(const ProblemRange &range) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = layers.find(keyOf(range));
    if (found != layers.end())
      std::erase_if(found->second, [&](const Ptr &known) {
        return isAlike(known->range(), range) &&
               (known->range().contains(range) ||
                range.contains(known->range()));
      });
  }

  std::vector<Ptr> all() const {
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<Ptr> found;
    for (const auto &[key, layer] : layers)
      found.insert(found.end(), layer.begin(), layer.end());
    return found;
  }
  /// The number of those that \p counts accepts.
  template <class Filter> size_t count(const Filter &counts) const {
    std::lock_guard<std::mutex> lock(mutex);
    size_t accepted = 0;
    for (const auto &[key, all] : layers)
      for (const Ptr &known : all)
        accepted += counts(*known);
    return accepted;
  }

private:
  static std::string keyOf(const ProblemRange &range) {
    return layerKey(*range.family, {range.described, range.signature});
  }
  /// Whether both differ only in their values.
  static bool isAlike(const ProblemRange &a, const ProblemRange &b) {
    return a.fixedText() == b.fixedText();
  }
  std::vector<Ptr> inLayer(const std::string &key) const {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = layers.find(key);
    return found == layers.end() ? std::vector<Ptr>() : found->second;
  }

  mutable std::mutex mutex; ///< guards what follows
  std::map<std::string, std::vector<Ptr>> layers;
};

} // namespace kiln
