//===- Ranges.cpp ---------------------------------------------------------===//
#include "profiler/Ranges.h"

#include <vector>

namespace kiln::profiler {

const RangePath *RangeTree::child(const RangePath *parent,
                                  const RangeDomain *domain,
                                  const std::string &category,
                                  const std::string &name) {
  // NUL is in no name.
  std::string key = std::to_string(parent ? parent->id : 0) + '\0' +
                    (domain ? domain->name : "") + '\0' + category + '\0' +
                    name;
  std::lock_guard lock(mutex);
  auto found = byKey.find(key);
  if (found != byKey.end())
    return found->second;
  if (paths.size() >= kMostPaths)
    return nullptr;
  paths.push_back({parent, domain, category, name,
                   static_cast<uint32_t>(paths.size() + 1)});
  byKey.emplace(std::move(key), &paths.back());
  return &paths.back();
}

const RangePath *RangeTree::at(uint32_t id) {
  std::lock_guard lock(mutex);
  return id > 0 && id <= paths.size() ? &paths[id - 1] : nullptr;
}

bool RangeTree::isFull() {
  std::lock_guard lock(mutex);
  return paths.size() >= kMostPaths;
}

const RangePath *RangeTree::without(const RangePath *path,
                                    const RangeDomain *domain) {
  if (!path || path->domain == domain)
    return path ? path->parent : nullptr;
  const RangePath *rest = without(path->parent, domain);
  if (rest == path->parent)
    return path;
  return child(rest, path->domain, path->category, path->name);
}

/// The ranges of \p path, the outermost first.
static std::vector<const RangePath *> rangesOf(const RangePath *path) {
  std::vector<const RangePath *> ranges;
  for (; path; path = path->parent)
    ranges.insert(ranges.begin(), path);
  return ranges;
}

const RangePath *RangeTree::join(const RangePath *launched,
                                 const RangePath *captured) {
  if (!captured || !launched)
    return launched ? launched : captured;
  const auto around = rangesOf(launched), inner = rangesOf(captured);
  size_t first = 0;
  while (first < around.size() && first < inner.size() &&
         around[first] == inner[first])
    ++first;
  bool launchHasStep = false;
  for (const RangePath *range : around)
    launchHasStep |= range->category == "step";
  if (launchHasStep)
    for (size_t i = inner.size(); i-- > first;)
      if (inner[i]->category == "step") {
        first = i + 1;
        break;
      }
  const RangePath *joined = launched;
  for (size_t i = first; i < inner.size() && joined; ++i)
    joined =
        child(joined, inner[i]->domain, inner[i]->category, inner[i]->name);
  return joined ? joined : launched;
}

RangeTree &rangeTree() {
  // Threads may push ranges while the process ends.
  static RangeTree *tree = new RangeTree;
  return *tree;
}

namespace {

struct ThreadRanges {
  const RangePath *path;
  unsigned beyond; ///< open ranges that found no place in the tree
};
thread_local ThreadRanges own = {nullptr, 0};

} // namespace

void pushRange(const RangeDomain *domain, const std::string &category,
               const std::string &name) {
  const RangePath *path =
      own.beyond ? nullptr
                 : rangeTree().child(own.path, domain, category, name);
  if (path)
    own.path = path;
  else
    ++own.beyond;
}

void popRange(const RangeDomain *domain) {
  if (own.beyond)
    --own.beyond;
  else
    own.path = rangeTree().without(own.path, domain);
}

uint32_t currentRange() { return own.path ? own.path->id : 0; }

} // namespace kiln::profiler
