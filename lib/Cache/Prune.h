//===- Prune.h - removing files of a tier, in order -----------------------===//
//
// It removes temporary files that their writers left behind, entries that were
// not used for long, and, where a tier is too large, the entries that were used
// least recently. A lookup stamps an entry with the time, once a day at most,
// so that ages do not depend on the kind of mount or on backups. A process does
// not look up again the entries that it holds in memory: only the time of
// loading is known. Artifacts go before anything else, since they can be
// compiled again, and records last, since they took trials. A pool names its
// artifacts. These stay as long as the pool does, so the pool goes before them.
// It goes after all other artifacts, and never for upkeep.
//
// Safe beside any number of readers, writers and other pruners: a file goes
// only if it is still the one that was judged. Ages are told by the clock that
// files are stamped with, see clockOf(). A stamp from the future is no reason
// to take a file away. Where that clock is days ahead of all stamps, it may be
// wrong, and no file goes for its age.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Entry.h"
#include "Support/AtomicFile.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cache {

class Tier;

/// A lookup stamps an entry whose stamp is older than this; upkeep is done once
/// in this time.
inline constexpr std::chrono::hours kStampPeriod(24);

/// Temporary files are looked for once in this time.
inline constexpr std::chrono::hours kSweepPeriod(1);

/// A writer holds a lock on its temporary file, so the kernel tells when the
/// writer is gone. It has this time to take the lock.
inline constexpr std::chrono::seconds kUnlockedGrace(2);
/// The limit where the kernel cannot tell: a writer needs seconds between
/// making a temporary file and renaming it.
inline constexpr std::chrono::hours kTemporaryGrace(1);

/// A cache in daily use has younger stamps than this: a stamp is renewed once
/// in kStampPeriod, and uses may be a day apart.
inline constexpr std::chrono::hours kMostIdle = kStampPeriod + kStampPeriod;

struct PruneRules {
  /// Entries of this kind alone; none: entries of all kinds.
  std::optional<Kind> only;
  /// Entries that were surely not looked up for this time go: their stamps are
  /// older by kStampPeriod. None: age does not matter.
  std::optional<std::chrono::seconds> maxAge;
  /// If all entries together are larger, the least recently used go until the
  /// rest is smaller than this by slackBytes.
  std::optional<uint64_t> maxBytes;
  uint64_t slackBytes = 0;
  /// Entries that stay whatever their size; null: none.
  llvm::function_ref<bool(Kind, llvm::StringRef name)> isInUse = nullptr;
  /// Pools and what they pin stay whatever the size of the tier.
  bool keepsPools = false;
  /// Old entries go although no stamp is younger than kMostIdle.
  bool trustsClock = false;
  /// Reports the files that would go and removes none.
  bool isDryRun = false;
  /// Asked between files; true ends it early.
  llvm::function_ref<bool()> isCancelled = nullptr;
};

/// One file that went.
struct PrunedFile {
  enum class Why { Temporary, Age, Size };
  Why why = Why::Temporary;
  Kind kind = Kind::Artifact;
  std::string path;
  uint64_t bytes = 0;
  double ageSeconds = 0;
};
llvm::StringRef nameOf(PrunedFile::Why why);

struct PruneResult {
  std::vector<PrunedFile> removed;
  uint64_t keptEntries = 0, keptBytes = 0;
  uint64_t temporaryBytes = 0; ///< of temporary files that stay
  /// Why no file went for its age; empty: the clock was believed.
  std::string oddClock;
  /// Files that were to go and did not, and folders that were not looked into.
  size_t failed = 0;
  std::string failure; ///< why the first of these did not
};

/// Applies \p rules to a write tier. Cost: a system call for each file; reads
/// pools, no other file.
PruneResult pruneTier(FileOps &files, const Tier &tier,
                      const PruneRules &rules);

/// The outcome for a file that was to go.
enum class Removal { Removed, Replaced, Gone, Failed };

/// Deletes the entry called \p name unless it was replaced since it was \p
/// seen. A file that is put there in the same microsecond is lost, which is a
/// miss. Except where there are no locks, it is never an update whose writer
/// was told that it is stored, see isMerged().
Removal removeEntry(FileOps &files, const Tier &tier, Kind kind,
                    llvm::StringRef name, const FileIdentity &seen);
/// As above, given a descriptor of the entry's shard.
Removal removeEntryIn(FileOps &files, const Tier &tier, int shard, Kind kind,
                      llvm::StringRef name, const FileIdentity &seen);

} // namespace kiln::cache
