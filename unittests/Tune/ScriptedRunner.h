//===- ScriptedRunner.h - trials without a GPU ----------------------------===//
//
// A runner whose times and verdicts are in tables. It validates like a real
// one: the fastest first, until the others are slower than a valid one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Store/StoreFixture.h"
#include "Trial/TrialRunner.h"
#include "Tune/Tuner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace kiln::fake {

class ScriptedRunner final : public TrialRunner {
public:
  struct Script {
    double ns = 0;
    double halfWidth = 0.002; ///< of the interval, relative
    TrialStatus status = TrialStatus::Ok;
    int64_t samples = 7;
    bool slowToFail = false; ///< its fault shows only when it is validated
    /// The time of its comparison. No thread sleeps, but within a shorter limit
    /// it is not compared.
    std::chrono::milliseconds comparison{0};
  };

  /// The time of a config that is not in the table.
  static double defaultNs(const std::string &config) {
    static const std::map<std::string, double> times = {
        {"fast.t16", 1400},  {"fast.t32", 1200},  {"fast.t64", 1000},
        {"pair.t64", 3000},  {"fast.t128", 1200}, {"fast.t256", 1400},
        {"pair.t128", 3200}, {"plain.t32", 20000}};
    return times.at(config);
  }

  llvm::Expected<std::vector<TrialResult>>
  run(const TrialRequest &request,
      const std::atomic<bool> *cancel = nullptr) override {
    canBeCancelled &= cancel != nullptr;
    requests.push_back(request);
    std::this_thread::sleep_for(delay * request.candidates.size());
    if (onRun)
      onRun();
    if (error.code != ErrorCode::Success)
      return errorOf(error);
    std::vector<TrialResult> results;
    for (const TrialCandidate &candidate : request.candidates) {
      for (const ArtifactPtr &artifact : candidate.artifacts)
        CHECK(artifact);
      results.push_back(play(candidate.config(), request.options));
    }
    validate(results, request);
    return results;
  }
  bool isAlive() const override { return alive; }

  /// The configs of all requests, in order.
  std::vector<std::string> configs() const {
    return configsOf([](const TrialRequest &) { return true; });
  }
  /// The configs of requests that measure.
  std::vector<std::string> measured() const {
    return configsOf(
        [](const TrialRequest &request) { return request.options.measure; });
  }

  std::map<std::string, Script> scripts;
  std::optional<Script> anyScript;    ///< of all configs
  std::chrono::milliseconds delay{0}; ///< of each candidate
  std::function<void()> onRun;
  /// The factor of a config's times in a request, by the request's number from
  /// 1: clocks and noise.
  std::function<double(const std::string &config, size_t request)> factor;
  ErrorSummary error;
  bool alive = true;
  bool canBeCancelled = true; ///< every request
  std::vector<TrialRequest> requests;

private:
  template <class Keep>
  std::vector<std::string> configsOf(const Keep &keep) const {
    std::vector<std::string> all;
    for (const TrialRequest &request : requests)
      for (const TrialCandidate &candidate : request.candidates)
        if (keep(request))
          all.push_back(candidate.config());
    return all;
  }

  Script scriptOf(const std::string &config) const {
    auto found = scripts.find(config);
    Script script = found != scripts.end() ? found->second
                    : anyScript            ? *anyScript
                                           : Script();
    if (script.ns == 0)
      script.ns = defaultNs(config);
    return script;
  }

  TrialResult play(const std::string &config, const TrialOptions &options) {
    const Script script = scriptOf(config);
    TrialResult result;
    result.config = config;
    if (!script.slowToFail)
      result.status = script.status;
    if (result.status != TrialStatus::Ok)
      result.message = "as the script says";
    if (result.status == TrialStatus::ContextDead)
      alive = false;
    if (!options.measure || result.status != TrialStatus::Ok)
      return result;
    result.medianNs =
        script.ns * (factor ? factor(config, requests.size()) : 1);
    result.ciLowNs = result.medianNs * (1 - script.halfWidth);
    result.ciHighNs = result.medianNs * (1 + script.halfWidth);
    result.samples = script.samples;
    return result;
  }

  void validate(std::vector<TrialResult> &results,
                const TrialRequest &request) {
    const TrialValidation validation = request.options.validation;
    if (validation == TrialValidation::None)
      return;
    std::vector<size_t> order;
    for (size_t i = 0; i < results.size(); ++i)
      order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return results[a].medianNs < results[b].medianNs;
    });
    double best = 0;
    for (size_t i : order) {
      TrialResult *result = &results[i];
      const bool mayWin = validation == TrialValidation::MayWin;
      if (result->status != TrialStatus::Ok ||
          (mayWin && best > 0 && result->medianNs > best * (1 + kTieBand)))
        continue;
      if (!mayWin || !request.candidates[i].isProven) {
        const Script script = scriptOf(result->config);
        if (script.comparison >
            request.options.timeLimit + request.options.extraTime) {
          if (result->samples == 0)
            result->status = TrialStatus::Timeout;
          continue;
        }
        result->status = script.status;
      }
      result->validated = result->status == TrialStatus::Ok;
      if (result->validated && (best == 0 || result->medianNs < best))
        best = result->medianNs;
    }
  }
};

/// For ScriptedRunner::factor: a clock that goes up and down by 30 % of what it
/// is in the first request, and noise of up to \p noise to either side of each
/// time.
inline std::function<double(const std::string &, size_t)>
noisyClock(double noise) {
  return [noise](const std::string &config, size_t request) {
    auto seed = static_cast<uint32_t>(request * 2654435761u);
    for (char c : config)
      seed = (seed ^ static_cast<unsigned char>(c)) * 16777619u;
    seed ^= seed >> 15;
    seed *= 2246822519u;
    seed ^= seed >> 13;
    const double random = seed * (2.0 / 4294967296.0) - 1;
    return (1 + 0.3 * std::sin(static_cast<double>(request) - 1)) *
           (1 + noise * random);
  };
}

/// The script of a config whose every trial ends with \p status.
inline ScriptedRunner::Script failing(TrialStatus status) {
  return {.status = status};
}

struct TunerFixture : StoreFixture {
  /// Compiles every config's kernels, so that batches depend on no clock.
  void compileAll() {
    std::vector<TranslationUnit> units;
    Space space = must(exploreSpace(family, problem, device));
    for (const Candidate &candidate : space.ranked)
      for (auto &unit :
           candidate.tmpl->plan(problem, candidate.config, device).kernels)
        units.push_back(unit);
    for (const ArtifactOutcome &outcome : artifacts->compileAll(units))
      REQUIRE(static_cast<bool>(outcome));
  }

  /// As many as there are, up to eight.
  void compileOnManyThreads() {
    ArtifactStoreOptions storeOptions;
    storeOptions.pool.threads = 8;
    reopen(storeOptions);
  }

  Tuner tuner(bool withRunner = true) {
    return Tuner(device, *artifacts, *records(),
                 withRunner ? &runner : nullptr);
  }
  llvm::Expected<TuningResult> tune(llvm::StringRef text = "fake m=64 n=64") {
    return tuner().tune(family, makeProblem(family, text), options);
  }

  RecordStore *records() {
    recordStore = std::make_unique<RecordStore>(*cache);
    return recordStore.get();
  }
  /// The one point of the record of the fixture's problem, or nullopt.
  std::optional<RecordPoint> recordedPoint() {
    auto record = records()->load(family, problem, deviceClassKey(device));
    if (record->empty())
      return std::nullopt;
    REQUIRE(record->size() == 1);
    return record->at(0);
  }

  ScriptedRunner runner;
  TuningOptions options;
  std::unique_ptr<RecordStore> recordStore;
};

/// The error's code; Success for a value.
inline ErrorCode codeOf(llvm::Expected<TuningResult> &result) {
  return result ? ErrorCode::Success : summarize(result.takeError()).code;
}

} // namespace kiln::fake
