//===- rows/SpreadRows.cuh - rows that are longer than the chip holds -----===//
//
// As rows/ReloadRows.cuh, by blocks all over the GPU. Those of a row take its
// chunks by turns, so that all of them read near each other, as a stream does,
// and exchange their statistics through L2 (rows/RowExchange.cuh). A block
// keeps its first chunks in shared memory, since the caches have the last ones.
// Several rows take turns, or are in flight at once: fewer at once leave more
// of each on the chip, more of them exchange at the same time.
//
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
