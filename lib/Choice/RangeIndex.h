//===- RangeIndex.h - what serves ranges, found by problem ----------------===//
#pragma once

#include "Call/ProblemRange.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kiln {

/// \p point with 1 in the place of 0: no range begins below, and what serves
/// the least value serves none at all.
ExtentPoint aboveZero(ExtentPoint point);

/// Whether \p problem is one of \p range, whatever in it is incidental.
/// Nanoseconds for one of another layer, microseconds where it may be.
bool serves(const ProblemRange &range, const Values &problem);

/// What tells the layer of \p problem, and its signature, from others. (A
/// leading dimension is no field of the one problem whose rows it packs, so
/// what follows extents does not count here.)
std::string layerKey(const KernelFamily &family, const Problem &problem);

/// Things that each serve a range: a \p T has a `const ProblemRange &range()`.
/// Thread-safe.
template <class T> class RangeIndex {
public:
  using Ptr = std::shared_ptr<const T>;

  /// What was added last of what serves \p problem, or null. Some microseconds.
  Ptr find(const KernelFamily &family, const Problem &problem) const {
    return findFirst(family, problem, [](const T &) { return true; });
  }
  /// The same of what \p isMeant accepts.
  template <class Filter>
  Ptr findFirst(const KernelFamily &family, const Problem &problem,
                const Filter &isMeant) const {
    for (const Ptr &known : inLayer(layerKey(family, problem)))
      if (serves(known->range(), problem.values) && isMeant(*known))
        return known;
    return nullptr;
  }
  /// The latest that serves all of \p range, or null.
  Ptr find(const ProblemRange &range) const {
    for (const Ptr &known : inLayer(keyOf(range)))
      if (isAlike(known->range(), range) && known->range().contains(range))
        return known;
    return nullptr;
  }
  /// All of one layer and signature over the fields of \p range, the latest
  /// first.
  std::vector<Ptr> findAlike(const ProblemRange &range) const {
    std::vector<Ptr> all = inLayer(keyOf(range));
    std::erase_if(
        all, [&](const Ptr &known) { return !isAlike(known->range(), range); });
    return all;
  }
  /// Adds \p added in the place of all that it makes superfluous.
  void add(Ptr added) {
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<Ptr> &all = layers[keyOf(added->range())];
    std::erase_if(all, [&](const Ptr &known) {
      return isAlike(known->range(), added->range()) &&
             added->range().contains(known->range());
    });
    all.insert(all.begin(), std::move(added));
  }

  /// Adds \p added behind what is there, in the place of those that it makes
  /// superfluous and \p mayGo accepts.
  template <class Filter> void addBehind(Ptr added, const Filter &mayGo) {
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<Ptr> &all = layers[keyOf(added->range())];
    std::erase_if(all, [&](const Ptr &known) {
      return mayGo(*known) && isAlike(known->range(), added->range()) &&
             added->range().contains(known->range());
    });
    all.push_back(std::move(added));
  }
  /// Takes out what serves all of \p range, or nothing beyond it.
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

  /// How many \p counts accepts.
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
  /// Whether both differ in their values alone.
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
