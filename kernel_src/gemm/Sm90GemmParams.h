//===- gemm/Sm90GemmParams.h - parameters of the wgmma GEMM ---------------===//
#pragma once

#include "common/TensorMap.h"
#include "gemm/GemmParams.h"

namespace kiln {

/// Tensor maps of rank 3 (inner, outer, batch) of the operands as stored, with
/// the boxes that Sm90GemmConfig and the signature imply. `d` is set only where
/// TMA stores D, `c` and `residual` where TMA fetches them.
struct Sm90GemmParams {
  TensorMap a, b, c, d, residual;
  GemmParams gemm;
  /// 0 where all batches share the operand.
  int batchStepA = 1, batchStepB = 1, batchStepC = 1, batchStepResidual = 1;
  /// Bytes of a stage that TMA loads: fewer than it holds where the boxes of a
  /// side are clipped to an extent that is smaller than a tile.
  int stageBytes = 0;
  int rasterAlongN = 0;
  int hints = 0;
  int tilesFirst = 0;
};

} // namespace kiln
