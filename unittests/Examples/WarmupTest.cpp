// The problems that libkiln derives from a model's config are those that the
// engine prepares, so that a warm-up without a GPU, by the model or by an
// earlier run, leaves nothing to compile.
#include "Examples/EngineFixture.h"
#include "Examples/SecondRank.h"
#include "llama/Options.h"
#include "llama/Server.h"

#include <doctest/doctest.h>
#include <kiln/kiln.hpp>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace llama;

namespace {

/// The canonical text and the ranges of \p problem. The pages of the cache are
/// not known when problems are described, and no kernel depends on them.
std::string textOf(const kiln::Problem &problem) {
  const kiln_problem given = problem.get();
  size_t length = 0;
  REQUIRE(kiln_problem_text(&given, nullptr, 0, &length) == KILN_SUCCESS);
  std::string text(length + 1, '\0');
  REQUIRE(kiln_problem_text(&given, text.data(), text.size(), nullptr) ==
          KILN_SUCCESS);
  text.pop_back();
  constexpr std::string_view kPages = " poolpages=1";
  if (const size_t at = text.find(kPages); at != std::string::npos)
    text.erase(at, kPages.size());
  for (uint32_t i = 0; i < given.range_count; ++i) {
    const kiln_range &range = given.ranges[i];
    text += std::string(" ") + range.name + "=" + std::to_string(range.first) +
            ".." + std::to_string(range.last);
  }
  return text;
}

template <class List> std::set<std::string> textsOf(const List &list) {
  std::set<std::string> texts;
  for (const auto &[name, problem] : list)
    texts.insert(textOf(problem));
  return texts;
}

kiln::ModelOptions modelOptions(const RunnerOptions &options) {
  kiln::ModelOptions model;
  model.max_tokens = options.tokenBudget;
  model.max_batch = options.maxSequences;
  model.max_positions = options.maxPositions;
  model.page_tokens = options.pageTokens;
  return model;
}

/// An engine without a GPU that fills the runner's cache.
kiln::Engine compiler(const RunnerOptions &options) {
  kiln::EngineOptions engine;
  engine.mode = KILN_MODE_PREDICT;
  engine.device_model = "h200-sxm";
  engine.cache_dir = options.cacheDir.c_str();
  return kiln::Engine::create(engine).orThrow();
}

kiln::PrepareOptions compileOnly() {
  kiln::PrepareOptions options;
  options.flags = KILN_PREPARE_COMPILE_ONLY;
  return options;
}

/// Serves some requests in the mode strict, and checks that neither preparing
/// nor serving compiled or measured anything.
void serveWithoutCompiling(const EngineFixture &f) {
  const Gpu gpu;
  Runner runner(gpu, f.model, f.source, f.options, nullptr);
  CHECK(runner.prepared().compiles == 0);
  CHECK(runner.prepared().trials == 0);
  Server server(gpu, runner, true, true);
  for (int64_t prompt : {1, 3, 40, 64, 100})
    server.submit(requestOf(prompt, 12));
  size_t tokens = 0;
  while (!server.idle())
    tokens += server.step().size();
  CHECK(tokens == 60);
  const kiln::Statistics served = runner.engine().statistics().orThrow();
  CHECK(served.launches > 0);
  CHECK(served.compiles == 0);
  CHECK(served.trials == 0);
  CHECK(served.fallback_launches == 0);
}

/// The options of the engine, and those of a warm-up for it.
struct Choice {
  CacheType cache = CacheType::Bf16;
  std::optional<WeightType> weights;
  kiln_model_format format = KILN_MODEL_BF16;
  Shard shard = {};
  bool hasKilnSums = false; ///< of rank 1 of two
};

constexpr std::pair<WeightType, kiln_model_format> kFormats[] = {
    {WeightType::E4m3Rows, KILN_MODEL_FP8},
    {WeightType::Int4, KILN_MODEL_W4},
    {WeightType::Mxfp4, KILN_MODEL_MXFP4}};

/// Checks that the list of the engine's part of \p model is that of its config.
void checkEqual(std::string_view config, const ModelConfig &model,
                const Choice &choice = {}) {
  const Shard &shard = choice.shard;
  const Gpu gpu;
  RunnerOptions options;
  options.tokenBudget = 300;
  options.maxSequences = 9;
  options.maxPositions = 1000;
  options.cache = choice.cache;
  WeightSource source;
  source.weights = choice.weights;
  const kiln::Engine packer = kiln::Engine::create().orThrow();
  WeightFiller filler(gpu, model, source, &packer);
  const ModelConfig part = partOf(model, shard.count);
  const DeviceWeights weights(gpu, planWeights(model, source, shard), filler,
                              nullptr);
  TransformerRoom room;
  room.step = {options.tokenBudget, options.maxSequences, 16};
  room.positions = options.maxPositions;
  room.pageTokens = options.pageTokens;
  room.cache = choice.cache;
  const StepInputs inputs(gpu, room.step);
  std::optional<SecondRank> second;
  if (choice.hasKilnSums)
    second.emplace(gpu, exchangeBytes(part, room.step, shard.count));
  const Transformer engine(gpu, part, shard, weights, inputs, room,
                           cacheScales(model, choice.cache, nullptr),
                           second ? second->exchange.get() : nullptr);
  kiln::ModelOptions served = modelOptions(options);
  served.ranks = shard.count;
  served.flags = choice.hasKilnSums ? 0 : KILN_MODEL_NCCL;
  if (choice.cache == CacheType::E4m3)
    served.cache_type = KILN_E4M3;
  served.format = choice.format;
  const auto ofEngine = textsOf(engine.problems()),
             ofConfig = textsOf(
                 kiln::modelProblems(std::string(config), served).orThrow());
  for (const std::string &text : ofEngine)
    CHECK_MESSAGE(ofConfig.count(text) == 1, "only the engine has " << text);
  for (const std::string &text : ofConfig)
    CHECK_MESSAGE(ofEngine.count(text) == 1, "the engine lacks " << text);
}

} // namespace

TEST_CASE("a model's problems are those of the engine") {
  for (const std::string_view preset : presetNames()) {
    CAPTURE(std::string(preset));
    kilnFakeReset();
    constexpr uint64_t kHollow = uint64_t(1) << 24;
    kilnFakeSetHollowMemory(kHollow);
    setenv("KILN_DRIVER", KILN_BINARY_DIR "/lib/libkiln_fake_cuda.so", 1);
    ModelConfig model = presetConfig(preset);
    if (model.windows.size() > 1 && model.windows[0] != model.windows[1])
      model.layers = 2; // every other one is alike
    else if (model.expertLayers() == 0 || model.expertLayers() == model.layers)
      model.layers = 1; // all are alike
    checkEqual(presetText(preset), model);
  }
}

TEST_CASE("so are those of each format of weights and of the cache") {
  const EngineFixture f;
  for (const CacheType cache : {CacheType::Bf16, CacheType::E4m3})
    for (const auto &[weights, format] : kFormats)
      for (const char *preset : {"tiny", "tiny-qwen3-moe", "tiny-mixtral"}) {
        CAPTURE(preset);
        checkEqual(presetText(preset), presetConfig(preset),
                   {cache, weights, format});
      }
  checkEqual(presetText("tiny-gpt-oss"), presetConfig("tiny-gpt-oss"),
             {CacheType::E4m3, WeightType::Mxfp4, KILN_MODEL_MXFP4});
}

TEST_CASE("so are those of a rank, whichever way the ranks sum") {
  const EngineFixture f;
  for (const bool hasKilnSums : {false, true}) {
    CAPTURE(hasKilnSums);
    Choice choice;
    choice.shard = {1, 2};
    choice.hasKilnSums = hasKilnSums;
    checkEqual(presetText("tiny"), f.model, choice);
  }
}

TEST_CASE("so are those of layers of which some have experts") {
  const EngineFixture f;
  for (const nlohmann::json &layers :
       {nlohmann::json{{"mlp_only_layers", {2}}},
        nlohmann::json{{"mlp_only_layers", {3, 9}}},
        nlohmann::json{{"mlp_only_layers", {0, 1}}},
        nlohmann::json{{"mlp_only_layers", {0, 1, 2}}},
        nlohmann::json{{"decoder_sparse_step", 2}},
        nlohmann::json{{"num_hidden_layers", 1}, {"mlp_only_layers", {1}}},
        nlohmann::json{{"num_hidden_layers", 1}, {"decoder_sparse_step", 2}}}) {
    auto json = nlohmann::json::parse(presetText("tiny-qwen3-moe"));
    json.update(layers);
    const std::string config = json.dump();
    CAPTURE(config);
    const ModelConfig model = parseModelConfig(config, "config.json");
    checkEqual(config, model);
    for (const auto &[weights, format] : kFormats)
      checkEqual(config, model, {CacheType::Bf16, weights, format});
  }
}

TEST_CASE("so are those of biases of attention") {
  const EngineFixture f;
  auto json = nlohmann::json::parse(presetText("tiny"));
  json["attention_bias"] = true;
  const std::string config = json.dump();
  checkEqual(config, parseModelConfig(config, "config.json"));
}

TEST_CASE("so are those of experts that a config says to be MXFP4") {
  const EngineFixture f;
  auto json = nlohmann::json::parse(presetText("tiny-gpt-oss"));
  json["quantization_config"] = {{"quant_method", "mxfp4"}};
  const std::string path = f.folder.path + "/published.json";
  std::ofstream(path) << json;
  const auto choose = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--config", path});
    std::vector<char *> given;
    for (std::string &word : words)
      given.push_back(word.data());
    Options options(static_cast<int>(given.size()), given.data());
    return chooseModel(options);
  };
  const ChosenModel chosen = choose({});
  CHECK(chosen.source.weights == WeightType::Mxfp4);
  checkEqual(chosen.configText, chosen.config,
             {CacheType::Bf16, chosen.source.weights, KILN_MODEL_BF16});
  CHECK(choose({"--weights", "bf16"}).source.weights == WeightType::Bf16);
  json.erase("quantization_config");
  std::ofstream(path) << json;
  CHECK_FALSE(choose({}).source.weights.has_value());
}

TEST_CASE("after a warm-up by the model a strict engine compiles nothing") {
  EngineFixture f;
  std::vector<kiln::Problem> problems;
  for (auto &[name, problem] :
       kiln::modelProblems(std::string(presetText("tiny")),
                           modelOptions(f.options))
           .orThrow())
    problems.push_back(std::move(problem));
  compiler(f.options).prepare(problems, compileOnly()).orThrow();
  serveWithoutCompiling(f);
}

TEST_CASE("after a warm-up for larger steps a strict engine compiles nothing") {
  EngineFixture f;
  RunnerOptions larger = f.options;
  larger.tokenBudget = 128;
  larger.maxSequences = 8;
  larger.maxPositions = 512;
  std::vector<kiln::Problem> problems;
  for (auto &[name, problem] :
       kiln::modelProblems(std::string(presetText("tiny")),
                           modelOptions(larger))
           .orThrow())
    problems.push_back(std::move(problem));
  compiler(f.options).prepare(problems, compileOnly()).orThrow();
  serveWithoutCompiling(f);
}

TEST_CASE("after a warm-up by a history a strict engine compiles nothing") {
  EngineFixture f;
  const std::string history = f.folder.path + "/history";
  setenv("KILN_HISTORY", history.c_str(), 1);
  {
    const Gpu gpu;
    const Runner runner(gpu, f.model, f.source, f.options, nullptr);
    CHECK(runner.prepared().compiles > 0);
  }
  unsetenv("KILN_HISTORY");
  // The two engines of the runner asked for the same.
  std::ifstream file(history);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(line);
  CHECK(lines.size() == 15);
  f.options.cacheDir = f.folder.path + "/other";
  compiler(f.options).prepareHistory(history, compileOnly()).orThrow();
  serveWithoutCompiling(f);
}
