//===- Nccl.h - sums and gathers over the GPUs of a model -----------------===//
//
// The part of NCCL that tensor parallelism needs, opened at run time by
// declarations of our own (NCCL 2.10 and later; the values are those of
// nccl.h). Collectives are enqueued on the engine's stream, and may be captured
// in graphs. All ranks enqueue the same ones in the same order.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_NCCL_H
#define KILN_EXAMPLES_LLAMA_NCCL_H

#include "Gpu.h"

#include <cstdint>
#include <memory>
#include <string>

namespace llama {

struct NcclFunctions;

/// One rank's end of the connection between all GPUs. Not thread-safe, except
/// for failure().
class Communicator {
public:
  /// Opens \p library; empty: libnccl.so.2. Throws Error.
  explicit Communicator(const Gpu &gpu, const std::string &library);
  /// Waits for the other ranks' destructors; while an exception unwinds it
  /// aborts.
  ~Communicator();
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  /// The name of a connection, which rank 0 makes and all ranks connect by.
  std::string makeId() const;
  /// Waits for the other ranks. Throws Error.
  void connect(const std::string &id, int64_t rank, int64_t count);

  /// Replaces \p count elements of bf16 by their sums over all ranks, whose
  /// bits are equal everywhere.
  void sum(DeviceAddress data, int64_t count) const;
  /// Writes the \p count floats of each rank to \p all, one rank behind the
  /// other.
  void gather(DeviceAddress own, DeviceAddress all, int64_t count) const;

  /// Ends collectives in flight that other ranks do not join. None may follow.
  /// No thread may be in failure().
  void abort() noexcept;

  /// Why a collective in flight has failed; empty: it has not. Any thread.
  std::string failure() const;

private:
  void check(int result, const char *doing) const;

  const Gpu &gpu;
  std::unique_ptr<NcclFunctions> functions;
  void *handle = nullptr;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_NCCL_H
