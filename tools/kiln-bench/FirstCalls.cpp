//===- FirstCalls.cpp -----------------------------------------------------===//
#include "kiln-bench/FirstCalls.h"

#include "Trial/TrialTools.h"
#include "cli/Console.h"
#include "compare/Comparer.h"
#include "compare/EngineCalls.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln::cli {

namespace {

/// The subject of measuring: one case with memory for its operands.
struct NewCase {
  std::string name, text;
  const Registry::NamedProblem *named = nullptr;
};

/// Calls engines as their users do.
class Caller {
public:
  Caller(LiveSession &session, const TrialTools &tools, const Stream &stream)
      : session(session), tools(tools), stream(stream) {}

  /// Calls \p which once and waits for the device; the time until the launch
  /// returned, in ms. With \p prepares it is prepared first, within the time.
  llvm::Expected<double> call(kiln_engine *engine, const NewCase &which,
                              bool prepares = false);

private:
  LiveSession &session;
  const TrialTools &tools;
  const Stream &stream;
};

} // namespace

llvm::Expected<double> Caller::call(kiln_engine *engine, const NewCase &which,
                                    bool prepares) {
  auto memory = memoryInfo(session.driver());
  if (!memory)
    return memory.takeError();
  TrialBufferOptions bufferOptions;
  // Room for the trials of mode tune.
  bufferOptions.capBytes = memory->freeBytes / 10 * 4;
  bufferOptions.forTiming = false;
  auto buffers = TrialBuffers::create(
      session.driver(), tools, *which.named->family, which.named->problem,
      bufferOptions, stream.handle());
  if (!buffers)
    return buffers.takeError();
  if (llvm::Error error = stream.synchronize())
    return error;
  return callEngine(engine, which.text, *buffers, stream, prepares);
}

/// Every n-th case that launches something.
static std::vector<NewCase> chooseCases(llvm::ArrayRef<Case> cases,
                                        unsigned count) {
  std::vector<NewCase> callable;
  for (const Case &which : cases) {
    const auto &[family, problem] = which.named;
    if (!family->isEmpty(problem))
      callable.push_back({which.name, problem.text(), &which.named});
  }
  std::vector<NewCase> chosen;
  size_t wanted = std::min<size_t>(count, callable.size());
  for (size_t i = 0; i < wanted; ++i)
    chosen.push_back(callable[i * callable.size() / wanted]);
  return chosen;
}

/// A problem to be called ahead of \p chosen: a family's example with which
/// none of them shares a kernel, else any; nullopt: no family has an example.
static llvm::Expected<std::optional<Registry::NamedProblem>>
problemAhead(llvm::ArrayRef<NewCase> chosen, const Registry &registry) {
  std::optional<Registry::NamedProblem> ahead;
  for (const auto &family : registry.families()) {
    if (family->example().empty())
      continue;
    auto problem = family->parseProblem(family->example());
    if (!problem)
      return problem.takeError();
    ahead = {family.get(), std::move(*problem)};
    // Kernels are shared within a signature.
    if (llvm::none_of(chosen, [&](const NewCase &which) {
          return which.named->family == ahead->family &&
                 which.named->problem.signature == ahead->problem.signature;
        }))
      break;
  }
  return ahead;
}

static double compileMsOf(kiln_engine *engine) {
  return static_cast<double>(statisticsOf(engine).compile_ns) * 1e-6;
}

llvm::Expected<std::vector<NewProblem>>
timeNewProblems(llvm::ArrayRef<Case> cases, unsigned count,
                const ParsedOptions &options, const Environment &environment,
                const Registry &registry, LiveSession &session) {
  auto folder = ScratchFolder::make();
  if (!folder)
    return folder.takeError();
  auto trial = TrialStream::open(session);
  if (!trial)
    return trial.takeError();
  Caller caller(session, trial->tools, trial->stream);
  std::vector<NewCase> chosen = chooseCases(cases, count);
  auto ahead = problemAhead(chosen, registry);
  if (!ahead)
    return ahead.takeError();
  std::vector<NewProblem> rows(chosen.size());
  ProgressBar bar("calling");
  // The third finds what the first left.
  enum Round { Predict, Tune, Cached };
  for (Round round : {Predict, Tune, Cached}) {
    auto engine = makeEngine(round == Tune ? KILN_MODE_TUNE : KILN_MODE_PREDICT,
                             folder->cache(round == Tune ? "tune" : "predict"),
                             options, environment);
    if (!engine)
      return engine.takeError();
    // Loads the compiler and what an engine has once; its time is not wanted.
    if (const auto &first = *ahead)
      if (auto ms =
              caller.call(engine->get(), {"", first->problem.text(), &*first});
          !ms)
        return ms.takeError();
    for (auto [i, which] : llvm::enumerate(chosen)) {
      NewProblem &row = rows[i];
      row.name = which.name;
      bar.update(round * chosen.size() + i, 3 * chosen.size(), which.name);
      double before = compileMsOf(engine->get());
      auto ms = caller.call(engine->get(), which, round == Cached);
      if (!ms) {
        row.error = summarize(ms.takeError()).message;
        continue;
      }
      (round == Predict ? row.predictMs
       : round == Tune  ? row.tuneMs
                        : row.cachedMs) = *ms;
      if (round == Predict)
        row.compileMs = compileMsOf(engine->get()) - before;
    }
  }
  return rows;
}

} // namespace kiln::cli
