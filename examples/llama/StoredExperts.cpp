//===- StoredExperts.cpp --------------------------------------------------===//
#include "StoredExperts.h"

#include "Mxfp4.h"
#include "RandomWeights.h"

#include <cstring>

namespace llama {

namespace {

/// Where a row of [experts * n, k] is in [experts, k, n].
class Transposition {
public:
  explicit Transposition(const WeightSpec &spec)
      : k(spec.shape[1]), n(spec.shape[2]) {}

  int64_t first(int64_t row) const { return row / n * k * n + row % n; }
  /// From an element of a row to the next.
  int64_t step() const { return n; }

private:
  int64_t k, n;
};

class TransposedExperts : public StoredWeight {
public:
  TransposedExperts(const WeightSpec &spec, const Tensor &tensor)
      : StoredWeight({}, spec.shape[1]), order(spec), tensor(tensor) {}

  void readRow(int64_t row, float *out) const override {
    const int64_t first = order.first(row);
    for (int64_t i = 0; i < columns(); ++i)
      out[i] = elementOf(tensor.dtype, tensor.data, first + i * order.step());
  }

private:
  Transposition order;
  const Tensor &tensor;
};

class RandomExperts : public StoredWeight {
public:
  RandomExperts(const WeightSpec &spec, uint64_t seed)
      : StoredWeight({}, spec.shape[1]), order(spec),
        key(randomKey(seed, spec.name)), scale(randomScale(spec.kind)) {}

  void readRow(int64_t row, float *out) const override {
    const int64_t first = order.first(row);
    for (int64_t i = 0; i < columns(); ++i)
      out[i] = bf16ToFloat(randomWeight(
          key, static_cast<uint64_t>(first + i * order.step()), scale));
  }

private:
  Transposition order;
  uint64_t key;
  RandomScale scale;
};

class Mxfp4Experts : public StoredWeight {
public:
  Mxfp4Experts(const WeightSpec &spec, const Tensor &blocks,
               const Tensor &scales)
      : StoredWeight(formatOf(), spec.shape[1]), blocks(blocks),
        scales(scales) {}

  void readQuantized(int64_t row, const QuantizedRow &out) const override {
    const int64_t codeBytes = columns() / 2, groups = columns() / kMxfp4Group;
    std::memcpy(out.codes, blocks.data + row * codeBytes,
                static_cast<size_t>(codeBytes));
    std::memcpy(out.scales, scales.data + row * groups,
                static_cast<size_t>(groups));
  }

private:
  static WeightFormat formatOf() {
    WeightFormat format;
    format.type = WeightType::Mxfp4;
    format.groupSize = kMxfp4Group;
    return format;
  }

  const Tensor &blocks, &scales;
};

/// Tells what is wrong of a tensor beside its name.
bool hasShape(const std::string &name, const Tensor &tensor,
              const std::vector<int64_t> &shape,
              std::vector<std::string> &faults) {
  if (tensor.shape == shape)
    return true;
  faults.push_back(name + " has the shape " + shapeText(tensor.shape) +
                   ", expected " + shapeText(shape));
  return false;
}

bool isBytes(const std::string &name, const Tensor &tensor,
             std::vector<std::string> &faults) {
  if (tensor.dtype == DType::U8)
    return true;
  faults.push_back(name + " has the type " + std::string(nameOf(tensor.dtype)) +
                   ", expected U8");
  return false;
}

std::unique_ptr<StoredWeight> findMxfp4(const Checkpoint &checkpoint,
                                        const WeightSpec &spec,
                                        std::vector<std::string> &faults) {
  const std::string blocksName = spec.name + "_blocks",
                    scalesName = spec.name + "_scales";
  if (!checkpoint.has(blocksName) || !checkpoint.has(scalesName)) {
    faults.push_back(spec.name + " is missing");
    return nullptr;
  }
  const Tensor &blocks = checkpoint.tensor(blocksName),
               &scales = checkpoint.tensor(scalesName);
  const int64_t experts = spec.shape[0], k = spec.shape[1], n = spec.shape[2];
  const int64_t groups = (k + kMxfp4Group - 1) / kMxfp4Group;
  const bool fits =
      hasShape(blocksName, blocks, {experts, n, groups, kMxfp4Group / 2},
               faults) &&
      hasShape(scalesName, scales, {experts, n, groups}, faults) &&
      isBytes(blocksName, blocks, faults) &&
      isBytes(scalesName, scales, faults);
  if (!fits)
    return nullptr;
  if (k % kMxfp4Group != 0) {
    faults.push_back(spec.name + " has rows of " + std::to_string(k) +
                     ", not a multiple of 32");
    return nullptr;
  }
  return std::make_unique<Mxfp4Experts>(spec, blocks, scales);
}

} // namespace

bool isOfAllExperts(const WeightSpec &spec) { return spec.shape.size() == 3; }

std::unique_ptr<StoredWeight> findExperts(const Checkpoint &checkpoint,
                                          const WeightSpec &spec,
                                          std::vector<std::string> &faults) {
  if (!checkpoint.has(spec.name))
    return findMxfp4(checkpoint, spec, faults);
  const Tensor &tensor = checkpoint.tensor(spec.name);
  if (!hasShape(spec.name, tensor, spec.shape, faults))
    return nullptr;
  if (!isFloat(tensor.dtype)) {
    faults.push_back(spec.name + " has the type " +
                     std::string(nameOf(tensor.dtype)) +
                     ", expected BF16, F16 or F32");
    return nullptr;
  }
  return std::make_unique<TransposedExperts>(spec, tensor);
}

std::unique_ptr<StoredWeight> drawExperts(const WeightSpec &spec,
                                          uint64_t seed) {
  return std::make_unique<RandomExperts>(spec, seed);
}

} // namespace llama
