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

bool readsQuantized(const Linear &weight) {
  return activationOf(weight.format.type) != ActivationType::Bf16;
}

bool isStacked(const LayerWeights &layer) {
  return layer.gateUp.format.type == WeightType::E4m3Blocks;
}

Activation PassCalls::normedFor(const Linear &next) const {
  return {memory.normed.address(), activationOf(next.format.type),
          memory.normedScales.address()};
}

Activation PassCalls::attendedFor(const Linear &next) const {
  const DeviceMemory &x =
      readsQuantized(next) ? memory.quantAttended : memory.attended;
  return {x.address(), activationOf(next.format.type),
          memory.attendedScales.address()};
}

Activation PassCalls::innerFor(const Linear &next) const {
  const DeviceMemory &x =
      readsQuantized(next) ? memory.quantInner : memory.inner;
  return {x.address(), activationOf(next.format.type),
          memory.innerScales.address()};
}

/// The result of \p call is \p y.
template <class Call> static void put(Call &call, const Activation &y) {
  call.y(at(y.address)).dependent();
  if (y.type == ActivationType::E4m3Rows)
    call.quantized(KILN_E4M3, at(y.scales));
  else if (y.type == ActivationType::E4m3Blocks)
    call.blockQuantized(KILN_E4M3, at(y.scales));
}

kiln::RmsNorm PassCalls::norm(int64_t rows, DeviceAddress weight,
                              const Linear &next) const {
  kiln::RmsNorm call(KILN_BF16, rows, model.hiddenSize);
  call.x(memory.hidden.at<void>()).weight(at(weight));
  call.epsilon(model.rmsNormEps);
  call.get().weight.flags = KILN_OPERAND_CONSTANT;
  put(call, normedFor(next));
  if (!shard.isWhole()) // a sum over the ranks may be ahead
    call.get().flags &= ~uint32_t(KILN_CALL_DEPENDENT);
  return call;
}

kiln::Quantize PassCalls::quantizedAttended(int64_t tokens,
                                            const LayerWeights &layer) const {
  kiln::Quantize call(KILN_BF16, KILN_E4M3, tokens, model.qRows());
  call.x(memory.attended.at<void>());
  put(call, attendedFor(layer.output));
  return call;
}

kiln::Quantize PassCalls::quantizedInner(int64_t tokens,
                                         const LayerWeights &layer) const {
  kiln::Quantize call(KILN_BF16, KILN_E4M3, tokens, model.intermediateSize);
  call.x(memory.inner.at<void>());
  put(call, innerFor(layer.down));
  return call;
}

kiln::Elementwise PassCalls::gated(int64_t tokens,
                                   const LayerWeights &layer) const {
  const int64_t inner = model.intermediateSize;
  const auto *gate = memory.gateUp.at<uint16_t>();
  kiln::Elementwise call(KILN_BF16, tokens, inner);
  call.x(gate, 2 * inner).silu().mul(gate + inner, 2 * inner);
  put(call, innerFor(layer.down));
  return call;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

kiln::Gemm PassCalls::qkv(int64_t tokens, const LayerWeights &layer) const {
  kiln::Gemm call =
      layer.qkv.product(tokens, normedFor(layer.qkv), memory.heads.address());
  if (layer.qkvBias)
    call.bias(at(layer.qkvBias));
  return call;
}

kiln::Gemm PassCalls::addToHidden(const Linear &weight, int64_t tokens,
                                  const Activation &x,
                                  bool addsResidual) const {
  kiln::Gemm call = weight.product(tokens, x, memory.hidden.address());
  if (addsResidual)
    call.c(1, memory.hidden.at<void>());
  return call;
}

kiln::Gemm PassCalls::output(int64_t tokens, const LayerWeights &layer,
                             bool addsResidual) const {
  return addToHidden(layer.output, tokens, attendedFor(layer.output),
                     addsResidual);
}

kiln::Gemm PassCalls::gateUp(int64_t tokens, const LayerWeights &layer) const {
  const Activation x = normedFor(layer.gateUp);
  if (isStacked(layer))
    return layer.gateUp.product(tokens, x, memory.gateUp.address());
  return layer.gateUp.product(tokens, x, memory.inner.address()).swiGlu();
}

kiln::Gemm PassCalls::down(int64_t tokens, const LayerWeights &layer,
                           bool addsResidual) const {
  return addToHidden(layer.down, tokens, innerFor(layer.down), addsResidual);
}

/// fp32 logits: rounding them to bf16 makes ties of neighbours.
kiln::Gemm PassCalls::head(int64_t rows, bool isGathered) const {
  const DeviceMemory &x = isGathered ? memory.lastRows : memory.normed;
  kiln::Gemm call = weights.head().product(
      rows, {x.address(), ActivationType::Bf16, 0},
      (memory.ownLogits.bytes() ? memory.ownLogits : memory.logits).address());
  call.outputType(KILN_FP32);
  return call;
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

/// The queries in memory begin at row \p firstRow.
kiln::Attention PassCalls::attentionOver(int64_t batch, int64_t queries,
                                         int64_t keyCount,
                                         int64_t firstRow) const {
  kiln::Attention call(KILN_BF16, batch, queries, keyCount, model.heads,
                       model.headDim);
  call.kvHeads(model.kvHeads);
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
  kiln::Attention call = attentionOver(pass.decodes, 1, pass.decodeKeys, 0);
  readCache(index, call);
  // Steps before this one wrote all keys but the newest.
  call.keyLengths(arrays.lengths).cachedKeys();
  call.pages(arrays.pageTable, cache.pageTokens(), cache.pages(),
             room.step.columns);
  return call.keysHint(pass.decodeKeysHint);
}

kiln::Attention PassCalls::prefills(const Pass &pass, int64_t index) const {
  const StepArrays &arrays = inputs.device();
  kiln::Attention call = attentionOver(pass.prefills, pass.longestPrefill,
                                       pass.prefillKeys, pass.decodes);
  readCache(index, call.causal());
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
  if (memory.ownLogits.bytes() == 0) // no logits of other ranks are ahead
    call.dependent();
  return call;
}

} // namespace llama
