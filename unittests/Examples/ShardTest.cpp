// The parts of a model that ranks have.
#include "llama/Shard.h"
#include "llama/Error.h"
#include "llama/WeightPlan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

using namespace llama;

namespace {

/// How often the shards of a model have each element of a tensor.
using Counts = std::map<std::string, std::vector<int>>;

Counts countsOf(const ModelConfig &model, int64_t count) {
  Counts counts;
  for (int64_t rank = 0; rank < count; ++rank)
    for (const PlannedMatrix &matrix :
         planWeights(model, {}, {rank, count}).matrices) {
      int64_t elements = 0;
      for (const PlacedTensor &part : matrix.parts) {
        std::vector<int> &seen = counts[part.spec.name];
        seen.resize(size_t(part.spec.elements()));
        for (int64_t row = 0; row < part.rows; ++row)
          for (int64_t column = 0; column < part.columns; ++column)
            ++seen[size_t((part.firstRow + row) * part.spec.columns() +
                          part.firstColumn + column)];
        elements += part.rows * part.columns;
        CHECK(part.columns == matrix.columns);
        CHECK(part.targetRow + (part.rows - 1) * part.rowStep < matrix.rows);
      }
      CHECK(elements == matrix.rows * matrix.columns);
    }
  return counts;
}

bool isReplicated(const std::string &name) {
  return name.find("norm") != std::string::npos ||
         name.find("embed") != std::string::npos;
}

} // namespace

TEST_CASE("the shards of a model have each weight once") {
  for (const char *name : {"tiny", "llama-3.2-1b"}) {
    ModelConfig model = presetConfig(name);
    model.layers = 1;
    // As large as it has to be.
    model.vocabSize = 512;
    for (int64_t count : {1, 2}) {
      CAPTURE(name);
      CAPTURE(count);
      for (const auto &[tensor, seen] : countsOf(model, count)) {
        CAPTURE(tensor);
        const int wanted = isReplicated(tensor) ? int(count) : 1;
        // A head that is the embedding is in the shards once more.
        const int ofHead = model.tieEmbeddings && count > 1 &&
                           tensor.find("embed") != std::string::npos;
        CHECK(std::count(seen.begin(), seen.end(), wanted + ofHead) ==
              static_cast<std::ptrdiff_t>(seen.size()));
      }
    }
  }
}

TEST_CASE("quantised weights are not divided") {
  WeightSource source;
  source.weights = WeightType::E4m3Rows;
  const ModelConfig model = presetConfig("tiny");
  CHECK_NOTHROW(planWeights(model, source, {0, 1}));
  CHECK_THROWS_WITH_AS(planWeights(model, source, {0, 2}),
                       "--tp divides bf16 weights alone, and these are fp8",
                       Error);
}

TEST_CASE("a model that ranks do not divide evenly is refused by its number") {
  const ModelConfig model = presetConfig("tiny");
  CHECK(partOf(model, 2).kvHeads == 1);
  CHECK(partOf(model, 2).lmHeadRows() == 256);
  CHECK(partOf(model, 2).hiddenSize == model.hiddenSize);
  CHECK_THROWS_WITH_AS(partOf(model, 4),
                       "the model has num_key_value_heads 2, which 4 ranks do "
                       "not divide evenly: choose another --tp",
                       Error);
  ModelConfig odd = model;
  odd.vocabSize = 511;
  CHECK(partOf(odd, 2).lmHeadRows() == 511);
  odd.vocabSize = 508; // 127 vectors of logits
  CHECK(partOf(odd, 2).lmHeadRows() == 508);
}

TEST_CASE("experts, sinks and biases of the output are not divided") {
  ModelConfig sinks = presetConfig("tiny");
  sinks.hasSinks = true;
  CHECK_THROWS_AS(partOf(sinks, 2), Error);
  for (const char *preset : {"tiny-qwen3-moe", "tiny-gpt-oss"}) {
    const ModelConfig model = presetConfig(preset);
    CHECK(partOf(model, 1).heads == model.heads);
    CHECK_THROWS_WITH_AS(partOf(model, 2),
                         doctest::Contains("--tp divides neither experts nor"),
                         Error);
  }
}
