//===- Upkeep.h - what all who share a layer know of its size -------------===//
//
// One small file of the layer, .upkeep: the limit that the layer is kept under,
// about how many bytes it has, and when it was last swept. So the limit belongs
// to the folder and not to the process that happens to write, and a writer
// knows that there is room without looking at a hundred thousand files.
//
// The file is written in place under a lock. A torn or missing one says that
// nothing is known: the next evictor then looks at all files and writes what it
// found. Without locks some counts are lost, until the next evictor counts.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/KeyLock.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/StringRef.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace kiln::cache {

class Layer;

/// What the file holds.
struct UpkeepState {
  /// The largest limit that was asked for; 0: none was.
  uint64_t limitBytes = 0;
  /// Of entries and temporary files, as counted last and written since.
  std::optional<uint64_t> usedBytes;
  int64_t sweptAt = 0; ///< s of the file system's clock

  static UpkeepState parse(llvm::StringRef text);
  std::string text() const;
  friend bool operator==(const UpkeepState &, const UpkeepState &) = default;
};

/// What \p layer's file says; nothing is locked or made.
UpkeepState readUpkeep(FileOps &files, const Layer &layer);

/// Changes the file; \p change gets the time by the file system's clock, in s.
/// False: it cannot be written, or others kept its lock for too long. Cost:
/// some 20 us.
bool updateUpkeep(FileOps &files, const Layer &layer,
                  llvm::function_ref<void(UpkeepState &, int64_t now)> change);

/// Who makes room and sweeps: one process at a time, where there are locks.
/// Never waits.
class EvictorClaim {
public:
  EvictorClaim(FileOps &files, const Layer &layer);
  bool isTheirs() const { return lock && lock->isRefused(); }

private:
  std::optional<KeyLock> lock;
};

/// The time by the clock that files of \p layer are stamped with: that of a
/// file touched just now. Processes and hosts that share the layer may disagree
/// with it. That of the process, where nothing can be touched.
std::chrono::system_clock::time_point clockOf(FileOps &files,
                                              const Layer &layer);

} // namespace kiln::cache
