//===- Runner.cpp ---------------------------------------------------------===//
#include "Runner.h"

#include "Bytes.h"
#include "Error.h"
#include "MemoryNeeds.h"
#include "StepMessage.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

namespace llama {

namespace {

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

Shard shardOf(const Ranks *ranks) {
  return ranks ? Shard{ranks->rank(), ranks->count()} : Shard();
}

StepRoom roomOf(const RunnerOptions &options) {
  return {options.tokenBudget, options.maxSequences,
          (options.maxPositions + options.pageTokens - 1) / options.pageTokens};
}

} // namespace

void Runner::decide(RunnerOptions &options, const ModelConfig &model) {
  constexpr int64_t kMostPositions = 8192;
  if (options.maxPositions == 0)
    options.maxPositions = std::min(model.maxPositions, kMostPositions);
  if (options.maxPositions > model.maxPositions)
    throw Error("the model has " + std::to_string(model.maxPositions) +
                " positions, fewer than the " +
                std::to_string(options.maxPositions) + " that are wanted");
  options.tokenBudget = std::max(options.tokenBudget, options.maxSequences);
}

Runner::Runner(const Gpu &gpu, ModelConfig model, const WeightSource &source,
               RunnerOptions options, const Progress &progress)
    : gpu(gpu), config(std::move(model)), shard(shardOf(options.ranks)),
      own(partOf(config, shard.count)),
      chosen((decide(options, config), std::move(options))),
      scales(cacheScales(config, chosen.cache, source.checkpoint)),
      weights(load(source, progress)),
      ofSteps(stepCosts(own, weights.plan(), chosen.cache)),
      inputs(gpu, roomOf(chosen)) {
  TransformerRoom room;
  room.step = roomOf(chosen);
  room.positions = chosen.maxPositions;
  room.pageTokens = chosen.pageTokens;
  room.cache = chosen.cache;
  shareMemory();
  transformer = std::make_unique<Transformer>(gpu, own, shard, weights, inputs,
                                              room, scales, exchange.get());
  constexpr int64_t kBuckets[] = {1,  2,  4,   8,   16,  24,  32,  48,
                                  64, 96, 128, 192, 256, 384, 512, 1024};
  for (int64_t bucket : kBuckets)
    if (bucket < chosen.maxSequences)
      buckets.push_back(bucket);
  buckets.push_back(chosen.maxSequences);
  constexpr int64_t kLeastKeys = 512;
  for (int64_t keys = kLeastKeys; keys < chosen.maxPositions; keys *= 2)
    keyClasses.push_back(keys);
  keyClasses.push_back(chosen.maxPositions);
  prepare(progress);
}

DeviceWeights Runner::load(const WeightSource &source,
                           const Progress &progress) const {
  WeightPlan plan = planWeights(config, source, shard);
  EngineRoom room;
  room.tokens = chosen.tokenBudget;
  room.sequences = chosen.maxSequences;
  room.pages = chosen.pages;
  room.pageTokens = chosen.pageTokens;
  room.cache = chosen.cache;
  room.positions = chosen.maxPositions;
  requireRoom(memoryNeeds(own, plan, room), gpu.freeBytes(), gpu.totalBytes());
  std::optional<kiln::Engine> packer;
  if (plan.hasPacked())
    packer.emplace(makeEngine(KILN_MODE_PREDICT, KILN_DETERMINISM_SAME_PLAN));
  WeightFiller filler(gpu, config, source, packer ? &*packer : nullptr);
  return {gpu, std::move(plan), filler, [&](int64_t done, int64_t all) {
            if (progress)
              progress("weights", done, all);
          }};
}

Runner::~Runner() {
  if (isAlone() || std::uncaught_exceptions() > 0) {
    gpu.drain();
    return;
  }
  Ranks &ranks = *chosen.ranks;
  try {
    if (shard.isFirst()) {
      ranks.expectEnds();
      ranks.broadcast(""); // is no step
    }
    ranks.barrier();
    gpu.drain();
    if (exchange)
      exchange->unmap();
    ranks.barrier();
  } catch (const Error &) {
    // They have ended.
  }
  gpu.drain();
}

kiln::Engine Runner::makeEngine(kiln_mode mode,
                                kiln_determinism determinism) const {
  kiln::EngineOptions options;
  options.mode = mode;
  options.determinism = determinism;
  if (!chosen.cacheDir.empty())
    options.cache_dir = chosen.cacheDir.c_str();
  if (!chosen.nvrtcPath.empty())
    options.nvrtc_path = chosen.nvrtcPath.c_str();
  return kiln::Engine::create(options).orThrow();
}

void Runner::prepareWith(const kiln::Engine &engine, const char *what,
                         const Progress &progress) const {
  const auto problems = transformer->problems();
  const auto all = static_cast<int64_t>(problems.size());
  const kiln_stream stream = gpu.stream();
  kiln::PrepareOptions options;
  options.streams = &stream;
  options.stream_count = 1;
  // A share of 0 would be Kiln's default.
  options.budget_ms =
      chosen.budgetMs == 0 ? 0 : std::max<int64_t>(chosen.budgetMs / all, 1);
  for (int64_t i = 0; i < all; ++i) {
    const auto &[name, problem] = problems[static_cast<size_t>(i)];
    if (progress)
      progress(std::string(what) + ": " + name, i, all);
    engine.prepare({problem}, options).orThrow();
  }
  if (progress)
    progress(what, all, all);
}

void Runner::prepare(const Progress &progress) {
  const auto start = std::chrono::steady_clock::now();
  if (shard.isFirst()) {
    serving = std::make_unique<kiln::Engine>(
        makeEngine(chosen.mode, KILN_DETERMINISM_SAME_PLAN));
    prepareWith(*serving, "preparing", progress);
    statistics = serving->statistics().orThrow();
  }
  if (chosen.isStrict || !isAlone())
    serveFromCache(progress);
  if (!isAlone())
    connect();
  decidePages();
  transformer->makeCache(chosen.pages);
  if (chosen.hasGraphs)
    capture(progress);
  gpu.synchronize();
  if (!isAlone())
    chosen.ranks->barrier(); // a sum waits for a rank for 2 seconds, not longer
  secondsOfPrepare = secondsSince(start);
}

/// Opens an engine that loads what was measured.
void Runner::serveFromCache(const Progress &progress) {
  serving.reset();
  if (!isAlone())
    chosen.ranks->barrier(); // the cache has all that rank 0 found
  serving = std::make_unique<kiln::Engine>(makeEngine(
      chosen.isStrict ? KILN_MODE_STRICT : KILN_MODE_PREDICT,
      isAlone() ? KILN_DETERMINISM_SAME_PLAN : KILN_DETERMINISM_FROZEN_CHOICE));
  prepareWith(*serving, "loading", progress);
  if (!isAlone())
    requireAgreement();
}

void Runner::decidePages() {
  if (chosen.pages == 0) {
    constexpr double kShare = 0.9;
    chosen.pages = static_cast<int64_t>(
        double(gpu.freeBytes()) * kShare /
        double(cacheBytes(own, chosen.cache, chosen.pageTokens)));
    constexpr int64_t kMostPages = int64_t(1) << 24;
    chosen.pages = std::min(chosen.pages, kMostPages);
  }
  if (!isAlone())
    chosen.pages = chosen.ranks->least(chosen.pages);
  if (chosen.pages < kLeastPages)
    throw Error("a KV cache of " + std::to_string(kLeastPages) + " pages (" +
                bytesText(cacheBytes(own, chosen.cache,
                                     kLeastPages * chosen.pageTokens)) +
                ") does not fit: behind weights, activations and kernels the "
                "device has " +
                bytesText(gpu.freeBytes()) + " free of " +
                bytesText(gpu.totalBytes()) +
                "; choose a smaller --token-budget or --page-tokens");
}

void Runner::capture(const Progress &progress) {
  const uint64_t before = gpu.freeBytes();
  const auto all = static_cast<int64_t>(buckets.size() * keyClasses.size());
  for (int64_t bucket : buckets)
    for (int64_t keys : keyClasses) {
      if (progress)
        progress("capturing", static_cast<int64_t>(graphs.size()), all);
      const Pass pass = decodePass(bucket, keys);
      graphs[{bucket, keys}] = std::make_unique<Graph>(
          gpu, [&] { transformer->run(*serving, pass); });
    }
  if (progress)
    progress("capturing", all, all);
  const uint64_t after = gpu.freeBytes();
  bytesOfGraphs = before > after ? before - after : 0;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static int64_t leastOf(const std::vector<int64_t> &classes, int64_t value) {
  const auto found = std::lower_bound(classes.begin(), classes.end(), value);
  if (found == classes.end())
    throw Error("a step of " + std::to_string(value) +
                ", beyond the largest that was prepared: " +
                std::to_string(classes.back()));
  return *found;
}

int64_t Runner::bucketOf(int64_t sequences) const {
  return leastOf(buckets, sequences);
}
int64_t Runner::keysOf(int64_t longest) const {
  return leastOf(keyClasses, longest);
}

/// Throws Error unless the arrays on host and device have room for \p step.
void Runner::requireFit(const Step &step) const {
  const StepRoom &room = inputs.room();
  auto require = [](int64_t value, int64_t most, const char *what) {
    if (value < 1 || value > most)
      throw Error("a step of " + std::to_string(value) + what +
                  ", expected 1 to " + std::to_string(most));
  };
  int64_t tokens = 0;
  for (const auto *list : {&step.decodes, &step.prefills})
    for (const ScheduledSequence &sequence : *list) {
      require(sequence.tokens.size(), room.tokens, " tokens of a sequence");
      require(sequence.length(), chosen.maxPositions,
              " positions of a sequence");
      require(sequence.pages.size(), room.columns, " pages of a sequence");
      tokens += sequence.tokens.size();
    }
  require(tokens, room.tokens, " tokens");
  require(static_cast<int64_t>(step.decodes.size() + step.prefills.size()),
          room.sequences, " sequences");
}

static int64_t longestOf(const std::vector<ScheduledSequence> &sequences) {
  int64_t longest = 1;
  for (const ScheduledSequence &sequence : sequences)
    longest = std::max(longest, sequence.length());
  return longest;
}

Pass Runner::decodePass(int64_t bucket, int64_t keys) const {
  Pass pass;
  pass.decodes = pass.samples = bucket;
  pass.decodeKeys = keys;
  // Lengths of a class lie between half of its bound and the bound.
  pass.decodeKeysHint = keys * 3 / 4;
  pass.feedsItself = true;
  return pass;
}

bool Runner::continues(const Step &step, const Step &last) const {
  if (!step.prefills.empty() || !last.prefills.empty() ||
      step.decodes.size() != last.decodes.size())
    return false;
  for (size_t i = 0; i < step.decodes.size(); ++i)
    if (step.decodes[i].id != last.decodes[i].id)
      return false;
  // A padded batch resets its padding now and then, by a copy of all arrays.
  return bucketOf(static_cast<int64_t>(step.decodes.size())) ==
         static_cast<int64_t>(step.decodes.size());
}

const int32_t *Runner::runDecodes(const Step &step) {
  const int64_t bucket = bucketOf(static_cast<int64_t>(step.decodes.size()));
  const int64_t keys = keysOf(longestOf(step.decodes));
  inputs.setDecodes(step, bucket);
  const Pass pass = decodePass(bucket, keys);
  if (chosen.hasGraphs)
    graphs.at({bucket, keys})->launch();
  else
    transformer->run(*serving, pass);
  inputs.advance(bucket);
  return transformer->sampled(pass);
}

Pass Runner::mixedPass(const Step &step) {
  Pass pass;
  pass.decodes = static_cast<int64_t>(step.decodes.size());
  pass.decodeKeys = longestOf(step.decodes);
  pass.prefills = static_cast<int64_t>(step.prefills.size());
  pass.prefillKeys = longestOf(step.prefills);
  for (const ScheduledSequence &sequence : step.prefills) {
    pass.prefillTokens += sequence.tokens.size();
    pass.longestPrefill = std::max(pass.longestPrefill, sequence.tokens.size());
  }
  pass.samples = step.sampled;
  return pass;
}

const int32_t *Runner::runMixed(const Step &step) {
  inputs.setMixed(step);
  const Pass pass = mixedPass(step);
  transformer->run(*serving, pass);
  return transformer->sampled(pass);
}

/// Ends sums in flight that the others do not join: destructors wait for the
/// GPU.
void Runner::leaveOthers() {
  watched.reset();
  if (others)
    others->abort();
}

/// Does \p work, and sends \p step to the ranks that do the same. A failure
/// here is final then: the others have begun.
template <class Work>
auto Runner::withOthers(const Step &step, bool isProbe, const Work &work) {
  if (isAlone() || !shard.isFirst())
    return work();
  chosen.ranks->broadcast(bytesOf(step, isProbe));
  try {
    return work();
  } catch (const DeviceLost &) {
    leaveOthers();
    throw;
  } catch (const std::exception &error) {
    leaveOthers();
    throw DeviceLost(std::string("a step failed at rank 0 while others run "
                                 "it: ") +
                     error.what());
  }
}

void Runner::probe(const Step &step) {
  requireFit(step);
  if (step.tokens > chosen.maxSequences)
    throw Error(std::to_string(step.tokens) + " rows of logits, and room for " +
                std::to_string(chosen.maxSequences));
  withOthers(step, true, [&] { probeHere(step); });
}

void Runner::probeHere(const Step &step) {
  inputs.setMixed(step);
  Pass pass = mixedPass(step);
  pass.isProbe = true;
  transformer->run(*serving, pass);
  if (exchange)
    exchange->enqueueCheck();
}

const int32_t *Runner::run(const Step &step) {
  requireFit(step);
  return withOthers(step, false, [&] { return runHere(step); });
}

const int32_t *Runner::runHere(const Step &step) {
  const int32_t *tokens =
      step.prefills.empty() ? runDecodes(step) : runMixed(step);
  if (exchange)
    exchange->enqueueCheck();
  return tokens;
}

} // namespace llama
