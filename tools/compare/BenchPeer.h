//===- BenchPeer.h - a library's matrix product beside Kiln's -------------===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Trial/Sampling.h"
#include "compare/CublasLt.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kiln::cli {

/// The workspace that frameworks give cuBLASLt on Hopper and later.
inline constexpr uint64_t kPeerWorkspaceBytes = 64ull << 20;

/// Whether an error with \p code leaves the device unusable.
inline bool endsAll(ErrorCode code) {
  return code == ErrorCode::ContextDead || code == ErrorCode::InProgress;
}

/// cuBLASLt on the operands of one case. Its launches refer to it, so it does
/// not move. For int8 it computes only sums in int32, into results of its own,
/// because cuBLASLt has nothing else without a conversion to int8.
class BenchPeer {
public:
  struct Operands {
    const OperandTable &table;
    llvm::ArrayRef<Arguments> arguments; ///< of each copy
    DeviceAddress workspace = 0;         ///< kPeerWorkspaceBytes of it
  };
  /// Makes the peer with the library's own first choice, or with \p
  /// allAlgorithms with all choices of its heuristic. \p operands must outlive
  /// it. Errors: those of CublasLtMatmul, which say why there is no peer;
  /// DeviceOutOfMemory.
  static llvm::Expected<std::unique_ptr<BenchPeer>>
  create(const Driver &driver, std::shared_ptr<const CublasLt> library,
         const MatrixProduct &product, const Operands &operands,
         bool allAlgorithms);

  /// Names its computation where that differs from the problem, so that results
  /// are not compared; else empty.
  const std::string &otherKind() const { return kind; }

  /// Runs each algorithm once. The driver loads a library's kernel at its first
  /// launch; where that launch is captured, the graph runs up to a third slower
  /// than one made later. Failures are reported by the sampling. Errors: those
  /// after which nothing runs any more.
  llvm::Error loadAll(const Driver &driver, CudaStream stream) const;

  /// Finds the fastest of all algorithms with few samples, taken as \p sampling
  /// says; the final run measures it again. Errors: those of
  /// measureInterleaved.
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
  llvm::Error takeSums(const Driver &driver, MatrixProduct &product);

  std::string kind;
  OperandTable table; ///< the problem's, or with results of its own
  std::vector<Arguments> arguments;
  DeviceMemory results; ///< its own, one for each copy
  std::unique_ptr<CublasLtMatmul> matmul;
  std::vector<CublasLtAlgorithm> algorithms;
  std::vector<TimedLaunch> launches; ///< one for each algorithm
  size_t fastest = 0;
};

} // namespace kiln::cli
