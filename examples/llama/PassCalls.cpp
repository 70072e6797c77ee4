//===- PassCalls.cpp ------------------------------------------------------===//
#include "PassCalls.h"

#include <algorithm>

namespace llama {

static void *at(DeviceAddress address) {
  return reinterpret_cast<void *>(address);
}

kiln::Gather PassCalls::embedding(int64_t tokens) const {
  kiln::Gather call(KILN_BF16, tokens, model.hiddenSize, model.vocabSize);
  call.x(at(weights.embedding())).y(memory.hidden.at<void>());
  // The first launch of a step is ordered in full: the sampler of the step
  // before, which wrote positions and lengths, has ended when the second one
  // reads them early.
  call.indices(inputs.device().tokens);
  call.get().x.flags = KILN_OPERAND_CONSTANT;
  return call;
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

bool isStacked(const LayerWeights &layer) {
  return layer.gateUp.format.type == WeightType::E4m3Blocks;
}

int64_t PassCalls::innerRows(int64_t tokens, const LayerWeights &layer) const {
  return layer.hasExperts() ? tokens * model.experts.perToken : tokens;
}

kiln::RmsNorm PassCalls::norm(int64_t rows, DeviceAddress weight,
                              const Linear &next) const {
  kiln::RmsNorm call(KILN_BF16, rows, model.hiddenSize);
  call.x(memory.hidden.at<void>()).weight(at(weight));
  call.epsilon(model.rmsNormEps);
  call.get().weight.flags = KILN_OPERAND_CONSTANT;
  writeTo(memory.normedFor(next), call);
  return call;
}

kiln::AllReduce PassCalls::summedNorm(int64_t rows,
                                      DeviceAddress weight) const {
  kiln::AllReduce call(KILN_BF16, rows, model.hiddenSize,
                       static_cast<int>(shard.count));
  void *hidden = memory.hidden.at<void>();
  call.x(memory.normed.at<void>()).y(memory.normed.at<void>());
  call.norm(at(weight), model.rmsNormEps).residual(hidden, hidden);
  call.exchange(exchange->rank(), exchange->addresses(), exchange->bytes());
  return call.dependent();
}

kiln::RmsNorm PassCalls::addedNorm(int64_t rows, DeviceAddress weight) const {
  kiln::RmsNorm call(KILN_BF16, rows, model.hiddenSize);
  void *hidden = memory.hidden.at<void>();
  call.x(memory.normed.at<void>()).y(memory.normed.at<void>());
  call.residual(hidden, hidden).weight(at(weight)).epsilon(model.rmsNormEps);
  call.get().weight.flags = KILN_OPERAND_CONSTANT;
  return call; // ordered in full behind NCCL
}

kiln::Quantize PassCalls::quantizedAttended(int64_t tokens,
                                            const LayerWeights &layer) const {
  kiln::Quantize call(KILN_BF16, KILN_E4M3, tokens, model.qRows());
  call.x(memory.attended.at<void>());
  writeTo(memory.attendedFor(layer.output), call);
  return call;
}

kiln::Quantize PassCalls::quantizedInner(int64_t tokens,
                                         const LayerWeights &layer) const {
  kiln::Quantize call(KILN_BF16, KILN_E4M3, innerRows(tokens, layer),
                      layer.down.inputs());
  call.x(memory.inner.at<void>());
  writeTo(memory.innerFor(layer.down), call);
  return call;
}

kiln::Elementwise PassCalls::gated(int64_t tokens,
                                   const LayerWeights &layer) const {
  const int64_t inner = layer.down.inputs();
  const auto *gate = memory.gateUp.at<uint16_t>();
  kiln::Elementwise call(KILN_BF16, innerRows(tokens, layer), inner);
  call.x(gate, 2 * inner).silu().mul(gate + inner, 2 * inner);
  writeTo(memory.innerFor(layer.down), call);
  return call;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

kiln::Gemm PassCalls::qkv(int64_t tokens, const LayerWeights &layer) const {
  kiln::Gemm call = layer.qkv.product(tokens, memory.normedFor(layer.qkv),
                                      memory.heads.address());
  if (layer.qkvBias)
    call.bias(at(layer.qkvBias));
  return call;
}

kiln::Gemm PassCalls::addToHidden(const Linear &weight, int64_t tokens,
                                  const Activation &x) const {
  if (!shard.isWhole())
    return weight.product(tokens, x, memory.normed.address());
  kiln::Gemm call = weight.product(tokens, x, memory.hidden.address());
  call.c(1, memory.hidden.at<void>());
  return call;
}

kiln::Gemm PassCalls::output(int64_t tokens, const LayerWeights &layer) const {
  kiln::Gemm call =
      addToHidden(layer.output, tokens, memory.attendedFor(layer.output));
  if (layer.outputBias)
    call.bias(at(layer.outputBias));
  return call;
}

kiln::Gemm PassCalls::gateUp(int64_t tokens, const LayerWeights &layer) const {
  const Activation x = memory.normedFor(layer.gateUp);
  if (isStacked(layer))
    return layer.gateUp.product(tokens, x, memory.gateUp.address());
  return layer.gateUp.product(tokens, x, memory.inner.address()).swiGlu();
}

kiln::Gemm PassCalls::down(int64_t tokens, const LayerWeights &layer) const {
  return addToHidden(layer.down, tokens, memory.innerFor(layer.down));
}

/// fp32 logits: rounding them to bf16 makes ties of neighbours.
kiln::Gemm PassCalls::head(int64_t rows, bool isGathered) const {
  const DeviceMemory &x = isGathered ? memory.lastRows : memory.normed;
  const bool isPart = memory.ownLogits.bytes() != 0;
  kiln::Gemm call = weights.head().product(
      rows, {x.address(), ActivationType::Bf16, 0},
      (isPart ? memory.ownLogits : memory.logits).address());
  if (isPart && exchange)
    call.d(memory.ownLogits.at<float>() + shard.rank * model.lmHeadRows(),
           model.vocabSize);
  call.outputType(KILN_FP32);
  return call;
}

/// A block of the kernel sums a row of the call: the longest that it takes in
/// one pass, of whole vectors.
int64_t PassCalls::partsOfLogits() const {
  constexpr int64_t kVector = 4, kMost = 2048; // floats
  int64_t parts = (model.vocabSize + kMost - 1) / kMost;
  while (model.vocabSize % (parts * kVector) != 0)
    ++parts;
  return parts;
}

kiln::AllReduce PassCalls::summedLogits(int64_t rows) const {
  const int64_t parts = partsOfLogits();
  kiln::AllReduce call(KILN_FP32, rows * parts, model.vocabSize / parts,
                       static_cast<int>(shard.count));
  call.x(memory.ownLogits.at<void>()).y(memory.logits.at<void>());
  call.exchange(exchange->rank(), exchange->addresses(), exchange->bytes());
  return call.dependent();
}

//===----------------------------------------------------------------------===//
// Rotation and attention
//===----------------------------------------------------------------------===//

kiln::Rope PassCalls::rope(int64_t tokens, int64_t index,
                           bool hasSequences) const {
  const LayerWeights &layer = weights.layer(index);
  uint16_t *q = memory.heads.at<uint16_t>();
  const StepArrays &arrays = inputs.device();
  kiln::Rope call(KILN_BF16, tokens, model.heads, model.kvHeads, model.headDim);
  call.rotary(model.rotaryDim).q(q, headsRow());
  call.k(q + model.qRows(), headsRow());
  call.v(q + model.qRows() + model.kvRows(), headsRow());
  call.table(memory.table.at<void>(), room.positions);
  call.positions(arrays.positions);
  if (model.qkNorm)
    call.norm(at(layer.qNorm), at(layer.kNorm), model.rmsNormEps);
  const bool isE4m3 = cache.type() == CacheType::E4m3;
  call.caches(isE4m3 ? KILN_E4M3 : KILN_BF16, cache.keys(index),
              cache.values(index), cache.pageTokens(),
              std::max<int64_t>(cache.pages(), 1));
  if (isE4m3)
    call.scales(cache.keyScale(index), cache.valueScale(index));
  call.pageTable(arrays.pageTable, room.step.sequences, room.step.columns);
  if (hasSequences)
    call.sequences(arrays.sequences);
  // In a step only its last launch, the sampler, writes them.
  return call.constantArrays().dependent();
}

/// The queries in memory begin at row \p firstRow. With a window a query sees
/// itself and keys before it.
kiln::Attention PassCalls::attentionOver(int64_t layer, int64_t batch,
                                         int64_t queries, int64_t keyCount,
                                         int64_t firstRow) const {
  kiln::Attention call(KILN_BF16, batch, queries, keyCount, model.heads,
                       model.headDim);
  call.kvHeads(model.kvHeads);
  if (const int64_t window = model.windowOf(layer))
    call.window(window - 1, 0);
  if (const DeviceAddress sinks = weights.layer(layer).sinks)
    call.sinks(reinterpret_cast<const float *>(sinks));
  call.q(memory.heads.at<uint16_t>() + firstRow * headsRow(), headsRow());
  call.o(memory.attended.at<uint16_t>() + firstRow * model.qRows());
  return call.dependent();
}

void PassCalls::readCache(int64_t index, kiln::Attention &call) const {
  call.k(cache.keys(index)).v(cache.values(index));
  if (cache.type() == CacheType::E4m3)
    call.keyValueType(KILN_E4M3).scales(cache.keyScale(index),
                                        cache.valueScale(index));
}

kiln::Attention PassCalls::decodes(const Pass &pass, int64_t index) const {
  const StepArrays &arrays = inputs.device();
  kiln::Attention call =
      attentionOver(index, pass.decodes, 1, pass.decodeKeys, 0);
  readCache(index, call);
  // Steps before this one wrote all keys but the newest.
  call.keyLengths(arrays.lengths).cachedKeys();
  call.pages(arrays.pageTable, cache.pageTokens(), cache.pages(),
             room.step.columns);
  return call.keysHint(pass.decodeKeysHint);
}

kiln::Attention PassCalls::prefills(const Pass &pass, int64_t index) const {
  const StepArrays &arrays = inputs.device();
  kiln::Attention call =
      attentionOver(index, pass.prefills, pass.longestPrefill, pass.prefillKeys,
                    pass.decodes);
  if (model.windowOf(index) == 0)
    call.causal();
  readCache(index, call);
  call.keyLengths(arrays.lengths + pass.decodes);
  call.queryOffsets(arrays.queryOffsets, pass.prefillTokens);
  call.pages(arrays.pageTable + pass.decodes * room.step.columns,
             cache.pageTokens(), cache.pages(), room.step.columns);
  return call;
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

kiln::Gather PassCalls::sampledRows(int64_t rows) const {
  kiln::Gather call(KILN_BF16, rows, model.hiddenSize, room.step.tokens);
  call.x(memory.normed.at<void>()).y(memory.lastRows.at<void>());
  call.indices(inputs.device().sampleRows).dependent();
  return call;
}

int32_t *PassCalls::sampled(const Pass &pass) const {
  return pass.feedsItself ? inputs.device().tokens
                          : memory.chosen.at<int32_t>();
}

kiln::Sample PassCalls::sample(const Pass &pass) const {
  const StepArrays &arrays = inputs.device();
  kiln::Sample call(KILN_FP32, pass.samples, model.vocabSize);
  int32_t *positions =
      pass.feedsItself ? arrays.positions : arrays.samplePositions;
  call.logits(memory.logits.at<void>());
  call.temperature(arrays.temperature, arrays.seeds, positions);
  call.topK(arrays.topK).topP(arrays.topP);
  if (pass.feedsItself)
    call.advance(positions, arrays.lengths);
  call.tokens(sampled(pass));
  if (memory.gatheredLogits.bytes() == 0) // no NCCL is ahead
    call.dependent();
  return call;
}

} // namespace llama
