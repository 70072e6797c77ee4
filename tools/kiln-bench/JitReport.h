//===- JitReport.h - times of compiling and loading -----------------------===//
#pragma once

#include "Compile/Artifact.h"
#include "Compile/TranslationUnit.h"
#include "cli/Report.h"
#include "kiln-bench/FirstCalls.h"

#include <string>
#include <vector>

namespace kiln::cli {

/// One distinct kernel, compiled alone.
struct CompiledKernel {
  std::string config;
  TranslationUnit unit;
  double minMs = 0;
  PhaseTimes phases; ///< of the fastest compilation
};

/// From prepare to the return of the first launch, the file in the page cache.
struct HitTime {
  std::string name, config;
  double ms = 0;
};

/// The result file and its table.
class JitReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

  std::string what, commit; ///< for the document
  std::string device, toolchain;
  std::string gpu, driver; ///< empty where nothing is launched
  unsigned repeats = 0, threads = 0;
  size_t cases = 0, recorded = 0; ///< and the cases that a record answers
  std::vector<CompiledKernel> kernels;
  double kernelsPerSecond = 0;
  std::vector<HitTime> hits;
  /// Cases without a hit, since ptxas spilled or serialised.
  size_t refused = 0;
  bool compilerStayedOut = true; ///< of the steps from cache to launch
  std::vector<NewProblem> newProblems;
  std::string noHits; ///< why both were not measured
};

} // namespace kiln::cli
