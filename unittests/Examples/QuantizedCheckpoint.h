//===- QuantizedCheckpoint.h - quantised checkpoints for tests ------------===//
//
// A small model whose weights are codes of a hash, written in the layouts of
// AWQ, GPTQ, compressed-tensors and fp8 checkpoints. The numbers that codes
// stand for are computed here once more, from their documentation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/TemporaryFolder.h"
#include "llama/Checkpoint.h"
#include "llama/LowPrecision.h"
#include "llama/ModelConfig.h"
#include "llama/SafetensorsWriter.h"
#include "llama/WeightNames.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace llama::testing {

/// Tensors that are not written yet.
struct TensorSet {
  struct Data {
    DType type;
    std::vector<int64_t> shape;
    std::vector<uint8_t> bytes;
  };
  std::map<std::string, Data> tensors;

  /// \p element gives the elements in order.
  template <class Element>
  void add(const std::string &name, DType type, std::vector<int64_t> shape,
           const std::function<Element(int64_t)> &element) {
    int64_t count = 1;
    for (const int64_t size : shape)
      count *= size;
    Data data{type, std::move(shape), {}};
    data.bytes.resize(static_cast<size_t>(count) * sizeof(Element));
    for (int64_t i = 0; i < count; ++i) {
      const Element value = element(i);
      std::memcpy(data.bytes.data() + i * int64_t(sizeof(Element)), &value,
                  sizeof(Element));
    }
    tensors[name] = std::move(data);
  }

  void write(const std::string &folder, const nlohmann::json &config) const {
    std::ofstream(folder + "/config.json") << config.dump();
    std::vector<TensorDeclaration> declared;
    for (const auto &[name, data] : tensors)
      declared.push_back({name, data.type, data.shape});
    SafetensorsWriter writer(folder + "/model.safetensors", declared);
    for (const auto &[name, data] : tensors)
      writer.write(data.bytes.data(), data.bytes.size());
    writer.finish();
  }
};

/// The numbers of a weight, each a function of its module, row and column.
class HashedWeight {
public:
  explicit HashedWeight(const std::string &module)
      : seed(std::hash<std::string>()(module)) {}

  int code(int64_t row, int64_t column) const {
    return int(hash(row, column) % 16);
  }
  int zero(int64_t row, int64_t group) const {
    return 1 + int(hash(row, ~group) % 15);
  }
  /// 1/64 to 15/512: exact in fp16 and bf16.
  float scale(int64_t row, int64_t group) const {
    return float(8 + hash(~row, group) % 8) / 512;
  }
  /// The bits of a finite e4m3.
  uint8_t e4m3(int64_t row, int64_t column) const {
    return uint8_t(hash(row, column) % 256 & 0xf7);
  }

private:
  uint64_t hash(int64_t a, int64_t b) const {
    uint64_t x = seed + uint64_t(a) * 0x9e3779b97f4a7c15 +
                 uint64_t(b) * 0xc2b2ae3d27d4eb4f;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9;
    return x ^ x >> 29;
  }
  uint64_t seed;
};

/// The preset tiny with 4 heads of K, 256 units, and \p quantization.
inline nlohmann::json configWith(const nlohmann::json &quantization) {
  auto json = nlohmann::json::parse(presetText("tiny"));
  json["num_key_value_heads"] = 4;
  json["intermediate_size"] = 256;
  if (!quantization.is_null())
    json["quantization_config"] = quantization;
  return json;
}

/// Adds the tensors of one module with a weight [n, k].
using ModuleWriter = std::function<void(
    TensorSet &set, const std::string &module, int64_t n, int64_t k)>;

/// The tensors of a model: products of layers by \p writer, others in bf16.
inline TensorSet tensorsOf(const ModelConfig &model,
                           const ModuleWriter &writer) {
  TensorSet set;
  for (const WeightSpec &spec : weightSpecs(model)) {
    if (spec.kind == WeightKind::Matrix && spec.name != "lm_head.weight")
      writer(set, moduleOf(spec.name), spec.shape[0], spec.shape[1]);
    else
      set.add<uint16_t>(spec.name, DType::BF16, spec.shape,
                        [](int64_t i) { return uint16_t(0x3f80 + i % 32); });
  }
  return set;
}

constexpr int64_t kGroup = 32;

inline void addWords(TensorSet &set, const std::string &name, int64_t rows,
                     int64_t columns,
                     const std::function<int(int64_t, int64_t, int)> &code) {
  set.add<uint32_t>(name, DType::I32, {rows, columns}, [=](int64_t index) {
    uint32_t word = 0;
    for (int place = 0; place < 8; ++place)
      word |= uint32_t(code(index / columns, index % columns, place))
              << 4 * place;
    return word;
  });
}

inline void writeGptq(TensorSet &set, const std::string &module, int64_t n,
                      int64_t k) {
  const HashedWeight w(module);
  addWords(set, module + ".qweight", k / 8, n,
           [=](int64_t row, int64_t column, int place) {
             return w.code(column, 8 * row + place);
           });
  addWords(set, module + ".qzeros", k / kGroup, n / 8,
           [=](int64_t row, int64_t column, int place) {
             return w.zero(8 * column + place, row) - 1;
           });
  set.add<uint16_t>(
      module + ".scales", DType::F16, {k / kGroup, n},
      [=](int64_t i) { return roundToFp16(w.scale(i % n, i / n)); });
  set.add<int32_t>(module + ".g_idx", DType::I32, {k},
                   [](int64_t i) { return int32_t(i / kGroup); });
}

inline void writeAwq(TensorSet &set, const std::string &module, int64_t n,
                     int64_t k) {
  const HashedWeight w(module);
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  addWords(set, module + ".qweight", k, n / 8,
           [=](int64_t row, int64_t column, int place) {
             return w.code(8 * column + kOrder[place], row);
           });
  addWords(set, module + ".qzeros", k / kGroup, n / 8,
           [=](int64_t row, int64_t column, int place) {
             return w.zero(8 * column + kOrder[place], row);
           });
  set.add<uint16_t>(
      module + ".scales", DType::F16, {k / kGroup, n},
      [=](int64_t i) { return roundToFp16(w.scale(i % n, i / n)); });
}

inline void writeCompressed(TensorSet &set, const std::string &module,
                            int64_t n, int64_t k) {
  const HashedWeight w(module);
  addWords(set, module + ".weight_packed", n, k / 8,
           [=](int64_t row, int64_t column, int place) {
             return w.code(row, 8 * column + place);
           });
  addWords(set, module + ".weight_zero_point", n / 8, k / kGroup,
           [=](int64_t row, int64_t column, int place) {
             return w.zero(8 * row + place, column);
           });
  const int64_t groups = k / kGroup;
  set.add<uint16_t>(
      module + ".weight_scale", DType::F16, {n, groups},
      [=](int64_t i) { return roundToFp16(w.scale(i / groups, i % groups)); });
  set.add<int64_t>(module + ".weight_shape", DType::I64, {2},
                   [=](int64_t i) { return i == 0 ? n : k; });
}

/// A writer of e4m3 whose scales have the shape that \p shapeOf gives.
inline ModuleWriter e4m3Writer(
    const std::string &scaleName,
    const std::function<std::vector<int64_t>(int64_t, int64_t)> &shapeOf) {
  return [=](TensorSet &set, const std::string &module, int64_t n, int64_t k) {
    const HashedWeight w(module);
    set.add<uint8_t>(module + ".weight", DType::F8E4M3, {n, k},
                     [=](int64_t i) { return w.e4m3(i / k, i % k); });
    const std::vector<int64_t> shape = shapeOf(n, k);
    const int64_t columns = shape.size() > 1 ? shape[1] : 1;
    set.add<float>(module + "." + scaleName, DType::F32, shape, [=](int64_t i) {
      return w.scale(i / columns, i % columns);
    });
  };
}

} // namespace llama::testing
