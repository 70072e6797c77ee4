//===- DeviceMemory.h - plain device memory, for trials and tests ---------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"
#include "Driver/LaunchSpec.h"
#include "Support/ByteGauge.h"

#include <cstddef>
#include <cstdint>

namespace kiln {

/// Owns one cuMemAlloc of the context that was current when it was made.
/// Freeing waits for the device, so it never happens on a dispatch path.
class DeviceMemory {
public:
  /// An empty one: no memory, address 0.
  DeviceMemory() = default;

  /// Allocates \p bytes, aligned to at least 256; 0 gives an empty one. They
  /// count in \p gauge, which may be null, until they are freed or leaked.
  /// Errors: DeviceOutOfMemory with the size asked for, ContextDead.
  static llvm::Expected<DeviceMemory>
  allocate(const Driver &driver, uint64_t bytes, ByteGaugePtr gauge = nullptr);

  DeviceMemory(DeviceMemory &&other) noexcept;
  DeviceMemory &operator=(DeviceMemory &&other) noexcept;
  /// Frees, also beside a capture. The context must still exist: else leak()
  /// first.
  ~DeviceMemory();

  DeviceAddress address() const { return base; }
  uint64_t bytes() const { return size.bytes(); }
  bool empty() const { return bytes() == 0; }

  /// Leaves the memory to its context and forgets it.
  void leak();

private:
  friend class MemoryPool;
  void free();

  const Driver *driver = nullptr;
  CudaContext context = nullptr;
  DeviceAddress base = 0;
  ByteAmount size;
  CudaStream stream = nullptr; ///< not null: the memory is a pool's
};

/// Memory that comes and goes in the order of a stream. The driver lets
/// cuMemFree wait for all work of the device, and meanwhile lets no other
/// thread launch; this waits for nothing. *Measured* (H200, driver 580, 20 ms
/// of work in flight): cuMemFree stalls launches of other threads for 20 ms,
/// allocations and frees memory of a pool for 0.05 ms.
class MemoryPool {
public:
  /// A pool of the device of the current context. \p gauge, which may be null,
  /// counts the most bytes that were allocated at one time since the last
  /// trim(): the pool keeps them.
  static llvm::Expected<MemoryPool> create(const Driver &driver,
                                           ByteGaugePtr gauge = nullptr);
  MemoryPool(MemoryPool &&other) noexcept;
  MemoryPool &operator=(MemoryPool &&) = delete;
  /// Allocations that still exist keep their memory until they are freed.
  ~MemoryPool();

  /// As DeviceMemory::allocate(), for work of \p stream alone, which must
  /// outlive the memory. Freed memory is used again until trim().
  llvm::Expected<DeviceMemory> allocate(uint64_t bytes, CudaStream stream);
  /// Gives free memory back, once the stream has got there.
  void trim();
  /// Counts the memory no more: its context is destroyed.
  void leak() { kept.set(0); }

private:
  MemoryPool(const Driver &driver, void *pool, ByteGaugePtr gauge)
      : driver(&driver), pool(pool), kept(std::move(gauge)) {}
  const Driver *driver;
  void *pool;                                             ///< a CUmemoryPool
  ByteGaugePtr allocated = std::make_shared<ByteGauge>(); ///< and not freed
  ByteAmount kept;
};

/// The copies below run on the current context; 0 bytes is success. The
/// synchronous ones return when the copy is done; they are work of the legacy
/// default stream, which waits for blocking streams of others and ruins their
/// captures: for programs that own their process.
llvm::Error copyToDevice(const Driver &driver, DeviceAddress to,
                         const void *from, uint64_t bytes);
llvm::Error copyToHost(const Driver &driver, void *to, DeviceAddress from,
                       uint64_t bytes);

/// Enqueued on \p stream.
llvm::Error copyOnDevice(const Driver &driver, DeviceAddress to,
                         DeviceAddress from, uint64_t bytes, CudaStream stream);

/// As above; host memory must stay valid until \p stream has done the copy.
llvm::Error copyToDeviceAsync(const Driver &driver, DeviceAddress to,
                              const void *from, uint64_t bytes,
                              CudaStream stream);
llvm::Error copyToHostAsync(const Driver &driver, void *to, DeviceAddress from,
                            uint64_t bytes, CudaStream stream);

/// Sets \p bytes bytes to \p value on \p stream.
llvm::Error fillAsync(const Driver &driver, DeviceAddress to, uint8_t value,
                      uint64_t bytes, CudaStream stream);

/// Bytes free and in all on the device of the current context.
struct MemoryInfo {
  uint64_t freeBytes = 0, totalBytes = 0;
};
llvm::Expected<MemoryInfo> memoryInfo(const Driver &driver);

} // namespace kiln
