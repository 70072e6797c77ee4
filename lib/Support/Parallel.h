//===- Parallel.h - a loop on several threads -----------------------------===//
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <atomic>
#include <cstddef>

namespace kiln {

/// Calls \p body for each index below \p count, on \p threads threads with the
/// caller's, in no order; returns when all have ended. An exception of \p body
/// ends the loop and is thrown by it. Once \p cancel, which may be null, is
/// true, no further index begins. Where the system gives no thread, fewer
/// threads do the work.
void forEachInParallel(size_t count, unsigned threads,
                       llvm::function_ref<void(size_t)> body,
                       const std::atomic<bool> *cancel = nullptr);

} // namespace kiln
