//===- HistoryWriter.h - a file with what an engine was asked for ---------===//
//
// Where the options or KILN_HISTORY name a file, an engine notes what the next
// start has to prepare: the problems of kiln_prepare and of plans with their
// ranges, and problems that a launch met and that no range serves. Nothing is
// noted on a hit. A thread appends new lines every few seconds, and the end of
// the engine does so a last time. A file that was deleted or replaced meanwhile
// gets all lines again. HistoryFile.h has the form of the file.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemSpec.h"
#include "Runtime/HistoryValues.h"
#include "Runtime/PeriodicThread.h"

#include <llvm/ADT/StringSet.h>

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace kiln {

class Hooks;

/// Thread-safe. \p hooks and \p families must outlive it; failures, and
/// requests that are left out, are told to the log, once each and without a
/// lock held.
class HistoryWriter {
public:
  HistoryWriter(const Hooks &hooks, const Registry &families, std::string path,
                std::chrono::milliseconds interval = std::chrono::seconds(5));
  /// Appends what is left, or tells how much could not be.
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter &) = delete;
  HistoryWriter &operator=(const HistoryWriter &) = delete;

  /// Notes a request; some microseconds. Reads and writes no file.
  void note(const ProblemSpec &spec);
  /// Notes a problem that was launched, or a range that has it: see
  /// HistoryValues. Without its incidental fields, on which no plan depends,
  /// launches of one problem make one line.
  void note(const Problem &problem);

  const std::string &path() const { return file; }

private:
  void add(std::string line, size_t mostLines);
  std::vector<std::string> allLines();
  void write() noexcept;
  void end() noexcept;
  void tell(const std::string &what);

  const Hooks &hooks;
  const std::string file;
  std::mutex mutex; ///< guards what follows
  llvm::StringSet<> known;
  HistoryValues values;
  std::vector<std::string> pending; ///< lines that the file lacks
  bool lacksRoom = false;           ///< lines were left out
  llvm::StringSet<> told; ///< for the thread, and for this object's ends
  PeriodicThread thread;
};

} // namespace kiln
