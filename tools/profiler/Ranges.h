//===- Ranges.h - the nested NVTX ranges of a thread ----------------------===//
//
// A *path* is a range with the ranges around it: "step / layer 3 / kiln_gemm".
// Paths are nodes of one tree that only grows, so a thread's state is a pointer
// to a node, and a path is named by a small number.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

namespace kiln::profiler {

/// An NVTX domain; lives for ever.
struct RangeDomain {
  std::string name; ///< empty: the domain of functions without one
  std::map<uint32_t, std::string> categories;
};

struct RangePath {
  const RangePath *parent = nullptr; ///< null: nothing is around it
  const RangeDomain *domain = nullptr;
  std::string category; ///< its name: "layer"; empty: none
  std::string name;
  uint32_t id = 0; ///< from 1 on
};

/// The tree of all paths of the process. Thread-safe.
class RangeTree {
public:
  /// The most paths; ranges beyond them count for the range around them.
  static constexpr size_t kMostPaths = 65536;

  /// The path of a range in \p parent, which may be null; null: there are too
  /// many.
  const RangePath *child(const RangePath *parent, const RangeDomain *domain,
                         const std::string &category, const std::string &name);
  /// The path called \p id; null for 0.
  const RangePath *at(uint32_t id);
  /// \p path without its innermost range of \p domain; \p path if there is
  /// none. Null if there are too many paths.
  const RangePath *without(const RangePath *path, const RangeDomain *domain);
  /// The path of a node that was captured in \p captured and launched in
  /// \p launched: the ranges of the launch, then those of the capture that are
  /// not around both. A step of the capture gives way to that of the launch.
  const RangePath *join(const RangePath *launched, const RangePath *captured);
  /// Whether there were more than kMostPaths.
  bool isFull();
  /// Around a fork: the child gets the tree without a holder of its lock.
  void lockForFork() { mutex.lock(); }
  void unlockAfterFork() { mutex.unlock(); }

private:
  std::mutex mutex;
  std::deque<RangePath> paths; ///< by id - 1
  std::unordered_map<std::string, const RangePath *> byKey;
};

/// The process's tree.
RangeTree &rangeTree();

/// Opens and closes a range of this thread.
void pushRange(const RangeDomain *domain, const std::string &category,
               const std::string &name);
void popRange(const RangeDomain *domain);

/// The id of this thread's path; 0: it is in no range.
uint32_t currentRange();

} // namespace kiln::profiler
