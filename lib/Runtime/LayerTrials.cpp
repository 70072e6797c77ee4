//===- LayerTrials.cpp - when a launch may measure its layer again --------===//
#include "Runtime/LayerTrials.h"

#include <algorithm>

namespace kiln {

/// The number of layers that are remembered; a model has some hundred.
static constexpr size_t kMostLayers = 4096;

bool LayerTrials::mayBegin(llvm::StringRef layer) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = entries.find(std::string_view(layer));
  return found == entries.end() || now() >= found->second.notBefore;
}

LayerTrials::Delay LayerTrials::putOff(llvm::StringRef layer,
                                       const Reason &reason) {
  std::lock_guard<std::mutex> lock(mutex);
  if (entries.size() >= kMostLayers && !entries.count(std::string_view(layer)))
    entries.erase(std::min_element(
        entries.begin(), entries.end(), [](const auto &a, const auto &b) {
          return a.second.notBefore < b.second.notBefore;
        }));
  Entry &entry = entries[layer.str()];
  const bool isFirst = entry.delay.count() == 0;
  entry.delay = isFirst ? std::chrono::milliseconds(kFirstDelay)
                        : std::min<std::chrono::milliseconds>(2 * entry.delay,
                                                              kLongestDelay);
  entry.notBefore = now() + entry.delay;
  entry.isRoom = reason.isRoom;
  return {entry.delay, isFirst};
}

void LayerTrials::advance(llvm::StringRef layer) {
  std::lock_guard<std::mutex> lock(mutex);
  if (auto found = entries.find(std::string_view(layer));
      found != entries.end())
    entries.erase(found);
}

bool LayerTrials::lacksRoom(llvm::StringRef layer) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = entries.find(std::string_view(layer));
  return found != entries.end() && found->second.isRoom;
}

void LayerTrials::setClock(std::function<Clock::time_point()> clock) {
  std::lock_guard<std::mutex> lock(mutex);
  now = std::move(clock);
}

} // namespace kiln
