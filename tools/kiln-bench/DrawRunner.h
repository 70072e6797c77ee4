//===- DrawRunner.h - one drawn case, in several states, beside a peer ----===//
#pragma once

#include "compare/Comparer.h"
#include "kiln-bench/DrawSource.h"

#include <memory>
#include <vector>

namespace kiln::cli {

/// Measures cases one after another, all states of one and its peer side by
/// side on the same buffers. The session must outlive it.
class DrawRunner {
public:
  /// \p peer may be null: Kiln is then measured alone where a library would be
  /// the peer. Without \p wantsBaseline it is measured alone where the copy
  /// baseline would be.
  static llvm::Expected<std::unique_ptr<DrawRunner>>
  create(LiveSession &session, std::shared_ptr<const CublasLt> peer,
         bool wantsBaseline);

  /// Has \p sources meet case \p index, which is that of \p row, and measures
  /// what they choose. A failure of this case is in the row; an error ends the
  /// run: ContextDead, or InProgress when the device hangs, after which memory
  /// must not be freed.
  llvm::Error measure(size_t index,
                      llvm::ArrayRef<std::unique_ptr<DrawSource>> sources,
                      DrawRow &row);

  /// Where engines are called.
  const Stream &calls() const { return comparer->stream(); }

private:
  struct Measured;
  struct Bench;
  DrawRunner(LiveSession &session, std::unique_ptr<Comparer> comparer)
      : session(session), comparer(std::move(comparer)) {}

  llvm::Error meetAll(size_t index,
                      llvm::ArrayRef<std::unique_ptr<DrawSource>> sources,
                      Bench &bench, DrawRow &row);
  llvm::Error preparePeer(Bench &bench, DrawRow &row);
  llvm::Error validate(Bench &bench, DrawRow &row);
  llvm::Error sample(Bench &bench, DrawRow &row);
  void takePeerTimes(const Bench &bench, llvm::ArrayRef<SampledTime> times,
                     DrawRow &row);
  llvm::Error compare(Bench &bench, DrawRow &row);

  LiveSession &session;
  const std::unique_ptr<Comparer> comparer;
};

} // namespace kiln::cli
