//===- Prune.cpp ----------------------------------------------------------===//
#include "Cache/Prune.h"

#include "Cache/KeyLock.h"
#include "Cache/Layer.h"

#include <llvm/ADT/STLExtras.h>

#include <cstring>
#include <unistd.h>

namespace kiln::cache {

llvm::StringRef nameOf(PrunedFile::Why why) {
  switch (why) {
  case PrunedFile::Why::Temporary:
    return "temporary";
  case PrunedFile::Why::Age:
    return "age";
  case PrunedFile::Why::Size:
    return "size";
  }
  return "unknown";
}

Removal removeEntry(FileOps &files, const Layer &layer, Kind kind,
                    llvm::StringRef name, const FileIdentity &seen) {
  std::optional<KeyLock> commit;
  if (kind == Kind::Record) {
    OpenedFolder shard = layer.openShard(kind, name);
    if (shard.ok())
      commit.emplace(files, shard.fd.get(), name, LockUse::Commit,
                     KeyLock::Clock::now());
    if (commit && commit->isRefused())
      return Removal::Replaced; // or will be at once
  }
  if (layer.removeIfUnchanged(kind, name, seen))
    return Removal::Removed;
  int failure = errno;
  Sighting now = layer.identify(kind, name);
  if (now.isKnown && !now.file)
    return Removal::Gone;
  if (now.isKnown && *now.file != seen)
    return Removal::Replaced;
  errno = failure;
  return Removal::Failed;
}

namespace {
/// An entry that may have to go.
struct Candidate {
  Kind kind;
  std::string name;
  FileIdentity seen;
  double ageSeconds; ///< below 0: its stamp is in the future
  bool isOver = false;
};

class Pruner {
public:
  Pruner(FileOps &files, const Layer &layer, const PruneRules &rules)
      : files(files), layer(layer), rules(rules) {}
  PruneResult run();

private:
  void look(Kind kind, const Layer::Found &found);
  void takeTemporary(Kind kind, const Layer::Found &found,
                     const struct stat &info);
  void take(Candidate &candidate, PrunedFile::Why why);
  void fail(const llvm::Twine &path, llvm::StringRef why);
  bool isCancelled() const { return rules.isCancelled && rules.isCancelled(); }
  double ageOf(const struct stat &info) const {
    return std::chrono::duration<double>(now.time_since_epoch()).count() -
           static_cast<double>(info.st_mtim.tv_sec) -
           1e-9 * static_cast<double>(info.st_mtim.tv_nsec);
  }

  FileOps &files;
  const Layer &layer;
  const PruneRules &rules;
  const std::chrono::system_clock::time_point now =
      std::chrono::system_clock::now();
  std::vector<Candidate> candidates;
  uint64_t bytes = 0; ///< of all candidates that are left
  PruneResult result;
};
} // namespace

void Pruner::fail(const llvm::Twine &path, llvm::StringRef why) {
  if (result.failed++ == 0)
    result.failure = (path + ": " + why).str();
}

void Pruner::takeTemporary(Kind kind, const Layer::Found &found,
                           const struct stat &info) {
  double age = ageOf(info);
  if (age < std::chrono::duration<double>(kTemporaryGrace).count())
    return;
  if (!rules.isDryRun && files.unlink(found.folder, found.name.c_str()) != 0) {
    if (errno != ENOENT)
      fail(found.path, std::strerror(errno));
    return;
  }
  result.removed.push_back({PrunedFile::Why::Temporary, kind, found.path,
                            static_cast<uint64_t>(info.st_size), age});
}

void Pruner::look(Kind kind, const Layer::Found &found) {
  if (!found.reason.empty())
    return fail(found.path, found.reason);
  const bool isTemporary = isTemporaryName(found.name);
  struct stat info = {};
  if (isCancelled() || (found.entryName.empty() && !isTemporary) ||
      files.statusAt(found.folder, found.name.c_str(), info) != 0 ||
      !S_ISREG(info.st_mode) || info.st_uid != ::geteuid())
    return;
  if (isTemporary)
    return takeTemporary(kind, found, info);
  candidates.push_back(
      {kind, found.entryName, FileIdentity::of(info), ageOf(info)});
  bytes += static_cast<uint64_t>(info.st_size);
}

void Pruner::take(Candidate &candidate, PrunedFile::Why why) {
  std::string path = layer.pathOf(candidate.kind, candidate.name);
  Removal removal = rules.isDryRun
                        ? Removal::Removed
                        : removeEntry(files, layer, candidate.kind,
                                      candidate.name, candidate.seen);
  if (removal == Removal::Failed)
    return fail(path, std::strerror(errno));
  if (removal == Removal::Replaced)
    return; // somebody has use for it
  candidate.isOver = true;
  bytes -= candidate.seen.bytes;
  // Another pruner's work is not this one's.
  if (removal == Removal::Removed)
    result.removed.push_back({why, candidate.kind, std::move(path),
                              candidate.seen.bytes,
                              std::max(0.0, candidate.ageSeconds)});
}

/// What is given up first has the least.
static int worthOf(Kind kind) {
  switch (kind) {
  case Kind::Artifact:
    return 0;
  case Kind::Probe:
    return 1;
  case Kind::Decision:
    return 2;
  case Kind::Record:
  case Kind::Portfolio:
    break;
  }
  return 3;
}

PruneResult Pruner::run() {
  for (Kind kind : kAllKinds)
    if (!rules.only || *rules.only == kind)
      layer.walk(kind, [&](const Layer::Found &found) { look(kind, found); });

  if (rules.maxAge) {
    const std::chrono::duration<double> oldest = *rules.maxAge + kStampPeriod;
    for (Candidate &candidate : candidates)
      if (!isCancelled() && candidate.ageSeconds > oldest.count())
        take(candidate, PrunedFile::Why::Age);
  }

  if (rules.maxBytes && bytes > *rules.maxBytes) {
    const uint64_t target =
        *rules.maxBytes - std::min(*rules.maxBytes, rules.slackBytes);
    llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) {
      return std::pair(worthOf(a.kind), -a.ageSeconds) <
             std::pair(worthOf(b.kind), -b.ageSeconds);
    });
    for (Candidate &candidate : candidates)
      if (!candidate.isOver && bytes > target && !isCancelled())
        take(candidate, PrunedFile::Why::Size);
  }
  for (const Candidate &candidate : candidates)
    result.keptEntries += !candidate.isOver;
  result.keptBytes = bytes;
  return std::move(result);
}

PruneResult pruneLayer(FileOps &files, const Layer &layer,
                       const PruneRules &rules) {
  return Pruner(files, layer, rules).run();
}

} // namespace kiln::cache
