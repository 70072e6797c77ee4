//===- RandomCheckpoint.cpp - random weights as a checkpoint --------------===//
#include "RandomCheckpoint.h"

#include "Error.h"
#include "SafetensorsWriter.h"
#include "WeightNames.h"

#include <algorithm>
#include <fstream>
#include <vector>

namespace llama {

namespace {

/// Elements in memory at a time: 8 MiB.
constexpr int64_t kPieceElements = 4 << 20;

void writeConfig(const std::string &path, std::string_view config) {
  std::ofstream file(path, std::ios::binary);
  file << config << '\n';
  file.close();
  if (!file)
    throw Error(path + ": cannot be written");
}

} // namespace

void writeRandomCheckpoint(const std::string &folder, std::string_view config,
                           uint64_t seed) {
  const ModelConfig model = parseModelConfig(config, "config of " + folder);
  const std::vector<WeightSpec> specs = weightSpecs(model);
  std::vector<TensorDeclaration> tensors;
  for (const WeightSpec &spec : specs)
    tensors.push_back({spec.name, DType::BF16, spec.shape});

  SafetensorsWriter writer(folder + "/model.safetensors", tensors,
                           {{"format", "pt"}});
  std::vector<uint16_t> piece;
  for (const WeightSpec &spec : specs) {
    const uint64_t key = randomKey(seed, spec.name);
    const int64_t elements = spec.elements();
    for (int64_t first = 0; first < elements; first += kPieceElements) {
      const auto count = std::min(kPieceElements, elements - first);
      piece.resize(static_cast<size_t>(count));
      fillRandomWeights(piece.data(), key, static_cast<uint64_t>(first),
                        piece.size(), randomScale(spec.kind));
      // The format is little-endian, and so are all hosts of the GPUs.
      writer.write(piece.data(), piece.size() * sizeof(uint16_t));
    }
  }
  writeConfig(folder + "/config.json", config);
  // The weights appear last: a folder that has them is complete.
  writer.finish();
}

} // namespace llama
