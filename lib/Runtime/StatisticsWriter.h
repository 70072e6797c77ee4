//===- StatisticsWriter.h - a file with an engine's counts ----------------===//
//
// Where KILN_STATISTICS names a file, a thread of the engine replaces it once a
// second, and the end of the engine does so a last time. `kiln stats` reads it.
// The file is JSON: the fields of kiln_statistics and the ledger of waits.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace kiln {

class Engine;

/// The text of such a file: the present counts of \p engine, which is number
/// \p number of the process.
std::string statisticsJson(Engine &engine, uint64_t number);

/// Writes the file as long as it lives. The engine must outlive it.
class StatisticsWriter {
public:
  /// "%p" in \p path stands for the number of the process. In a process that
  /// has several engines, the second and later ones have their number in the
  /// file's name. Failures are told to the engine's log, once.
  StatisticsWriter(Engine &engine, std::string path);
  ~StatisticsWriter();
  StatisticsWriter(const StatisticsWriter &) = delete;
  StatisticsWriter &operator=(const StatisticsWriter &) = delete;

  const std::string &path() const { return file; }

private:
  void work() noexcept;
  void write() noexcept;

  Engine &engine;
  uint64_t number = 0;
  std::string file;
  bool hasFailed = false;
  std::mutex mutex; ///< guards what follows
  std::condition_variable changed;
  bool isEnding = false;
  std::thread thread;
};

} // namespace kiln
