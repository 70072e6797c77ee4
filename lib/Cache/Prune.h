//===- Prune.h - what of a layer goes, and in which order -----------------===//
//
// Temporary files that their writers left behind, entries that nobody has used
// for long, and, where a layer is too large, what was used least recently. A
// lookup stamps an entry with the time, once a day at most, so that no kind of
// mount or backup has a say in what is old. What a process holds in memory it
// does not look up again: only when it was loaded is known. Artifacts go before
// anything else, since they can be compiled again, and records last, since they
// took trials. A pool names its artifacts. As long as it stays they do, so it
// goes before them; after all other artifacts, and never for upkeep.
//
// Safe beside any number of readers, writers and other pruners: a file goes
// only if it is still the one that was judged. Ages are told by the clock that
// files are stamped with, see clockOf(). A stamp from the future is no reason
// to take a file away. Where that clock is days ahead of all stamps, it may
// be wrong, and nothing goes for its age.
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

class Layer;

/// A lookup stamps an entry whose stamp is older; upkeep is done once in this.
inline constexpr std::chrono::hours kStampPeriod(24);

/// Temporary files are looked for once in this.
inline constexpr std::chrono::hours kSweepPeriod(1);

/// A writer holds a lock on its temporary file, so the kernel says when it is
/// gone. It has this time to take it.
inline constexpr std::chrono::seconds kUnlockedGrace(2);
/// Where the kernel cannot tell: a writer needs seconds between making a
/// temporary file and renaming it.
inline constexpr std::chrono::hours kTemporaryGrace(1);

/// A cache in daily use has younger stamps: one is renewed once in
/// kStampPeriod, and uses may be a day apart.
inline constexpr std::chrono::hours kMostIdle = kStampPeriod + kStampPeriod;

struct PruneRules {
  /// Entries of this kind alone; none: of all.
  std::optional<Kind> only;
  /// Entries that were surely not looked up for so long go: their stamps are
  /// older by kStampPeriod. None: age does not matter.
  std::optional<std::chrono::seconds> maxAge;
  /// If all entries together are larger, the least recently used go until the
  /// rest is smaller than this by slackBytes.
  std::optional<uint64_t> maxBytes;
  uint64_t slackBytes = 0;
  /// Entries that stay whatever their size; null: none.
  llvm::function_ref<bool(Kind, llvm::StringRef name)> isInUse = nullptr;
  /// Pools and what they pin stay whatever the size of the layer.
  bool keepsPools = false;
  /// Old entries go although no stamp is younger than kMostIdle.
  bool trustsClock = false;
  /// Tells what would go and takes nothing away.
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
  /// Why nothing went for its age; empty: the clock was believed.
  std::string oddClock;
  /// Files that were to go and did not, and folders that were not looked into.
  size_t failed = 0;
  std::string failure; ///< why the first of these did not
};

/// Applies \p rules to a write layer. Cost: a system call for each file; reads
/// pools, no other file.
PruneResult pruneLayer(FileOps &files, const Layer &layer,
                       const PruneRules &rules);

/// What became of a file that was to go.
enum class Removal { Removed, Replaced, Gone, Failed };

/// Deletes the entry called \p name unless somebody replaced it since it was
/// \p seen. What somebody puts there in the same microsecond is lost: a miss.
/// It is never an update that its writer was told is stored, see isMerged(),
/// except where there are no locks.
Removal removeEntry(FileOps &files, const Layer &layer, Kind kind,
                    llvm::StringRef name, const FileIdentity &seen);
/// The same, given a descriptor of the entry's shard.
Removal removeEntryIn(FileOps &files, const Layer &layer, int shard, Kind kind,
                      llvm::StringRef name, const FileIdentity &seen);

} // namespace kiln::cache
