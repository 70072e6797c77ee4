//===- HistoryWriter.h - a file with what an engine was asked for ---------===//
//
// Where the options or KILN_HISTORY name a file, an engine notes what the next
// start has to prepare: the problems of kiln_prepare and of plans with their
// ranges, and problems that a launch met and that no range serves. Nothing is
// noted on a hit. A thread appends new lines every few seconds, and the end of
// the engine does so a last time. HistoryFile.h has the form of the file.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemSpec.h"
#include "Runtime/PeriodicThread.h"

#include <llvm/ADT/StringSet.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace kiln {

class Hooks;

/// Thread-safe. \p hooks must outlive it; failures are told to their log, once
/// each.
class HistoryWriter {
public:
  HistoryWriter(const Hooks &hooks, std::string path);
  /// Appends what is left.
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter &) = delete;
  HistoryWriter &operator=(const HistoryWriter &) = delete;

  /// Notes a request; some microseconds. Reads and writes no file.
  void note(const ProblemSpec &spec);
  /// Notes a problem that was launched; without its incidental fields, on
  /// which no plan depends, launches of one problem make one line.
  void note(const Problem &problem);

  const std::string &path() const { return file; }

private:
  void add(std::string line);
  void write() noexcept;
  void tell(const std::string &what);

  const Hooks &hooks;
  const std::string file;
  std::mutex mutex; ///< guards what follows
  llvm::StringSet<> known;
  std::vector<std::string> pending; ///< lines that the file lacks
  std::mutex writing; ///< held while the file is written; guards what follows
  llvm::StringSet<> told;
  PeriodicThread thread;
};

} // namespace kiln
