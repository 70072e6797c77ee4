//===- Sample.h - device memory and a stream for the samples --------------===//
//
// The parts that a program of yours already has: a stream, arrays in device
// memory, and a main() that reports errors. The samples show Kiln, not this.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_SAMPLE_H
#define KILN_EXAMPLES_SAMPLE_H

#include "CudaDriver.h"

#include <kiln/kiln.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

/// The first GPU, with a stream.
class Gpu {
public:
  Gpu() {
    if (const char *reason = cudaDriverOpen(&cuda, &device))
      missing = reason;
    else
      check(cuda.streamCreate(&created, kStreamNonBlocking));
  }
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;
  ~Gpu() {
    if (created)
      cuda.streamDestroy(created);
  }

  kiln_stream stream() const { return created; }
  void synchronize() const { check(cuda.streamSynchronize(created)); }
  /// Why there is no GPU; empty: there is one.
  const std::string &reason() const { return missing; }

  static void check(int result) {
    if (result != 0)
      throw std::runtime_error("CUDA error " + std::to_string(result));
  }

  CudaDriver cuda = {};

private:
  int device = 0;
  CudaStream created = nullptr;
  std::string missing;
};

/// \p count elements of device memory: zeros, or those of a vector.
template <class T> class Buffer {
public:
  Buffer(const Gpu &gpu, int64_t count) : gpu(gpu) {
    const auto bytes = static_cast<size_t>(count) * sizeof(T);
    Gpu::check(gpu.cuda.memAlloc(&address, bytes));
    Gpu::check(gpu.cuda.memsetD8Async(address, 0, bytes, nullptr));
  }
  Buffer(const Gpu &gpu, const std::vector<T> &values)
      : Buffer(gpu, static_cast<int64_t>(values.size())) {
    Gpu::check(
        gpu.cuda.memcpyHtoD(address, values.data(), values.size() * sizeof(T)));
  }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() { gpu.cuda.memFree(address); }

  T *data() const { return reinterpret_cast<T *>(address); }

private:
  const Gpu &gpu;
  CudaAddress address = 0;
};

/// Elements that the host only stores: bf16 has two bytes, e4m3 has one.
using Bf16 = uint16_t;
using E4m3 = uint8_t;

/// main() of a sample. Exit codes: 0 done, 1 failed, 3 no GPU.
template <class Body> int runSample(const char *name, const Body &body) {
  try {
    const Gpu gpu;
    if (!gpu.reason().empty()) {
      std::fprintf(stderr, "%s: %s\n", name, gpu.reason().c_str());
      return kExitNoGpu;
    }
    body(gpu);
    gpu.synchronize();
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

#endif // KILN_EXAMPLES_SAMPLE_H
