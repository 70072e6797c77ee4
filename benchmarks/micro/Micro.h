//===- micro/Micro.h - parts that all measurements share ------------------===//
//
// Launches, times in clocks of an SM, and the list of results. A mistake or a
// failed call of CUDA ends the program with a message: a measurement that
// failed in part must not count.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <utility>
#include <vector>

namespace micro {

/// Ends the program, with CUDA's message, unless \p status is success.
void check(cudaError_t status, const char *what);

/// Start and end of a warp's work, in clocks of its own SM.
struct Span {
  long long begin, end;
};

/// Memory of the device, zero at first, given back with its object.
template <class Type> class Buffer {
public:
  explicit Buffer(size_t count) : count(count) {
    check(cudaMalloc(&memory, count * sizeof(Type)), "cudaMalloc");
    check(cudaMemset(memory, 0, count * sizeof(Type)), "cudaMemset");
  }
  explicit Buffer(const std::vector<Type> &values) : Buffer(values.size()) {
    check(cudaMemcpy(memory, values.data(), count * sizeof(Type),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  ~Buffer() { cudaFree(memory); }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  Type *data() const { return memory; }
  size_t size() const { return count; }
  /// Waits for the device.
  std::vector<Type> values() const {
    std::vector<Type> copy(count);
    check(cudaMemcpy(copy.data(), memory, count * sizeof(Type),
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return copy;
  }

private:
  Type *memory = nullptr;
  size_t count;
};

/// Shape of a launch.
struct Grid {
  int blocks = 1, threads = 128, sharedBytes = 0;
};

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Grid &grid,
            Arguments &&...arguments) {
  check(cudaFuncSetAttribute(kernel,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             grid.sharedBytes),
        "cudaFuncSetAttribute");
  kernel<<<grid.blocks, grid.threads, grid.sharedBytes>>>(
      std::forward<Arguments>(arguments)...);
  check(cudaGetLastError(), "launch");
}

double median(std::vector<double> values);

/// Clocks from the first begin to the last end of the spans that are set.
double clocksOf(const std::vector<Span> &spans);

constexpr int kRepeats = 5;

/// The median over kRepeats of \p measure(), after a call that does not count.
template <class Measure> double medianOf(Measure measure) {
  measure();
  std::vector<double> values;
  for (int i = 0; i < kRepeats; ++i)
    values.push_back(measure());
  return median(values);
}

/// Clocks of one round of \p run(rounds), which returns the clocks of all
/// rounds: from two lengths, so that neither the start nor the end of a kernel
/// counts.
template <class Run> double clocksOfRound(int rounds, Run run) {
  double few = medianOf([&] { return run(rounds); });
  double many = medianOf([&] { return run(3 * rounds); });
  return (many - few) / (2.0 * rounds);
}

/// The results, in the order of measurement.
class Report {
public:
  using Fields = std::vector<std::pair<std::string, double>>;

  /// Also prints the result to stderr.
  void add(const std::string &name, const Fields &fields);
  /// The document of benchmarks/results, in JSON.
  std::string toJSON(const std::string &commit) const;

private:
  std::vector<std::pair<std::string, Fields>> cases;
};

/// The version of the GPU's driver.
std::string driverVersion();

int smCount();
int clockMHz();

// The measurements, in the order of docs/measured.md. Each takes a second or
// less on an H100.
void measureSums(Report &report);
void measurePromotion(Report &report);
void measureLanes(Report &report);
void measureDecode(Report &report);
void measureCopies(Report &report);
void measureTensorMaps(Report &report);

} // namespace micro
