//===- Transformer.cpp ----------------------------------------------------===//
#include "Transformer.h"

#include "Error.h"
#include "MemoryNeeds.h"
#include "RopeTable.h"

#include <algorithm>

namespace llama {

namespace {

constexpr uint64_t kElement = 2; // bytes of a bf16

uint64_t elementBytes(int64_t rows, int64_t columns,
                      uint64_t element = kElement) {
  return static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns) * element;
}

void *at(DeviceAddress address) { return reinterpret_cast<void *>(address); }

} // namespace

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Transformer::Transformer(const Gpu &gpu, const ModelConfig &model,
                         const DeviceWeights &weights, const StepInputs &inputs,
                         const TransformerRoom &room)
    : gpu(gpu), model(model), weights(weights), inputs(inputs), room(room) {
  auto make = [&](int64_t rows, int64_t columns, uint64_t element = kElement) {
    DeviceMemory memory(gpu, elementBytes(rows, columns, element),
                        MemoryUse::Activations);
    memory.zero();
    return memory;
  };
  const int64_t tokens = room.step.tokens, sequences = room.step.sequences;
  hidden = make(tokens, model.hiddenSize);
  normed = make(tokens, model.hiddenSize);
  heads = make(tokens, model.qRows() + 2 * model.kvRows());
  attended = make(tokens, model.qRows());
  inner = make(tokens, model.intermediateSize);
  lastRows = make(sequences, model.hiddenSize);
  logitRows = make(sequences, model.vocabSize, sizeof(float));
  chosen = make(sequences, 1, sizeof(int32_t));
  const std::vector<float> angles = ropeTable(model, room.positions);
  table = DeviceMemory(
      gpu, elementBytes(room.positions, model.rotaryDim, sizeof(float)),
      MemoryUse::Activations);
  table.upload(angles.data(), angles.size() * sizeof(float));
}

void Transformer::makeCache(int64_t pages) {
  room.pages = pages;
  cache = DeviceMemory(gpu, cacheBytes(model, room.pageTokens * pages),
                       MemoryUse::Cache);
  // Rows that no token has written are read behind masks: they are finite.
  cache.zero();
}

uint16_t *Transformer::keys(int64_t index) const {
  if (cache.address() == 0) // while problems are described
    return nullptr;
  return cache.at<uint16_t>(
      elementBytes(2 * index * room.pages * room.pageTokens, model.kvRows()));
}
uint16_t *Transformer::values(int64_t index) const {
  uint16_t *first = keys(index);
  return first ? first + room.pages * room.pageTokens * model.kvRows()
               : nullptr;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

kiln::Gather Transformer::embedding(int64_t tokens) const {
  kiln::Gather call(KILN_BF16, tokens, model.hiddenSize, model.vocabSize);
  call.x(at(weights.embedding())).y(at(hidden.address()));
  // The first launch of a step is ordered in full: the sampler of the step
  // before, which wrote positions and lengths, has ended when the second one
  // reads them early.
  call.indices(inputs.device().tokens);
  call.get().x.flags = KILN_OPERAND_CONSTANT;
  return call;
}

kiln::RmsNorm Transformer::norm(int64_t rows, DeviceAddress weight) const {
  kiln::RmsNorm call(KILN_BF16, rows, model.hiddenSize);
  call.x(at(hidden.address())).y(at(normed.address())).weight(at(weight));
  call.epsilon(model.rmsNormEps).dependent();
  call.get().weight.flags = KILN_OPERAND_CONSTANT;
  return call;
}

kiln::Gemm Transformer::product(int64_t m, int64_t n, int64_t k,
                                DeviceAddress a, DeviceAddress b,
                                DeviceAddress d) const {
  kiln::Gemm call(KILN_BF16, m, n, k);
  call.layout(KILN_LAYOUT_NT).a(at(a)).weights(at(b)).d(at(d)).dependent();
  return call;
}

kiln::Gemm Transformer::qkv(int64_t tokens, const LayerWeights &layer) const {
  kiln::Gemm call =
      product(tokens, model.qRows() + 2 * model.kvRows(), model.hiddenSize,
              normed.address(), layer.qkv, heads.address());
  if (model.qkvBias)
    call.bias(at(layer.qkvBias));
  return call;
}

kiln::Gemm Transformer::output(int64_t tokens,
                               const LayerWeights &layer) const {
  kiln::Gemm call = product(tokens, model.hiddenSize, model.qRows(),
                            attended.address(), layer.output, hidden.address());
  call.c(1, at(hidden.address()));
  return call;
}

kiln::Gemm Transformer::gateUp(int64_t tokens,
                               const LayerWeights &layer) const {
  kiln::Gemm call =
      product(tokens, 2 * model.intermediateSize, model.hiddenSize,
              normed.address(), layer.gateUp, inner.address());
  call.swiGlu();
  return call;
}

kiln::Gemm Transformer::down(int64_t tokens, const LayerWeights &layer) const {
  kiln::Gemm call = product(tokens, model.hiddenSize, model.intermediateSize,
                            inner.address(), layer.down, hidden.address());
  call.c(1, at(hidden.address()));
  return call;
}

/// fp32 logits: rounding them to bf16 makes ties of neighbours.
kiln::Gemm Transformer::head(int64_t rows, bool isGathered) const {
  kiln::Gemm call = product(rows, model.vocabSize, model.hiddenSize,
                            isGathered ? lastRows.address() : normed.address(),
                            weights.head(), logitRows.address());
  call.outputType(KILN_FP32);
  return call;
}

kiln::Rope Transformer::rope(int64_t tokens, int64_t index,
                             bool hasSequences) const {
  const int64_t row = model.qRows() + 2 * model.kvRows();
  const LayerWeights &layer = weights.layer(index);
  uint16_t *q = heads.at<uint16_t>();
  const StepArrays &arrays = inputs.device();
  kiln::Rope call(KILN_BF16, tokens, model.heads, model.kvHeads, model.headDim);
  call.rotary(model.rotaryDim).q(q, row).k(q + model.qRows(), row);
  call.v(q + model.qRows() + model.kvRows(), row);
  call.table(at(table.address()), room.positions).positions(arrays.positions);
  if (model.qkNorm)
    call.norm(at(layer.qNorm), at(layer.kNorm), model.rmsNormEps);
  call.caches(KILN_BF16, keys(index), values(index), room.pageTokens,
              std::max<int64_t>(room.pages, 1));
  call.pageTable(arrays.pageTable, room.step.sequences, room.step.columns);
  if (hasSequences)
    call.sequences(arrays.sequences);
  // In a step only its last launch, the sampler, writes them.
  return call.constantArrays().dependent();
}

static kiln::Attention attentionOver(const ModelConfig &model, int64_t batch,
                                     int64_t queries, int64_t keyCount,
                                     const uint16_t *q, uint16_t *o) {
  const int64_t row = model.qRows() + 2 * model.kvRows();
  kiln::Attention call(KILN_BF16, batch, queries, keyCount, model.heads,
                       model.headDim);
  call.kvHeads(model.kvHeads).q(q, row).o(o).dependent();
  return call;
}

kiln::Attention Transformer::decodes(const Pass &pass, int64_t index) const {
  const StepArrays &arrays = inputs.device();
  kiln::Attention call =
      attentionOver(model, pass.decodes, 1, pass.decodeKeys,
                    heads.at<uint16_t>(), attended.at<uint16_t>());
  // Steps before this one wrote all keys but the newest.
  call.k(keys(index)).v(values(index)).keyLengths(arrays.lengths).cachedKeys();
  call.pages(arrays.pageTable, room.pageTokens, room.pages, room.step.columns);
  return call.keysHint(pass.decodeKeysHint);
}

kiln::Attention Transformer::prefills(const Pass &pass, int64_t index) const {
  const StepArrays &arrays = inputs.device();
  const int64_t row = model.qRows() + 2 * model.kvRows();
  kiln::Attention call =
      attentionOver(model, pass.prefills, pass.longestPrefill, pass.prefillKeys,
                    heads.at<uint16_t>() + pass.decodes * row,
                    attended.at<uint16_t>() + pass.decodes * model.qRows());
  call.causal().k(keys(index)).v(values(index));
  call.keyLengths(arrays.lengths + pass.decodes);
  call.queryOffsets(arrays.queryOffsets, pass.prefillTokens);
  call.pages(arrays.pageTable + pass.decodes * room.step.columns,
             room.pageTokens, room.pages, room.step.columns);
  return call;
}

kiln::Gather Transformer::sampledRows(int64_t rows) const {
  kiln::Gather call(KILN_BF16, rows, model.hiddenSize, room.step.tokens);
  call.x(at(normed.address())).y(at(lastRows.address()));
  call.indices(inputs.device().sampleRows).dependent();
  return call;
}

const int32_t *Transformer::sampled(const Pass &pass) const {
  return pass.feedsItself ? inputs.device().tokens : chosen.at<int32_t>();
}

kiln::Sample Transformer::sample(const Pass &pass) const {
  const StepArrays &arrays = inputs.device();
  kiln::Sample call(KILN_FP32, pass.samples, model.vocabSize);
  int32_t *positions =
      pass.feedsItself ? arrays.positions : arrays.samplePositions;
  call.logits(at(logitRows.address()));
  call.temperature(arrays.temperature, arrays.seeds, positions);
  call.topK(arrays.topK).topP(arrays.topP);
  if (pass.feedsItself)
    call.advance(positions, arrays.lengths);
  call.tokens(const_cast<int32_t *>(sampled(pass))).dependent();
  return call;
}

//===----------------------------------------------------------------------===//
// The problems of all passes
//===----------------------------------------------------------------------===//

std::vector<Transformer::NamedProblem> Transformer::problems() const {
  std::vector<NamedProblem> list;
  const LayerWeights &layer = weights.layer(0);
  const int64_t tokens = room.step.tokens, sequences = room.step.sequences;
  auto add = [&](const char *name, kiln::Problem problem) -> kiln::Problem & {
    list.push_back({name, std::move(problem)});
    return list.back().problem;
  };
  add("embedding", embedding(tokens)).range("rows", 1, tokens);
  add("norm", norm(tokens, layer.inputNorm)).range("rows", 1, tokens);
  add("qkv", qkv(tokens, layer)).range("m", 1, tokens);
  add("rope of decodes", rope(sequences, 0, false))
      .range("tokens", 1, sequences);
  add("rope", rope(tokens, 0, true)).range("tokens", 1, tokens);
  Pass pass;
  pass.decodes = sequences;
  pass.decodeKeys = room.positions;
  add("attention of decodes", decodes(pass, 0))
      .range("batch", 1, sequences)
      .range("sk", 1, room.positions);
  pass.decodes = 0;
  pass.prefills = 1;
  pass.longestPrefill = pass.prefillTokens = tokens;
  pass.prefillKeys = room.positions;
  add("attention of prefills", prefills(pass, 0))
      .range("batch", 1, sequences)
      .range("sq", 1, tokens)
      .range("sk", 1, room.positions);
  add("output", output(tokens, layer)).range("m", 1, tokens);
  add("gate and up", gateUp(tokens, layer)).range("m", 1, tokens);
  add("down", down(tokens, layer)).range("m", 1, tokens);
  add("last rows", sampledRows(sequences)).range("rows", 1, sequences);
  add("head", head(sequences, false)).range("m", 1, sequences);
  for (bool feedsItself : {true, false}) {
    pass.samples = sequences;
    pass.feedsItself = feedsItself;
    add(feedsItself ? "sampling" : "sampling of prefills", sample(pass))
        .range("rows", 1, sequences);
  }
  return list;
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

void Transformer::runLayer(const kiln::Engine &engine, const Pass &pass,
                           int64_t index) const {
  const LayerWeights &layer = weights.layer(index);
  const int64_t tokens = pass.tokens();
  auto run = [&](const auto &call) { launch(engine, call); };
  run(norm(tokens, layer.inputNorm));
  run(qkv(tokens, layer));
  run(rope(tokens, index, pass.prefills != 0));
  if (pass.decodes != 0)
    run(decodes(pass, index));
  if (pass.prefills != 0)
    run(prefills(pass, index));
  run(output(tokens, layer));
  run(norm(tokens, layer.postNorm));
  run(gateUp(tokens, layer));
  run(down(tokens, layer));
}

void Transformer::run(const kiln::Engine &engine, const Pass &pass) const {
  auto run = [&](const auto &call) { launch(engine, call); };
  run(embedding(pass.tokens()));
  for (int64_t i = 0; i < model.layers; ++i)
    runLayer(engine, pass, i);
  if (pass.samples == 0 && !pass.isProbe)
    return;
  run(norm(pass.tokens(), weights.lastNorm()));
  if (pass.isProbe) {
    run(head(pass.tokens(), false));
    return;
  }
  const bool isGathered = pass.samples != pass.tokens();
  if (isGathered)
    run(sampledRows(pass.samples));
  run(head(pass.samples, isGathered));
  run(sample(pass));
}

} // namespace llama
