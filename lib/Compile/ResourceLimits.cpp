//===- ResourceLimits.cpp -------------------------------------------------===//
#include "Compile/ResourceLimits.h"

#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/Path.h>

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

namespace kiln {

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

std::optional<double> parseCpuMax(llvm::StringRef text) {
  auto [quota, period] = text.trim().split(' ');
  return parseCfsQuota(quota, period);
}

std::optional<double> parseCfsQuota(llvm::StringRef quota,
                                    llvm::StringRef period) {
  int64_t quotaUs = 0, periodUs = 0;
  if (quota.trim().getAsInteger(10, quotaUs) ||
      period.trim().getAsInteger(10, periodUs) || quotaUs <= 0 || periodUs <= 0)
    return std::nullopt;
  return static_cast<double>(quotaUs) / static_cast<double>(periodUs);
}

std::optional<uint64_t> parseMemoryBytes(llvm::StringRef text) {
  // Version 1 writes "none" as 2^63 - 1 rounded down to a page.
  constexpr uint64_t kNoLimit = uint64_t(1) << 62;
  uint64_t bytes = 0;
  if (text.trim().getAsInteger(10, bytes) || bytes >= kNoLimit)
    return std::nullopt;
  return bytes;
}

std::optional<uint64_t> parseStat(llvm::StringRef text, llvm::StringRef key) {
  while (!text.empty()) {
    llvm::StringRef line;
    std::tie(line, text) = text.split('\n');
    auto [name, value] = line.split(' ');
    if (name == key)
      return parseMemoryBytes(value);
  }
  return std::nullopt;
}

std::optional<uint64_t> parseMemAvailable(llvm::StringRef text) {
  while (!text.empty()) {
    llvm::StringRef line;
    std::tie(line, text) = text.split('\n');
    uint64_t kib = 0;
    if (!line.consume_front("MemAvailable:"))
      continue;
    line = line.trim();
    if (!line.consume_back(" kB") || line.getAsInteger(10, kib) ||
        kib > UINT64_MAX / 1024)
      return std::nullopt;
    return kib * 1024;
  }
  return std::nullopt;
}

std::optional<std::string> parseCgroupPath(llvm::StringRef text,
                                           llvm::StringRef controller) {
  // "4:memory:/group", for version 2 "0::/group"
  while (!text.empty()) {
    llvm::StringRef line;
    std::tie(line, text) = text.split('\n');
    auto [controllers, path] = line.split(':').second.split(':');
    llvm::SmallVector<llvm::StringRef, 4> names;
    controllers.split(names, ',');
    if (path.starts_with("/") && llvm::is_contained(names, controller))
      return path.str();
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// A small file of a virtual file system, empty when it is not there. Such
/// files tell no size, so the buffer must not ask for it.
static std::string readSmall(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFileAsStream(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

template <class T>
static void lower(std::optional<T> &limit, std::optional<T> candidate) {
  if (candidate && (!limit || *candidate < *limit))
    limit = candidate;
}

/// The memory that a control group leaves: its limit minus its usage, where
/// page cache that is easily reclaimed does not count as used.
static std::optional<uint64_t> memoryLeft(llvm::StringRef limit,
                                          llvm::StringRef usage,
                                          llvm::StringRef stat,
                                          llvm::StringRef cacheKey) {
  std::optional<uint64_t> bytes = parseMemoryBytes(limit);
  if (!bytes)
    return std::nullopt;
  uint64_t used = parseMemoryBytes(usage).value_or(0);
  used -= std::min(used, parseStat(stat, cacheKey).value_or(0));
  return *bytes - std::min(*bytes, used);
}

static void readGroup(const std::string &folder, bool isVersion2,
                      CgroupLimits &limits) {
  auto file = [&](const char *name) { return readSmall(folder + "/" + name); };
  if (isVersion2) {
    lower(limits.cpus, parseCpuMax(file("cpu.max")));
    lower(limits.memoryBytes,
          memoryLeft(file("memory.max"), file("memory.current"),
                     file("memory.stat"), "inactive_file"));
    return;
  }
  lower(limits.cpus,
        parseCfsQuota(file("cpu.cfs_quota_us"), file("cpu.cfs_period_us")));
  lower(limits.memoryBytes,
        memoryLeft(file("memory.limit_in_bytes"), file("memory.usage_in_bytes"),
                   file("memory.stat"), "total_inactive_file"));
}

CgroupLimits readCgroupLimits(llvm::StringRef root) {
  struct Hierarchy {
    llvm::StringLiteral controller, mount;
  };
  static constexpr Hierarchy kHierarchies[] = {
      {"", "sys/fs/cgroup"},
      {"", "sys/fs/cgroup/unified"},
      {"cpu", "sys/fs/cgroup/cpu"},
      {"cpu", "sys/fs/cgroup/cpu,cpuacct"},
      {"memory", "sys/fs/cgroup/memory"}};

  const std::string base = root.ends_with("/") ? root.str() : root.str() + "/";
  const std::string groups = readSmall(base + "proc/self/cgroup");
  CgroupLimits limits;
  for (const Hierarchy &hierarchy : kHierarchies) {
    std::optional<std::string> path =
        parseCgroupPath(groups, hierarchy.controller);
    if (!path)
      continue;
    // Every ancestor limits, too. In a container without a namespace of its own
    // the path is the host's and may not exist below the mount. The mount's
    // root is then the container's group, and the walk ends there in any case.
    const std::string mount = base + hierarchy.mount.str();
    for (llvm::StringRef group = *path;;
         group = llvm::sys::path::parent_path(group)) {
      if (group == "/")
        group = "";
      readGroup(mount + group.str(), hierarchy.controller.empty(), limits);
      if (group.empty())
        break;
    }
  }
  return limits;
}

/// CPUs in the affinity mask, however many the machine has; 0 if unknown.
static unsigned affinityCpus() {
  for (size_t cpus = 1024; cpus <= (1u << 20); cpus *= 4) {
    std::vector<unsigned long> mask(cpus / (8 * sizeof(unsigned long)));
    const size_t bytes = mask.size() * sizeof(mask[0]);
    auto *set = reinterpret_cast<cpu_set_t *>(mask.data());
    if (sched_getaffinity(0, bytes, set) == 0)
      return CPU_COUNT_S(bytes, set);
  }
  return 0;
}

unsigned availableCpus() {
  unsigned cpus = affinityCpus();
  if (cpus == 0)
    cpus = std::max(1u, std::thread::hardware_concurrency());
  if (std::optional<double> quota = readCgroupLimits("/").cpus)
    cpus = static_cast<unsigned>(
        std::clamp(std::ceil(*quota), 1.0, static_cast<double>(cpus)));
  return cpus;
}

std::optional<uint64_t> availableMemoryBytes() {
  std::optional<uint64_t> bytes = parseMemAvailable(readSmall("/proc/meminfo"));
  lower(bytes, readCgroupLimits("/").memoryBytes);
  return bytes;
}

} // namespace kiln
