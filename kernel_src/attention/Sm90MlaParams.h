//===- attention/Sm90MlaParams.h - parameters of MLA ----------------------===//
#pragma once

#include "attention/AttentionParams.h"
#include "common/TensorMap.h"

namespace kiln {

struct Sm90MlaParams {
  /// K as stored: (element, token, head, sequence or page); a box has 64
  /// elements of `boxKeys` tokens.
  TensorMap k;
  AttentionParams attention;
  int batchStepK = 1; ///< 0 where sequences are packed, or share it
  int boxKeys = 0;
};

} // namespace kiln
