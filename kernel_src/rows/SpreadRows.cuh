//===- rows/SpreadRows.cuh - rows that are longer than the chip holds -----===//
//
// Extends rows/ReloadRows.cuh to blocks all over the GPU. The blocks of a row
// take its chunks in turn, so that all of them read near each other, as the
// copy baseline does, and exchange their statistics through L2
// (rows/RowExchange.cuh). A block keeps its first chunks in shared memory,
// since the caches have the last ones. Several rows are processed in turn or at
// once: with fewer at once more of each row stays on the chip, with more at
// once more of them exchange statistics at the same time.
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "rows/ReloadRows.cuh"
#include "rows/SpreadRowsConfig.h"

namespace kiln {

template <RowSignature kSignature, SpreadRowsConfig kConfig>
void spreadRows(const RowParams &params) {
  allowSuccessor();
  awaitPredecessor();
  ReloadRows<kSignature, kConfig>::run(params);
}

} // namespace kiln
