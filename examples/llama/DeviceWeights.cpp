//===- DeviceWeights.cpp --------------------------------------------------===//
#include "DeviceWeights.h"

#include "Checkpoint.h"
#include "RandomWeights.h"
#include "RandomWeightsPtx.h"
#include "WeightNames.h"

#include <cstring>
#include <map>

namespace llama {

namespace {

constexpr uint64_t kElement = 2; // bytes of a bf16
constexpr uint64_t kAlignment = 256;

/// The place of a tensor: rows of a matrix, every `step`-th row of it.
struct Place {
  DeviceAddress address = 0;
  int64_t step = 1;
};

uint64_t alignUp(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Gives out memory from one allocation; a null base counts only.
class Carver {
public:
  explicit Carver(DeviceAddress base) : base(base) {}
  DeviceAddress take(int64_t elements) {
    const DeviceAddress at = base + used;
    used += alignUp(static_cast<uint64_t>(elements) * kElement);
    return at;
  }
  uint64_t bytes() const { return used; }

private:
  DeviceAddress base;
  uint64_t used = 0;
};

/// All of a model's weights in memory, and the places of its tensors by name.
struct Plan {
  DeviceAddress embed = 0, norm = 0, lmHead = 0;
  std::vector<LayerWeights> layers;
  std::map<std::string, Place> places;
  uint64_t bytes = 0;
};

DeviceAddress offset(DeviceAddress address, int64_t elements) {
  return address + static_cast<uint64_t>(elements) * kElement;
}

void planLayer(const ModelConfig &model, int64_t index, Carver &carver,
               Plan &plan) {
  const int64_t hidden = model.hiddenSize, inner = model.intermediateSize;
  const int64_t q = model.qRows(), kv = model.kvRows();
  LayerWeights layer;
  auto put = [&](const char *part, DeviceAddress at, int64_t step = 1) {
    plan.places[layerWeight(index, part)] = {at, step};
  };
  layer.inputNorm = carver.take(hidden);
  put("input_layernorm", layer.inputNorm);
  layer.qkv = carver.take((q + 2 * kv) * hidden);
  put("self_attn.q_proj", layer.qkv);
  put("self_attn.k_proj", offset(layer.qkv, q * hidden));
  put("self_attn.v_proj", offset(layer.qkv, (q + kv) * hidden));
  if (model.qkvBias) {
    layer.qkvBias = carver.take(q + 2 * kv);
    auto putBias = [&](const char *part, int64_t at) {
      std::string name = layerWeight(index, part);
      name.replace(name.rfind("weight"), std::strlen("weight"), "bias");
      plan.places[name] = {offset(layer.qkvBias, at), 1};
    };
    putBias("self_attn.q_proj", 0);
    putBias("self_attn.k_proj", q);
    putBias("self_attn.v_proj", q + kv);
  }
  if (model.qkNorm) {
    layer.qNorm = carver.take(model.headDim);
    layer.kNorm = carver.take(model.headDim);
    put("self_attn.q_norm", layer.qNorm);
    put("self_attn.k_norm", layer.kNorm);
  }
  layer.output = carver.take(hidden * q);
  put("self_attn.o_proj", layer.output);
  layer.postNorm = carver.take(hidden);
  put("post_attention_layernorm", layer.postNorm);
  layer.gateUp = carver.take(2 * inner * hidden);
  put("mlp.gate_proj", layer.gateUp, 2);
  put("mlp.up_proj", offset(layer.gateUp, hidden), 2);
  layer.down = carver.take(hidden * inner);
  put("mlp.down_proj", layer.down);
  plan.layers.push_back(layer);
}

Plan planWeights(const ModelConfig &model, DeviceAddress base) {
  Carver carver(base);
  Plan plan;
  const int64_t vocabulary = model.vocabSize * model.hiddenSize;
  plan.embed = carver.take(vocabulary);
  plan.places["model.embed_tokens.weight"] = {plan.embed, 1};
  for (int64_t i = 0; i < model.layers; ++i)
    planLayer(model, i, carver, plan);
  plan.norm = carver.take(model.hiddenSize);
  plan.places["model.norm.weight"] = {plan.norm, 1};
  plan.lmHead = plan.embed;
  if (!model.tieEmbeddings) {
    plan.lmHead = carver.take(vocabulary);
    plan.places["lm_head.weight"] = {plan.lmHead, 1};
  }
  plan.bytes = carver.bytes();
  return plan;
}

/// Makes or copies tensors.
class Filler {
public:
  Filler(const Gpu &gpu, const WeightSource &source)
      : gpu(gpu), source(source) {
    if (!source.checkpoint)
      kernel = std::make_unique<PtxKernel>(gpu, kRandomWeightsPtx,
                                           kRandomWeightsEntry);
  }

  void fill(const WeightSpec &spec, const Place &place) {
    if (source.checkpoint)
      copy(spec, place);
    else
      draw(spec, place);
  }

private:
  static uint64_t rowBytesOf(const WeightSpec &spec) {
    return static_cast<uint64_t>(spec.shape.back()) * kElement;
  }
  static Rows rowsOf(const WeightSpec &spec, const Place &place) {
    const uint64_t row = rowBytesOf(spec);
    return {static_cast<uint64_t>(spec.elements()) * kElement / row, row, row,
            row * static_cast<uint64_t>(place.step)};
  }

  void copy(const WeightSpec &spec, const Place &place) {
    const Tensor &tensor = source.checkpoint->tensor(spec.name);
    const std::vector<uint16_t> rounded = roundedOf(tensor);
    const void *data = tensor.data;
    if (!rounded.empty())
      data = rounded.data();
    uploadRows(gpu, place.address, data, rowsOf(spec, place));
  }

  /// The elements as bf16, where they have another of checkWeights()' types.
  static std::vector<uint16_t> roundedOf(const Tensor &tensor) {
    if (tensor.dtype == DType::F32)
      return roundedElements<float>(tensor, [](float value) { return value; });
    if (tensor.dtype == DType::F16)
      return roundedElements<uint16_t>(tensor, fp16ToFloat);
    return {};
  }

  template <class Element, class ToFloat>
  static std::vector<uint16_t> roundedElements(const Tensor &tensor,
                                               const ToFloat &toFloat) {
    std::vector<uint16_t> rounded(tensor.bytes / sizeof(Element));
    for (size_t i = 0; i < rounded.size(); ++i) {
      Element element;
      std::memcpy(&element, tensor.data + i * sizeof(Element), sizeof(Element));
      rounded[i] = roundToBf16(toFloat(element));
    }
    return rounded;
  }

  void draw(const WeightSpec &spec, const Place &place) {
    const auto count = static_cast<uint64_t>(spec.elements());
    DeviceAddress target = place.address;
    if (place.step != 1) {
      if (scratch.bytes() < count * kElement)
        scratch = DeviceMemory(gpu, count * kElement, MemoryUse::Scratch);
      target = scratch.address();
    }
    uint64_t key = randomKey(source.seed, spec.name), elements = count;
    RandomScale scale = randomScale(spec.kind);
    void *parameters[] = {&target, &key, &elements, &scale.scale,
                          &scale.offset};
    constexpr unsigned kBlocks = 2048, kThreads = 256;
    kernel->launch(kBlocks, kThreads, parameters);
    if (place.step != 1)
      copyRows(gpu, place.address, target, rowsOf(spec, place));
  }

  const Gpu &gpu;
  const WeightSource &source;
  std::unique_ptr<PtxKernel> kernel;
  DeviceMemory scratch;
};

} // namespace

uint64_t DeviceWeights::bytesOf(const ModelConfig &model) {
  return planWeights(model, 0).bytes;
}

static void requireSource(const ModelConfig &model,
                          const WeightSource &source) {
  if (source.checkpoint)
    requireWeights(model, *source.checkpoint);
}

DeviceWeights::DeviceWeights(const Gpu &gpu, const ModelConfig &model,
                             const WeightSource &source,
                             const Progress &progress)
    : memory((requireSource(model, source), gpu), bytesOf(model),
             MemoryUse::Weights) {
  const Plan plan = planWeights(model, memory.address());
  embed = plan.embed;
  norm = plan.norm;
  lmHead = plan.lmHead;
  layers = plan.layers;
  const std::vector<WeightSpec> specs = weightSpecs(model);
  Filler filler(gpu, source);
  int64_t done = 0;
  for (const WeightSpec &spec : specs) {
    filler.fill(spec, plan.places.at(spec.name));
    if (progress)
      progress(++done, static_cast<int64_t>(specs.size()));
  }
  gpu.synchronize();
}

} // namespace llama
