//===- Parallel.h - work on all cores -------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_PARALLEL_H
#define KILN_EXAMPLES_LLAMA_PARALLEL_H

#include <cstdint>
#include <functional>

namespace llama {

/// Calls work(first, last) for pieces of \p piece of [0, count), on all cores
/// at once. Throws the first exception of \p work, when all have ended.
void inParallel(int64_t count, int64_t piece,
                const std::function<void(int64_t first, int64_t last)> &work);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_PARALLEL_H
