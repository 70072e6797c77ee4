//===- moe.cpp - an MoE layer through Kiln --------------------------------===//
//
//   l    = x Wrouter^T                         [tokens, experts]
//          the best experts of each token: its choices, sorted by expert
//   act  = swiglu(x[token] Wgateup[expert]^T)  [choices, hidden], sorted
//   out  = weight * (act Wdown[expert]^T)      [choices, width], by token again
//   y    = out, summed over a token's choices  [tokens, width]
//
// Each of the two products is one launch for all experts: groups of rows whose
// ends are in device memory, gathered from the tokens and scattered to their
// choices. So one CUDA graph serves every routing: it is replayed after the
// logits were overwritten in place. In bf16; in fp8, with block scales for gate
// and up and per-token scales for down; and with int4 weights. Once with all
// experts, once as a rank of several that has some of them, with padded groups.
// The routing is compared with that of the host, sampled elements with fp64
// there, and all rows with those of dense products, one for each expert, which
// are timed as well. Exit codes: 0 done, 1 failed, 3 no GPU.
//
//===----------------------------------------------------------------------===//
#include "Operands.h"
#include "Routing.h"
#include "Tools.h"

#include <kiln/kiln.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kWidth = 1024, kHidden = 512, kExperts = 16, kTopK = 4;
/// The layer is prepared for any number of tokens up to it.
constexpr int64_t kMostTokens = 512, kMostChoices = kMostTokens * kTopK;
constexpr int64_t kMostAlign = 16;
/// Rows of the products.
constexpr int64_t kMostRows = kMostChoices + kExperts * (kMostAlign - 1);
constexpr int64_t kGateUp = 2 * kHidden; ///< rows of both projections

//===----------------------------------------------------------------------===//
// The router
//===----------------------------------------------------------------------===//

/// The tokens and their router, in bf16 whatever the experts have.
struct Model {
  Values values, gateUp, down; ///< of tokens and experts, before rounding
  Bf16 tokens{kMostTokens, kWidth}, router{kExperts, kWidth};
  Array<float> logits{kMostTokens * kExperts};

  explicit Model(std::mt19937 &random)
      : values(randomValues(random, kMostTokens * kWidth, 1)),
        gateUp(randomValues(random, kExperts * kGateUp * kWidth,
                            1 / std::sqrt(double(kWidth)))),
        down(randomValues(random, kExperts * kWidth * kHidden,
                          1 / std::sqrt(double(kHidden)))) {
    tokens.set(values);
    router.set(
        randomValues(random, kExperts * kWidth, 1 / std::sqrt(double(kWidth))));
  }

  kiln::Gemm logitsOf(int64_t count) const {
    return kiln::Gemm(KILN_BF16, count, kExperts, kWidth)
        .layout(KILN_LAYOUT_NT)
        .a(tokens.data())
        .weights(router.data())
        .outputType(KILN_FP32)
        .d(logits.data());
  }
};

//===----------------------------------------------------------------------===//
// The layer
//===----------------------------------------------------------------------===//

/// Rows of products, with the expert whose weights they meet, or the first of
/// all local ones.
struct Share {
  int64_t expert, first, rows;
};

/// The results of the products.
struct Results {
  Bf16 act{kMostRows, kHidden};
  E4m3 quantized{kMostRows, kHidden, 1, kHidden}; ///< act, in fp8
  Bf16 out{kMostRows, kWidth};

  std::array<Rows *, 3> all() { return {&act, &quantized, &out}; }
};

/// Weights and activations in one precision.
struct Layer {
  const bool isFp8;
  std::unique_ptr<Rows> tokens, copies; ///< copies: tokens of each row
  std::unique_ptr<Operand> gateUp, down;
  Results grouped, dense;
  Bf16 y{kMostTokens, kWidth};

  Layer(Precision precision, const Model &model)
      : isFp8(precision == Precision::Fp8),
        tokens(makeRows(precision, kMostTokens, kWidth)),
        copies(makeRows(precision, kMostRows, kWidth)),
        gateUp(makeWeights(precision, kExperts, kGateUp, kWidth, true)),
        down(makeWeights(precision, kExperts, kWidth, kHidden, false)) {
    tokens->set(model.values);
    gateUp->set(model.gateUp);
    down->set(model.down);
  }

  /// The input of the down projection.
  const Rows &downInput(const Results &of) const {
    return isFp8 ? static_cast<const Rows &>(of.quantized) : of.act;
  }
  /// Rows of the gate and of the up projection alternate in the weight:
  /// swiGlu() joins pairs of columns.
  kiln::Gemm gateUpOf(const Rows &x, const Results &to, Share share) const {
    kiln::Gemm call(x.type(), share.rows, kGateUp, kWidth);
    x.giveA(call, share.first);
    gateUp->giveB(call, share.expert);
    return call.layout(KILN_LAYOUT_NT).swiGlu().d(to.act.data(share.first));
  }
  kiln::Quantize quantizeOf(const Results &of, int64_t rows) const {
    return kiln::Quantize(KILN_BF16, KILN_E4M3, rows, kHidden)
        .x(of.act.data())
        .y(of.quantized.codes.data())
        .scales(of.quantized.scales.data());
  }
  kiln::Gemm downOf(const Results &of, Share share) const {
    const Rows &act = downInput(of);
    kiln::Gemm call(act.type(), share.rows, kWidth, kHidden);
    act.giveA(call, share.first);
    down->giveB(call, share.expert);
    return call.layout(KILN_LAYOUT_NT).d(of.out.data(share.first));
  }
  /// Choices without a row have the weight 0, and are not read.
  kiln::Combine sumOf(const Routing &routing, int64_t count) const {
    return kiln::Combine(KILN_BF16, count, kWidth, kTopK)
        .x(grouped.out.data())
        .weights(routing.weights.data())
        .y(y.data());
  }
};

/// Both products of a layer. They hold sizes and addresses and cost nothing to
/// make.
struct Products {
  std::vector<kiln::Gemm> gateUp, down; ///< one, or one of each expert
  std::vector<kiln::Quantize> quantize; ///< one, or none

  void enqueue(const kiln::Engine &engine, CudaStream stream) const {
    for (const kiln::Gemm &call : gateUp)
      check(engine.run(call, stream), "gate and up projections");
    for (const kiln::Quantize &call : quantize)
      check(engine.run(call, stream), "quantisation");
    for (const kiln::Gemm &call : down)
      check(engine.run(call, stream), "down projection");
  }
};

/// One launch each: kernels read the routing, which may change until they run.
Products groupedOf(const Layer &l, const Routing &routing, int64_t tokens) {
  const Share all{routing.first, 0, routing.rows(tokens)};
  Products products;
  products.gateUp = {l.gateUpOf(*l.tokens, l.grouped, all)
                         .batch(routing.local)
                         .groupsByEnds(routing.ends.data(), routing.align)
                         .gatherRows(routing.index.data(), kTopK)};
  if (l.isFp8)
    products.quantize = {l.quantizeOf(l.grouped, all.rows)};
  products.down = {l.downOf(l.grouped, all)
                       .batch(routing.local)
                       .groupsByEnds(routing.ends.data(), routing.align)
                       .scatterRows(routing.index.data())
                       .rowWeights(routing.weights.data())};
  return products;
}

/// The same without grouped GEMM: a launch for each expert that has rows.
/// The routing has to be known on the host, and tokens are copied to rows here.
Products denseOf(const Layer &l, const Model &model, const Routing &routing,
                 int64_t tokens) {
  Values copied(kMostRows * kWidth);
  Products products;
  for (const Routing::Group &group : routing.groups) {
    for (int64_t row = group.begin; row < group.end; ++row)
      std::copy_n(model.values.begin() + routing.index[row] / kTopK * kWidth,
                  kWidth, copied.begin() + row * kWidth);
    const Share share{group.expert, group.begin, group.end - group.begin};
    if (share.rows == 0)
      continue;
    products.gateUp.push_back(l.gateUpOf(*l.copies, l.dense, share));
    products.down.push_back(l.downOf(l.dense, share));
  }
  l.copies->set(copied);
  if (l.isFp8)
    products.quantize = {l.quantizeOf(l.dense, routing.rows(tokens))};
  return products;
}

/// Makes all calls ready, for any number of tokens, on \p stream: choosing,
/// compiling and tuning happen here, and so does the arena that a capture
/// needs.
void prepare(const kiln::Engine &engine, const Model &model, const Layer &l,
             const Routing &routing, CudaStream stream) {
  const Products most = groupedOf(l, routing, kMostTokens);
  const int64_t least = routing.rows(1), all = routing.rows(kMostTokens);
  // An expert has each token once at most.
  const Share expert{0, 0, kMostTokens};
  std::vector<kiln::Problem> problems = {
      kiln::Problem(model.logitsOf(kMostTokens)).range("m", 1, kMostTokens),
      kiln::Problem(routing.of(model.logits, kMostTokens))
          .range("tokens", 1, kMostTokens),
      kiln::Problem(most.gateUp[0]).range("m", least, all),
      kiln::Problem(most.down[0]).range("m", least, all),
      kiln::Problem(l.sumOf(routing, kMostTokens))
          .range("tokens", 1, kMostTokens),
      kiln::Problem(l.gateUpOf(*l.copies, l.dense, expert))
          .range("m", 1, kMostTokens),
      kiln::Problem(l.downOf(l.dense, expert)).range("m", 1, kMostTokens)};
  for (const kiln::Quantize &call : most.quantize)
    problems.push_back(kiln::Problem(call).range("rows", least, all));
  kiln::PrepareOptions options;
  options.streams = &stream;
  options.stream_count = 1;
  options.budget_ms = 30000; // for all of them together
  check(engine.prepare(problems, options), "preparing");
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

bool report(const char *run, int64_t tokens, const Count &count) {
  std::printf("  %-7s %3d tokens: %d of %d wrong\n", run,
              static_cast<int>(tokens), static_cast<int>(count.wrong),
              static_cast<int>(count.all));
  return count.wrong == 0;
}

/// Compares a row's activation and what follows of it with fp64, in columns
/// drawn, each step with the inputs that it really had.
void compareRow(const Layer &l, const Routing &routing, int64_t row,
                std::mt19937 &random, Count &count) {
  const Results &of = l.grouped;
  const int64_t choice = routing.index[row], token = choice / kTopK,
                expert = routing.chosen[choice];
  // Sums of fp8 may stay in the tensor core, which keeps some 13 bits.
  auto errorOf = [&](const Dot &dot, int64_t length) {
    return l.isFp8 ? std::ldexp(dot.magnitude, -8) : dot.error(length);
  };
  int64_t column = random() % kHidden;
  const int64_t pair = expert * kGateUp + 2 * column;
  Dot gate(*l.tokens, token, *l.gateUp, pair, kWidth);
  Dot up(*l.tokens, token, *l.gateUp, pair + 1, kWidth);
  constexpr double kSlope = 1.1; // of silu, at most
  const double act = of.act.at(row, column);
  count.add(act, silu(gate.value) * up.value,
            kSlope * std::fabs(up.value) * errorOf(gate, kWidth) +
                std::fabs(silu(gate.value)) * errorOf(up, kWidth));
  if (l.isFp8) // half of the last place: of three bits, of denormals
    count.add(of.quantized.at(row, column), act,
              std::ldexp(std::fabs(act), -4) +
                  std::ldexp(of.quantized.scaleAt(row, column), -10));

  column = random() % kWidth;
  const double weight = routing.weights[choice];
  Dot down(l.downInput(of), row, *l.down, expert * kWidth + column, kHidden);
  count.add(of.out.at(choice, column), weight * down.value,
            weight * errorOf(down, kHidden));
  double sum = 0, magnitude = 0;
  for (int64_t j = 0; j < kTopK; ++j) {
    if (!routing.isLocal(token * kTopK + j))
      continue;
    const double part = of.out.at(token * kTopK + j, column);
    sum += part;
    magnitude += std::fabs(part);
  }
  count.add(l.y.at(token, column), sum, std::ldexp(magnitude, -22));
}

bool isRight(const char *run, Model &model, Layer &l, Routing &routing,
             int64_t tokens) {
  model.logits.fetch();
  routing.fetch();
  for (Rows *one : l.grouped.all())
    one->fetch();
  l.y.fetch();
  std::mt19937 random(2);
  Count count;
  routing.compare(model.logits, tokens, count);
  constexpr int64_t kSampledRows = 64; // of an expert
  for (const Routing::Group &group : routing.groups)
    for (int64_t i = std::min(kSampledRows, group.end - group.begin); i > 0;
         --i)
      compareRow(l, routing,
                 group.begin +
                     static_cast<int64_t>(random()) % (group.end - group.begin),
                 random, count);
  // The sums of tokens without a local expert are 0.
  for (int64_t token = 0; token < tokens; ++token) {
    bool hasRow = false;
    for (int64_t j = 0; j < kTopK; ++j)
      hasRow |= routing.isLocal(token * kTopK + j);
    if (!hasRow)
      count.add(l.y.at(token, 0), 0);
  }
  return report(run, tokens, count);
}

/// Compares rows of the dense products, weighted here, with the grouped ones,
/// which have been fetched. Activations may differ in their last bits, and more
/// where these decide how they are rounded to e4m3.
bool doAgree(Layer &l, const Routing &routing, int64_t tokens) {
  l.dense.out.fetch();
  Count rows;
  auto compare = [&](int64_t row) {
    const int64_t choice = routing.index[row];
    double difference = 0, squares = 0;
    for (int64_t column = 0; column < kWidth; ++column) {
      double expected = routing.weights[choice] * l.dense.out.at(row, column);
      double error = l.grouped.out.at(choice, column) - expected;
      difference += error * error;
      squares += expected * expected;
    }
    rows.add(std::sqrt(difference), 0,
             std::ldexp(std::sqrt(squares), l.isFp8 ? -4 : -6));
  };
  for (const Routing::Group &group : routing.groups)
    for (int64_t row = group.begin; row < group.end; ++row)
      compare(row);
  return report("dense", tokens, rows);
}

//===----------------------------------------------------------------------===//
// Running it
//===----------------------------------------------------------------------===//

/// Runs the router's product and compares it with fp64.
bool runRouter(const kiln::Engine &engine, CudaStream stream, Model &model,
               int64_t tokens) {
  check(engine.run(model.logitsOf(tokens), stream), "router");
  check(cuda.streamSynchronize(stream), "running the router");
  model.logits.fetch();
  Count count;
  for (int64_t i = 0; i < tokens * kExperts; ++i) {
    Dot logit(model.tokens, i / kExperts, model.router, i % kExperts, kWidth);
    count.add(model.logits[i], logit.value, logit.error(kWidth));
  }
  return report("router", tokens, count);
}

/// Logits of a router that prefers the first experts and never chooses the last
/// ones.
Values favourites() {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(0, 0.7f);
  Values logits;
  for (int64_t i = 0; i < kMostTokens * kExperts; ++i)
    logits.push_back(uniform(random) -
                     std::log(static_cast<float>(1 + i % kExperts)));
  return logits;
}

bool runTokens(const kiln::Engine &engine, CudaStream stream, Model &model,
               Layer &l, Routing &routing, int64_t tokens) {
  bool correct = runRouter(engine, stream, model, tokens);
  const Values own = model.logits.host;
  // Puts logits in place and poisons what the layer computes.
  auto reset = [&](const Values &logits) {
    model.logits.host = logits;
    model.logits.upload();
    routing.poison();
    for (Results *results : {&l.grouped, &l.dense})
      for (Rows *one : results->all())
        one->poison();
    l.y.poison();
    // The stream does not wait for the default stream, where this ran.
    check(cuda.streamSynchronize(nullptr), "resetting");
  };
  const Products grouped = groupedOf(l, routing, tokens);
  auto enqueue = [&] {
    check(engine.run(routing.of(model.logits, tokens), stream), "routing");
    grouped.enqueue(engine, stream);
    check(engine.run(l.sumOf(routing, tokens), stream), "sum");
  };
  reset(own);
  enqueue();
  check(cuda.streamSynchronize(stream), "running the layer");
  correct &= isRight("stream", model, l, routing, tokens);

  const Graph graph(stream, enqueue);
  for (const Values &other : {favourites(), own}) {
    reset(other);
    graph.replay();
    correct &= isRight("graph", model, l, routing, tokens);
  }

  const Products dense = denseOf(l, model, routing, tokens);
  check(cuda.streamSynchronize(nullptr), "copying tokens");
  dense.enqueue(engine, stream);
  check(cuda.streamSynchronize(stream), "running dense products");
  correct &= doAgree(l, routing, tokens);
  const double groupedUs =
      timeOf(stream, [&] { grouped.enqueue(engine, stream); });
  const double denseUs = timeOf(stream, [&] { dense.enqueue(engine, stream); });
  std::printf("  products take %.1f us grouped, %.1f us one expert by one\n",
              groupedUs, denseUs);
  return correct;
}

bool runLayers(CudaStream stream) {
  kiln::Result<kiln::Engine> engine = kiln::Engine::create();
  check(engine.status(), "creating the engine");
  std::mt19937 random(1);
  Model model(random);
  Routing whole(kExperts, kTopK, 0, kExperts, 1, kMostTokens);
  constexpr int64_t kFirst = 5, kLocal = 6;
  Routing rank(kExperts, kTopK, kFirst, kLocal, kMostAlign, kMostTokens);
  bool correct = true;
  for (auto [name, precision] :
       {std::pair("bf16", Precision::Bf16), std::pair("fp8", Precision::Fp8),
        std::pair("int4", Precision::Int4)}) {
    std::printf("%s\n", name);
    Layer layer(precision, model);
    for (Routing *routing : {&whole, &rank}) {
      std::printf(" experts %d to %d\n", static_cast<int>(routing->first),
                  static_cast<int>(routing->first + routing->local - 1));
      prepare(*engine, model, layer, *routing, stream);
      for (int64_t tokens : {int64_t(1), int64_t(37), kMostTokens})
        correct &= runTokens(*engine, stream, model, layer, *routing, tokens);
    }
  }
  return correct;
}

} // namespace

int main() {
  int device = 0;
  if (const char *reason = cudaDriverOpen(&cuda, &device)) {
    std::fprintf(stderr, "moe: %s\n", reason);
    return kExitNoGpu;
  }
  char name[128] = "";
  check(cuda.deviceGetName(name, sizeof(name), device), "naming the GPU");
  std::printf("Kiln %s on %s: %d experts of width %d, hidden %d, top %d\n",
              kiln_version_string(), name, static_cast<int>(kExperts),
              static_cast<int>(kWidth), static_cast<int>(kHidden),
              static_cast<int>(kTopK));
  CudaStream stream = nullptr;
  check(cuda.streamCreate(&stream, kStreamNonBlocking), "making a stream");
  bool correct = runLayers(stream);
  cuda.streamDestroy(stream);
  cuda.primaryCtxRelease(device);
  return correct ? 0 : 1;
}
