//===- prepack/PrepackSignature.h - the signature of weight packing -------===//
#pragma once

#include "common/Types.h"
#include "prepack/PrepackSource.h"

namespace kiln {

/// The part of a problem that its kernels are specialised for.
struct PrepackSignature {
  WeightSource source = WeightSource::Gptq;
  DType scale = DType::FP16; ///< INT8: e8m0, whose bits are moved
  int group = 0;             ///< 32, 64, 128, or 0: all k
  bool zeros = false;        ///< zero points are read and packed
  /// Rows of bytes begin at multiples of 4.
  bool wordRows = true;

  constexpr int bits() const { return bitsOf(source); }
  constexpr bool isWellFormed() const {
    const bool isBlocks = source == WeightSource::Mxfp4;
    if (isBlocks ? group != 32 || scale != DType::INT8
                 : scale != DType::FP16 && scale != DType::BF16 &&
                       scale != DType::FP32)
      return false;
    if (zeros && !hasZeroPoint(source))
      return false;
    return group == 0 || group == 32 || group == 64 || group == 128;
  }

  friend constexpr bool operator==(const PrepackSignature &,
                                   const PrepackSignature &) = default;
};

} // namespace kiln
