//===- DrawSource.cpp -----------------------------------------------------===//
#include "kiln-bench/DrawSource.h"

#include "cli/Console.h"
#include "cli/Stopwatch.h"
#include "cli/TuneAll.h"
#include "kiln-bench/LoadedKernels.h"

#include <set>

namespace kiln::cli {

namespace {

/// An engine with its cache, which is read for what it loads.
struct MeetingEngine {
  EnginePtr engine;
  std::unique_ptr<cache::Store> cache;
  std::unique_ptr<ArtifactStore> artifacts;
};

/// Problems met by engines, as their users call them.
class EngineSource final : public DrawSource {
public:
  EngineSource(DrawState state, const DrawTools &tools)
      : state(state), tools(tools),
        kernels(tools.registry, tools.session.model()) {}

  llvm::Error prepare(const DrawRequest &request,
                      const Stream &stream) override;
  llvm::Expected<DrawChoice> meet(size_t index, const TrialBuffers &buffers,
                                  const Stream &stream) override;
  DrawCost cost() override;

private:
  llvm::Error start(const std::string &name);
  void retire();
  llvm::Error prepareLayers(const Stream &stream);
  llvm::Error prepareLayer(const Layer &layer, const Stream &stream,
                           PreparedLayer &prepared);

  const DrawState state;
  const DrawTools tools;
  const DrawRequest *draw = nullptr;
  LoadedKernels kernels; ///< outlives the engine, which tells it
  MeetingEngine meeting;
  DrawCost total;
};

/// Problems tuned one by one before any is measured.
class TunedSource final : public DrawSource {
public:
  explicit TunedSource(const DrawTools &tools) : tools(tools) {}

  llvm::Error prepare(const DrawRequest &request,
                      const Stream &stream) override;
  llvm::Expected<DrawChoice> meet(size_t index, const TrialBuffers &,
                                  const Stream &) override;
  DrawCost cost() override;

private:
  const DrawTools tools;
  std::vector<TuningOutcome> outcomes;
  DrawCost total;
};

} // namespace

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

/// Begins with an engine that has the cache called \p name.
llvm::Error EngineSource::start(const std::string &name) {
  retire();
  const kiln_mode mode =
      state == DrawState::First ? KILN_MODE_PREDICT : KILN_MODE_TUNE;
  const std::string folder =
      tools.options.value("--cache-dir").value_or(tools.folder.cache(name));
  auto engine = makeEngine(mode, folder, tools.options, tools.environment,
                           kernels.listener());
  if (!engine)
    return engine.takeError();
  meeting.engine = std::move(*engine);
  auto storeOptions = artifactOptions(tools.options, tools.environment);
  if (!storeOptions)
    return storeOptions.takeError();
  cache::StoreOptions cacheOptions;
  cacheOptions.writeDir = folder;
  meeting.cache = cache::Store::open(std::move(cacheOptions));
  meeting.artifacts =
      std::make_unique<ArtifactStore>(*meeting.cache, std::move(*storeOptions));
  return llvm::Error::success();
}

/// Takes the counts of the engine and ends it.
void EngineSource::retire() {
  if (!meeting.engine)
    return;
  total.compiles += statisticsOf(meeting.engine.get()).compiles;
  kernels.takeNew(*meeting.artifacts);
  meeting = {};
}

llvm::Error EngineSource::prepare(const DrawRequest &request,
                                  const Stream &stream) {
  draw = &request;
  // In the other states each draw begins with an empty cache.
  return state == DrawState::Prepared ? prepareLayers(stream)
                                      : llvm::Error::success();
}

llvm::Error EngineSource::prepareLayers(const Stream &stream) {
  if (llvm::Error error = start("prepared"))
    return error;
  ProgressBar bar("preparing");
  for (const Layer &layer : draw->layers) {
    bar.update(total.layers.size(), draw->layers.size(), layer.name);
    PreparedLayer &prepared = total.layers.emplace_back();
    prepared.name = layer.name;
    if (llvm::Error error = prepareLayer(layer, stream, prepared)) {
      ErrorSummary summary = summarize(std::move(error));
      prepared.error = summary.message;
      if (summary.code == ErrorCode::ContextDead ||
          summary.code == ErrorCode::CompilerMissing)
        return errorOf(summary);
    }
  }
  return llvm::Error::success();
}

llvm::Error EngineSource::prepareLayer(const Layer &layer, const Stream &stream,
                                       PreparedLayer &prepared) {
  auto largest = layer.atLast(draw->ranges);
  if (!largest)
    return largest.takeError();
  const std::string text = largest->text();
  const std::vector<kiln_range> ranges = givenRanges(draw->ranges);
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.text = text.c_str();
  problem.ranges = ranges.data();
  problem.range_count = static_cast<uint32_t>(ranges.size());
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.budget_ms = tools.budget.count();
  const kiln_stream queue = stream.handle();
  options.streams = &queue;
  options.stream_count = 1;

  kiln_engine *engine = meeting.engine.get();
  const uint64_t before = statisticsOf(engine).compiles;
  const Stopwatch watch;
  llvm::Error error =
      statusError(kiln_prepare(engine, &problem, 1, &options, nullptr));
  prepared.ms = watch.ms();
  prepared.compiles = statisticsOf(engine).compiles - before;
  const LoadedKernels::Sum loaded = kernels.takeNew(*meeting.artifacts);
  prepared.kernels = loaded.kernels;
  prepared.cubinBytes = loaded.cubinBytes;
  return error;
}

llvm::Expected<DrawChoice> EngineSource::meet(size_t index,
                                              const TrialBuffers &buffers,
                                              const Stream &stream) {
  const uint64_t seed = draw->drawn[index].seed;
  const bool begins = index == 0 || draw->drawn[index - 1].seed != seed;
  if (state != DrawState::Prepared && begins)
    if (llvm::Error error = start(fmt::format("{}-{}", nameOf(state), seed)))
      return error;
  const Case &which = draw->cases[index];
  kiln_engine *engine = meeting.engine.get();
  auto ms = callEngine(engine, which.text(), buffers, stream);
  if (!ms)
    return ms.takeError();
  auto config = configOf(engine, which.text(), stream);
  if (!config)
    return config.takeError();
  auto choice =
      namedChoice(which, *config, tools.session.model(), *meeting.artifacts);
  if (!choice)
    return choice.takeError();
  return DrawChoice{std::move(*choice), *ms};
}

DrawCost EngineSource::cost() {
  retire();
  const LoadedKernels::Sum all = kernels.all();
  total.kernels = all.kernels;
  total.cubinBytes = all.cubinBytes;
  return total;
}

//===----------------------------------------------------------------------===//
// The tuner
//===----------------------------------------------------------------------===//

llvm::Error TunedSource::prepare(const DrawRequest &request, const Stream &) {
  LiveSession &session = tools.session;
  TuningOptions tuning;
  tuning.budget = tools.budget * request.cases.size();
  // As kiln tune, within less time.
  tuning.maxTrials = 32;
  tuning.top = 400;
  tuning.playoff = 6;
  // Others of the layer have records that would answer.
  tuning.retune = true;
  InterruptGuard interrupt;
  tuning.cancel = interrupt.flag();
  ProgressBar bar("tuning");
  tuning.progress = [&](const TuningProgress &progress) {
    bar.update(progress.problemsDone, progress.problems,
               request.cases[progress.problem].name);
  };
  const uint64_t before = session.artifacts->statistics().compiled;
  const Stopwatch watch;
  outcomes =
      tuneAll(session.tuningContext(), problemsOf(request.cases), tuning);
  total.tuneMs = watch.ms();
  total.compiles = session.artifacts->statistics().compiled - before;
  std::set<const Artifact *> distinct;
  for (const TuningOutcome &outcome : outcomes)
    for (const ArtifactPtr &artifact : outcome.result.choice.artifacts)
      if (distinct.insert(artifact.get()).second)
        total.cubinBytes += artifact->cubin.size();
  total.kernels = distinct.size();
  return llvm::Error::success();
}

llvm::Expected<DrawChoice> TunedSource::meet(size_t index, const TrialBuffers &,
                                             const Stream &) {
  const TuningOutcome &outcome = outcomes[index];
  if (outcome.error.code != ErrorCode::Success)
    return errorOf(outcome.error);
  const TuningChoice &choice = outcome.result.choice;
  return DrawChoice{{choice.plan, choice.artifacts, "tuned", choice.validated},
                    0};
}

DrawCost TunedSource::cost() { return total; }

std::unique_ptr<DrawSource> makeDrawSource(DrawState state,
                                           const DrawTools &tools) {
  if (state == DrawState::Tuned)
    return std::make_unique<TunedSource>(tools);
  return std::make_unique<EngineSource>(state, tools);
}

} // namespace kiln::cli
