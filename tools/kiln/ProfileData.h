//===- ProfileData.h - the files that profiled processes left -------------===//
//
// Each process that initialised CUDA leaves a JSON file of sums, which
// tools/profiler writes: devices, and rows by kernel, device and range. Here
// those of all processes of a command become one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::cli {

/// Sums over calls.
struct ProfiledTimes {
  uint64_t calls = 0;
  double totalNs = 0, minNs = 0, maxNs = 0;

  double meanNs() const { return calls ? totalNs / double(calls) : 0; }
  void add(const ProfiledTimes &other);
};

/// One NVTX range around launches.
struct ProfiledRange {
  std::string name, category;
};

/// The resources of a launch.
struct ProfiledResources {
  int64_t registers = 0, staticShared = 0, dynamicShared = 0, localBytes = 0;
  std::vector<int64_t> grid, block;
};

/// A kernel, or a kind of copy, on one device in one range.
struct ProfiledWork {
  std::string kind; ///< "kernel", "memcpy" or "memset"
  std::string name; ///< as the device's code has it; "HtoD" of copies
  size_t device = 0;
  ProfiledTimes times;
  uint64_t bytes = 0;                ///< of copies and memsets
  std::vector<ProfiledRange> ranges; ///< the outermost first
  ProfiledResources resources;       ///< of the longest launch of a kernel

  bool isKernel() const { return kind == "kernel"; }
};

struct ProfiledDevice {
  std::string name, uuid;
  double firstNs = 0, lastNs = 0; ///< the first start and the last end
  double busyNs = 0; ///< with work; an upper bound where processes share it

  double spanNs() const { return lastNs - firstNs; }
};

/// The work of a command's processes on devices.
struct ProfileData {
  std::vector<ProfiledDevice> devices;
  std::vector<ProfiledWork> work;
  size_t processes = 0;
  /// Processes that did not write at their end: they were killed, or ended by
  /// _exit.
  size_t cutProcesses = 0;
  uint64_t dropped = 0; ///< records that CUPTI lost
  bool tooManyRanges = false;
  std::vector<std::string> errors; ///< why a process recorded nothing

  /// Reads every JSON file in \p folder. Errors: Io; InvalidArgument for a file
  /// that is not the helper's.
  static llvm::Expected<ProfileData> read(const std::string &folder);

private:
  llvm::Error add(const llvm::json::Object &process);
  size_t deviceOf(const llvm::json::Object &device, int64_t pid);
};

} // namespace kiln::cli
