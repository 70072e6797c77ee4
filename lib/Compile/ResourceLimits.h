//===- ResourceLimits.h - the CPUs and memory of this process -------------===//
//
// A container's quota, not the machine, limits how much runs at once. The
// kernel tells it in text files of two generations of control groups. Parsing
// is separate from reading, so that it can be tested.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <cstdint>
#include <optional>
#include <string>

namespace kiln {

/// CPUs of this process: the smaller of its affinity mask and the CPU quotas of
/// its control groups, rounded up; at least 1. Reads a few small files.
unsigned availableCpus();

/// Bytes of memory that this process can still take: the smaller of the
/// machine's available memory and the rest in its control groups. Nullopt when
/// no source answers. Reads a few small files.
std::optional<uint64_t> availableMemoryBytes();

/// Quotas of the control groups of a process, and the rest that they leave.
struct CgroupLimits {
  std::optional<double> cpus;          ///< quota over period
  std::optional<uint64_t> memoryBytes; ///< limit minus usage
};

/// Reads the limits under \p root ("/" outside of tests): every group from the
/// one that proc/self/cgroup names up to the mount, version 2 or 1.
CgroupLimits readCgroupLimits(llvm::StringRef root);

/// cpu.max of version 2, "200000 100000" or "max 100000", in CPUs.
std::optional<double> parseCpuMax(llvm::StringRef text);

/// cpu.cfs_quota_us and cpu.cfs_period_us of version 1, in CPUs; a quota of -1
/// means no quota.
std::optional<double> parseCfsQuota(llvm::StringRef quota,
                                    llvm::StringRef period);

/// A memory limit or usage, in bytes; "max" and version 1's "no limit" (close
/// to 2^63) are nullopt.
std::optional<uint64_t> parseMemoryBytes(llvm::StringRef text);

/// The value of \p key in "key value" lines, as in memory.stat.
std::optional<uint64_t> parseStat(llvm::StringRef text, llvm::StringRef key);

/// MemAvailable of /proc/meminfo, in bytes.
std::optional<uint64_t> parseMemAvailable(llvm::StringRef text);

/// The path of the group for \p controller in /proc/self/cgroup; an empty
/// controller is version 2's line.
std::optional<std::string> parseCgroupPath(llvm::StringRef text,
                                           llvm::StringRef controller);

} // namespace kiln
