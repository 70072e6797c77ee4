//===- LayerTrials.h - when a launch may measure its layer again ----------===//
//
// Trials of a layer may come to nothing: there is no memory for them, no
// stream, one of their launches is late, or a budget ends before they say
// anything new. Then the next value of the layer, and each value after it,
// would search, compile and wait in vain again. So such a layer is put off. Its
// values take the plans that exist, and the first new value after that time
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
  /// The delay with which the mode background puts a job off as well.
  static constexpr std::chrono::seconds kFirstDelay{10};
  /// A session in vain takes a budget, 2 s by default, and up to a second for
  /// its cover: less than 1 % of this delay.
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
  /// Notes that trials of \p layer came to nothing. Each time in a row doubles
  /// the delay.
  Delay putOff(llvm::StringRef layer, const Reason &reason);
  /// Notes that trials of \p layer said something, or that there is memory for
  /// them now. The next may begin at once; if they are in vain, the delay
  /// starts at kFirstDelay.
  void advance(llvm::StringRef layer);
  /// Whether \p layer is put off because memory was missing.
  bool lacksRoom(llvm::StringRef layer) const;

  /// For tests: sets the clock.
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
