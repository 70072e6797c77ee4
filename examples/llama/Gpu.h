//===- Gpu.h - device, memory and graphs of the engine --------------------===//
//
// The part of the CUDA driver that a serving engine needs, opened at run time:
// one device, one stream, memory that is counted by its use, events and graphs.
// All work is on that stream: it does not wait for the default one.
// Failures are thrown as Error in words that say what to do.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_GPU_H
#define KILN_EXAMPLES_LLAMA_GPU_H

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

typedef struct CUstream_st *CudaStreamHandle;

namespace llama {

using DeviceAddress = uint64_t;

/// Whether a CUDA error kills the context that it came from: an illegal address
/// and its like, after which every call fails. Others may be tried again.
bool isFatal(int cudaError);

/// The uses of device memory, for the ledger.
enum class MemoryUse : uint8_t { Weights, Cache, Activations, Inputs, Scratch };
constexpr int kMemoryUses = 5;
const char *nameOf(MemoryUse use);

struct CudaFunctions;

/// Memory of a process as other processes name it: CUipcMemHandle.
struct MemoryName {
  char bytes[64];
};

/// A GPU and a stream of it. Not thread-safe.
class Gpu {
public:
  /// The \p ordinal-th GPU, current to this thread. Throws NoGpu where there is
  /// none.
  explicit Gpu(int64_t ordinal = 0);
  ~Gpu();
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  CudaStreamHandle stream() const { return created; }
  const std::string &name() const { return deviceName; }
  uint64_t freeBytes() const;
  uint64_t totalBytes() const;
  /// Bytes that are allocated for \p use now.
  uint64_t bytesOf(MemoryUse use) const {
    return ledger[static_cast<size_t>(use)];
  }
  /// Whether kernels here reach the memory of the \p ordinal-th GPU.
  bool reaches(int64_t ordinal) const;
  /// Waits for the stream.
  void synchronize() const;
  /// Waits for the stream and ignores errors, before something is destroyed
  /// that its work may use.
  void drain() const noexcept;

  /// Throws Error, with \p doing, for a result other than 0; DeviceLost where
  /// it is fatal.
  void check(int result, const char *doing) const;
  const CudaFunctions &cuda() const { return *functions; }

private:
  friend class DeviceMemory;

  std::unique_ptr<CudaFunctions> functions;
  int device = 0;
  CudaStreamHandle created = nullptr;
  std::string deviceName;
  mutable std::array<uint64_t, kMemoryUses> ledger{};
};

/// Bytes of device memory. Movable.
class DeviceMemory {
public:
  DeviceMemory() = default;
  /// Throws Error with the bytes that are wanted and free.
  DeviceMemory(const Gpu &gpu, uint64_t bytes, MemoryUse use);
  DeviceMemory(DeviceMemory &&other) noexcept { swap(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();

  uint64_t bytes() const { return size; }
  DeviceAddress address() const { return start; }
  template <class T> T *at(uint64_t byteOffset = 0) const {
    return reinterpret_cast<T *>(start + byteOffset);
  }

  void zero() const;
  /// Waits for the copy, and for all that the stream has before it.
  void upload(const void *source, uint64_t count, uint64_t offset = 0) const;
  /// For PeerMemory of other processes, until this is freed. Throws Error where
  /// the system shares no memory.
  MemoryName name() const;

private:
  void swap(DeviceMemory &other) noexcept;

  const Gpu *gpu = nullptr;
  DeviceAddress start = 0;
  uint64_t size = 0;
  MemoryUse use = MemoryUse::Scratch;
};

/// Device memory of another process, mapped into this one.
class PeerMemory {
public:
  /// Throws Error where the memory of \p name cannot be mapped: a process
  /// cannot map its own.
  PeerMemory(const Gpu &gpu, const MemoryName &name);
  ~PeerMemory();
  PeerMemory(const PeerMemory &) = delete;
  PeerMemory &operator=(const PeerMemory &) = delete;

  DeviceAddress address() const { return start; }

private:
  const Gpu &gpu;
  DeviceAddress start = 0;
};

/// Host memory that the GPU copies from and to without a stop. Its destructor
/// waits for the stream, which may still do so.
class PinnedMemory {
public:
  PinnedMemory(const Gpu &gpu, uint64_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory &) = delete;
  PinnedMemory &operator=(const PinnedMemory &) = delete;

  template <class T> T *at(uint64_t byteOffset = 0) const {
    return reinterpret_cast<T *>(static_cast<char *>(start) + byteOffset);
  }
  uint64_t bytes() const { return size; }

private:
  const Gpu &gpu;
  void *start = nullptr;
  uint64_t size;
};

/// A point of the stream.
class Event {
public:
  explicit Event(const Gpu &gpu);
  ~Event();
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;

  void record() const;
  void wait() const; ///< The host waits.
  bool isDone() const;
  /// Of two recorded events that are done.
  static double millisecondsBetween(const Event &first, const Event &second);

private:
  const Gpu &gpu;
  void *handle = nullptr;
};

/// The work of a function, captured once and replayed.
class Graph {
public:
  Graph(const Gpu &gpu, const std::function<void()> &enqueue);
  ~Graph();
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  void launch() const;

private:
  const Gpu &gpu;
  void *executable = nullptr;
};

/// The one function of a PTX module. Its destructor waits for the stream.
class PtxKernel {
public:
  PtxKernel(const Gpu &gpu, const char *ptx, const char *entry);
  ~PtxKernel();
  PtxKernel(const PtxKernel &) = delete;
  PtxKernel &operator=(const PtxKernel &) = delete;

  void launch(unsigned blocks, unsigned threads, void **parameters) const;

private:
  const Gpu &gpu;
  void *module = nullptr;
  void *function = nullptr;
};

/// A copy within the stream.
void copyToDevice(const Gpu &gpu, DeviceAddress target, const void *source,
                  uint64_t bytes);
void copyToHost(const Gpu &gpu, void *target, DeviceAddress source,
                uint64_t bytes);

/// \p rows rows of \p rowBytes; pitches are bytes from row to row.
struct Rows {
  uint64_t rows, rowBytes, sourcePitch, targetPitch;
};
void copyRows(const Gpu &gpu, DeviceAddress target, DeviceAddress source,
              const Rows &rows);
/// Waits for the copy: the source may be pageable memory.
void uploadRows(const Gpu &gpu, DeviceAddress target, const void *source,
                const Rows &rows);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_GPU_H
