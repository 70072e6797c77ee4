//===- mlp.cpp - half a transformer block through Kiln --------------------===//
//
//   h   = h + attention               the residual stream, in place
//   n   = rmsnorm(h) * weight         [tokens, width]
//   gu  = n [Wgate; Wup]^T            [tokens, 2 * hidden], one GEMM
//   act = silu(gate) * up             [tokens, hidden]
//   y   = act Wdown^T + h             [tokens, width], what the next block gets
//
// in bf16 and four launches: a norm that adds and stores the residual, a GEMM,
// an elementwise chain, a GEMM with the next residual in its epilogue. Prepared
// once for a range of tokens; run on a stream of the program's own, then
// replayed from a CUDA graph into cleared buffers. Sampled elements of every
// run are compared with fp64 on the host. Exit codes: 0 done, 1 failed, 3 no
// GPU.
//
//===----------------------------------------------------------------------===//
#include "Tools.h"

#include <kiln/kiln.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int64_t kWidth = 1024, kHidden = 2816;
/// The block is prepared for any number of tokens in between.
constexpr int64_t kFewestTokens = 129, kMostTokens = 512;
constexpr double kEpsilon = 1e-6;

//===----------------------------------------------------------------------===//
// bf16 matrices on the host and the device
//===----------------------------------------------------------------------===//

/// A row-major matrix in device memory with its copy on the host.
class Matrix : private Array<uint16_t> {
public:
  Matrix(int64_t rows, int64_t columns)
      : Array(static_cast<size_t>(rows * columns)), columns(columns) {}

  void fill(std::mt19937 &random, double mean, double deviation) {
    std::normal_distribution<float> normal(static_cast<float>(mean),
                                           static_cast<float>(deviation));
    for (uint16_t &element : host)
      element = toBf16(normal(random));
    upload();
  }
  /// Takes over the host's copy of a matrix of the same shape.
  void copyFrom(const Matrix &other) {
    host = other.host;
    upload();
  }
  using Array::data, Array::fetch, Array::poison;
  double at(int64_t row, int64_t column) const {
    return fromBf16(host[static_cast<size_t>(row * columns + column)]);
  }

private:
  int64_t columns;
};

//===----------------------------------------------------------------------===//
// The block
//===----------------------------------------------------------------------===//

struct Weights {
  // A linear layer keeps its weight as [out, in]: layout NT.
  Matrix norm{1, kWidth}, gateUp{2 * kHidden, kWidth}, down{kWidth, kHidden};

  explicit Weights(std::mt19937 &random) {
    norm.fill(random, 1.0, 0.1);
    gateUp.fill(random, 0.0, 1.0 / std::sqrt(static_cast<double>(kWidth)));
    down.fill(random, 0.0, 1.0 / std::sqrt(static_cast<double>(kHidden)));
  }
};

struct Activations {
  Matrix attention{kMostTokens, kWidth}, before{kMostTokens, kWidth};
  Matrix h{kMostTokens, kWidth}, n{kMostTokens, kWidth},
      gateUp{kMostTokens, 2 * kHidden}, act{kMostTokens, kHidden},
      y{kMostTokens, kWidth};

  explicit Activations(std::mt19937 &random) {
    attention.fill(random, 0.0, 1.0);
    before.fill(random, 0.0, 1.0);
  }
};

/// The calls of one block. They hold sizes and addresses and cost nothing to
/// make.
struct Block {
  kiln::RmsNorm norm;
  kiln::Gemm gateUp;
  kiln::Elementwise swiglu;
  kiln::Gemm down;

  Block(const Weights &w, const Activations &a, int64_t tokens)
      : norm(kiln::RmsNorm(KILN_BF16, tokens, kWidth)
                 .x(a.attention.data())
                 .residual(a.h.data(), a.h.data()) // read, then written
                 .weight(w.norm.data())
                 .epsilon(kEpsilon)
                 .y(a.n.data())),
        gateUp(kiln::Gemm(KILN_BF16, tokens, 2 * kHidden, kWidth)
                   .layout(KILN_LAYOUT_NT)
                   .a(a.n.data())
                   .weights(w.gateUp.data())
                   .d(a.gateUp.data())),
        swiglu(kiln::Elementwise(KILN_BF16, tokens, kHidden)
                   .x(a.gateUp.data(), 2 * kHidden)
                   .silu()
                   .mul(a.gateUp.data(kHidden), 2 * kHidden)
                   .y(a.act.data())),
        down(kiln::Gemm(KILN_BF16, tokens, kWidth, kHidden)
                 .layout(KILN_LAYOUT_NT)
                 .a(a.act.data())
                 .weights(w.down.data())
                 .d(a.y.data())
                 .residual(a.h.data())) {}

  void enqueue(const kiln::Engine &engine, kiln_stream stream) const {
    check(engine.run(norm, stream), "norm");
    check(engine.run(gateUp, stream), "gate and up projections");
    check(engine.run(swiglu, stream), "activation");
    check(engine.run(down, stream), "down projection");
  }
};

/// Makes the block ready for kFewestTokens to kMostTokens tokens on \p stream.
/// Choosing, compiling and tuning happen here and not in the first call; the
/// stream's arena, which a capture needs, is made here as well.
void prepare(const kiln::Engine &engine, const Block &most, CudaStream stream) {
  kiln::PrepareOptions options;
  options.streams = &stream;
  options.stream_count = 1;
  options.budget_ms = 30000; // for all of them together
  check(
      engine.prepare(
          {kiln::Problem(most.norm).range("rows", kFewestTokens, kMostTokens),
           kiln::Problem(most.gateUp).range("m", kFewestTokens, kMostTokens),
           kiln::Problem(most.swiglu).range("rows", kFewestTokens, kMostTokens),
           kiln::Problem(most.down).range("m", kFewestTokens, kMostTokens)},
          options),
      "preparing");
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

/// Compares a token's sampled elements with fp64, each step with the inputs it
/// really had.
void compareToken(const Weights &w, const Activations &a, int64_t token,
                  std::mt19937 &random, Count &count) {
  constexpr int kSamples = 32;
  double meanSquare = Dot(a.h, token, a.h, token, kWidth).value / kWidth;
  double factor = 1 / std::sqrt(meanSquare + kEpsilon);
  for (int i = 0; i < kSamples; ++i) {
    int64_t column = random() % kWidth;
    double h = a.h.at(token, column);
    count.add(h, a.before.at(token, column) + a.attention.at(token, column));
    count.add(a.n.at(token, column), h * factor * w.norm.at(0, column));
    Dot down(a.act, token, w.down, column, kHidden);
    count.add(a.y.at(token, column), down.value + h, down.error(kHidden));

    column = random() % (2 * kHidden);
    Dot gateUp(a.n, token, w.gateUp, column, kWidth);
    count.add(a.gateUp.at(token, column), gateUp.value, gateUp.error(kWidth));
    column %= kHidden;
    count.add(a.act.at(token, column),
              silu(a.gateUp.at(token, column)) *
                  a.gateUp.at(token, kHidden + column));
  }
}

bool isRight(const char *run, const Weights &w, Activations &a,
             int64_t tokens) {
  for (Matrix *result : {&a.h, &a.n, &a.gateUp, &a.act, &a.y})
    result->fetch();
  std::mt19937 random(2);
  Count count;
  constexpr int kSampledTokens = 32;
  compareToken(w, a, tokens - 1, random, count);
  for (int i = 1; i < kSampledTokens; ++i)
    compareToken(w, a, random() % tokens, random, count);
  std::printf("%-6s %3d tokens: %d of %d sampled elements wrong\n", run,
              static_cast<int>(tokens), static_cast<int>(count.wrong),
              static_cast<int>(count.all));
  return count.wrong == 0;
}

//===----------------------------------------------------------------------===//
// Running it
//===----------------------------------------------------------------------===//

/// Puts the block's input in place and poisons what it computes.
void reset(Activations &a) {
  for (Matrix *result : {&a.n, &a.gateUp, &a.act, &a.y})
    result->poison();
  a.h.copyFrom(a.before);
  // The stream does not wait for the default stream, where this ran.
  check(cuda.streamSynchronize(nullptr), "clearing");
}

bool runBlocks(CudaStream stream) {
  kiln::Result<kiln::Engine> engine = kiln::Engine::create();
  check(engine.status(), "creating the engine");
  std::mt19937 random(1);
  Weights weights(random);
  Activations activations(random);
  prepare(*engine, Block(weights, activations, kMostTokens), stream);

  bool correct = true;
  for (int64_t tokens : {kMostTokens, int64_t(200)}) {
    Block block(weights, activations, tokens);
    reset(activations);
    block.enqueue(*engine, stream);
    check(cuda.streamSynchronize(stream), "running the block");
    correct &= isRight("stream", weights, activations, tokens);

    reset(activations);
    Graph(stream, [&] { block.enqueue(*engine, stream); }).replay();
    correct &= isRight("graph", weights, activations, tokens);
  }
  return correct;
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
  std::printf("Kiln %s on %s: norm and MLP of width %d, hidden %d, bf16\n",
              kiln_version_string(), name, static_cast<int>(kWidth),
              static_cast<int>(kHidden));

  CudaStream stream = nullptr;
  check(cuda.streamCreate(&stream, kStreamNonBlocking), "making a stream");
  bool correct = runBlocks(stream);
  cuda.streamDestroy(stream);
  cuda.primaryCtxRelease(device);
  return correct ? 0 : 1;
}
