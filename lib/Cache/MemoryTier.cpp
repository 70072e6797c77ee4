//===- MemoryTier.cpp -----------------------------------------------------===//
#include "Cache/MemoryTier.h"

namespace kiln::cache {

uint64_t MemoryTier::costOf(const Item &item) {
  // Attributes are small; a flat charge covers them and the bookkeeping.
  constexpr uint64_t kOverheadBytes = 1024;
  return item.entry.payload.size() + 2 * item.entry.key.size() + kOverheadBytes;
}

void MemoryTier::remove(std::map<Key, Items::iterator>::iterator at) {
  usedBytes -= costOf(*at->second);
  items.erase(at->second);
  index.erase(at);
}

MemoryTier::PutResult MemoryTier::put(Item item,
                                      std::optional<uint64_t> expected) {
  std::lock_guard guard(mutex);
  Key key(item.kind, item.entry.key);
  auto at = index.find(key);
  if (expected && *expected != (at == index.end() ? 0 : at->second->serial))
    return PutResult::Changed;
  if (at != index.end())
    remove(at);
  uint64_t cost = costOf(item);
  if (cost > maxBytes)
    return PutResult::TooLarge;
  item.serial = ++lastSerial;
  while (usedBytes.bytes() + cost > maxBytes)
    remove(index.find({items.front().kind, items.front().entry.key}));
  items.push_back(std::move(item));
  index.emplace(std::move(key), std::prev(items.end()));
  usedBytes += cost;
  return PutResult::Kept;
}

std::optional<MemoryTier::Item> MemoryTier::find(Kind kind,
                                                 llvm::StringRef key) const {
  std::lock_guard guard(mutex);
  if (index.empty())
    return std::nullopt;
  auto at = index.find({kind, key.str()});
  if (at == index.end())
    return std::nullopt;
  return *at->second;
}

void MemoryTier::erase(Kind kind, llvm::StringRef key) {
  std::lock_guard guard(mutex);
  if (index.empty())
    return;
  if (auto at = index.find({kind, key.str()}); at != index.end())
    remove(at);
}

std::vector<MemoryTier::Item> MemoryTier::list(Kind kind) const {
  std::lock_guard guard(mutex);
  std::vector<Item> found;
  for (const auto &[key, item] : index)
    if (key.first == kind)
      found.push_back(*item);
  return found;
}

} // namespace kiln::cache
