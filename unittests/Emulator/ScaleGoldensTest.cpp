// Scales as checkpoints lay them out, emulated: each template's product beside
// one that numpy made (scaleGoldens.py), exact to the last bit.
#include "Emulator/EmulatedTrials.h"

#include "Families/Gemm/GemmProblem.h"
#include "Support/Json.h"

#include <llvm/ADT/StringExtras.h>

using namespace kiln;
using namespace kiln::emulated;

namespace {

/// The operands that a golden has, by their keys.
constexpr std::pair<const char *, int> kGiven[] = {
    {"a", GemmOperand::A},
    {"b", GemmOperand::B},
    {"scale_a", GemmOperand::ScaleA},
    {"scale_b", GemmOperand::ScaleB},
    {"zero_a", GemmOperand::ZeroA},
    {"column_sums_b", GemmOperand::ColumnSumsB}};

std::string bytesOf(const llvm::json::Object &golden, llvm::StringRef key) {
  return llvm::fromHex(golden.getString(key).value_or(""));
}

/// Runs \p config on the operands of \p golden and compares D.
void checkGolden(EmulatedTrials &trials, const llvm::json::Object &golden,
                 const std::string &config) {
  const std::string problem = golden.getString("problem").value_or("").str();
  DependentCase launched = trials.dependent({"gemm", problem}, config);
  const Arguments arguments = launched.arguments(false);
  const OperandTable &table = launched.buffers->table();
  for (auto [key, operand] : kGiven) {
    CAPTURE(key);
    const std::string bytes = bytesOf(golden, key);
    const OperandSpec &spec = table.operands[size_t(operand)];
    REQUIRE(spec.present == !bytes.empty());
    if (bytes.empty())
      continue;
    // Behind the last row there is no gap.
    REQUIRE(bytes.size() >= size_t(spec.bytes()));
    std::memcpy(reinterpret_cast<void *>(arguments.operands[operand].address),
                bytes.data(), size_t(spec.bytes()));
  }
  must(launched.launch(false));
  REQUIRE(trials.emulator.fault() == "");
  const std::vector<uint8_t> found = launched.outputs();
  const std::string expected = bytesOf(golden, "d");
  REQUIRE(found.size() == expected.size());
  CHECK(std::memcmp(found.data(), expected.data(), found.size()) == 0);
}

} // namespace

TEST_CASE("emulated: each layout of scales is that of another implementation") {
  auto json = llvm::cantFail(
      readJsonFile(KILN_SOURCE_DIR "/unittests/Emulator/ScaleGoldens.json"));
  for (const llvm::json::Value &value :
       *json.getAsObject()->getArray("cases")) {
    const llvm::json::Object &golden = *value.getAsObject();
    const std::string problem = golden.getString("problem").value_or("").str();
    CAPTURE(problem);
    EmulatedTrials trials;
    const std::vector<std::string> configs =
        trials.configsOf({"gemm", problem});
    CHECK(configs.size() >= 3);
    for (const std::string &config : configs) {
      CAPTURE(config);
      checkGolden(trials, golden, config);
    }
  }
}
