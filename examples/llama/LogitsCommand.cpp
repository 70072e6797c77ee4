//===- LogitsCommand.cpp - logits of token lists --------------------------===//
//
// Sequences run as a serving engine would run them: prefills, whole or in
// chunks, behind the keys that are cached; or token by token as decodes. The
// logits of every token are written.
//
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "Error.h"
#include "ManualSteps.h"
#include "TokenLists.h"

#include <algorithm>
#include <fstream>

namespace llama {

int logitsCommand(Options &options) {
  const std::string tokensPath = options.text("tokens"),
                    out = options.text("out");
  const bool isOneByOne = options.flag("one-by-one");
  const int64_t chunk = isOneByOne ? 1 : options.number("chunk", 0);
  // Without either all lists are one step.
  const bool isTogether = chunk == 0;
  ChosenModel chosen = chooseModel(options);
  RunnerOptions room = runnerOptions(options, "predict");
  const RankOptions places = rankOptions(options, chosen.config);
  options.requireNoOthers();
  const TokenLists lists = readTokenLists(tokensPath, chosen.config.vocabSize);
  int64_t all = 0, longest = 1;
  for (const auto &list : lists) {
    longest = std::max(longest, static_cast<int64_t>(list.size()));
    all += static_cast<int64_t>(list.size());
  }
  // A row of logits for each token of a step.
  room.tokenBudget = room.maxSequences = isTogether ? all : longest;
  room.maxPositions = std::max(room.maxPositions, longest);
  const int64_t pages = (longest + room.pageTokens - 1) / room.pageTokens;
  room.pages =
      1 + pages * (isTogether ? static_cast<int64_t>(lists.size()) : 1);
  room.hasGraphs = room.isStrict = false;

  Ranks ranks(places);
  room.ranks = &ranks;
  const Gpu gpu(ranks.device());
  Runner runner(gpu, chosen.config, chosen.source, room, progressOf(ranks));
  if (runner.follow())
    return 0;
  std::ofstream file(out, std::ios::binary);
  ManualSteps steps(runner.options().pageTokens);
  const int64_t rowFloats = chosen.config.vocabSize;
  std::vector<float> rows;
  auto write = [&](int64_t count) {
    rows.resize(static_cast<size_t>(count * rowFloats));
    copyToHost(gpu, rows.data(), runner.logits(), rows.size() * sizeof(float));
    gpu.synchronize();
    runner.requireRanks();
    file.write(reinterpret_cast<const char *>(rows.data()),
               static_cast<std::streamsize>(rows.size() * sizeof(float)));
  };
  if (isTogether) {
    runner.probe(steps.prefillOf(lists));
    write(all);
  } else {
    for (const auto &list : lists) {
      const auto length = static_cast<int64_t>(list.size());
      const int64_t step = chunk > 0 ? chunk : length;
      for (int64_t first = 0; first < length; first += step) {
        const int64_t count = std::min(step, length - first);
        runner.probe(steps.chunkOf(list, first, count, isOneByOne));
        write(count);
      }
    }
  }
  if (!file.flush())
    throw Error(out + " cannot be written");
  return 0;
}

} // namespace llama
