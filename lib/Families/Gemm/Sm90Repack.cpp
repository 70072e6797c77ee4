//===- Sm90Repack.cpp -----------------------------------------------------===//
#include "Families/Gemm/Sm90Repack.h"

#include "Families/Gemm/GatherStep.h"
#include "Model/MathUtil.h"
#include "common/Slab.h"

#include <utility>

namespace kiln {

int64_t packedPitch(int64_t cols, int64_t bytes) {
  constexpr int64_t kLine = 128, kLong = 1024, kLeast = 16;
  int64_t rowBytes = cols * bytes;
  return roundUp(rowBytes, rowBytes >= kLong ? kLine : kLeast);
}

int64_t repackBytes(const GemmProblem &problem, const GemmSignature &signature,
                    const Sm90GemmConfig &config) {
  int64_t elementBytes = bytesOf(signature.in);
  auto bytes = [&](Ahead ahead, int64_t batch, int64_t rows,
                   int64_t cols) -> int64_t {
    if (ahead == Ahead::Nothing)
      return 0;
    if (ahead == Ahead::Transpose)
      std::swap(rows, cols);
    return roundUp(batch * rows * packedPitch(cols, elementBytes), 256);
  };
  return bytes(aheadOfA(signature, config), problem.batchA, problem.rowsA(),
               problem.colsA()) +
         bytes(aheadOfB(signature, config), problem.batchB, problem.rowsB(),
               problem.colsB());
}

/// The pitch of a matrix of \p rows rows with leading dimension \p ld, once
/// \p ahead is done.
static int64_t pitchAfter(Ahead ahead, int64_t ld, int64_t rows, int64_t cols,
                          int64_t bytes) {
  if (ahead == Ahead::Nothing)
    return ld * bytes;
  return packedPitch(ahead == Ahead::Repack ? cols : rows, bytes);
}

int64_t pitchOfA(const GemmProblem &problem, const GemmSignature &signature,
                 const Sm90GemmConfig &config) {
  int64_t bytes = bytesOf(signature.in);
  if (signature.gathers)
    return gatheredLda(problem) * bytes;
  return pitchAfter(aheadOfA(signature, config), problem.lda, problem.rowsA(),
                    problem.colsA(), bytes);
}

int64_t pitchOfB(const GemmProblem &problem, const GemmSignature &signature,
                 const Sm90GemmConfig &config) {
  // Bulk copies of whole blocks.
  if (signature.isPacked())
    return Slab::kBytes;
  return pitchAfter(aheadOfB(signature, config), problem.ldb, problem.rowsB(),
                    problem.colsB(), bytesOf(signature.in));
}

int repackSteps(const GemmSignature &signature, const Sm90GemmConfig &config) {
  return (aheadOfA(signature, config) != Ahead::Nothing) +
         (aheadOfB(signature, config) != Ahead::Nothing);
}

} // namespace kiln
