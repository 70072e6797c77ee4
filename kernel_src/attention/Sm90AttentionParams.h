//===- attention/Sm90AttentionParams.h - parameters of wgmma attention ----===//
#pragma once

#include "attention/AttentionParams.h"
#include "attention/Sm90AttentionSchedule.h"
#include "common/TensorMap.h"

namespace kiln {

/// Tensor maps of the operands as stored, with boxes of 64 elements of a row.
struct Sm90AttentionParams {
  /// (element, head within a tile, token, group of such heads, sequence); a box
  /// has the rows of a consumer.
  TensorMap q;
  /// (element, token, head, sequence or page); a box has the keys of a block,
  /// or of a page where a page is smaller.
  TensorMap k, v;
  AttentionParams attention;
  /// 0 where sequences are packed, or share an operand.
  int batchStepQ = 1, batchStepK = 1, batchStepV = 1;
  Sm90AttentionSchedule schedule;
  int pageRows = 0; ///< tokens of a box of K and V, where these are paged
};

} // namespace kiln
