//===- LayerTrials.h - when a launch may measure its layer again ----------===//
//
// Trials of a layer may come to nothing: there is no memory for them, no
// stream, a launch of theirs is late, or a budget ends before they say anything
// new. The next value of the layer would then search, compile and wait for
// nothing once more, and so would each value after it. So such a layer is put
// off. Its values take what there is, and the first that is new after that time
// tries again.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace kiln {

/// The layers of a context whose trials came to nothing. Thread-safe. Layers
/// are named by ProblemRange::fixedText().
class LayerTrials {
public:
  using Clock = std::chrono::steady_clock;
  /// As the mode background puts a job off.
  static constexpr std::chrono::seconds kFirstDelay{10};
  /// A session in vain takes a budget, 2 s by default, and up to a second for
  /// its cover: of this time less than 1 %.
  static constexpr std::chrono::seconds kLongestDelay{320};

  /// Why trials came to nothing.
  struct Reason {
    std::string text;
    bool isRoom = false; ///< memory for any of them
  };
  struct Delay {
    std::chrono::milliseconds time{0};
    bool isFirst = false; ///< since trials of the layer last said something
  };

  /// Whether trials of \p layer may begin now.
  bool mayBegin(llvm::StringRef layer) const;
  /// Trials of \p layer came to nothing. Each time in a row that this happens
  /// it waits twice as long.
  Delay putOff(llvm::StringRef layer, const Reason &reason);
  /// Trials of \p layer said something, or there is memory for them now: the
  /// next may begin at once, and wait as for the first time if they are in
  /// vain.
  void advance(llvm::StringRef layer);
  /// Whether \p layer is put off for want of memory.
  bool lacksRoom(llvm::StringRef layer) const;

  /// For tests: the time that counts.
  void setClock(std::function<Clock::time_point()> now);

private:
  struct Entry {
    Clock::time_point notBefore;
    std::chrono::milliseconds delay{0};
    bool isRoom = false;
  };
  mutable std::mutex mutex; ///< guards what follows
  std::function<Clock::time_point()> now = [] { return Clock::now(); };
  std::map<std::string, Entry, std::less<>> entries;
};

} // namespace kiln
