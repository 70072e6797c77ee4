//===- Environment.h - every environment variable the helper reads --------===//
#pragma once

#include <string>

namespace kiln::profiler {

/// The environment of a profiled process, read in one place. An unset variable
/// is empty; so is every one in a program that runs with other rights than its
/// caller (setuid).
struct Environment {
  std::string out;       ///< KILN_PROFILER_OUT: folder of the sums
  std::string cupti;     ///< KILN_CUPTI: path of CUPTI
  std::string cudaHome;  ///< CUDA_HOME
  std::string cudaPath;  ///< CUDA_PATH
  bool fromStart = true; ///< KILN_PROFILER_FROM_START is not "0"

  static Environment fromProcess();
};

} // namespace kiln::profiler
