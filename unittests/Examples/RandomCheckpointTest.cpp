#include "llama/RandomCheckpoint.h"

#include "Support/TemporaryFolder.h"
#include "llama/Error.h"
#include "llama/WeightNames.h"

#include <cstring>
#include <doctest/doctest.h>

using namespace llama;
using kiln::testing::TemporaryFolder;

TEST_CASE("a random checkpoint fits its config and has the weights") {
  const TemporaryFolder folder;
  SUBCASE("without experts") {
    writeRandomCheckpoint(folder.path, presetText("tiny"), 5);
  }
  SUBCASE("with experts") {
    writeRandomCheckpoint(folder.path, presetText("tiny-qwen3-moe"), 5);
  }
  SUBCASE("with experts in one tensor") {
    writeRandomCheckpoint(folder.path, presetText("tiny-gpt-oss"), 5);
  }
  const ModelConfig model = readModelConfig(folder.path);
  const Checkpoint checkpoint(folder.path);
  CHECK(checkWeights(model, checkpoint).empty());
  for (const WeightSpec &spec : weightSpecs(model)) {
    const Tensor &tensor = checkpoint.tensor(spec.name);
    const int64_t last = spec.elements() - 1;
    REQUIRE(tensor.bytes == static_cast<uint64_t>(spec.elements()) * 2);
    uint16_t bits = 0;
    std::memcpy(&bits, tensor.data + 2 * last, sizeof(bits));
    CHECK(bits == randomWeight(randomKey(5, spec.name),
                               static_cast<uint64_t>(last),
                               randomScale(spec.kind)));
  }
  CHECK_THROWS_AS(
      writeRandomCheckpoint("/no/such/folder", presetText("tiny"), 5), Error);
  CHECK_THROWS_AS(writeRandomCheckpoint(folder.path, "{}", 5), Error);
}
