//===- RequestList.cpp - the requests that a warm-up is for ---------------===//
#include "kiln/RequestList.h"

#include "Call/HistoryFile.h"
#include "Call/RangeParts.h"
#include "Network/NetworkProblems.h"
#include "Support/Json.h"
#include "Support/Printable.h"
#include "Support/ReadFile.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSet.h>
#include <llvm/Support/FileSystem.h>

namespace kiln::cli {

/// The one of \p names that the value of \p option is, the first by default.
template <class Value>
static llvm::Expected<Value>
readName(const ParsedOptions &options, const char *option,
         llvm::ArrayRef<std::pair<llvm::StringRef, Value>> names) {
  const std::string text =
      options.value(option).value_or(names.front().first.str());
  std::string known;
  for (const auto &[name, value] : names) {
    if (name == text)
      return value;
    known += (known.empty() ? "" : ", ") + name.str();
  }
  return makeError(ErrorCode::InvalidArgument, "{}={} is not one of {}", option,
                   text, known);
}

static llvm::Expected<NetworkOptions>
readNetworkOptions(const ParsedOptions &options) {
  NetworkOptions network;
  auto weights = readName<WeightFormat>(options, "--dtype",
                                        {{"bf16", WeightFormat::Bf16},
                                         {"fp8", WeightFormat::Fp8},
                                         {"w4", WeightFormat::W4},
                                         {"mxfp4", WeightFormat::Mxfp4}});
  if (!weights)
    return weights.takeError();
  network.weights = *weights;
  auto cache = readName<CacheFormat>(
      options, "--kv-cache",
      {{"bf16", CacheFormat::Bf16}, {"e4m3", CacheFormat::E4m3}});
  if (!cache)
    return cache.takeError();
  network.cache = *cache;
  auto sums = readName<RankSums>(
      options, "--sums", {{"kiln", RankSums::Kiln}, {"nccl", RankSums::Nccl}});
  if (!sums)
    return sums.takeError();
  network.sums = *sums;
  for (const auto &[name, field] :
       {std::pair("--tp", &NetworkOptions::ranks),
        std::pair("--max-tokens", &NetworkOptions::maxTokens),
        std::pair("--max-batch", &NetworkOptions::maxBatch),
        std::pair("--max-positions", &NetworkOptions::maxPositions),
        std::pair("--page-tokens", &NetworkOptions::pageTokens)}) {
    if (!options.has(name))
      continue;
    auto given = options.number(name, 1);
    if (!given)
      return given.takeError();
    network.*field = *given;
  }
  return network;
}

static llvm::Expected<std::vector<NetworkProblem>>
readModel(const ParsedOptions &options) {
  auto network = readNetworkOptions(options);
  if (!network)
    return network.takeError();
  std::string path = *options.value("--model");
  if (llvm::sys::fs::is_directory(path))
    path += "/config.json";
  auto text = readNamedFile(path, kMaxJsonBytes);
  if (!text)
    return text.takeError();
  auto config = NetworkConfig::parse(*text, path);
  if (!config)
    return config.takeError();
  return problemsOf(*config, *network);
}

/// Adds the parts of \p line, unless they are known.
static llvm::Error addRequests(const std::string &name, const ProblemLine &line,
                               const Registry &registry,
                               llvm::StringSet<> &known,
                               std::vector<WarmupRequest> &requests) {
  auto spec = line.read(registry);
  if (!spec)
    return spec.takeError();
  const std::string text = spec->described.text();
  if (spec->ranges.empty()) {
    if (known.insert(spec->problem.text()).second)
      requests.push_back(
          {name, text, "", std::nullopt, {spec->family, spec->problem}});
    return llvm::Error::success();
  }
  auto parts = partsOf(*spec);
  if (!parts)
    return parts.takeError();
  for (auto [i, part] : llvm::enumerate(*parts)) {
    const std::string range = part.range.text();
    if (!known.insert(part.range.fixedText() + ' ' + range).second)
      continue;
    WarmupRequest &added = requests.emplace_back();
    added.name = parts->size() == 1
                     ? name
                     : fmt::format("{} ({} of {})", name, i + 1, parts->size());
    added.problem = text;
    added.range = range;
    added.part = std::move(part.range);
  }
  return llvm::Error::success();
}

/// Adds the requests of a history. Lines that cannot be read, or whose problems
/// are not known here, are \p skipped.
static llvm::Error readHistory(const std::string &path,
                               const Registry &registry,
                               llvm::StringSet<> &known,
                               std::vector<WarmupRequest> &requests,
                               std::vector<std::string> &skipped) {
  auto history = History::read(path);
  if (!history)
    return history.takeError();
  skipped = std::move(history->skipped);
  for (const ProblemLine &line : history->requests)
    if (auto error = addRequests(line.problem, line, registry, known, requests))
      skipped.push_back(fmt::format(
          "{}: {}", path, printable(summarize(std::move(error)).message)));
  return llvm::Error::success();
}

llvm::Expected<RequestList> RequestList::read(const ParsedOptions &options,
                                              const Registry &registry) {
  llvm::StringSet<> known;
  RequestList list;
  if (options.has("--model")) {
    auto problems = readModel(options);
    if (!problems)
      return problems.takeError();
    for (const NetworkProblem &problem : *problems)
      if (auto error = addRequests(problem.name, problem.line, registry, known,
                                   list.requests))
        return addContext(std::move(error), problem.name);
  }
  if (options.has("--history"))
    if (auto error = readHistory(*options.value("--history"), registry, known,
                                 list.requests, list.skipped))
      return error;
  return list;
}

} // namespace kiln::cli
