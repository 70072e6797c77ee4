//===- CapiModel.cpp - the problems of a model ----------------------------===//
#include "Runtime/Capi.h"

#include "Call/StructAccess.h"
#include "Network/NetworkProblems.h"

using namespace kiln;

static llvm::Error readFormat(const kiln_model_options &given,
                              NetworkOptions &options) {
  switch (given.format) {
  case KILN_MODEL_BF16:
    break;
  case KILN_MODEL_FP8:
    options.weights = WeightFormat::Fp8;
    break;
  case KILN_MODEL_W4:
    options.weights = WeightFormat::W4;
    break;
  case KILN_MODEL_MXFP4:
    options.weights = WeightFormat::Mxfp4;
    break;
  default:
    return makeError(ErrorCode::Unsupported, "model format {} is unknown",
                     given.format);
  }
  switch (given.cache_type) {
  case KILN_DTYPE_NONE:
  case KILN_BF16:
    return llvm::Error::success();
  case KILN_E4M3:
    options.cache = CacheFormat::E4m3;
    return llvm::Error::success();
  default:
    return makeError(ErrorCode::Unsupported,
                     "kiln_model_options: cache_type {:#x}", given.cache_type);
  }
}

static llvm::Expected<NetworkOptions>
readOptions(const kiln_model_options *given) {
  NetworkOptions options;
  if (!given)
    return options;
  if (auto error = checkInput(*given, "kiln_model_options"))
    return error;
  if (given->flags & ~uint32_t{KILN_MODEL_NCCL})
    return makeError(ErrorCode::Unsupported, "kiln_model_options: flags {:#x}",
                     given->flags);
  if (auto error = readFormat(*given, options))
    return error;
  auto take = [](int64_t from, int64_t &to) {
    if (from)
      to = from;
  };
  if (given->flags & KILN_MODEL_NCCL)
    options.sums = RankSums::Nccl;
  take(given->ranks, options.ranks);
  take(given->max_tokens, options.maxTokens);
  take(given->max_batch, options.maxBatch);
  take(given->max_positions, options.maxPositions);
  take(given->page_tokens, options.pageTokens);
  return options;
}

extern "C" {

kiln_status kiln_model_problems(const char *config_json,
                                const kiln_model_options *options,
                                kiln_model_problem_fn take,
                                void *user) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!config_json || !take)
      return nullArgument(config_json ? "take" : "config_json");
    auto read = readOptions(options);
    if (!read)
      return read.takeError();
    auto config = NetworkConfig::parse(config_json, "config_json");
    if (!config)
      return config.takeError();
    auto problems = problemsOf(*config, *read);
    if (!problems)
      return problems.takeError();
    for (const NetworkProblem &problem : *problems) {
      const std::vector<kiln_range> ranges = problem.line.givenRanges();
      const kiln_problem given = problem.line.given(ranges);
      if (take(user, problem.name.c_str(), &given) != 0)
        return makeError(ErrorCode::Cancelled, "cancelled");
    }
    return llvm::Error::success();
  });
}

} // extern "C"
