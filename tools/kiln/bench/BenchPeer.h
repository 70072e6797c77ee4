//===- BenchPeer.h - a library's matrix product beside Kiln's -------------===//
#pragma once

#include "Trial/Sampling.h"
#include "kiln/CommonOptions.h"
#include "kiln/bench/CublasLt.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace kiln::cli {

/// What frameworks give cuBLASLt on Hopper and later.
inline constexpr uint64_t kPeerWorkspaceBytes = 64ull << 20;

/// Whether an error with \p code leaves the device of no more use.
inline bool endsAll(ErrorCode code) {
  return code == ErrorCode::ContextDead || code == ErrorCode::InProgress;
}

/// The library, found as \p options and \p environment say. Error:
/// DriverMissing.
llvm::Expected<std::shared_ptr<const CublasLt>>
loadPeerLibrary(const ParsedOptions &options, const Environment &environment);

/// cuBLASLt on the operands of one case. Its launches refer to it, so it does
/// not move.
class BenchPeer {
public:
  struct Operands {
    const OperandTable &table;
    llvm::ArrayRef<Arguments> arguments; ///< of each copy
    DeviceAddress workspace = 0;         ///< kPeerWorkspaceBytes of it
  };
  /// With the library's own first choice, or with \p allAlgorithms that its
  /// heuristic answers. \p operands must outlive it. Errors: those of
  /// CublasLtMatmul, why there is no peer.
  static llvm::Expected<std::unique_ptr<BenchPeer>>
  create(std::shared_ptr<const CublasLt> library, const MatrixProduct &product,
         const Operands &operands, bool allAlgorithms);

  /// Runs each algorithm once: the driver loads a library's kernel at its first
  /// launch, and where that is one of a graph in the making, the graph runs up
  /// to a third slower than one made later. What fails is sampling's to report.
  /// Errors: those after which nothing runs any more.
  llvm::Error loadAll(const Driver &driver, CudaStream stream) const;

  /// Finds the fastest of all algorithms with few samples, taken as \p sampling
  /// says; the final run measures it again. Errors: of measureInterleaved.
  llvm::Error pickBest(const Driver &driver, CudaStream stream,
                       SamplingOptions sampling);

  const TimedLaunch &first() const { return launches.front(); }
  /// The fastest, if another than the first; else null.
  const TimedLaunch *best() const {
    return fastest == 0 ? nullptr : &launches[fastest];
  }
  size_t algorithmCount() const { return launches.size(); }

private:
  BenchPeer() = default;

  std::unique_ptr<CublasLtMatmul> matmul;
  std::vector<CublasLtAlgorithm> algorithms;
  std::vector<TimedLaunch> launches; ///< one for each algorithm
  size_t fastest = 0;
};

} // namespace kiln::cli
