//===- Tools.h - what the C++ examples share ------------------------------===//
//
// Errors that end the program, bf16 on the host, arrays in device memory,
// graphs, and the comparison of results with fp64.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_TOOLS_H
#define KILN_EXAMPLES_TOOLS_H

#include "../CudaDriver.h"

#include <kiln/kiln.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

/// Filled in by cudaDriverOpen(), which main() calls first.
inline CudaDriver cuda;

[[noreturn]] inline void fail(const std::string &what) {
  std::fprintf(stderr, "failed: %s\n", what.c_str());
  std::exit(1);
}

inline void check(int result, const char *what) {
  if (result != 0)
    fail(std::string(what) + ": CUDA error " + std::to_string(result));
}

inline void check(const kiln::Status &status, const char *what) {
  if (!status.ok())
    fail(std::string(what) + ": " + status.name() + ": " + status.message());
}

inline uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline double fromBf16(uint16_t value) {
  uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

//===----------------------------------------------------------------------===//
// On the device
//===----------------------------------------------------------------------===//

/// An array in device memory with its copy on the host.
template <class T> class Array {
public:
  explicit Array(size_t count) : host(count) {
    check(cuda.memAlloc(&address, bytes()), "allocating device memory");
  }
  ~Array() { cuda.memFree(address); }
  Array(const Array &) = delete;
  Array &operator=(const Array &) = delete;

  void upload() {
    check(cuda.memcpyHtoD(address, host.data(), bytes()), "copying in");
  }
  void fetch() {
    check(cuda.memcpyDtoH(host.data(), address, bytes()), "copying out");
  }
  /// Sets all bytes of the device's copy, so that stale results show as NaN.
  void poison() {
    check(cuda.memsetD8Async(address, 0xff, bytes(), nullptr), "clearing");
  }
  /// An element of the host's copy.
  T &operator[](int64_t element) { return host[static_cast<size_t>(element)]; }
  const T &operator[](int64_t element) const {
    return host[static_cast<size_t>(element)];
  }
  /// Address of an element.
  T *data(int64_t element = 0) const {
    return reinterpret_cast<T *>(address) + element;
  }

  std::vector<T> host;

private:
  size_t bytes() const { return host.size() * sizeof(T); }
  CudaAddress address = 0;
};

/// The work that enqueue() puts on a stream, to be replayed there.
class Graph {
public:
  template <class Enqueue>
  Graph(CudaStream stream, const Enqueue &enqueue) : stream(stream) {
    CudaGraph graph = nullptr;
    check(cuda.streamBeginCapture(stream, kCaptureGlobal),
          "beginning a capture");
    enqueue();
    check(cuda.streamEndCapture(stream, &graph), "ending the capture");
    check(cuda.graphInstantiate(&executable, graph, 0), "making the graph");
    cuda.graphDestroy(graph);
  }
  ~Graph() { cuda.graphExecDestroy(executable); }
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  void replay() const {
    check(cuda.graphLaunch(executable, stream), "launching the graph");
    check(cuda.streamSynchronize(stream), "running the graph");
  }

private:
  CudaStream stream;
  CudaGraphExec executable = nullptr;
};

/// Microseconds that the work of enqueue() takes on \p stream, by the host's
/// clock.
template <class Enqueue>
double timeOf(CudaStream stream, const Enqueue &enqueue) {
  constexpr int kRuns = 50;
  const auto start = std::chrono::steady_clock::now();
  for (int run = 0; run < kRuns; ++run)
    enqueue();
  check(cuda.streamSynchronize(stream), "measuring");
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now() - start)
             .count() /
         kRuns;
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

/// A dot product in fp64 with the sum of its terms' magnitudes.
struct Dot {
  double value = 0, magnitude = 0;

  template <class A, class B>
  Dot(const A &a, int64_t rowA, const B &b, int64_t rowB, int64_t length) {
    for (int64_t i = 0; i < length; ++i) {
      double term = a.at(rowA, i) * b.at(rowB, i);
      value += term;
      magnitude += std::fabs(term);
    }
  }
  /// Error of fp32 accumulation over \p length terms.
  double error(int64_t length) const {
    return 4 * std::sqrt(static_cast<double>(length)) *
           std::ldexp(magnitude, -24);
  }
};

inline double silu(double x) { return x / (1 + std::exp(-x)); }

/// Counts elements that are further from fp64 than two roundings to bf16 (2^-8
/// each) and \p error. NaN is.
struct Count {
  int64_t wrong = 0, all = 0;

  void add(double result, double reference, double error = 0) {
    double bound = 2 * std::ldexp(std::fabs(reference), -8) + error;
    wrong += !(std::fabs(result - reference) <= bound);
    ++all;
  }
};

#endif // KILN_EXAMPLES_TOOLS_H
