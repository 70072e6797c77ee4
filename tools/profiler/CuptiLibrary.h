//===- CuptiLibrary.h - CUPTI, opened at run time -------------------------===//
#pragma once

#include "profiler/Cupti.h"
#include "profiler/Environment.h"

#include <string>

namespace kiln::profiler {

/// CUPTI's functions. Never closed: its threads run until the process ends.
struct CuptiLibrary {
#define KILN_CUPTI_SYMBOL(name, arguments)                                     \
  CuptiResult(*name) arguments = nullptr;
  KILN_CUPTI_SYMBOLS(KILN_CUPTI_SYMBOL)
#undef KILN_CUPTI_SYMBOL
  std::string path; ///< the name that was opened

  /// Opens KILN_CUPTI alone if it is set. Else the first of: a copy that the
  /// process has loaded, one in NVIDIA's Python wheels or beside loaded
  /// libraries of NVIDIA, one of the toolkit, one that the loader finds.
  /// Returns what is wrong; empty: nothing.
  std::string open(const Environment &environment);

  /// "CUPTI_ERROR_...", the name of \p result.
  std::string nameOf(CuptiResult result) const;
};

} // namespace kiln::profiler
