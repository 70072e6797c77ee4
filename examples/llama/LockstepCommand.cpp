//===- LockstepCommand.cpp - blocks of steps on request -------------------===//
//
// A peer and this process take turns on one GPU: the peer sends a line of JSON,
// this process runs a block and answers with a line. Logs go to stderr. A block
// of decodes runs as the server's loop does: a graph a step, whose tokens are
// copied to the host, which is one step behind.
//
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "Error.h"
#include "ManualSteps.h"
#include "Report.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

namespace llama {

namespace {

using Json = nlohmann::json;

class Lockstep {
public:
  Lockstep(const Gpu &gpu, Runner &runner)
      : gpu(gpu), runner(runner),
        vocabulary(static_cast<int32_t>(runner.model().vocabSize)),
        results(gpu, kSlots * resultBytes()), start(gpu),
        end(gpu), done{Event(gpu), Event(gpu)} {}

  Json answer(const Json &asked) {
    const std::string what = asked.at("do");
    if (what == "setup")
      return setUp(asked);
    if (what == "decode")
      return decode(asked.at("steps"));
    if (what == "prefill")
      return prefill(asked.value("repeats", 1));
    if (what == "rates") {
      const DeviceRates rates = deviceRates(gpu, runner);
      return {{"gb_per_s", rates.bytesPerNs},
              {"product_tflops", rates.flopsPerNs / 1e3}};
    }
    if (what == "memory")
      return {{"memory", memoryReport(gpu, runner)},
              {"counts", countsReport(runner)}};
    throw Error("there is nothing called '" + what + "' to do");
  }

private:
  static constexpr int kSlots = 2;

  uint64_t resultBytes() const {
    return static_cast<uint64_t>(runner.options().maxSequences) *
           sizeof(int32_t);
  }

  /// Fills the caches with the keys of random tokens.
  void fill(int64_t count, int64_t length) {
    const int64_t most =
        std::max<int64_t>(runner.options().tokenBudget / count, 1);
    for (int64_t first = 0; first < length; first += most)
      runner.run(steps->prefill(count, first, std::min(most, length - first),
                                vocabulary));
    gpu.synchronize();
  }

  Json setUp(const Json &asked) {
    const bool isDecode = asked.at("kind") == "decode";
    sequences = asked.at(isDecode ? "batch" : "sequences");
    cached = asked.at(isDecode ? "context" : "cached");
    tokens = isDecode ? asked.at("steps") : asked.at("tokens");
    if (sequences < 1 || cached < 0 || tokens < 1 ||
        cached + tokens > runner.options().maxPositions)
      throw Error(
          "a set-up of " + std::to_string(sequences) + " sequences of " +
          std::to_string(cached + tokens) + " positions, of which " +
          std::to_string(runner.options().maxPositions) + " are prepared");
    const int64_t page = runner.options().pageTokens;
    const int64_t pages = (cached + tokens + page - 1) / page * sequences + 1;
    if (pages > runner.pages())
      throw Error(std::to_string(pages) + " pages are needed, and there are " +
                  std::to_string(runner.pages()));
    steps = std::make_unique<ManualSteps>(page, cached + tokens);
    fill(sequences, cached);
    return Json::object();
  }

  void requireSetUp() const {
    if (!steps)
      throw Error("nothing is set up");
  }

  int32_t *slot(int64_t step) const {
    return results.at<int32_t>(static_cast<uint64_t>(step % kSlots) *
                               resultBytes());
  }

  Json decode(int64_t count) {
    requireSetUp();
    if (count < 1 || count > tokens)
      throw Error(std::to_string(count) + " steps, and room for " +
                  std::to_string(tokens));
    Json lists = Json::array();
    auto collect = [&](int64_t step) {
      done[step % kSlots].wait();
      const int32_t *from = slot(step);
      lists.push_back(std::vector<int32_t>(from, from + sequences));
    };
    gpu.synchronize();
    const auto wall = std::chrono::steady_clock::now();
    for (int64_t step = 0; step < count; ++step) {
      const Step next =
          steps->decode(sequences, cached + step, step > 0, vocabulary);
      if (step == 0)
        start.record();
      const int32_t *sampled = runner.run(next);
      copyToHost(gpu, slot(step), reinterpret_cast<DeviceAddress>(sampled),
                 static_cast<uint64_t>(sequences) * sizeof(int32_t));
      done[step % kSlots].record();
      if (step + 1 == count)
        end.record();
      if (step > 0)
        collect(step - 1);
    }
    collect(count - 1);
    end.wait();
    return {{"ms", Event::millisecondsBetween(start, end)},
            {"wall_ms", millisecondsSince(wall)},
            {"steps", count},
            {"tokens", std::move(lists)},
            {"bytes", decodeBytes(runner.model(), sequences,
                                  double(cached) + double(count) / 2)}};
  }

  Json prefill(int64_t repeats) {
    requireSetUp();
    Json times = Json::array();
    for (int64_t i = 0; i < repeats; ++i) {
      const Step step = steps->prefill(sequences, cached, tokens, vocabulary);
      gpu.synchronize();
      start.record();
      runner.run(step);
      end.record();
      end.wait();
      times.push_back(Event::millisecondsBetween(start, end));
    }
    return {{"ms", std::move(times)}};
  }

  static double millisecondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now() - start)
        .count();
  }

  const Gpu &gpu;
  Runner &runner;
  int32_t vocabulary;
  PinnedMemory results; ///< [slots][sequences]
  Event start, end;
  Event done[kSlots];
  std::unique_ptr<ManualSteps> steps;
  int64_t sequences = 0, cached = 0, tokens = 0;
};

void say(Json line) { std::cout << line.dump() << std::endl; }

} // namespace

int lockstepCommand(Options &options) {
  ChosenModel chosen = chooseModel(options);
  RunnerOptions room = runnerOptions(options);
  // The room of a race: sequences, positions of each, tokens of a step, tokens
  // of the cache.
  room.maxSequences = options.number("batch", room.maxSequences);
  room.maxPositions = options.number("context", room.maxPositions);
  room.tokenBudget = options.number("tokens", room.tokenBudget);
  if (const int64_t cached = options.number("cache-tokens", 0))
    room.pages = 1 + (cached + room.pageTokens - 1) / room.pageTokens;
  options.requireNoOthers();
  // Races go beyond the positions of a model: its kernels do not know them.
  chosen.config.maxPositions =
      std::max(chosen.config.maxPositions, room.maxPositions);
  const Gpu gpu;
  Runner runner(gpu, chosen.config, chosen.source, room, progressBar());
  say({{"ready", true},
       {"device", gpu.name()},
       {"weights_bytes", runner.modelWeights().bytes()},
       {"prepare_s", runner.prepareSeconds()},
       {"compiles", runner.prepared().compiles},
       {"trials", runner.prepared().trials}});
  Lockstep lockstep(gpu, runner);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty())
      continue;
    try {
      const Json asked = Json::parse(line);
      if (asked.at("do") == "quit") {
        say({{"ok", true}});
        return 0;
      }
      Json answer = lockstep.answer(asked);
      answer["ok"] = true;
      say(std::move(answer));
    } catch (const DeviceLost &) {
      throw;
    } catch (const std::exception &error) {
      say({{"ok", false}, {"error", error.what()}});
    }
  }
  return 0;
}

} // namespace llama
