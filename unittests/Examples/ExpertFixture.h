//===- ExpertFixture.h - checkpoints with experts, for tests ----*- C++ -*-===//
#ifndef KILN_UNITTESTS_EXAMPLES_EXPERTFIXTURE_H
#define KILN_UNITTESTS_EXAMPLES_EXPERTFIXTURE_H

#include "llama/SafetensorsWriter.h"
#include "llama/WeightNames.h"

#include <string>
#include <vector>

namespace experts {

inline std::vector<llama::TensorDeclaration>
tensorsOf(const llama::ModelConfig &model) {
  using namespace llama;
  std::vector<TensorDeclaration> tensors;
  for (const WeightSpec &spec : weightSpecs(model))
    tensors.push_back({spec.name, DType::BF16, spec.shape});
  return tensors;
}

/// The tensors of \p model as transformers 5 has them in memory.
inline std::vector<llama::TensorDeclaration>
fusedTensors(const llama::ModelConfig &model) {
  using namespace llama;
  std::vector<TensorDeclaration> tensors;
  const ExpertParts parts = expertParts(model.architecture);
  for (const TensorDeclaration &tensor : tensorsOf(model))
    if (tensor.name.find(std::string(parts.experts) + ".") == std::string::npos)
      tensors.push_back(tensor);
  const int64_t count = model.experts.count, hidden = model.hiddenSize,
                inner = model.experts.innerSize;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    if (!model.hasExperts(layer))
      continue;
    tensors.push_back({layerTensor(layer, "mlp.experts.gate_up_proj"),
                       DType::BF16,
                       {count, 2 * inner, hidden}});
    tensors.push_back({layerTensor(layer, "mlp.experts.down_proj"),
                       DType::BF16,
                       {count, hidden, inner}});
    for (TensorDeclaration &tensor : tensors)
      if (tensor.name == layerWeight(layer, parts.router))
        tensor.name = layerWeight(layer, "mlp.gate");
  }
  return tensors;
}

/// A file of zeros with these tensors.
inline void writeZeros(const std::string &path,
                       const std::vector<llama::TensorDeclaration> &tensors) {
  llama::SafetensorsWriter writer(path, tensors);
  const std::vector<char> zeros(writer.remaining());
  writer.write(zeros.data(), zeros.size());
  writer.finish();
}

} // namespace experts

#endif // KILN_UNITTESTS_EXAMPLES_EXPERTFIXTURE_H
