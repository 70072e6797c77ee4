#include "llama/WeightPlan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

using namespace llama;

TEST_CASE("every tensor of a model has one place, and no places overlap") {
  for (const char *preset : {"tiny", "qwen2.5-0.5b", "llama-3-8b"}) {
    CAPTURE(preset);
    const ModelConfig model = presetConfig(preset);
    const WeightPlan plan = planWeights(model);
    std::map<std::string, int64_t> placed;
    uint64_t end = 0;
    for (const PlannedMatrix &matrix : plan.matrices) {
      CHECK(matrix.data >= end);
      CHECK(matrix.data % 256 == 0);
      end = matrix.data +
            bytesOf(matrix.format, matrix.rows, matrix.columns).all();
      std::vector<char> isFilled(static_cast<size_t>(matrix.rows));
      for (const PlacedTensor &part : matrix.parts) {
        placed[part.spec.name] += part.rows * part.columns;
        CHECK(part.columns == matrix.columns);
        for (int64_t r = 0; r < part.rows; ++r)
          isFilled[static_cast<size_t>(part.targetRow + r * part.rowStep)] += 1;
      }
      CHECK(std::count(isFilled.begin(), isFilled.end(), 1) == matrix.rows);
    }
    CHECK(end <= plan.bytes);
    const std::vector<WeightSpec> specs = weightSpecs(model);
    CHECK(placed.size() == specs.size());
    for (const WeightSpec &spec : specs)
      CHECK(placed[spec.name] == spec.elements());
  }
}

TEST_CASE("a tied head is the embedding") {
  CHECK(planWeights(presetConfig("qwen3-0.6b")).head == 0);
  CHECK(planWeights(presetConfig("tiny")).head != 0);
}

TEST_CASE("the bytes of a weight follow from its format") {
  const auto bytes = [](WeightFormat format, int64_t rows, int64_t columns) {
    const WeightBytes all = bytesOf(format, rows, columns);
    return std::vector<uint64_t>{all.data, all.scales, all.zeros};
  };
  using Bytes = std::vector<uint64_t>;
  CHECK(bytes({}, 3, 5) == Bytes{30, 0, 0});
  CHECK(bytes({WeightType::E4m3Rows}, 3, 5) == Bytes{15, 12, 0});
  CHECK(bytes({WeightType::E4m3Blocks}, 129, 256) == Bytes{33'024, 16, 0});
  CHECK(bytes({WeightType::E4m3Packed}, 65, 64) == Bytes{8192, 512, 0});
  CHECK(bytes({WeightType::Int4, 128}, 64, 256) == Bytes{8192, 256, 0});
  CHECK(bytes({WeightType::Int4, 32, true}, 1, 65) == Bytes{4096, 512, 256});
}
