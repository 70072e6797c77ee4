//===- Prune.cpp ----------------------------------------------------------===//
#include "Cache/Prune.h"

#include "Cache/KeyLock.h"
#include "Cache/Tier.h"
#include "Cache/Upkeep.h"
#include "Support/EnumName.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringMap.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <tuple>
#include <unistd.h>

namespace kiln::cache {

llvm::StringRef nameOf(PrunedFile::Why why) {
  using enum PrunedFile::Why;
  static constexpr EnumName<PrunedFile::Why> kNames[] = {
      {Temporary, "temporary"}, {Age, "age"}, {Size, "size"}};
  return nameIn(kNames, why, "unknown");
}

Removal removeEntryIn(FileOps &files, const Tier &tier, int shard, Kind kind,
                      llvm::StringRef name, const FileIdentity &seen) {
  std::optional<KeyLock> commit;
  if (isMerged(kind)) {
    commit.emplace(files, shard, name, LockUse::Commit, KeyLock::Clock::now());
    if (commit->isRefused())
      return Removal::Replaced; // or will be at once
  }
  if (tier.removeIfUnchangedIn(shard, name, seen))
    return Removal::Removed;
  int failure = errno;
  Sighting now = tier.identifyIn(shard, name);
  if (now.isKnown && !now.file)
    return Removal::Gone;
  if (now.isKnown && *now.file != seen)
    return Removal::Replaced;
  errno = failure;
  return Removal::Failed;
}

/// The outcome of removing an entry whose folder \p shard could not be opened.
static Removal unopened(const OpenedFolder &shard) {
  errno = shard.errnoValue;
  return errno == ENOENT ? Removal::Gone : Removal::Failed;
}

Removal removeEntry(FileOps &files, const Tier &tier, Kind kind,
                    llvm::StringRef name, const FileIdentity &seen) {
  OpenedFolder shard = tier.openShard(kind, name, /*mayMake=*/false);
  return shard.ok()
             ? removeEntryIn(files, tier, shard.fd.get(), kind, name, seen)
             : unopened(shard);
}

namespace {
/// An entry that may have to go.
struct Candidate {
  Kind kind;
  std::string name;
  FileIdentity seen;
  double ageSeconds; ///< below 0: its stamp is in the future
  bool isOver = false;
  bool isTried = false; ///< it was to go
};

/// A temporary file that is old enough to be an abandoned one.
struct Leftover {
  Kind kind;
  std::string name, path;
  uint64_t bytes;
  double ageSeconds;
};

class Pruner {
public:
  Pruner(FileOps &files, const Tier &tier, const PruneRules &rules)
      : files(files), tier(tier), rules(rules), now(clockOf(files, tier)) {}
  PruneResult run();

private:
  void look(Kind kind, const Tier::Found &found);
  void pinArtifacts();
  void readPins(llvm::StringRef name, double ageSeconds);
  std::optional<double> pinnedFor(const Candidate &candidate) const;
  bool believesClock();
  bool isLeft(int folder, const Leftover &file);
  void sweep();
  void removeOld();
  void makeRoom();
  void takeAll(std::vector<Candidate *> victims, PrunedFile::Why why);
  void take(Candidate &candidate, const OpenedFolder &shard,
            PrunedFile::Why why);
  void fail(const llvm::Twine &path, llvm::StringRef why);
  bool isCancelled() const { return rules.isCancelled && rules.isCancelled(); }
  double ageOf(const struct stat &info) const {
    // Stamps may be of any year, so they are no count of nanoseconds.
    using std::chrono::floor, std::chrono::nanoseconds, std::chrono::seconds;
    const auto whole = floor<seconds>(now.time_since_epoch());
    const nanoseconds rest = now.time_since_epoch() - whole;
    return static_cast<double>(whole.count() - info.st_mtim.tv_sec) +
           1e-9 * static_cast<double>(rest.count() - info.st_mtim.tv_nsec);
  }

  FileOps &files;
  const Tier &tier;
  const PruneRules &rules;
  const std::chrono::system_clock::time_point now;
  std::vector<Candidate> candidates;
  std::vector<Leftover> leftovers;
  /// By name of artifact: the age of the youngest pool that needs it.
  llvm::StringMap<double> pins;
  uint64_t bytes = 0; ///< of all candidates that are left
  PruneResult result;
};
} // namespace

static double secondsIn(std::chrono::duration<double> duration) {
  return duration.count();
}

void Pruner::fail(const llvm::Twine &path, llvm::StringRef why) {
  if (result.failed++ == 0)
    result.failure = (path + ": " + why).str();
}

void Pruner::look(Kind kind, const Tier::Found &found) {
  if (!found.reason.empty())
    return fail(found.path, found.reason);
  const bool isTemporary = isTemporaryName(found.name);
  struct stat info = {};
  if (isCancelled() || (found.entryName.empty() && !isTemporary) ||
      files.statusAt(found.folder, found.name.c_str(), info) != 0 ||
      !S_ISREG(info.st_mode) || info.st_uid != ::geteuid())
    return;
  const auto size = static_cast<uint64_t>(info.st_size);
  const double age = ageOf(info);
  if (isTemporary) {
    result.temporaryBytes += size;
    if (age >= secondsIn(kUnlockedGrace))
      leftovers.push_back({kind, found.name, found.path, size, age});
    return;
  }
  candidates.push_back({kind, found.entryName, FileIdentity::of(info), age});
  bytes += size;
}

/// Whether ages say something: some entry was used lately, by the clock.
bool Pruner::believesClock() {
  double youngest = INFINITY;
  for (const Candidate &candidate : candidates) {
    // Others write meanwhile: their stamps are ahead by a little.
    const double age = candidate.ageSeconds;
    if (age >= -secondsIn(kStampPeriod))
      youngest = std::min(youngest, std::max(age, 0.0));
  }
  if (rules.trustsClock || std::isinf(youngest) ||
      youngest <= secondsIn(kMostIdle))
    return true;
  result.oddClock = fmt::format(
      "by the clock, which may be wrong, nothing in {} was used for {:.1f} "
      "days: nothing was removed for its age",
      tier.path(), youngest / secondsIn(std::chrono::hours(24)));
  return false;
}

/// Whether the writer of \p file is gone.
bool Pruner::isLeft(int folder, const Leftover &file) {
  if (file.ageSeconds >= secondsIn(kTemporaryGrace))
    return true;
  ScopedFd opened(files, retryInterrupted([&] {
                    return files.open(
                        folder, file.name.c_str(),
                        O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
                  }));
  return opened && files.tryLock(opened.get(), kWriterLockOffset) == 0;
}

/// Removes the temporary files whose writers are gone.
void Pruner::sweep() {
  for (const Leftover &file : leftovers) {
    if (isCancelled())
      return;
    // .../<2 digits>/<name>
    llvm::StringRef folder =
        llvm::StringRef(file.path).drop_back(file.name.size() + 1);
    OpenedFolder shard =
        tier.openShard(file.kind, folder.take_back(2), /*mayMake=*/false);
    if (!shard.ok() || !isLeft(shard.fd.get(), file))
      continue;
    if (!rules.isDryRun &&
        files.unlink(shard.fd.get(), file.name.c_str()) != 0) {
      if (errno != ENOENT)
        fail(file.path, std::strerror(errno));
      continue;
    }
    result.temporaryBytes -= file.bytes;
    result.removed.push_back({PrunedFile::Why::Temporary, file.kind, file.path,
                              file.bytes, file.ageSeconds});
  }
}

void Pruner::take(Candidate &candidate, const OpenedFolder &shard,
                  PrunedFile::Why why) {
  candidate.isTried = true;
  std::string path = tier.pathOf(candidate.kind, candidate.name);
  Removal removal =
      rules.isDryRun ? Removal::Removed
      : shard.ok() ? removeEntryIn(files, tier, shard.fd.get(), candidate.kind,
                                   candidate.name, candidate.seen)
                   : unopened(shard);
  if (removal == Removal::Failed)
    return fail(path, std::strerror(errno));
  if (removal == Removal::Replaced)
    return; // it is in use
  candidate.isOver = true;
  bytes -= candidate.seen.bytes;
  // Another pruner's work is not this one's.
  if (removal == Removal::Removed)
    result.removed.push_back({why, candidate.kind, std::move(path),
                              candidate.seen.bytes,
                              std::max(0.0, candidate.ageSeconds)});
}

/// Folder by folder, because opening and checking each folder once for all of
/// its files spares most of the system calls.
void Pruner::takeAll(std::vector<Candidate *> victims, PrunedFile::Why why) {
  llvm::sort(victims, [](const Candidate *a, const Candidate *b) {
    // A pool that is cut short is gone.
    return std::tuple(a->kind != Kind::Pool, a->kind,
                      llvm::StringRef(a->name)) <
           std::tuple(b->kind != Kind::Pool, b->kind, llvm::StringRef(b->name));
  });
  auto shardOf = [](const Candidate &candidate) {
    return std::pair(candidate.kind,
                     llvm::StringRef(candidate.name).take_front(2));
  };
  OpenedFolder shard;
  const Candidate *last = nullptr;
  for (Candidate *victim : victims) {
    if (isCancelled())
      return;
    if (!rules.isDryRun && (!last || shardOf(*last) != shardOf(*victim)))
      shard = tier.openShard(victim->kind, victim->name, /*mayMake=*/false);
    last = victim;
    take(*victim, shard, why);
  }
}

/// The kind whose entries go first has the least.
static int worthOf(Kind kind) {
  switch (kind) {
  case Kind::Artifact:
    return 0;
  case Kind::Probe:
    return 1;
  case Kind::Pool:
    return 2;
  case Kind::Record:
  case Kind::Portfolio:
  case Kind::Calibration:
    break;
  }
  return 3;
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

/// Reads which artifacts the pool \p name pins.
void Pruner::readPins(llvm::StringRef name, double ageSeconds) {
  const DecodedEntry decoded =
      decodeEntry(tier.read(Kind::Pool, name).bytes, Kind::Pool, std::nullopt);
  if (decoded.fault != EntryFault::None)
    return;
  const llvm::json::Array *list =
      decoded.entry.attributes.getArray(kPinsAttribute);
  for (const llvm::json::Value &value : list ? *list : llvm::json::Array())
    if (auto pinned = value.getAsString()) {
      auto [place, isNew] = pins.try_emplace(*pinned, ageSeconds);
      if (!isNew)
        place->second = std::min(place->second, ageSeconds);
    }
}

void Pruner::pinArtifacts() {
  if (rules.only && *rules.only != Kind::Pool) {
    // No pool goes, so none of its artifacts does.
    tier.walk(Kind::Pool, [&](const Tier::Found &found) {
      if (!found.entryName.empty())
        readPins(found.entryName, -INFINITY);
    });
    return;
  }
  for (const Candidate &candidate : candidates)
    if (candidate.kind == Kind::Pool)
      readPins(candidate.name, candidate.ageSeconds);
}

/// The age of the youngest pool that pins \p candidate.
std::optional<double> Pruner::pinnedFor(const Candidate &candidate) const {
  auto pin =
      candidate.kind == Kind::Artifact ? pins.find(candidate.name) : pins.end();
  return pin == pins.end() ? std::nullopt : std::optional(pin->second);
}

void Pruner::removeOld() {
  const double oldest = secondsIn(*rules.maxAge + kStampPeriod);
  std::vector<Candidate *> victims;
  for (Candidate &candidate : candidates)
    if (candidate.ageSeconds > oldest &&
        pinnedFor(candidate).value_or(INFINITY) > oldest)
      victims.push_back(&candidate);
  takeAll(std::move(victims), PrunedFile::Why::Age);
}

void Pruner::makeRoom() {
  const uint64_t target =
      *rules.maxBytes - std::min(*rules.maxBytes, rules.slackBytes);
  std::vector<Candidate *> order;
  for (Candidate &candidate : candidates) {
    const std::optional<double> pin = pinnedFor(candidate);
    const bool isOfPool = pin || candidate.kind == Kind::Pool;
    if (!candidate.isTried && !(isOfPool && rules.keepsPools) &&
        !(pin && std::isinf(*pin)) &&
        !(rules.isInUse && rules.isInUse(candidate.kind, candidate.name)))
      order.push_back(&candidate);
  }
  // Artifacts of a pool follow it.
  auto placeOf = [&](const Candidate *candidate) {
    const std::optional<double> pin = pinnedFor(*candidate);
    return std::tuple(worthOf(pin ? Kind::Pool : candidate->kind),
                      -pin.value_or(candidate->ageSeconds), pin.has_value());
  };
  llvm::stable_sort(order, [&](const Candidate *a, const Candidate *b) {
    return placeOf(a) < placeOf(b);
  });
  // Again for as much as could not be removed.
  for (auto next = order.begin(); next != order.end();) {
    std::vector<Candidate *> victims;
    uint64_t rest = bytes + result.temporaryBytes;
    for (; next != order.end() && rest > target; ++next) {
      victims.push_back(*next);
      rest -= (*next)->seen.bytes;
    }
    if (victims.empty() || isCancelled())
      return;
    takeAll(std::move(victims), PrunedFile::Why::Size);
  }
}

PruneResult Pruner::run() {
  for (Kind kind : kAllKinds)
    if (!rules.only || *rules.only == kind)
      tier.walk(kind, [&](const Tier::Found &found) { look(kind, found); });

  pinArtifacts();
  if (believesClock()) {
    sweep();
    if (rules.maxAge)
      removeOld();
  }
  if (rules.maxBytes && bytes + result.temporaryBytes > *rules.maxBytes)
    makeRoom();
  for (const Candidate &candidate : candidates)
    result.keptEntries += !candidate.isOver;
  result.keptBytes = bytes;
  return std::move(result);
}

PruneResult pruneTier(FileOps &files, const Tier &tier,
                      const PruneRules &rules) {
  return Pruner(files, tier, rules).run();
}

} // namespace kiln::cache
