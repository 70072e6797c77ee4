//===- EngineCalls.cpp ----------------------------------------------------===//
#include "compare/EngineCalls.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/FileSystem.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace kiln::cli {

llvm::Expected<ScratchFolder> ScratchFolder::make() {
  ScratchFolder folder;
  if (std::error_code failure =
          llvm::sys::fs::createUniqueDirectory("kiln-bench", folder.path))
    return makeError(ErrorCode::Internal, "no folder for a cache: {}",
                     failure.message());
  return folder;
}

ScratchFolder::~ScratchFolder() {
  if (!path.empty())
    llvm::sys::fs::remove_directories(path);
}

std::string ScratchFolder::cache(llvm::StringRef name) const {
  return (llvm::Twine(path) + "/" + name).str();
}

llvm::Error statusError(kiln_status status) {
  if (status == KILN_SUCCESS)
    return llvm::Error::success();
  return makeError(static_cast<ErrorCode>(status), "{}",
                   kiln_last_error_message());
}

/// An engine with the compilers and threads of the command.
static llvm::Expected<EnginePtr> createEngine(kiln_engine_options &made,
                                              const ParsedOptions &options,
                                              const Environment &environment) {
  auto store = artifactOptions(options, environment);
  if (!store)
    return store.takeError();
  std::optional<std::string> nvrtc = options.value("--nvrtc");
  made.threads = static_cast<int32_t>(store->pool.threads);
  made.nvrtc_path = nvrtc ? nvrtc->c_str() : nullptr;
  kiln_engine *engine = nullptr;
  if (llvm::Error error = statusError(kiln_engine_create(&made, &engine)))
    return error;
  return EnginePtr(engine);
}

llvm::Expected<EnginePtr> makeEngine(kiln_mode mode, const std::string &cache,
                                     const ParsedOptions &options,
                                     const Environment &environment,
                                     const EngineSetup &setup) {
  kiln_engine_options made = KILN_INIT(kiln_engine_options);
  made.mode = mode;
  made.cache_dir = cache.c_str();
  made.event = setup.event;
  made.event_user = setup.user;
  made.background_permille = setup.backgroundPermille;
  made.tune_budget_ms = setup.tuneBudget.count();
  return createEngine(made, options, environment);
}

llvm::Expected<EnginePtr> makeSessionEngine(kiln_mode mode,
                                            const ParsedOptions &options,
                                            const Environment &environment) {
  std::vector<std::string> notes; // the session told them
  auto store = chooseCache(options, environment, notes);
  if (!store)
    return store.takeError();
  std::vector<const char *> readDirs;
  for (const std::string &folder : store->readDirs)
    readDirs.push_back(folder.c_str());
  kiln_engine_options made = KILN_INIT(kiln_engine_options);
  made.mode = mode;
  if (store->writeDir)
    made.cache_dir = store->writeDir->c_str();
  else
    made.flags = KILN_ENGINE_MEMORY_ONLY;
  made.read_dirs = readDirs.data();
  made.read_dir_count = static_cast<uint32_t>(readDirs.size());
  return createEngine(made, options, environment);
}

kiln_statistics statisticsOf(kiln_engine *engine) {
  kiln_statistics statistics = KILN_INIT(kiln_statistics);
  (void)kiln_get_statistics(engine, &statistics);
  return statistics;
}

/// Addresses of a copy's operands, by slot.
static std::vector<void *> slotsOf(const TrialBuffers &buffers, unsigned copy) {
  const Arguments bound = buffers.arguments(copy);
  std::vector<void *> operands;
  for (auto [i, spec] : llvm::enumerate(buffers.table().operands)) {
    if (!spec.present)
      continue;
    size_t slot = spec.slot < 0 ? i : static_cast<size_t>(spec.slot);
    operands.resize(std::max(operands.size(), slot + 1));
    operands[slot] = reinterpret_cast<void *>(bound.operands[i].address);
  }
  return operands;
}

static kiln_problem problemOf(const std::string &text) {
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.text = text.c_str();
  return problem;
}

EngineCall::EngineCall(kiln_engine *engine, const std::string &text,
                       const TrialBuffers &buffers, unsigned copy)
    : engine(engine), operands(slotsOf(buffers, copy)),
      problem(problemOf(text)), arguments(KILN_INIT(kiln_arguments)) {
  arguments.operands = operands.data();
  arguments.operand_count = static_cast<uint32_t>(operands.size());
}

kiln_status EngineCall::run(kiln_stream stream) const {
  return kiln_run(engine, &problem, &arguments, nullptr, stream);
}

llvm::Error EngineCall::launch(CudaStream stream) const {
  return statusError(run(stream));
}

llvm::Error EngineCall::prepare() const {
  return statusError(kiln_prepare(engine, &problem, 1, nullptr, nullptr));
}

llvm::Expected<double> callEngine(kiln_engine *engine, const std::string &text,
                                  const TrialBuffers &buffers,
                                  const Stream &stream, bool prepares) {
  const EngineCall call(engine, text, buffers);
  auto start = std::chrono::steady_clock::now();
  if (prepares)
    if (llvm::Error error = call.prepare())
      return error;
  if (llvm::Error error = call.launch(stream.handle()))
    return error;
  double ms = std::chrono::duration<double, std::milli>(
                  std::chrono::steady_clock::now() - start)
                  .count();
  if (llvm::Error error = stream.synchronize())
    return error;
  return ms;
}

llvm::Expected<EngineCallTime> timeEngineCall(kiln_engine *engine,
                                              const std::string &text,
                                              const TrialBuffers &buffers,
                                              const Stream &stream) {
  EngineCall call(engine, text, buffers);
  kiln_timing_options options = KILN_INIT(kiln_timing_options);
  options.trials = 101;
  options.calls_per_trial = 1;
  kiln_timing timing = KILN_INIT(kiln_timing);
  auto run = [](void *user, kiln_stream on) {
    return static_cast<const EngineCall *>(user)->run(on);
  };
  if (llvm::Error error = statusError(kiln_time_calls(
          engine, run, &call, stream.handle(), &options, &timing)))
    return error;
  auto config = configOf(engine, text, stream);
  if (!config)
    return config.takeError();
  constexpr double kNsPerUs = 1e3;
  return EngineCallTime{std::move(*config), timing.wall_median_us * kNsPerUs,
                        timing.host_us * kNsPerUs};
}

llvm::Expected<std::string>
configOf(kiln_engine *engine, const std::string &text, const Stream &stream) {
  const kiln_problem problem = problemOf(text);
  kiln_plan *plan = nullptr;
  if (llvm::Error error = statusError(
          kiln_plan_acquire(engine, &problem, stream.handle(), &plan)))
    return error;
  std::unique_ptr<kiln_plan, void (*)(kiln_plan *)> held(plan,
                                                         &kiln_plan_release);
  size_t length = 0;
  if (llvm::Error error =
          statusError(kiln_plan_describe(plan, nullptr, 0, &length)))
    return error;
  std::string line(length + 1, '\0');
  if (llvm::Error error = statusError(
          kiln_plan_describe(plan, line.data(), line.size(), nullptr)))
    return error;
  // "gemm m=1 ...: CONFIG, by the estimate, ...".
  llvm::StringRef rest = llvm::StringRef(line).split(": ").second;
  return rest.split(',').first.str();
}

} // namespace kiln::cli
