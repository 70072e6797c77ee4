//===- Runner.h - steps of a scheduler on the GPU -------------------------===//
//
// Prepares all problems of a model's passes, captures a graph for each size of
// a decoding batch and each bound of its lengths, and runs steps: decodes by
// replay of a graph, steps with prefills launch by launch.
//
// Tuning and serving are two engines of Kiln over one cache: the first one
// measures kernels, the second one (strict) can compile and measure nothing, so
// a size that was not prepared is an error and not a stall.
//
// On several GPUs each rank has a runner of its part of the model. Rank 0
// measures; then all serve with frozen choices over what it stored, and compare
// their digests. Rank 0 sends each step to the others before it runs it. Ranks
// sum by Kiln, or by NCCL where they are asked to or share no memory.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_RUNNER_H
#define KILN_EXAMPLES_LLAMA_RUNNER_H

#include "DeviceWeights.h"
#include "ExchangeMemory.h"
#include "Gpu.h"
#include "Nccl.h"
#include "Ranks.h"
#include "Roofline.h"
#include "Scheduler.h"
#include "Shard.h"
#include "StepInputs.h"
#include "Transformer.h"

#include <kiln/kiln.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace llama {

struct RunnerOptions {
  int64_t tokenBudget = 2048; ///< tokens of a step
  int64_t maxSequences = 64;  ///< of a step
  int64_t maxPositions = 0;   ///< of a sequence; 0: the model's, 8192 at most
  int64_t pageTokens = 64;
  int64_t pages = 0; ///< of the cache; 0: as the device has room
  CacheType cache = CacheType::Bf16;
  kiln_mode mode = KILN_MODE_TUNE; ///< of preparing
  int64_t budgetMs = 0;            ///< of preparing, for all; 0: Kiln's default
  std::string cacheDir;            ///< Kiln's cache; empty: its default
  bool isStrict = true;            ///< serves in the mode strict
  bool hasGraphs = true;           ///< false: every launch is made by the host
  std::string nvrtcPath;           ///< empty: as Kiln finds it
  Ranks *ranks = nullptr;          ///< null: this process is alone
};

/// Tells of long work: a name, and how much of it is done.
using Progress =
    std::function<void(const std::string &what, int64_t done, int64_t all)>;

/// Owns weights, cache, kernels and graphs. Not thread-safe.
class Runner {
public:
  /// Loads the weights and prepares: minutes where nothing is in the cache.
  /// Throws Error, kiln::Error.
  Runner(const Gpu &gpu, ModelConfig model, const WeightSource &source,
         RunnerOptions options, const Progress &progress);
  /// Waits for the steps in flight; at rank 0 ends the ranks that follow.
  ~Runner();

  const ModelConfig &model() const { return config; }
  /// The part of the model that this rank computes.
  const ModelConfig &part() const { return own; }
  const RunnerOptions &options() const { return chosen; }
  int64_t pages() const { return chosen.pages; }

  /// Whether \p step can be enqueued before the host knows the tokens of the
  /// last one, which was \p last: the same decodes go on in the same rows.
  bool continues(const Step &step, const Step &last) const;
  /// The batch that \p sequences decodes are padded to. Throws Error for more
  /// than options().maxSequences.
  int64_t bucketOf(int64_t sequences) const;
  /// Enqueues \p step. Its tokens are int32 [step.sampled] in device memory, in
  /// the order of Step::samplers(); they stay until the next step. Throws Error
  /// for a step beyond the room of options(), DeviceLost and kiln::Error.
  const int32_t *run(const Step &step);
  /// Enqueues \p step with a row of logits for each of its tokens and without
  /// sampling; not more tokens than options().maxSequences.
  void probe(const Step &step);
  /// Behind another rank 0: runs its steps until it ends. False at a rank 0.
  bool follow();
  /// The step's logits, fp32 [sampled][vocabulary], until the next step.
  DeviceAddress logits() const { return transformer->logits(); }
  /// Behind a wait for a step, before its results are used. Throws Error if a
  /// rank did not take part.
  void requireRanks() const;

  /// How several ranks sum: "kiln" or "nccl". Empty for one that is alone.
  std::string allReduce() const;

  kiln::Engine &engine() { return *serving; }
  const DeviceWeights &modelWeights() const { return weights; }
  const StepCosts &costs() const { return ofSteps; }
  uint64_t graphBytes() const { return bytesOfGraphs; }
  double prepareSeconds() const { return secondsOfPrepare; }
  /// Compilations and trials of preparing.
  const kiln::Statistics &prepared() const { return statistics; }

private:
  using GraphKey = std::pair<int64_t, int64_t>; ///< sequences, keys

  bool isAlone() const { return shard.isWhole(); }
  kiln::Engine makeEngine(kiln_mode mode, kiln_determinism determinism) const;
  void prepare(const Progress &progress);
  void serveFromCache(const Progress &progress);
  void requireAgreement();
  void shareMemory();
  void connect();
  void connectByNccl();
  void leaveOthers();
  void decidePages();
  void prepareWith(const kiln::Engine &engine, const char *what,
                   const Progress &progress) const;
  void capture(const Progress &progress);
  DeviceWeights load(const WeightSource &source,
                     const Progress &progress) const;
  static void decide(RunnerOptions &options, const ModelConfig &model);
  void requireFit(const Step &step) const;
  int64_t keysOf(int64_t longest) const;
  Pass decodePass(int64_t bucket, int64_t keys) const;
  const int32_t *runDecodes(const Step &step);
  const int32_t *runMixed(const Step &step);
  static Pass mixedPass(const Step &step);
  const int32_t *runHere(const Step &step);
  void probeHere(const Step &step);
  template <class Work>
  auto withOthers(const Step &step, bool isProbe, const Work &work);

  const Gpu &gpu;
  ModelConfig config;
  Shard shard;
  ModelConfig own;
  RunnerOptions chosen;
  // One of both, which outlives the graphs that use it.
  std::unique_ptr<ExchangeMemory> exchange;
  std::unique_ptr<Communicator> others;
  struct StopsWatching {
    void operator()(Ranks *ranks) const { ranks->watch(nullptr); }
  };
  std::unique_ptr<Ranks, StopsWatching> watched; ///< asks for failures of sums
  /// The cache's scales, whose faults show before the weights are loaded.
  std::vector<float> scales;
  DeviceWeights weights;
  StepCosts ofSteps;
  StepInputs inputs;
  std::unique_ptr<Transformer> transformer;
  std::unique_ptr<kiln::Engine> serving;
  std::vector<int64_t> buckets, keyClasses; ///< rising
  std::map<GraphKey, std::unique_ptr<Graph>> graphs;
  uint64_t bytesOfGraphs = 0;
  double secondsOfPrepare = 0;
  kiln::Statistics statistics;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_RUNNER_H
