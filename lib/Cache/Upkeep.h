//===- Upkeep.h - the limit and size of a shared tier ---------------------===//
//
// One small file of the tier, .upkeep: the limit that the tier is kept under,
// about how many bytes it has, and when it was last swept. So the limit belongs
// to the folder and not to the process that happens to write, and a writer
// knows that there is room without looking at a hundred thousand files.
//
// The file is written in place under a lock. A torn or missing one means that
// nothing is known: the next evictor then looks at all files and writes its
// findings. Without locks some counts are lost, until the next evictor counts.
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

class Tier;

/// The contents of the file.
struct UpkeepState {
  /// The largest limit that was asked for; 0: none was.
  uint64_t limitBytes = 0;
  /// Bytes of entries and temporary files, as counted last and written since.
  std::optional<uint64_t> usedBytes;
  int64_t sweptAt = 0; ///< s of the file system's clock

  static UpkeepState parse(llvm::StringRef text);
  std::string text() const;
  friend bool operator==(const UpkeepState &, const UpkeepState &) = default;
};

/// Reads the file of \p tier; locks and makes nothing.
UpkeepState readUpkeep(FileOps &files, const Tier &tier);

/// Changes the file; \p change gets the time by the file system's clock, in s.
/// False: it cannot be written, or others kept its lock for too long. Cost:
/// some 20 us.
bool updateUpkeep(FileOps &files, const Tier &tier,
                  llvm::function_ref<void(UpkeepState &, int64_t now)> change);

/// The claim to make room and to sweep, which one process has at a time where
/// there are locks. Never waits.
class EvictorClaim {
public:
  EvictorClaim(FileOps &files, const Tier &tier);
  bool isTheirs() const { return lock && lock->isRefused(); }

private:
  std::optional<KeyLock> lock;
};

/// The time by the clock that files of \p tier are stamped with: the stamp of a
/// file touched just now. Clocks of processes and hosts that share the tier may
/// differ from it. Where no file can be touched, it is the time of the process.
std::chrono::system_clock::time_point clockOf(FileOps &files, const Tier &tier);

} // namespace kiln::cache
