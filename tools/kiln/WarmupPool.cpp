//===- WarmupPool.cpp - kiln warmup --pool --------------------------------===//
#include "kiln/WarmupPool.h"

#include "Families/Families.h"
#include "Support/Json.h"
#include "Tune/PoolWarmup.h"
#include "cli/Console.h"
#include "cli/Report.h"

#include <llvm/ADT/StringExtras.h>

namespace kiln::cli {

namespace {

struct PoolOutcome {
  std::string device, signature;
  PoolWarmupResult result;
};

class PoolReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;

  std::vector<PoolOutcome> pools;
  bool interrupted = false;
};

} // namespace

static std::string formatPercent(double share) {
  return fmt::format("{:.2f}", 100 * share);
}

static void printPool(llvm::raw_ostream &os, const PoolOutcome &pool) {
  const PoolWarmupResult &result = pool.result;
  os << fmt::format("{} on {}\n", pool.signature, pool.device);
  Table table({">kernels", ">mean %", ">p99 %", ">most %"});
  for (const PoolPoint &point : result.cover.curve)
    table.addRow({fmt::format("{}", point.kernels), formatPercent(point.mean),
                  formatPercent(point.p99), formatPercent(point.most)});
  if (!result.cover.curve.empty()) {
    table.print(os);
    os << fmt::format(
        "behind the best of the space by the estimate, at {} drawn problems "
        "that were not chosen for{}\n",
        result.cover.judged,
        result.cover.reachesGoal ? "" : "; the goal is not reached");
  }
  if (result.error.code != ErrorCode::Success)
    os << "failed: " << onOneLine(result.error.message) << '\n';
  os << fmt::format(
      "{} kernels: {} compiled, {} from the cache, {} refused by the compiler; "
      "pool {}; {:.2f} s, {:.2f} s of them to choose\n",
      result.distinctKernels, result.compiled, result.fromCache, result.refused,
      result.wasThere   ? "there already"
      : result.isStored ? "stored"
                        : "not stored",
      result.elapsedMs * 1e-3, result.coverMs * 1e-3);
}

void PoolReport::print(llvm::raw_ostream &os) const {
  for (const PoolOutcome &pool : pools) {
    printPool(os, pool);
    os << '\n';
  }
  if (interrupted)
    os << "interrupted\n";
}

static llvm::json::Object poolToJson(const PoolOutcome &pool) {
  const PoolWarmupResult &result = pool.result;
  auto number = [](size_t count) { return static_cast<int64_t>(count); };
  llvm::json::Array curve, notes;
  for (const PoolPoint &point : result.cover.curve)
    curve.push_back(llvm::json::Object{{"kernels", number(point.kernels)},
                                       {"mean", rounded(point.mean)},
                                       {"p99", rounded(point.p99)},
                                       {"most", rounded(point.most)}});
  for (const std::string &reason : result.unstoredReasons)
    notes.push_back(jsonText(reason));
  llvm::json::Object object{
      {"device", pool.device},
      {"signature", pool.signature},
      {"curve", std::move(curve)},
      {"reaches_goal", result.cover.reachesGoal},
      {"samples", number(result.cover.samples)},
      {"judged", number(result.cover.judged)},
      {"pool_kernels", number(result.cover.kernels.size())},
      {"configs", number(result.configs)},
      {"kernels", number(result.distinctKernels)},
      {"compiled", number(result.compiled)},
      {"from_cache", number(result.fromCache)},
      {"refused_kernels", number(result.refused)},
      {"unstored_kernels", number(result.unstoredKernels)},
      {"stored", result.isStored},
      {"was_there", result.wasThere},
      {"notes", std::move(notes)},
      {"cover_ms", rounded(result.coverMs, 4)},
      {"elapsed_ms", rounded(result.elapsedMs, 4)}};
  if (result.error.code != ErrorCode::Success)
    object["error"] = jsonText(result.error.message);
  return object;
}

llvm::json::Object PoolReport::toJson() const {
  llvm::json::Array list;
  for (const PoolOutcome &pool : pools)
    list.push_back(poolToJson(pool));
  return llvm::json::Object{{"pools", std::move(list)},
                            {"interrupted", interrupted}};
}

int PoolReport::exitCode() const {
  int code = interrupted ? kExitSomeFailed : kExitDone;
  for (const PoolOutcome &pool : pools) {
    const ErrorCode error = pool.result.error.code;
    if (error == ErrorCode::CompilerMissing)
      return kExitNoDevice;
    if (error != ErrorCode::Success)
      code = kExitSomeFailed;
  }
  return code;
}

/// The signatures that the operands name: the text of one problem, or of
/// several, each beginning with its family's name.
static llvm::Expected<std::vector<PoolSubject>>
readSubjects(const ParsedOptions &options, const Registry &registry) {
  const std::string align = options.value("--align").value_or("16");
  if (align != "16" && align != "all")
    return makeError(ErrorCode::InvalidArgument, "--align={} is not 16 or all",
                     align);
  std::vector<std::string> texts;
  const std::string all = llvm::join(options.operands(), " ");
  llvm::SmallVector<llvm::StringRef, 16> words;
  llvm::StringRef(all).split(words, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words) {
    if (!word.contains('='))
      texts.emplace_back();
    if (texts.empty())
      return makeError(ErrorCode::InvalidArgument,
                       "--pool: begin with the family's name, not with {}",
                       word);
    if (!texts.back().empty())
      texts.back() += ' ';
    texts.back() += word;
  }
  if (texts.empty())
    return makeError(ErrorCode::InvalidArgument,
                     "--pool: give a problem without its sizes");
  std::vector<PoolSubject> subjects;
  for (const std::string &text : texts) {
    auto [name, fields] = llvm::StringRef(text).split(' ');
    auto family = registry.get(name);
    if (!family)
      return family.takeError();
    auto subject = PoolSubject::parse(**family, fields);
    if (!subject)
      return subject.takeError();
    if (align == "all")
      llvm::append_range(subjects, subject->allAlignments());
    else
      subjects.push_back(std::move(*subject));
  }
  return subjects;
}

llvm::Expected<int> warmPools(const ParsedOptions &options,
                              const Environment &environment,
                              llvm::ArrayRef<ChosenDevice> devices) {
  const Registry registry = makeBuiltinRegistry();
  auto subjects = readSubjects(options, registry);
  if (!subjects)
    return subjects.takeError();
  PoolWarmupOptions warmup;
  auto layers = options.number(
      "--layers", static_cast<unsigned>(warmup.cover.layers), 1, 1 << 16);
  if (!layers)
    return layers.takeError();
  auto most = options.number("--max-kernels",
                             static_cast<unsigned>(warmup.cover.maxKernels), 1,
                             1 << 16);
  if (!most)
    return most.takeError();
  auto allowance = chooseAllowance(options);
  if (!allowance)
    return allowance.takeError();
  warmup.cover.workspaceBytes = allowance->workspaceBytes;
  warmup.cover.layers = *layers;
  if (options.has("--layers"))
    warmup.cover.mostLayers = *layers;
  warmup.cover.judges = std::max(1U, *layers / 4);
  warmup.cover.maxKernels = *most;
  warmup.store = !options.has("--no-cache");
  auto storeOptions = artifactOptions(options, environment);
  if (!storeOptions)
    return storeOptions.takeError();
  auto cache = openCache(options, environment);
  if (!cache)
    return cache.takeError();
  InterruptGuard interrupt;
  warmup.cover.cancel = interrupt.flag();
  ArtifactStore artifacts(**cache, *storeOptions);
  PoolStore pools(**cache);
  PoolReport report;
  for (const ChosenDevice &device : devices)
    for (const PoolSubject &subject : *subjects) {
      ProgressBar bar("compiling for " + device.model().name);
      warmup.progress = [&](const ArtifactStore::Progress &progress) {
        bar.update(progress.done, progress.total,
                   progress.unit ? progress.unit->name() : llvm::StringRef());
      };
      report.pools.push_back(
          {device.model().name, subject.signature().text(),
           warmPool(subject, device.model(), artifacts, pools, warmup)});
    }
  report.interrupted = interrupt.flag()->load();
  return emit(report, options.wantsJson(), report.exitCode());
}

} // namespace kiln::cli
