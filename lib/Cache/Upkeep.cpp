//===- Upkeep.cpp ---------------------------------------------------------===//
#include "Cache/Upkeep.h"

#include "Cache/Tier.h"
#include "Support/AtomicFile.h"

#include <fcntl.h>

namespace kiln::cache {

static constexpr const char *kUpkeepName = ".upkeep";
/// The text always has this length, so that writing it in place is enough.
static constexpr size_t kUpkeepBytes = 95;
/// For the locks: no entry has this name.
static const std::string &lockNameOfUpkeep() {
  static const std::string name(64, '0');
  return name;
}

std::string UpkeepState::text() const {
  return fmt::format(
      "kiln upkeep 1\nlimit {:020}\nused  {:020}\nswept {:020}\n", limitBytes,
      usedBytes.value_or(UINT64_MAX), static_cast<uint64_t>(sweptAt));
}

UpkeepState UpkeepState::parse(llvm::StringRef text) {
  UpkeepState state;
  auto take = [&](llvm::StringRef name, uint64_t &value) {
    constexpr size_t kDigits = 20;
    if (!text.consume_front(name) || text.size() <= kDigits ||
        text.take_front(kDigits).getAsInteger(10, value) ||
        text[kDigits] != '\n')
      return false;
    text = text.drop_front(kDigits + 1);
    return true;
  };
  // Differences of times stay within 64 bits.
  constexpr uint64_t kLastSecond = uint64_t(1) << 62;
  uint64_t limit = 0, used = 0, swept = 0;
  if (!text.consume_front("kiln upkeep 1\n") || !take("limit ", limit) ||
      !take("used  ", used) || !take("swept ", swept) || !text.empty() ||
      swept > kLastSecond)
    return state;
  state.limitBytes = limit;
  if (used != UINT64_MAX)
    state.usedBytes = used;
  state.sweptAt = static_cast<int64_t>(swept);
  return state;
}

static ScopedFd openUpkeep(FileOps &files, int folder, int flags) {
  return ScopedFd(files, retryInterrupted([&] {
                    return files.open(
                        folder, kUpkeepName,
                        flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
                  }));
}

static UpkeepState readState(FileOps &files, int fd) {
  std::string text;
  if (readUpTo(files, fd, kUpkeepBytes + 1, text) != 0)
    return {};
  return UpkeepState::parse(text);
}

UpkeepState readUpkeep(FileOps &files, const Tier &tier) {
  OpenedFolder folder = tier.openVersion(/*mayMake=*/false);
  if (!folder.ok())
    return {};
  ScopedFd file = openUpkeep(files, folder.fd.get(), O_RDONLY);
  return file ? readState(files, file.get()) : UpkeepState();
}

/// Writes \p text over what the file has.
static bool writeState(FileOps &files, int folder, llvm::StringRef text) {
  ScopedFd file = openUpkeep(files, folder, O_WRONLY);
  while (file && !text.empty()) {
    ssize_t written = retryInterrupted(
        [&] { return files.write(file.get(), text.data(), text.size()); });
    if (written <= 0)
      return false;
    text = text.drop_front(static_cast<size_t>(written));
  }
  return static_cast<bool>(file);
}

bool updateUpkeep(FileOps &files, const Tier &tier,
                  llvm::function_ref<void(UpkeepState &, int64_t now)> change) {
  OpenedFolder folder = tier.openVersion(/*mayMake=*/true);
  if (!folder.ok())
    return false;
  constexpr std::chrono::milliseconds kPatience(20);
  KeyLock lock(files, folder.fd.get(), lockNameOfUpkeep(), LockUse::Commit,
               KeyLock::Clock::now() + kPatience);
  if (lock.isRefused())
    return false;
  ScopedFd file = openUpkeep(files, folder.fd.get(), O_RDWR | O_CREAT);
  struct stat info = {};
  if (!file || files.touch(file.get()) != 0 ||
      files.status(file.get(), info) != 0)
    return false;
  const UpkeepState before = readState(files, file.get());
  UpkeepState after = before;
  change(after, info.st_mtim.tv_sec);
  return after == before || writeState(files, folder.fd.get(), after.text());
}

EvictorClaim::EvictorClaim(FileOps &files, const Tier &tier) {
  OpenedFolder folder = tier.openVersion(/*mayMake=*/false);
  if (folder.ok())
    lock.emplace(files, folder.fd.get(), lockNameOfUpkeep(), LockUse::Turn,
                 KeyLock::Clock::now());
}

std::chrono::system_clock::time_point clockOf(FileOps &files,
                                              const Tier &tier) {
  OpenedFolder folder = tier.openVersion(/*mayMake=*/false);
  ScopedFd file;
  if (folder.ok())
    file = openUpkeep(files, folder.fd.get(), O_WRONLY | O_CREAT);
  struct stat info = {};
  if (!file || files.touch(file.get()) != 0 ||
      files.status(file.get(), info) != 0)
    return std::chrono::system_clock::now();
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::seconds(info.st_mtim.tv_sec) +
          std::chrono::nanoseconds(info.st_mtim.tv_nsec)));
}

} // namespace kiln::cache
