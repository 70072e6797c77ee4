//===- Transformer.cpp ----------------------------------------------------===//
#include "Transformer.h"

#include "Error.h"

#include <set>
#include <tuple>
#include <utility>

namespace llama {

Transformer::Transformer(const Gpu &gpu, const ModelConfig &model,
                         const Shard &shard, const DeviceWeights &weights,
                         const StepInputs &inputs, const TransformerRoom &room,
                         const std::vector<float> &scales,
                         const ExchangeMemory *exchange)
    : gpu(gpu), model(model), shard(shard), weights(weights),
      exchange(exchange), room(room),
      memory(gpu, model, weights.plan(), shard.count, exchange == nullptr,
             room),
      cache(gpu, model, room.cache, scales, room.pageTokens),
      calls(model, shard, weights, inputs, memory, cache, room, exchange),
      experts(model, inputs, memory) {}

//===----------------------------------------------------------------------===//
// The problems of all passes
//===----------------------------------------------------------------------===//

namespace {

/// Collects problems. Layers repeat each other's: a name and what else tells
/// problems apart are added once.
class ProblemList {
public:
  explicit ProblemList(int64_t tokens) : tokens(tokens) {}

  kiln::Problem &add(std::string name, kiln::Problem problem) {
    list.push_back({std::move(name), std::move(problem)});
    return list.back().problem;
  }
  /// A problem whose extent is from \p each to as many for each token.
  template <class Call>
  void addEach(const std::string &name, const WeightFormat &format,
               const char *extent, int64_t each, const Call &call) {
    if (isNew(name, format))
      add(name, call).range(extent, each, each * tokens);
  }
  template <class Call>
  void addRows(const char *name, const WeightFormat &format, const Call &call) {
    addEach(name, format, "rows", 1, call);
  }
  void addProduct(const char *name, const WeightFormat &format,
                  const kiln::Gemm &call) {
    addEach(name, format, "m", 1, call);
  }
  bool isNewWindow(int64_t window) { return windows.insert(window).second; }
  std::vector<Transformer::NamedProblem> take() { return std::move(list); }

private:
  bool isNew(const std::string &name, const WeightFormat &format) {
    return seen
        .insert(std::tuple(name, format.type, format.groupSize, format.hasZeros,
                           format.hasBf16Scales))
        .second;
  }

  int64_t tokens;
  std::vector<Transformer::NamedProblem> list;
  std::set<std::tuple<std::string, WeightType, int32_t, bool, bool>> seen;
  std::set<int64_t> windows;
};

} // namespace

static void addMlp(const PassCalls &calls, const LayerWeights &layer,
                   int64_t tokens, ProblemList &list) {
  const WeightFormat &down = layer.down.format;
  list.addRows("norm", layer.gateUp.format,
               calls.norm(tokens, layer.postNorm, layer.gateUp));
  list.addProduct("gate and up", layer.gateUp.format,
                  calls.gateUp(tokens, layer));
  if (isStacked(layer))
    list.addRows("SwiGLU", down, calls.gated(tokens, layer));
  else if (readsQuantized(layer.down))
    list.addRows("quantised SwiGLU", down, calls.quantizedInner(tokens, layer));
  list.addProduct("down", down, calls.down(tokens, layer));
}

static void addExperts(const PassCalls &calls, const ExpertCalls &experts,
                       const LayerWeights &layer, const Linear &next,
                       int64_t tokens, ProblemList &list) {
  const WeightFormat &router = layer.router.format, &down = layer.down.format,
                     &gateUp = layer.gateUp.format;
  const int64_t each = calls.innerRows(1, layer);
  list.addRows("norm", router,
               calls.norm(tokens, layer.postNorm, layer.router));
  list.addProduct("router", router, experts.router(tokens, layer));
  list.addEach("routing", router, "tokens", 1, experts.route(tokens, layer));
  if (readsQuantized(layer.gateUp))
    list.addRows("quantised norm", gateUp,
                 experts.quantizedNormed(tokens, layer));
  list.addEach("gate and up of experts", gateUp, "m", each,
               experts.gateUp(tokens, layer));
  if (isStacked(layer))
    list.addEach("SwiGLU of experts", down, "rows", each,
                 calls.gated(tokens, layer));
  else if (readsQuantized(layer.down))
    list.addEach("quantised SwiGLU of experts", down, "rows", each,
                 calls.quantizedInner(tokens, layer));
  list.addEach("down of experts", down, "m", each, experts.down(tokens, layer));
  if (readsQuantized(next))
    list.addEach("sum of experts", router, "tokens", 1,
                 experts.combine(tokens, 0));
  else
    list.addEach("sum of experts with norm", router, "tokens", 1,
                 experts.combine(tokens, layer.inputNorm));
}

/// \p next is the product that reads the layer's results.
static void addLayer(const PassCalls &calls, const ExpertCalls &experts,
                     const LayerWeights &layer, const Linear &next,
                     int64_t tokens, ProblemList &list) {
  const WeightFormat &output = layer.output.format;
  list.addRows("norm", layer.qkv.format,
               calls.norm(tokens, layer.inputNorm, layer.qkv));
  list.addProduct("qkv", layer.qkv.format, calls.qkv(tokens, layer));
  if (readsQuantized(layer.output))
    list.addRows("quantised attention", output,
                 calls.quantizedAttended(tokens, layer));
  list.addProduct("output", output, calls.output(tokens, layer));
  if (layer.hasExperts())
    addExperts(calls, experts, layer, next, tokens, list);
  else
    addMlp(calls, layer, tokens, list);
}

static void addAttention(const PassCalls &calls, int64_t layer,
                         const TransformerRoom &room, ProblemList &list) {
  const int64_t tokens = room.step.tokens, sequences = room.step.sequences;
  Pass pass;
  pass.decodes = sequences;
  pass.decodeKeys = room.positions;
  list.add("attention of decodes", calls.decodes(pass, layer))
      .range("batch", 1, sequences)
      .range("sk", 1, room.positions);
  pass.decodes = 0;
  pass.prefills = 1;
  pass.longestPrefill = pass.prefillTokens = tokens;
  pass.prefillKeys = room.positions;
  list.add("attention of prefills", calls.prefills(pass, layer))
      .range("batch", 1, sequences)
      .range("sq", 1, tokens)
      .range("sk", 1, room.positions);
}

std::vector<Transformer::NamedProblem> Transformer::problems() const {
  const int64_t tokens = room.step.tokens, sequences = room.step.sequences;
  ProblemList list(tokens);
  list.add("embedding", calls.embedding(tokens)).range("rows", 1, tokens);
  for (int64_t i = 0; i < model.layers; ++i) {
    addLayer(calls, experts, weights.layer(i), nextProduct(i), tokens, list);
    if (list.isNewWindow(model.windowOf(i)))
      addAttention(calls, i, room, list);
  }
  list.add("rope of decodes", calls.rope(sequences, 0, false))
      .range("tokens", 1, sequences);
  list.add("rope", calls.rope(tokens, 0, true)).range("tokens", 1, tokens);
  list.addRows("norm", weights.head().format,
               calls.norm(tokens, weights.lastNorm(), weights.head()));
  if (exchange)
    list.addRows("sum over the ranks", weights.head().format,
                 calls.summedNorm(tokens, weights.lastNorm()));
  else if (!shard.isWhole())
    list.addRows("norm of the ranks' sum", weights.head().format,
                 calls.addedNorm(tokens, weights.lastNorm()));
  if (exchange && memory.ownLogits.bytes() != 0)
    list.add("logits of the ranks", calls.summedLogits(sequences))
        .range("rows", calls.partsOfLogits(),
               calls.partsOfLogits() * sequences);
  list.add("last rows", calls.sampledRows(sequences))
      .range("rows", 1, sequences);
  list.add("head", calls.head(sequences, false)).range("m", 1, sequences);
  for (bool feedsItself : {true, false}) {
    Pass pass;
    pass.samples = sequences;
    pass.feedsItself = feedsItself;
    list.add(feedsItself ? "sampling" : "sampling of prefills",
             calls.sample(pass))
        .range("rows", 1, sequences);
  }
  return list.take();
}

//===----------------------------------------------------------------------===//
// A pass
//===----------------------------------------------------------------------===//

template <class Call>
void Transformer::launch(const kiln::Engine &engine, const Call &call) const {
  const kiln::Status status = engine.run(call, gpu.stream());
  if (status.code() == KILN_CONTEXT_DEAD)
    throw DeviceLost("launching a kernel failed: " + status.message());
  status.orThrow();
}

DeviceAddress Transformer::nextNorm(int64_t index) const {
  return index + 1 < model.layers ? weights.layer(index + 1).inputNorm
                                  : weights.lastNorm();
}

const Linear &Transformer::nextProduct(int64_t index) const {
  return index + 1 < model.layers ? weights.layer(index + 1).qkv
                                  : weights.head();
}

void Transformer::runMlp(const kiln::Engine &engine, int64_t tokens,
                         int64_t index) const {
  const LayerWeights &layer = weights.layer(index);
  auto run = [&](const auto &call) { launch(engine, call); };
  run(calls.gateUp(tokens, layer));
  if (isStacked(layer))
    run(calls.gated(tokens, layer));
  else if (readsQuantized(layer.down))
    run(calls.quantizedInner(tokens, layer));
  run(calls.down(tokens, layer));
  normHidden(engine, tokens, nextNorm(index), nextProduct(index));
}

void Transformer::runExperts(const kiln::Engine &engine, int64_t tokens,
                             int64_t index) const {
  const LayerWeights &layer = weights.layer(index);
  auto run = [&](const auto &call) { launch(engine, call); };
  run(experts.router(tokens, layer));
  run(experts.route(tokens, layer));
  if (readsQuantized(layer.gateUp))
    run(experts.quantizedNormed(tokens, layer));
  run(experts.gateUp(tokens, layer));
  if (isStacked(layer))
    run(calls.gated(tokens, layer));
  else if (readsQuantized(layer.down))
    run(calls.quantizedInner(tokens, layer));
  run(experts.down(tokens, layer));
  if (!readsQuantized(nextProduct(index))) {
    run(experts.combine(tokens, nextNorm(index)));
    return;
  }
  run(experts.combine(tokens, 0));
  run(calls.norm(tokens, nextNorm(index), nextProduct(index)));
}

void Transformer::runLayer(const kiln::Engine &engine, const Pass &pass,
                           int64_t index) const {
  const LayerWeights &layer = weights.layer(index);
  const int64_t tokens = pass.tokens();
  auto run = [&](const auto &call) { launch(engine, call); };
  run(calls.qkv(tokens, layer));
  run(calls.rope(tokens, index, pass.prefills != 0));
  if (pass.decodes != 0)
    run(calls.decodes(pass, index));
  if (pass.prefills != 0)
    run(calls.prefills(pass, index));
  if (readsQuantized(layer.output))
    run(calls.quantizedAttended(tokens, layer));
  run(calls.output(tokens, layer));
  normHidden(engine, tokens, layer.postNorm,
             layer.hasExperts() ? layer.router : layer.gateUp);
  if (layer.hasExperts())
    runExperts(engine, tokens, index);
  else
    runMlp(engine, tokens, index);
}

void Transformer::normHidden(const kiln::Engine &engine, int64_t tokens,
                             DeviceAddress weight, const Linear &next) const {
  if (exchange)
    return launch(engine, calls.summedNorm(tokens, weight));
  if (!others)
    return launch(engine, calls.norm(tokens, weight, next));
  others->sum(memory.normed.address(), tokens * model.hiddenSize);
  launch(engine, calls.addedNorm(tokens, weight));
}

/// Puts the logits of all ranks side by side.
void Transformer::joinLogits(const kiln::Engine &engine, int64_t rows) const {
  if (memory.ownLogits.bytes() == 0)
    return;
  if (exchange)
    launch(engine, calls.summedLogits(rows));
  else
    gatherLogits(rows);
}

void Transformer::gatherLogits(int64_t rows) const {
  const int64_t columns = model.lmHeadRows();
  const DeviceAddress own = memory.ownLogits.address();
  if (rows == 1) // nothing lies between the parts of a row
    return others->gather(own, memory.logits.address(), columns);
  others->gather(own, memory.gatheredLogits.address(), rows * columns);
  const auto partBytes = static_cast<uint64_t>(columns) * sizeof(float);
  const Rows from{static_cast<uint64_t>(rows), partBytes, partBytes,
                  static_cast<uint64_t>(model.vocabSize) * sizeof(float)};
  for (int64_t rank = 0; rank < shard.count; ++rank) {
    const auto place = static_cast<uint64_t>(rank);
    copyRows(gpu, memory.logits.address() + place * partBytes,
             memory.gatheredLogits.address() + place * from.rows * partBytes,
             from);
  }
}

void Transformer::run(const kiln::Engine &engine, const Pass &pass) const {
  auto run = [&](const auto &call) { launch(engine, call); };
  const LayerWeights &first = weights.layer(0);
  run(calls.embedding(pass.tokens()));
  run(calls.norm(pass.tokens(), first.inputNorm, first.qkv));
  for (int64_t i = 0; i < model.layers; ++i)
    runLayer(engine, pass, i);
  if (pass.samples == 0 && !pass.isProbe)
    return;
  if (pass.isProbe) {
    run(calls.head(pass.tokens(), false));
    joinLogits(engine, pass.tokens());
    return;
  }
  const bool isGathered = pass.samples != pass.tokens();
  if (isGathered)
    run(calls.sampledRows(pass.samples));
  run(calls.head(pass.samples, isGathered));
  joinLogits(engine, pass.samples);
  run(calls.sample(pass));
}

} // namespace llama
