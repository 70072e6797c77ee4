//===- FirstCalls.cpp -----------------------------------------------------===//
#include "kiln/bench/FirstCalls.h"

#include "Driver/Stream.h"
#include "Trial/TrialBuffers.h"
#include "Trial/TrialTools.h"
#include "kiln/Console.h"
#include "kiln/kiln.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/FileSystem.h>

#include <algorithm>
#include <chrono>

namespace kiln::cli {

using Clock = std::chrono::steady_clock;

namespace {

/// A folder that goes with everything in it.
class ScratchFolder {
public:
  static llvm::Expected<ScratchFolder> make() {
    ScratchFolder folder;
    if (std::error_code failure =
            llvm::sys::fs::createUniqueDirectory("kiln-bench", folder.path))
      return makeError(ErrorCode::Internal, "no folder for a cache: {}",
                       failure.message());
    return folder;
  }
  ScratchFolder(ScratchFolder &&other) { std::swap(path, other.path); }
  ~ScratchFolder() {
    if (!path.empty())
      llvm::sys::fs::remove_directories(path);
  }
  /// A cache below it, which the engine makes with the mode that it wants.
  std::string cache(const char *name) const {
    return (llvm::Twine(path) + "/" + name).str();
  }

private:
  ScratchFolder() = default;
  llvm::SmallString<128> path;
};

struct EngineDeleter {
  void operator()(kiln_engine *engine) const { kiln_engine_destroy(engine); }
};
using EnginePtr = std::unique_ptr<kiln_engine, EngineDeleter>;

/// What is measured: one case with memory for its operands.
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

static llvm::Error errorOf(kiln_status status) {
  if (status == KILN_SUCCESS)
    return llvm::Error::success();
  return makeError(static_cast<ErrorCode>(status), "{}",
                   kiln_last_error_message());
}

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
  const Arguments bound = buffers->arguments(0);
  std::vector<void *> operands;
  for (auto [i, spec] : llvm::enumerate(buffers->table().operands)) {
    if (!spec.present)
      continue;
    size_t slot = spec.slot < 0 ? i : static_cast<size_t>(spec.slot);
    operands.resize(std::max(operands.size(), slot + 1));
    operands[slot] = reinterpret_cast<void *>(bound.operands[i].address);
  }
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  arguments.operands = operands.data();
  arguments.operand_count = static_cast<uint32_t>(operands.size());
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.text = which.text.c_str();

  kiln_stream queue = stream.handle();
  Clock::time_point start = Clock::now();
  if (prepares)
    if (llvm::Error error =
            errorOf(kiln_prepare(engine, &problem, 1, nullptr, nullptr)))
      return error;
  if (llvm::Error error =
          errorOf(kiln_run(engine, &problem, &arguments, nullptr, queue)))
    return error;
  double ms =
      std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (llvm::Error error = stream.synchronize())
    return error;
  return ms;
}

static llvm::Expected<EnginePtr> makeEngine(kiln_mode mode,
                                            const std::string &cache,
                                            const ParsedOptions &options,
                                            const Environment &environment) {
  auto store = artifactOptions(options, environment);
  if (!store)
    return store.takeError();
  std::optional<std::string> nvrtc = options.value("--nvrtc");
  kiln_engine_options made = KILN_INIT(kiln_engine_options);
  made.mode = mode;
  made.cache_dir = cache.c_str();
  made.threads = static_cast<int32_t>(store->pool.threads);
  made.nvrtc_path = nvrtc ? nvrtc->c_str() : nullptr;
  kiln_engine *engine = nullptr;
  if (llvm::Error error = errorOf(kiln_engine_create(&made, &engine)))
    return error;
  return EnginePtr(engine);
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
  kiln_statistics statistics = KILN_INIT(kiln_statistics);
  (void)kiln_get_statistics(engine, &statistics);
  return static_cast<double>(statistics.compile_ns) * 1e-6;
}

llvm::Expected<std::vector<NewProblem>>
timeNewProblems(llvm::ArrayRef<Case> cases, unsigned count,
                const ParsedOptions &options, const Environment &environment,
                const Registry &registry, LiveSession &session) {
  auto folder = ScratchFolder::make();
  if (!folder)
    return folder.takeError();
  auto stream = Stream::create(session.driver());
  if (!stream)
    return stream.takeError();
  auto tools =
      TrialTools::load(session.driver(), *session.artifacts, session.model());
  if (!tools)
    return tools.takeError();
  Caller caller(session, *tools, *stream);
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
