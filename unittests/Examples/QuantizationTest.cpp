#include "llama/Quantization.h"

#include "llama/ConfigReader.h"
#include "llama/Error.h"
#include "llama/ModelConfig.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <iterator>
#include <random>
#include <string>

using namespace llama;
using Json = nlohmann::json;

namespace {

Quantization read(const Json &quantization) {
  const Json config = {{"quantization_config", quantization}};
  return readQuantization(ConfigReader(config, "test"));
}

std::string refusalOf(const Json &quantization) {
  try {
    read(quantization);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

Json groupsOf(const Json &weights) {
  return {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}};
}

/// One valid config of each kind.
const Json kValid[] = {
    {{"quant_method", "fp8"},
     {"fmt", "e4m3"},
     {"activation_scheme", "dynamic"},
     {"weight_block_size", {128, 128}}},
    {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}},
    {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", -1}, {"sym", false}},
    {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}},
    {{"quant_method", "compressed-tensors"},
     {"format", "float-quantized"},
     {"config_groups",
      groupsOf({{"num_bits", 8}, {"type", "float"}, {"strategy", "tensor"}})}},
    {{"quant_method", "compressed-tensors"},
     {"format", "pack-quantized"},
     {"config_groups", groupsOf({{"num_bits", 4},
                                 {"type", "int"},
                                 {"strategy", "group"},
                                 {"group_size", 64},
                                 {"symmetric", false}})}}};

} // namespace

TEST_CASE("configs of quantised checkpoints say how weights are stored") {
  CHECK(read(nullptr).method == QuantMethod::None);
  const Quantization blocks = read(kValid[0]), awq = read(kValid[1]),
                     gptq = read(kValid[2]), groups = read(kValid[5]);
  CHECK(blocks.method == QuantMethod::Fp8);
  CHECK(blocks.bits == 8);
  CHECK(blocks.hasBlocks);
  CHECK(awq.groupSize == 128);
  CHECK(awq.hasZeros);
  CHECK_FALSE(awq.hasZerosLessOne);
  CHECK(gptq.groupSize == 0);
  CHECK(gptq.hasZeros);
  CHECK(gptq.hasZerosLessOne);
  CHECK(read(kValid[3]).bits == 8);
  CHECK_FALSE(read(kValid[4]).hasBlocks);
  CHECK(groups.bits == 4);
  CHECK(groups.groupSize == 64);
  CHECK(groups.hasZeros);
}

TEST_CASE("what the engine cannot do is refused by name") {
  const auto with = [](const Json &valid, const char *key, const Json &value) {
    Json changed = valid;
    changed[key] = value;
    return refusalOf(changed);
  };
  const std::string begin = "test: quantization_config: ";
  CHECK(with(kValid[0], "quant_method", "bitsandbytes") ==
        begin +
            "quant_method is \"bitsandbytes\", which is not supported (fp8, "
            "compressed-tensors, modelopt, awq, gptq, mxfp4)");
  CHECK(with(kValid[0], "weight_block_size", {64, 64}) ==
        begin + "weight_block_size is [64,64], only blocks of [128, 128] are "
                "supported");
  CHECK(with(kValid[0], "fmt", "e5m2") ==
        begin + "fmt is \"e5m2\", which is not supported (e4m3)");
  CHECK(with(kValid[1], "bits", 8) == begin + "bits is 8, only 4 is supported");
  CHECK(with(kValid[1], "version", "gemv").find("version is \"gemv\"") !=
        std::string::npos);
  CHECK(with(kValid[2], "group_size", 48) ==
        begin + "group_size is 48, only 32, 64, 128 and -1 are supported");
  CHECK(with(kValid[2], "checkpoint_format", "marlin").find("marlin") !=
        std::string::npos);
  CHECK(with(kValid[3], "quant_algo", "NVFP4") ==
        begin + "quant_algo is \"NVFP4\", only FP8 is supported");
  CHECK(with(kValid[4], "format", "int-quantized").find("int-quantized") !=
        std::string::npos);
  CHECK(with(kValid[4], "config_groups",
             groupsOf({{"num_bits", 8}, {"type", "int"}}))
            .find("num_bits is 8, of type \"int\"") != std::string::npos);
  CHECK(with(kValid[5], "quantization_status", "frozen").find("frozen") !=
        std::string::npos);
}

TEST_CASE("fuzz: damaged quantization configs are refused, or harmless") {
  std::mt19937 random(7);
  const Json values[] = {nullptr,
                         true,
                         -1,
                         0,
                         1,
                         4,
                         8,
                         1e99,
                         "group",
                         "",
                         "fp8",
                         Json::array(),
                         Json::object(),
                         {128, 128},
                         "4",
                         "compressed"};
  // Some member of some level becomes another value, or disappears.
  const std::function<void(Json &)> damage = [&](Json &json) {
    if (!json.is_object() || json.empty())
      return;
    auto member = json.begin();
    std::advance(member, random() % json.size());
    if (member->is_object() && random() % 4 != 0)
      damage(*member);
    else if (random() % 4 == 0)
      json.erase(member);
    else
      *member = values[random() % std::size(values)];
  };
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    Json config = kValid[random() % std::size(kValid)];
    for (unsigned n = 1 + random() % 3; n > 0; --n)
      damage(config);
    CAPTURE(config.dump());
    const std::string refusal = refusalOf(config);
    accepted += refusal.empty();
    if (!refusal.empty())
      CHECK(refusal.find("quantization_config") != std::string::npos);
  }
  MESSAGE(accepted << " of 20000 damaged configs are still valid");
}
