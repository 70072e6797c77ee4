//===- Sm90Repack.h - copies of a wgmma GEMM's operands -------------------===//
//
// Operands that TMA cannot read as they are, or that wgmma wants along k and
// that are not, are copied to the workspace ahead of the product.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "gemm/Sm90GemmConfig.h"

namespace kiln {

/// The step that an operand takes before the product reads it.
enum class Ahead { Nothing, Repack, Transpose };

inline Ahead aheadOfA(const GemmSignature &signature,
                      const Sm90GemmConfig &config) {
  if (signature.gathers) // which leaves whole vectors
    return Ahead::Nothing;
  if (config.transposesA(signature))
    return Ahead::Transpose;
  return signature.alignA < 16 ? Ahead::Repack : Ahead::Nothing;
}
inline Ahead aheadOfB(const GemmSignature &signature,
                      const Sm90GemmConfig &config) {
  if (config.transposesB(signature))
    return Ahead::Transpose;
  return signature.alignB < 16 ? Ahead::Repack : Ahead::Nothing;
}

/// Whether either operand takes the step \p ahead.
inline bool hasAhead(const GemmSignature &signature,
                     const Sm90GemmConfig &config, Ahead ahead) {
  return aheadOfA(signature, config) == ahead ||
         aheadOfB(signature, config) == ahead;
}

/// Bytes from row to row of a copy with \p cols elements of \p bytes: whole
/// lines of L2, except for short rows, which these would make much longer.
int64_t packedPitch(int64_t cols, int64_t bytes);

/// Most bytes that the copies of operands take, whatever a caller allows;
/// larger problems are left to templates that load them as they are.
inline constexpr double kMaxRepackBytes = double(int64_t(256) << 20);

/// Bytes in the workspace that the copies of operands take. Unaligned operands
/// are copied, and operands that wgmma needs along k and that lie across it.
int64_t repackBytes(const GemmProblem &problem, const GemmSignature &signature,
                    const Sm90GemmConfig &config);

/// Bytes from row to row of A, and of B, as the product reads it.
int64_t pitchOfA(const GemmProblem &problem, const GemmSignature &signature,
                 const Sm90GemmConfig &config);
int64_t pitchOfB(const GemmProblem &problem, const GemmSignature &signature,
                 const Sm90GemmConfig &config);

/// Steps that make such copies.
int repackSteps(const GemmSignature &signature, const Sm90GemmConfig &config);

} // namespace kiln
