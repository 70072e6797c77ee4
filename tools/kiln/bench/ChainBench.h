//===- ChainBench.h - kiln bench --chain ----------------------------------===//
#pragma once

#include "kiln/bench/BenchRunner.h"
#include "kiln/bench/ChainReport.h"

#include <llvm/ADT/STLFunctionalExtras.h>

namespace kiln::cli {

/// The choice for the case of an index.
using ChooseCase = llvm::function_ref<llvm::Expected<BenchChoice>(size_t)>;

/// Measures chains of \p cases: each is of neighbours whose names have the same
/// beginning, up to the last '/'. The steps of a chain run one after the other,
/// in CUDA graphs of many runs, ordered and dependent in turns. What went wrong
/// with a chain is in its row; an error ends it all, as of
/// BenchRunner::measure.
llvm::Error measureChains(LiveSession &session, llvm::ArrayRef<Case> cases,
                          ChooseCase choose, ChainReport &report);

} // namespace kiln::cli
