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

int64_t pitchOfA(const GemmProblem &problem, const GemmSignature &signature,
                 const Sm90GemmConfig &config) {
  int64_t bytes = bytesOf(signature.in);
  if (signature.gathers)
    return gatheredLda(problem) * bytes;
  switch (aheadOfA(signature, config)) {
  case Ahead::Nothing:
    return problem.lda * bytes;
  case Ahead::Repack:
    return packedPitch(problem.colsA(), bytes);
  case Ahead::Transpose:
    return packedPitch(problem.rowsA(), bytes);
  }
  return 0;
}

int64_t pitchOfB(const GemmProblem &problem, const GemmSignature &signature,
                 const Sm90GemmConfig &config) {
  // Bulk copies of whole blocks.
  if (signature.isPacked())
    return Slab::kBytes;
  int64_t bytes = bytesOf(signature.in);
  switch (aheadOfB(signature, config)) {
  case Ahead::Nothing:
    return problem.ldb * bytes;
  case Ahead::Repack:
    return packedPitch(problem.colsB(), bytes);
  case Ahead::Transpose:
    return packedPitch(problem.rowsB(), bytes);
  }
  return 0;
}

int repackSteps(const GemmSignature &signature, const Sm90GemmConfig &config) {
  return (aheadOfA(signature, config) != Ahead::Nothing) +
         (aheadOfB(signature, config) != Ahead::Nothing);
}

} // namespace kiln
