//===- BenchRunner.h - one case, Kiln beside a peer -----------------------===//
#pragma once

#include "compare/BenchReport.h"
#include "compare/Comparer.h"

#include <memory>

namespace kiln::cli {

struct BenchOptions {
  /// Measure all algorithms that the peer's heuristic answers, too.
  bool allAlgorithms = false;
  bool hot = false; ///< operands stay in L2
  /// Measure a copy baseline beside problems that no peer computes.
  bool wantsBaseline = true;
  /// Times calls of this engine as well; may be null.
  kiln_engine *engine = nullptr;
};

/// Measures cases one after another. The session must outlive it.
class BenchRunner {
public:
  /// \p peer may be null: then Kiln is measured alone.
  static llvm::Expected<std::unique_ptr<BenchRunner>>
  create(LiveSession &session, std::shared_ptr<const CublasLt> peer,
         BenchOptions options);

  /// Measures \p choice on \p row.which and fills \p row in. A failure of this
  /// case is in the row; an error ends the run: ContextDead, or InProgress when
  /// the device hangs, after which memory must not be freed.
  llvm::Error measure(const BenchChoice &choice, BenchRow &row);

private:
  struct Bench;
  BenchRunner(LiveSession &session, BenchOptions options,
              std::unique_ptr<Comparer> comparer)
      : session(session), options(options), comparer(std::move(comparer)) {}

  llvm::Error validate(const BenchChoice &choice, BenchRow &row);
  llvm::Error prepare(const BenchChoice &choice, Bench &bench, BenchRow &row);
  llvm::Error sample(Bench &bench, BenchRow &row);
  llvm::Error compare(Bench &bench, BenchRow &row);
  llvm::Error timeCalls(const Bench &bench, BenchRow &row);

  LiveSession &session;
  const BenchOptions options;
  const std::unique_ptr<Comparer> comparer;
};

} // namespace kiln::cli
