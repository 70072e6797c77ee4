//===- CheckpointExport.cpp -----------------------------------------------===//
#include "CheckpointExport.h"

#include "Error.h"
#include "HostMatrix.h"
#include "Json.h"
#include "Parallel.h"
#include "RandomWeights.h"
#include "SafetensorsWriter.h"
#include "StoredExperts.h"
#include "WeightPlan.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <vector>

namespace llama {

namespace {

/// Elements in memory at a time: 8 MiB, but a row at least.
constexpr int64_t kPieceElements = 4 << 20;

void writeText(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file << text << '\n';
  file.close();
  if (!file)
    throw Error(path + ": cannot be written");
}

/// A tied head with a format of its own has other numbers than the embedding.
bool isUntied(const ModelConfig &model, const WeightPlan &plan) {
  return model.tieEmbeddings && plan.head != plan.embedding;
}

std::string configFor(std::string_view config, bool isUntied) {
  auto json = parseJson(config, "config");
  if (json.erase("quantization_config") == 0 && !isUntied)
    return std::string(config);
  if (isUntied)
    json["tie_word_embeddings"] = false;
  return json.dump(2);
}

/// Writes the tensors of matrices.
class Exporter {
public:
  Exporter(const ModelConfig &model, const WeightSource &source,
           SafetensorsWriter &writer)
      : model(model), source(source), writer(writer) {}

  void write(const PlannedMatrix &matrix) {
    std::unique_ptr<HostMatrix> host;
    if (matrix.format.type != WeightType::Bf16 &&
        matrix.format.type != WeightType::Fp32)
      host = std::make_unique<HostMatrix>(model, source, matrix);
    for (const PlacedTensor &part : matrix.parts) {
      if (host) {
        writePart(part, [&](int64_t row, float *out) {
          host->readRow(part.targetRow + row * part.rowStep, out);
        });
        continue;
      }
      const auto weight = openWeight(model, source, part.spec);
      writePart(part,
                [&](int64_t row, float *out) { weight->readRow(row, out); });
    }
  }

private:
  template <class Read>
  void writePart(const PlacedTensor &part, const Read &read) {
    if (isOfAllExperts(part.spec))
      writeExperts(part.spec, read);
    else
      writeRows(part, read);
  }

  /// [experts, k, n], of rows [experts * n, k].
  template <class Read>
  void writeExperts(const WeightSpec &spec, const Read &read) {
    const int64_t k = spec.shape[1], n = spec.shape[2];
    piece.resize(static_cast<size_t>(k * n));
    for (int64_t expert = 0; expert < spec.shape[0]; ++expert) {
      constexpr int64_t kRows = 64; // a thread takes at a time
      inParallel(n, kRows, [&](int64_t from, int64_t to) {
        std::vector<float> row(static_cast<size_t>(k));
        for (int64_t r = from; r < to; ++r) {
          read(expert * n + r, row.data());
          for (int64_t i = 0; i < k; ++i)
            piece[static_cast<size_t>(i * n + r)] = roundToBf16(row[i]);
        }
      });
      writer.write(piece.data(), piece.size() * sizeof(uint16_t));
    }
  }

  template <class Read>
  void writeRows(const PlacedTensor &part, const Read &read) {
    const int64_t columns = part.columns;
    const int64_t most = std::max<int64_t>(kPieceElements / columns, 1);
    for (int64_t first = 0; first < part.rows; first += most) {
      const int64_t count = std::min(most, part.rows - first);
      piece.resize(static_cast<size_t>(count * columns));
      constexpr int64_t kRows = 64; // a thread takes at a time
      inParallel(count, kRows, [&](int64_t from, int64_t to) {
        std::vector<float> row(static_cast<size_t>(columns));
        for (int64_t r = from; r < to; ++r) {
          read(first + r, row.data());
          std::transform(row.begin(), row.end(), piece.begin() + r * columns,
                         roundToBf16);
        }
      });
      // The format is little-endian, and so are all hosts of the GPUs.
      writer.write(piece.data(), piece.size() * sizeof(uint16_t));
    }
  }

  const ModelConfig &model;
  const WeightSource &source;
  SafetensorsWriter &writer;
  std::vector<uint16_t> piece;
};

} // namespace

void exportCheckpoint(const std::string &folder, std::string_view config,
                      const WeightSource &source) {
  const ModelConfig model = parseModelConfig(config, "config of " + folder);
  const WeightPlan plan = planWeights(model, source);
  std::vector<TensorDeclaration> tensors;
  for (const PlannedMatrix &matrix : plan.matrices)
    for (const PlacedTensor &part : matrix.parts)
      tensors.push_back({part.spec.name, DType::BF16, part.spec.shape});
  if (isUntied(model, plan)) // the last matrix
    tensors.back().name = headSpec(model).name;

  SafetensorsWriter writer(folder + "/model.safetensors", tensors,
                           {{"format", "pt"}});
  Exporter exporter(model, source, writer);
  for (const PlannedMatrix &matrix : plan.matrices)
    exporter.write(matrix);
  writeText(folder + "/config.json", configFor(config, isUntied(model, plan)));
  // The weights appear last: a folder that has them is complete.
  writer.finish();
}

} // namespace llama
