//===- ExchangeMemory.h - memory of each rank that all ranks write --------===//
//
// kiln_allreduce moves its rows through device memory that each rank allocates
// and all others map (CUDA's IPC handles, exchanged over the ranks' sockets).
// A rank that does not come to a sum is noted there by the kernels, in the
// first word; each step copies that word to the host.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_EXCHANGEMEMORY_H
#define KILN_EXAMPLES_LLAMA_EXCHANGEMEMORY_H

#include "Gpu.h"
#include "ModelConfig.h"
#include "Ranks.h"
#include "StepInputs.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace llama {

/// The bytes with which each of \p ranks moves all rows of a step at once, but
/// not more than a bound: beyond it they are moved in rounds.
uint64_t exchangeBytes(const ModelConfig &model, const StepRoom &room,
                       int64_t ranks);

/// One rank's view of the memory of all. Not thread-safe, except for failure().
class ExchangeMemory {
public:
  /// A collective of \p ranks. Null at all ranks where one of them cannot reach
  /// the memory of another, and \p reason says why. Throws Error where there is
  /// no room.
  static std::unique_ptr<ExchangeMemory>
  share(const Gpu &gpu, Ranks &ranks, uint64_t bytes, std::string &reason);
  /// Gives back the mappings of other ranks' memory. All ranks do so before any
  /// of them frees its own.
  void unmap() { peers.clear(); }

  int rank() const { return static_cast<int>(ownRank); }
  /// The memory of each rank, in device addresses of this process.
  void *const *addresses() const { return all.data(); }
  uint64_t bytes() const { return own.bytes(); }

  /// Enqueues the copy of the word that names a missing rank.
  void enqueueCheck() const;
  /// The reason why sums before a check that is done are wrong; empty: they are
  /// right. Any thread.
  std::string failure() const;

private:
  ExchangeMemory(const Gpu &gpu, int64_t rank, uint64_t bytes);
  void map(const Ranks &ranks, const std::string &names);

  const Gpu &gpu;
  int64_t ownRank;
  DeviceMemory own;
  PinnedMemory word; ///< a copy of the first word of `own`
  std::vector<std::unique_ptr<PeerMemory>> peers;
  std::vector<void *> all;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_EXCHANGEMEMORY_H
