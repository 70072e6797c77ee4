//===- EngineConfig.cpp - the options of an engine, checked and copied ----===//
#include "Runtime/EngineConfig.h"

#include "Call/StructAccess.h"
#include "Choice/ChoiceOrder.h"
#include "Device/Catalog.h"

namespace kiln {

static llvm::Error checkMode(kiln_mode mode) {
  switch (mode) {
  case KILN_MODE_TUNE:
  case KILN_MODE_PREDICT:
  case KILN_MODE_BACKGROUND:
  case KILN_MODE_STRICT:
    return llvm::Error::success();
  default:
    return makeError(ErrorCode::Unsupported, "mode {} is unknown", mode);
  }
}

/// The mode of an engine with the caller's mode and determinism.
static llvm::Expected<kiln_mode> modeOf(const kiln_engine_options &options) {
  if (auto error = checkMode(options.mode))
    return error;
  if (options.determinism == KILN_DETERMINISM_SAME_PLAN)
    return options.mode;
  if (options.determinism != KILN_DETERMINISM_FROZEN_CHOICE)
    return makeError(ErrorCode::Unsupported,
                     "determinism {} is not available yet",
                     options.determinism);
  if (auto frozen = frozenForm(options.mode))
    return *frozen;
  return makeError(ErrorCode::InvalidArgument,
                   "determinism {} needs the mode predict or strict: trials "
                   "would change choices",
                   options.determinism);
}

static llvm::Error checkHooks(const kiln_engine_options &options) {
  if (const kiln_allocator *allocator = options.allocator) {
    if (auto error = checkInput(*allocator, "allocator"))
      return error;
    if (allocator->flags)
      return makeError(ErrorCode::Unsupported, "allocator: flags {:#x}",
                       allocator->flags);
    if (!allocator->allocate || !allocator->deallocate)
      return makeError(ErrorCode::InvalidArgument,
                       "allocator: a function is null");
  }
  if (const kiln_executor *executor = options.executor) {
    if (auto error = checkInput(*executor, "executor"))
      return error;
    if (executor->flags)
      return makeError(ErrorCode::Unsupported, "executor: flags {:#x}",
                       executor->flags);
    if (!executor->submit)
      return makeError(ErrorCode::InvalidArgument, "executor: submit is null");
  }
  return llvm::Error::success();
}

static constexpr uint32_t kMostPermille = 1000;

static llvm::Error checkNumbers(const kiln_engine_options &options) {
  constexpr uint32_t kKnownFlags =
      KILN_ENGINE_MEMORY_ONLY | KILN_ENGINE_READ_ONLY |
      KILN_ENGINE_TOOLCHAIN_EXACT | KILN_ENGINE_IGNORE_ENVIRONMENT;
  if (uint32_t unknown = options.flags & ~kKnownFlags)
    return makeError(ErrorCode::Unsupported, "engine flags {:#x} are unknown",
                     unknown);
  if (options.threads < 0)
    return makeError(ErrorCode::InvalidArgument, "threads is {}",
                     options.threads);
  if (options.tune_budget_ms < 0)
    return makeError(ErrorCode::InvalidArgument, "tune_budget_ms is {}",
                     options.tune_budget_ms);
  if (options.trial_timeout_ms < 0)
    return makeError(ErrorCode::InvalidArgument, "trial_timeout_ms is {}",
                     options.trial_timeout_ms);
  if (options.background_permille > kMostPermille)
    return makeError(ErrorCode::InvalidArgument,
                     "background_permille is {}, more than {}",
                     options.background_permille, kMostPermille);
  switch (options.log_level) {
  case KILN_LOG_DEFAULT:
  case KILN_LOG_DEBUG:
  case KILN_LOG_INFO:
  case KILN_LOG_WARNING:
  case KILN_LOG_ERROR:
    break;
  default:
    return makeError(ErrorCode::Unsupported, "log_level {} is unknown",
                     options.log_level);
  }
  if (options.read_dir_count && !options.read_dirs)
    return makeError(ErrorCode::InvalidArgument,
                     "read_dirs is null, with a count of {}",
                     options.read_dir_count);
  return llvm::Error::success();
}

/// A text with a slash, or one that ends with ".json", is a file.
static bool isFile(llvm::StringRef text) {
  return text.contains('/') || text.ends_with(".json");
}

static llvm::Error readDevice(const char *text, EngineConfig &config) {
  if (!text || !*text)
    return llvm::Error::success();
  if (isFile(text)) {
    config.deviceFile = text;
    return llvm::Error::success();
  }
  auto known = findDevice(text);
  if (!known)
    return addContext(known.takeError(), "device_model");
  config.catalogName = text;
  return llvm::Error::success();
}

static_assert(cache::kNoLimit == UINT64_MAX, "as kiln.h says");

static llvm::Error readOptions(const kiln_engine_options &options,
                               EngineConfig &config) {
  if (auto error = checkInput(options, "kiln_engine_options"))
    return error;
  auto mode = modeOf(options);
  if (!mode)
    return mode.takeError();
  if (auto error = checkNumbers(options))
    return error;
  if (auto error = checkHooks(options))
    return error;
  if (auto error = readDevice(options.device_model, config))
    return error;
  config.mode = *mode;
  config.memoryOnly = options.flags & KILN_ENGINE_MEMORY_ONLY;
  config.readOnly = options.flags & KILN_ENGINE_READ_ONLY;
  config.exactToolchain = options.flags & KILN_ENGINE_TOOLCHAIN_EXACT;
  config.threads = static_cast<unsigned>(options.threads);
  if (options.tune_budget_ms)
    config.tuneBudget = EngineConfig::timeOf(options.tune_budget_ms);
  if (options.trial_timeout_ms)
    config.trialTimeout = EngineConfig::timeOf(options.trial_timeout_ms);
  if (options.background_permille)
    config.backgroundShare =
        double(options.background_permille) / double(kMostPermille);
  if (options.scratch_limit_bytes)
    config.scratchLimit = options.scratch_limit_bytes;
  if (options.workspace_limit_bytes)
    config.workspaceLimit = options.workspace_limit_bytes;
  if (options.pool_limit_bytes)
    config.poolLimit = options.pool_limit_bytes;
  if (options.cache_limit_bytes)
    config.cacheLimit = options.cache_limit_bytes;
  if (options.cache_dir)
    config.cacheDir = options.cache_dir;
  if (options.history)
    config.history = options.history;
  for (uint32_t i = 0; i < options.read_dir_count; ++i) {
    if (!options.read_dirs[i])
      return makeError(ErrorCode::InvalidArgument, "read_dirs[{}] is null", i);
    config.readDirs.push_back(options.read_dirs[i]);
  }
  if (!(options.flags & KILN_ENGINE_IGNORE_ENVIRONMENT))
    config.environment = Environment::fromProcess();
  if (options.nvrtc_path)
    config.environment.kilnNvrtc = options.nvrtc_path;
  if (options.driver_path)
    config.environment.kilnDriver = options.driver_path;
  config.hooks = Hooks(options);
  if (options.allocator)
    config.allocator = *options.allocator;
  if (options.executor)
    config.executor = *options.executor;
  return llvm::Error::success();
}

llvm::Expected<EngineConfig>
EngineConfig::parse(const kiln_engine_options *options) {
  EngineConfig config;
  if (!options)
    config.environment = Environment::fromProcess();
  else if (auto error = readOptions(*options, config))
    return error;
  if (!config.history)
    config.history = config.environment.kilnHistory;
  if (const auto &text = config.environment.kilnProfile) {
    auto limits = ProfilerLimits::parse(*text);
    if (!limits)
      return limits.takeError();
    config.profilerLimits = *limits;
  }
  return config;
}

} // namespace kiln
