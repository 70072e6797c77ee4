//===- mlp.cpp - a transformer's MLP through Kiln -------------------------===//
//
//   h = gelu_tanh(x W1^T + b1)        [tokens, hidden]
//   y = h W2^T + b2 + x               [tokens, width]
//
// in bf16 as two GEMMs with fused pointwise chains: on a stream of the
// program's own, then replayed from a CUDA graph into cleared buffers. Sampled
// elements of both runs are compared with fp64 on the host. Exit codes: 0 done,
// 1 failed, 3 no GPU.
//
//===----------------------------------------------------------------------===//
#include "CudaDriver.h"

#include <kiln/kiln.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int64_t kTokens = 512, kWidth = 1024, kHidden = 4096;

CudaDriver cuda;

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "mlp: %s\n", what.c_str());
  std::exit(1);
}

void check(int result, const char *what) {
  if (result != 0)
    fail(std::string(what) + " failed with CUDA error " +
         std::to_string(result));
}

void check(const kiln::Status &status, const char *what) {
  if (!status.ok())
    fail(std::string(what) + ": " + status.name() + ": " + status.message());
}

//===----------------------------------------------------------------------===//
// bf16 matrices on the host and the device
//===----------------------------------------------------------------------===//

uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

double fromBf16(uint16_t value) {
  uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

/// A row-major matrix in device memory with its copy on the host.
class Matrix {
public:
  Matrix(int64_t rows, int64_t columns)
      : columns(columns), host(static_cast<size_t>(rows * columns)) {
    check(cuda.memAlloc(&address, bytes()), "allocating device memory");
  }
  ~Matrix() { cuda.memFree(address); }
  Matrix(const Matrix &) = delete;
  Matrix &operator=(const Matrix &) = delete;

  void fill(std::mt19937 &random, double deviation) {
    std::normal_distribution<float> normal(0.0f, static_cast<float>(deviation));
    for (uint16_t &element : host)
      element = toBf16(normal(random));
    check(cuda.memcpyHtoD(address, host.data(), bytes()), "copying in");
  }
  /// Sets all bytes of the device's copy, so that stale results show as NaN.
  void poison() { check(cuda.memsetD8(address, 0xff, bytes()), "clearing"); }
  void fetch() {
    check(cuda.memcpyDtoH(host.data(), address, bytes()), "copying out");
  }

  void *data() const { return reinterpret_cast<void *>(address); }
  double at(int64_t row, int64_t column) const {
    return fromBf16(host[static_cast<size_t>(row * columns + column)]);
  }

private:
  size_t bytes() const { return host.size() * sizeof(uint16_t); }

  int64_t columns;
  std::vector<uint16_t> host;
  CudaAddress address = 0;
};

//===----------------------------------------------------------------------===//
// The MLP
//===----------------------------------------------------------------------===//

struct Mlp {
  Matrix x{kTokens, kWidth}, w1{kHidden, kWidth}, b1{1, kHidden},
      h{kTokens, kHidden}, w2{kWidth, kHidden}, b2{1, kWidth},
      y{kTokens, kWidth};

  // A linear layer keeps its weight as [out, in]: layout NT.
  kiln::Gemm up = kiln::Gemm(KILN_BF16, kTokens, kHidden, kWidth)
                      .layout(KILN_LAYOUT_NT)
                      .a(x.data())
                      .weights(w1.data())
                      .d(h.data())
                      .bias(b1.data())
                      .geluTanh();
  kiln::Gemm down = kiln::Gemm(KILN_BF16, kTokens, kWidth, kHidden)
                        .layout(KILN_LAYOUT_NT)
                        .a(h.data())
                        .weights(w2.data())
                        .d(y.data())
                        .bias(b2.data())
                        .residual(x.data());

  void fill() {
    std::mt19937 random(1);
    x.fill(random, 1.0);
    w1.fill(random, 1.0 / std::sqrt(static_cast<double>(kWidth)));
    b1.fill(random, 0.1);
    w2.fill(random, 1.0 / std::sqrt(static_cast<double>(kHidden)));
    b2.fill(random, 0.1);
  }
  void poison() {
    h.poison();
    y.poison();
  }
  void enqueue(const kiln::Engine &engine, kiln_stream stream) const {
    check(engine.run(up, stream), "first GEMM");
    check(engine.run(down, stream), "second GEMM");
  }
};

/// A dot product in fp64 with the sum of its terms' magnitudes.
struct Dot {
  double value = 0, magnitude = 0;
};

Dot dot(const Matrix &a, int64_t rowA, const Matrix &b, int64_t rowB,
        int64_t length) {
  Dot sum;
  for (int64_t i = 0; i < length; ++i) {
    double term = a.at(rowA, i) * b.at(rowB, i);
    sum.value += term;
    sum.magnitude += std::fabs(term);
  }
  return sum;
}

double geluTanh(double x) {
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
}

/// True when \p result is within two roundings to bf16 (2^-8 each) and the
/// error of fp32 accumulation over \p length terms, which gelu enlarges by less
/// than 1.2. Not true for NaN.
bool isClose(double result, double reference, const Dot &sum, int64_t length) {
  double accumulation = 1.2 * 4 * std::sqrt(static_cast<double>(length)) *
                        std::ldexp(sum.magnitude, -24);
  double bound = 2 * std::ldexp(std::fabs(reference), -8) + accumulation;
  return std::fabs(result - reference) <= bound;
}

/// Compares sampled elements with fp64, each GEMM with the inputs it really
/// had; returns how many are wrong.
int countWrong(Mlp &mlp, int samples) {
  mlp.h.fetch();
  mlp.y.fetch();
  std::mt19937 random(2);
  int wrong = 0;
  for (int i = 0; i < samples; ++i) {
    int64_t row = random() % kTokens, column = random() % kHidden;
    Dot sum = dot(mlp.x, row, mlp.w1, column, kWidth);
    double reference = geluTanh(sum.value + mlp.b1.at(0, column));
    wrong += !isClose(mlp.h.at(row, column), reference, sum, kWidth);

    column = random() % kWidth;
    sum = dot(mlp.h, row, mlp.w2, column, kHidden);
    reference = sum.value + mlp.b2.at(0, column) + mlp.x.at(row, column);
    wrong += !isClose(mlp.y.at(row, column), reference, sum, kHidden);
  }
  return wrong;
}

bool report(const char *run, Mlp &mlp) {
  constexpr int kSamples = 2000;
  int wrong = countWrong(mlp, kSamples);
  std::printf("%-8s %d of %d sampled elements wrong\n", run, wrong,
              2 * kSamples);
  return wrong == 0;
}

/// Captures the MLP on \p stream and replays it once.
void replay(const Mlp &mlp, const kiln::Engine &engine, CudaStream stream) {
  CudaGraph graph = nullptr;
  CudaGraphExec executable = nullptr;
  check(cuda.streamBeginCapture(stream, kCaptureGlobal), "beginning a capture");
  mlp.enqueue(engine, stream);
  check(cuda.streamEndCapture(stream, &graph), "ending the capture");
  check(cuda.graphInstantiate(&executable, graph, 0), "making the graph");
  check(cuda.graphLaunch(executable, stream), "launching the graph");
  check(cuda.streamSynchronize(stream), "running the graph");
  cuda.graphExecDestroy(executable);
  cuda.graphDestroy(graph);
}

bool runMlp(CudaStream stream) {
  kiln::Result<kiln::Engine> engine = kiln::Engine::create();
  check(engine.status(), "creating the engine");
  Mlp mlp;
  mlp.fill();

  // Choosing, compiling and tuning happen here and not in the first call; the
  // stream's arena, which a capture needs, is made here as well.
  kiln::PrepareOptions options;
  options.streams = &stream;
  options.stream_count = 1;
  check(engine->prepare({mlp.up, mlp.down}, options), "preparing");

  mlp.poison();
  // The stream does not wait for the default stream, where poison() ran.
  check(cuda.streamSynchronize(nullptr), "clearing");
  mlp.enqueue(*engine, stream);
  check(cuda.streamSynchronize(stream), "running the MLP");
  bool correct = report("stream", mlp);

  mlp.poison();
  check(cuda.streamSynchronize(nullptr), "clearing");
  replay(mlp, *engine, stream);
  return report("graph", mlp) && correct;
}

} // namespace

int main() {
  int device = 0;
  if (const char *reason = cudaDriverOpen(&cuda, &device)) {
    std::fprintf(stderr, "mlp: %s\n", reason);
    return kExitNoGpu;
  }
  char name[128] = "";
  check(cuda.deviceGetName(name, sizeof(name), device), "naming the GPU");
  std::printf("Kiln %s on %s: MLP of %d x %d x %d, bf16\n",
              kiln_version_string(), name, static_cast<int>(kTokens),
              static_cast<int>(kWidth), static_cast<int>(kHidden));

  CudaStream stream = nullptr;
  check(cuda.streamCreate(&stream, kStreamNonBlocking), "making a stream");
  bool correct = runMlp(stream);
  cuda.streamDestroy(stream);
  cuda.primaryCtxRelease(device);
  return correct ? 0 : 1;
}
