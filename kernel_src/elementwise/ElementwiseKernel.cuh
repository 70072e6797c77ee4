//===- elementwise/ElementwiseKernel.cuh - base of the kernels ------------===//
//
// Names for values of signature and config, and the steps that all kernels of
// the family share, whatever their items are.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "elementwise/ElementwiseItem.cuh"
#include "elementwise/ElementwiseParams.h"
#include "elementwise/FlatElementwiseConfig.h"

namespace kiln {

/// Address of element \p offset of an operand.
template <DType kType>
const char *elementAt(const void *operand, long long offset) {
  return static_cast<const char *>(operand) + offset * bytesOf(kType);
}

/// Base of the kernels. An element has kInElement bytes, or kOutElement in y; a
/// vector has kInBytes and kOutBytes.
template <ElementwiseSignature kSignature, FlatElementwiseConfig kConfig>
class ElementwiseKernel {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

protected:
  static constexpr DType kIn = kSignature.in, kOut = kSignature.out;
  static constexpr PointwiseChain kChain = kSignature.chain;
  static constexpr int kLinks = kChain.size();
  static constexpr int kVector = kConfig.vector, kItems = kConfig.items;
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kInElement = bytesOf(kIn), kOutElement = bytesOf(kOut);
  static constexpr int kInBytes = kVector * kInElement;
  static constexpr int kOutBytes = kVector * kOutElement;
  static constexpr CacheHint kLoadHint =
      kConfig.hint == 1 ? CacheHint::Streaming : CacheHint::Plain;
  static constexpr CacheHint kStoreHint =
      kConfig.hint != 0 ? CacheHint::Streaming : CacheHint::Plain;
  /// True: work is divided into runs of rows; false: it is a line of vectors.
  static constexpr bool kRuns = kConfig.hasRuns(kSignature);

  /// Calls \p runChunk(chunk, scale) for each of the block's chunks, and
  /// returns the factor of the `Scale` link.
  template <class F>
  static float forEachChunk(const FlatElementwiseParams &params, F &&runChunk) {
    float scale = 1.0f;
    if constexpr (kChain.contains(PointwiseOp::Scale))
      scale = params.operands.scalePtr ? *params.operands.scalePtr
                                       : params.operands.scale;
    for (long long chunk = blockIdx.x; chunk < params.chunks;
         chunk += gridDim.x)
      runChunk(chunk, scale);
    return scale;
  }
};

} // namespace kiln
