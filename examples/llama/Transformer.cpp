//===- Transformer.cpp ----------------------------------------------------===//
#include "Transformer.h"

#include "Error.h"

#include <utility>

namespace llama {

Transformer::Transformer(const Gpu &gpu, const ModelConfig &model,
                         const DeviceWeights &weights, const StepInputs &inputs,
                         const TransformerRoom &room)
    : gpu(gpu), model(model), weights(weights), room(room),
      memory(gpu, model, room), cache(gpu, model, room.pageTokens),
      calls(model, weights, inputs, memory, cache, room) {}

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
  add("embedding", calls.embedding(tokens)).range("rows", 1, tokens);
  add("norm", calls.norm(tokens, layer.inputNorm)).range("rows", 1, tokens);
  add("qkv", calls.qkv(tokens, layer)).range("m", 1, tokens);
  add("rope of decodes", calls.rope(sequences, 0, false))
      .range("tokens", 1, sequences);
  add("rope", calls.rope(tokens, 0, true)).range("tokens", 1, tokens);
  Pass pass;
  pass.decodes = sequences;
  pass.decodeKeys = room.positions;
  add("attention of decodes", calls.decodes(pass, 0))
      .range("batch", 1, sequences)
      .range("sk", 1, room.positions);
  pass.decodes = 0;
  pass.prefills = 1;
  pass.longestPrefill = pass.prefillTokens = tokens;
  pass.prefillKeys = room.positions;
  add("attention of prefills", calls.prefills(pass, 0))
      .range("batch", 1, sequences)
      .range("sq", 1, tokens)
      .range("sk", 1, room.positions);
  add("output", calls.output(tokens, layer)).range("m", 1, tokens);
  add("gate and up", calls.gateUp(tokens, layer)).range("m", 1, tokens);
  add("down", calls.down(tokens, layer)).range("m", 1, tokens);
  add("last rows", calls.sampledRows(sequences)).range("rows", 1, sequences);
  add("head", calls.head(sequences, false)).range("m", 1, sequences);
  for (bool feedsItself : {true, false}) {
    pass.samples = sequences;
    pass.feedsItself = feedsItself;
    add(feedsItself ? "sampling" : "sampling of prefills", calls.sample(pass))
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
  run(calls.norm(tokens, layer.inputNorm));
  run(calls.qkv(tokens, layer));
  run(calls.rope(tokens, index, pass.prefills != 0));
  if (pass.decodes != 0)
    run(calls.decodes(pass, index));
  if (pass.prefills != 0)
    run(calls.prefills(pass, index));
  run(calls.output(tokens, layer));
  run(calls.norm(tokens, layer.postNorm));
  run(calls.gateUp(tokens, layer));
  run(calls.down(tokens, layer));
}

void Transformer::run(const kiln::Engine &engine, const Pass &pass) const {
  auto run = [&](const auto &call) { launch(engine, call); };
  run(calls.embedding(pass.tokens()));
  for (int64_t i = 0; i < model.layers; ++i)
    runLayer(engine, pass, i);
  if (pass.samples == 0 && !pass.isProbe)
    return;
  run(calls.norm(pass.tokens(), weights.lastNorm()));
  if (pass.isProbe) {
    run(calls.head(pass.tokens(), false));
    return;
  }
  const bool isGathered = pass.samples != pass.tokens();
  if (isGathered)
    run(calls.sampledRows(pass.samples));
  run(calls.head(pass.samples, isGathered));
  run(calls.sample(pass));
}

} // namespace llama
