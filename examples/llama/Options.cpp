//===- Options.cpp --------------------------------------------------------===//
#include "Options.h"

#include "Error.h"
#include "WeightChoice.h"
#include "WeightNames.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace llama {

Options::Options(int count, char **words) {
  for (int i = 0; i < count; ++i) {
    const std::string word = words[i];
    if (word.rfind("--", 0) != 0)
      throw Error("'" + word + "' is not an option: options begin with --");
    const bool hasValue =
        i + 1 < count && std::string(words[i + 1]).rfind("--", 0) != 0;
    given[word.substr(2)] = hasValue ? words[++i] : "";
  }
}

const std::string *Options::find(const std::string &name) {
  asked.insert(name);
  const auto found = given.find(name);
  return found == given.end() ? nullptr : &found->second;
}

std::string Options::text(const std::string &name,
                          const std::string &byDefault) {
  const std::string *found = find(name);
  return found ? *found : byDefault;
}

int64_t Options::number(const std::string &name, int64_t byDefault,
                        int64_t least) {
  const std::string *found = find(name);
  if (!found)
    return byDefault;
  int64_t value = 0;
  const char *end = found->data() + found->size();
  const auto [rest, error] = std::from_chars(found->data(), end, value);
  if (error != std::errc() || rest != end || value < least)
    throw Error("--" + name + " is '" + *found +
                "', expected a whole number of " + std::to_string(least) +
                " or more");
  return value;
}

double Options::real(const std::string &name, double byDefault) {
  const std::string *found = find(name);
  if (!found)
    return byDefault;
  char *end = nullptr;
  const double value = std::strtod(found->c_str(), &end);
  if (found->empty() || *end != '\0' || !std::isfinite(value) || value < 0)
    throw Error("--" + name + " is '" + *found +
                "', expected a number of 0 or more");
  return value;
}

bool Options::flag(const std::string &name) { return find(name) != nullptr; }

void Options::requireNoOthers() const {
  for (const auto &[name, value] : given)
    if (asked.count(name) == 0)
      throw Error("the command has no option --" + name);
}

/// Whether an option is \p other, and not its default.
static bool isOther(Options &options, const std::string &name,
                    const std::string &byDefault, const std::string &other) {
  const std::string value = options.text(name, byDefault);
  if (value != byDefault && value != other)
    throw Error("--" + name + " is '" + value + "', expected " + byDefault +
                " or " + other);
  return value == other;
}

static bool isE4m3(Options &options, const std::string &name) {
  return isOther(options, name, "bf16", "e4m3");
}

ChosenModel chooseModel(Options &options) {
  ChosenModel chosen;
  const std::string config = options.text("config");
  const std::string name = options.text("model", "llama-3-8b");
  const auto preset = findPreset(name);
  const int64_t layers = options.number("layers", 0);
  if (layers > 0 && (!preset || !config.empty()))
    throw Error("--layers cuts presets, not checkpoints and configs");
  if (!config.empty())
    chosen.configText = readConfigText(config);
  else if (preset)
    chosen.configText = layers > 0 ? withLayers(*preset, layers) : *preset;
  else {
    chosen.configText = readConfigText(name);
    chosen.checkpoint = std::make_unique<Checkpoint>(name);
  }
  chosen.config =
      parseModelConfig(chosen.configText, config.empty() ? name : config);
  if (chosen.checkpoint)
    splitExperts(chosen.config, *chosen.checkpoint);
  chosen.source.checkpoint = chosen.checkpoint.get();
  if (const std::string type = options.text("weights"); !type.empty())
    chosen.source.weights = weightTypeNamed("--weights", type);
  else if (!chosen.checkpoint)
    chosen.source.weights = announcedType(chosen.config);
  chosen.source.hasE4m3Head = isE4m3(options, "head");
  chosen.source.seed = static_cast<uint64_t>(options.number("seed", 1));
  return chosen;
}

static kiln_mode modeNamed(const std::string &name) {
  for (const auto &[text, mode] : {std::pair("tune", KILN_MODE_TUNE),
                                   std::pair("predict", KILN_MODE_PREDICT)})
    if (name == text)
      return mode;
  throw Error("--mode is '" + name + "', expected tune or predict");
}

RunnerOptions runnerOptions(Options &options, const char *mode) {
  RunnerOptions chosen;
  chosen.tokenBudget = options.number("token-budget", chosen.tokenBudget, 1);
  chosen.maxSequences = options.number("max-sequences", chosen.maxSequences, 1);
  chosen.maxPositions = options.number("max-positions", chosen.maxPositions);
  chosen.pageTokens = options.number("page-tokens", chosen.pageTokens, 1);
  chosen.pages = options.number("pages", chosen.pages);
  if (isE4m3(options, "kv-cache"))
    chosen.cache = CacheType::E4m3;
  chosen.mode = modeNamed(options.text("mode", mode));
  constexpr double kMsPerSecond = 1000, kMostMs = 1e12;
  // Upwards: a budget of 0 would be Kiln's default.
  chosen.budgetMs = static_cast<int64_t>(std::min(
      std::ceil(options.real("prepare-budget", 0) * kMsPerSecond), kMostMs));
  chosen.cacheDir = options.text("cache-dir");
  chosen.nvrtcPath = options.text("nvrtc");
  chosen.isStrict = !options.flag("no-strict");
  chosen.hasGraphs = !options.flag("no-graphs");
  return chosen;
}

static std::vector<int64_t> deviceList(const std::string &text) {
  std::vector<int64_t> devices;
  std::stringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    constexpr size_t kMostDigits = 9;
    if (word.empty() || word.size() > kMostDigits ||
        word.find_first_not_of("0123456789") != std::string::npos)
      throw Error("--devices has '" + word + "', expected numbers of GPUs");
    devices.push_back(std::stoll(word));
  }
  return devices;
}

RankOptions rankOptions(Options &options, const ModelConfig &model) {
  RankOptions chosen;
  chosen.count = options.number("tp", 1, 1);
  chosen.devices = deviceList(options.text("devices"));
  chosen.nccl = options.text("nccl");
  chosen.asksForNccl = isOther(options, "allreduce", "kiln", "nccl");
  chosen.rank = options.number("rank", 0);
  chosen.socket = static_cast<int>(options.number("rank-socket", -1, -1));
  if (chosen.devices.empty())
    for (int64_t i = 0; i < chosen.count; ++i)
      chosen.devices.push_back(i);
  if (chosen.count > 1 &&
      chosen.count != static_cast<int64_t>(chosen.devices.size()))
    throw Error("--devices names " + std::to_string(chosen.devices.size()) +
                " GPUs, expected " + std::to_string(chosen.count));
  partOf(model, chosen.count); // or it throws
  if (chosen.rank >= chosen.count)
    throw Error("--rank is " + std::to_string(chosen.rank) + " of " +
                std::to_string(chosen.count));
  return chosen;
}

Progress progressBar() {
  const bool isTerminal = isatty(fileno(stderr)) != 0;
  auto last = std::make_shared<std::string>();
  return [=](const std::string &what, int64_t done, int64_t all) {
    if (!isTerminal) {
      // A line for each stage.
      if (what != *last)
        std::fprintf(stderr, "%s\n", what.c_str());
      *last = what;
      return;
    }
    constexpr int64_t kWidth = 40;
    const int64_t filled = all > 0 ? kWidth * done / all : kWidth;
    std::fprintf(stderr, "\r[%s%s] %-40s%s",
                 std::string(static_cast<size_t>(filled), '#').c_str(),
                 std::string(static_cast<size_t>(kWidth - filled), '.').c_str(),
                 what.c_str(), done == all ? "\n" : "");
  };
}

Progress progressOf(const Ranks &ranks) {
  return ranks.isFirst() ? progressBar() : Progress();
}

} // namespace llama
