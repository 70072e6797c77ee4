//===- StatisticsWriter.h - a file with an engine's counts ----------------===//
//
// Where KILN_STATISTICS names a file, a thread of the engine replaces it once a
// second, and the end of the engine does so a last time. A process that ends
// without the end of its engines may lack the last second. `kiln stats` reads
// the file: JSON with the fields of kiln_statistics and the ledger of waits.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Runtime/PeriodicThread.h"
#include "Support/OutputPath.h"

#include <string>

namespace kiln {

class Engine;

/// The text of such a file: the present counts of \p engine.
std::string statisticsJson(Engine &engine);

/// Writes the file as long as it lives. The engine must outlive it.
class StatisticsWriter {
public:
  /// "%p" in \p path stands for the number of the process. If another process,
  /// or another engine, writes that file, the name gets the number of the
  /// process, see openOwned(). Failures are told to the engine's log, once; a
  /// path that leads to something else than a plain file is one.
  StatisticsWriter(Engine &engine, const std::string &path);
  /// Writes the file a last time.
  ~StatisticsWriter();
  StatisticsWriter(const StatisticsWriter &) = delete;
  StatisticsWriter &operator=(const StatisticsWriter &) = delete;

private:
  void write() noexcept;
  int replace(const std::string &text);
  void fail(int errnoValue);

  Engine &engine;
  OwnedFile file; ///< the one that was written last, with its lock
  bool hasFailed = false;
  PeriodicThread thread;
};

} // namespace kiln
