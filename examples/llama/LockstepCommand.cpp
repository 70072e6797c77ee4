//===- LockstepCommand.cpp - blocks of steps on request -------------------===//
//
// A peer and this process take turns on one GPU: the peer sends a line of JSON,
// this process runs a block and answers with a line. Logs go to stderr. A block
// of decodes runs as the server's loop does: a graph a step, whose tokens are
// copied to the host, which is one step behind.
//
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "ConfigReader.h"
#include "Error.h"
#include "ManualSteps.h"
#include "Report.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>

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

  Json answer(const ConfigReader &asked) {
    const std::string what = asked.text("do");
    if (what == "setup")
      return setUp(asked);
    if (what == "decode")
      return decode(asked);
    if (what == "prefill")
      return prefill(asked);
    if (what == "rates") {
      const DeviceRates rates = deviceRates(gpu, runner);
      return {{"gb_per_s", rates.bytesPerNs},
              {"product_tflops", rates.flopsPerNs / 1e3}};
    }
    if (what == "memory")
      return {{"memory", memoryReport(gpu, runner)},
              {"counts", countsReport(runner)}};
    asked.refuse("do", "expected setup, decode, prefill, rates or memory");
  }

private:
  static constexpr int kSlots = 2;

  /// The sequences of a set-up, each with cached tokens and more to come.
  struct Shape {
    bool isDecode = false;
    int64_t sequences = 0, cached = 0, tokens = 0;
  };

  uint64_t resultBytes() const {
    return static_cast<uint64_t>(runner.options().maxSequences) *
           sizeof(int32_t);
  }

  /// Fills the caches with the keys of random tokens.
  void fill(ManualSteps &chunks, const Shape &wanted) {
    const int64_t most = runner.options().tokenBudget / wanted.sequences;
    for (int64_t first = 0; first < wanted.cached; first += most)
      runner.run(chunks.prefill(wanted.sequences, first,
                                std::min(most, wanted.cached - first),
                                vocabulary));
    gpu.synchronize();
  }

  /// A shape that the runner has room for.
  Shape readShape(const ConfigReader &asked) const {
    const RunnerOptions &room = runner.options();
    Shape wanted;
    const std::string kind = asked.text("kind");
    wanted.isDecode = kind == "decode";
    if (!wanted.isDecode && kind != "prefill")
      asked.refuse("kind", "expected decode or prefill");
    wanted.sequences = asked.integer(wanted.isDecode ? "batch" : "sequences", 1,
                                     room.maxSequences);
    wanted.cached = asked.integer(wanted.isDecode ? "context" : "cached", 0,
                                  room.maxPositions - 1);
    wanted.tokens = asked.integer(wanted.isDecode ? "steps" : "tokens", 1,
                                  room.maxPositions - wanted.cached);
    const int64_t padded = runner.bucketOf(wanted.sequences);
    if (wanted.isDecode && padded != wanted.sequences)
      asked.refuse("batch", "but a block decodes without padding: ask for " +
                                std::to_string(padded) +
                                ", or start with this --batch");
    if (!wanted.isDecode && wanted.tokens > room.tokenBudget / wanted.sequences)
      asked.refuse("tokens", "but " + std::to_string(wanted.sequences) +
                                 " sequences share a step of " +
                                 std::to_string(room.tokenBudget) + " tokens");
    return wanted;
  }

  /// After a set-up that is refused nothing is set up.
  Json setUp(const ConfigReader &asked) {
    steps.reset();
    const Shape wanted = readShape(asked);
    const int64_t page = runner.options().pageTokens;
    const int64_t positions = wanted.cached + wanted.tokens;
    const int64_t pages = (positions + page - 1) / page * wanted.sequences + 1;
    if (pages > runner.pages())
      throw Error(std::to_string(pages) + " pages are needed, and there are " +
                  std::to_string(runner.pages()));
    auto made = std::make_unique<ManualSteps>(page, positions);
    fill(*made, wanted);
    shape = wanted;
    steps = std::move(made);
    return Json::object();
  }

  void requireSetUp(bool isDecode) const {
    if (!steps || shape.isDecode != isDecode)
      throw Error(std::string("nothing is set up for ") +
                  (isDecode ? "decoding" : "prefills"));
  }

  int32_t *slot(int64_t step) const {
    return results.at<int32_t>(static_cast<uint64_t>(step % kSlots) *
                               resultBytes());
  }

  Json decode(const ConfigReader &asked) {
    requireSetUp(true);
    const int64_t count = asked.integer("steps", 1, shape.tokens);
    const int64_t sequences = shape.sequences, cached = shape.cached;
    Json lists = Json::array();
    auto collect = [&](int64_t step) {
      done[step % kSlots].wait();
      runner.requireRanks();
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
            {"bytes", decodeBytes(runner.costs(), sequences,
                                  double(cached) + double(count) / 2)}};
  }

  Json prefill(const ConfigReader &asked) {
    requireSetUp(false);
    constexpr int64_t kMostRepeats = 1 << 20;
    const int64_t repeats = asked.integer("repeats", 1, kMostRepeats, 1);
    Json times = Json::array();
    for (int64_t i = 0; i < repeats; ++i) {
      const Step step = steps->prefill(shape.sequences, shape.cached,
                                       shape.tokens, vocabulary);
      gpu.synchronize();
      start.record();
      runner.run(step);
      end.record();
      end.wait();
      runner.requireRanks();
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
  std::unique_ptr<ManualSteps> steps; ///< null: nothing is set up
  Shape shape;
};

void say(Json line) { std::cout << line.dump() << std::endl; }

} // namespace

int lockstepCommand(Options &options) {
  ChosenModel chosen = chooseModel(options);
  RunnerOptions room = runnerOptions(options);
  // The room of a race: sequences, positions of each, tokens of a step, tokens
  // of the cache.
  room.maxSequences = options.number("batch", room.maxSequences, 1);
  room.maxPositions = options.number("context", room.maxPositions);
  room.tokenBudget = options.number("tokens", room.tokenBudget, 1);
  if (const int64_t cached = options.number("cache-tokens", 0))
    room.pages = 1 + (cached + room.pageTokens - 1) / room.pageTokens;
  const RankOptions places = rankOptions(options, chosen.config);
  options.requireNoOthers();
  // Races go beyond the positions of a model: its kernels do not know them.
  chosen.config.maxPositions =
      std::max(chosen.config.maxPositions, room.maxPositions);
  Ranks ranks(places);
  room.ranks = &ranks;
  const Gpu gpu(ranks.device());
  Runner runner(gpu, chosen.config, chosen.source, room, progressOf(ranks));
  if (runner.follow())
    return 0;
  Json ready = {{"ready", true},
                {"device", gpu.name()},
                {"weights_bytes", runner.modelWeights().bytes()},
                {"prepare_s", runner.prepareSeconds()},
                {"compiles", runner.prepared().compiles},
                {"trials", runner.prepared().trials}};
  if (ranks.areSeveral())
    ready["allreduce"] = runner.allReduce();
  say(std::move(ready));
  Lockstep lockstep(gpu, runner);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty())
      continue;
    try {
      const Json parsed = parseJson(line, "the line");
      const ConfigReader asked(parsed, "the command");
      if (asked.text("do") == "quit") {
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
