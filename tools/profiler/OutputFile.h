//===- OutputFile.h - the file that a profiled process leaves -------------===//
#pragma once

#include <string>

namespace kiln::profiler {

/// A file that holds the old text or the new one, whole. Not thread-safe.
class OutputFile {
public:
  /// Names the file: one of its own for each process in \p folder.
  void choose(const std::string &folder);
  /// Writes \p text. A failure is told on stderr, once.
  void replace(const std::string &text);

private:
  std::string path;
  bool hasFailed = false;
};

} // namespace kiln::profiler
