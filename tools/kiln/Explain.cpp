//===- Explain.cpp - kiln explain: why this config ------------------------===//
#include "Choice/ExplanationReport.h"
#include "Choice/PortfolioReport.h"
#include "Families/Families.h"
#include "cli/CommonOptions.h"
#include "cli/Console.h"
#include "cli/Finish.h"
#include "kiln/Commands.h"
#include "kiln/Elsewhere.h"
#include "kiln/ExplainPage.h"
#include "kiln/KernelSection.h"

namespace kiln::cli {

namespace {

/// The explanation, and a time of another device where this one has none.
class ExplainReport final : public Report {
public:
  explicit ExplainReport(const Explanation &explanation)
      : explanation(explanation) {}
  void print(llvm::raw_ostream &os) const override {
    explanation.print(os);
    if (elsewhere)
      os << '\n' << wrapText(elsewhere->text());
  }
  llvm::json::Object toJson() const override {
    llvm::json::Object object = explanation.toJson();
    if (elsewhere)
      object["measured_elsewhere"] = elsewhere->toJson();
    return object;
  }

  std::optional<MeasuredElsewhere> elsewhere;

private:
  ExplanationReport explanation;
};

} // namespace

/// The cache of the command; creates no folder. Errors: those of chooseCache().
static llvm::Expected<std::unique_ptr<cache::Store>>
openForReading(const ParsedOptions &options, const Environment &environment) {
  std::vector<std::string> notes;
  auto storeOptions = chooseCache(options, environment, notes);
  if (!storeOptions)
    return storeOptions.takeError();
  storeOptions->createsWriteDir = false;
  return cache::Store::open(std::move(*storeOptions));
}

/// The portfolio that \p cache has for what \p explained is of, as far as its
/// allowance goes; nullopt: none.
static std::optional<Portfolio> findPortfolio(cache::Store &cache,
                                              const RecordStore &records,
                                              const Explanation &explained) {
  const PortfolioStore portfolios(cache);
  const DeviceModel &device = *explained.device;
  return findPortfolioAt({portfolios, records, device, deviceClassKey(device),
                          explained.allowance.workspaceBytes},
                         *explained.family, *explained.problem);
}

/// Writes the page of \p explained to \p path. Errors: Io; those of
/// exploreSpace().
static llvm::Error writePage(const Explanation &explained,
                             const std::string &path) {
  auto space =
      exploreSpace(*explained.family, *explained.problem, *explained.device,
                   {.allowance = explained.allowance});
  if (!space)
    return space.takeError();
  return writeFile(path, explainPage(explained, space->ranked));
}

static llvm::Expected<int> runExplain(const ParsedOptions &options) {
  const std::optional<std::string> page = options.value("--html");
  const Registry families = makeBuiltinRegistry();
  auto kernel = findKernel(options.operands(), families);
  if (!kernel)
    return kernel.takeError();
  if (*kernel && page)
    return makeError(ErrorCode::InvalidArgument,
                     "--html needs a problem, not the name of a kernel");
  if (*kernel)
    return emit(**kernel, options.wantsJson());
  auto subject = Subject::read(options);
  if (!subject)
    return subject.takeError();
  const auto &[environment, registry, cases, allowance] = *subject;
  if (cases.size() != 1)
    return makeError(ErrorCode::InvalidArgument,
                     "explain: {} problems are given, one is explained",
                     cases.size());
  if (llvm::Error error = checkOutput(page))
    return error;
  auto device = chooseDevice(options, environment);
  if (!device)
    return device.takeError();
  const auto &[family, problem] = cases.front().named;
  auto explanation = explain({*family, problem, device->model(), allowance,
                              options.value("--config")});
  if (!explanation)
    return explanation.takeError();
  auto cache = openForReading(options, environment);
  if (!cache)
    return cache.takeError();
  ArtifactStoreOptions strict;
  strict.allowCompile = false;
  ArtifactStore artifacts(**cache, std::move(strict));
  tellCompiled(artifacts, *explanation);
  const RecordStore records(**cache);
  explanation->portfolio = findPortfolio(**cache, records, *explanation);
  ExplainReport report(*explanation);
  report.elsewhere =
      findElsewhere(**cache, records, *family, problem, device->model());
  llvm::Error failure =
      page ? writePage(*explanation, *page) : llvm::Error::success();
  return finish(report, std::nullopt, options.wantsJson(), std::move(failure),
                kExitDone);
}

static constexpr OptionSpec kExplainOwnOptions[] = {
    {"--config", "TEXT", "explain this config instead of the first choice"},
    {"--html", "FILE",
     "write a page there as well: plots, timeline, the source of each number"},
};
static constexpr auto kExplainOptions = joinOptions(
    kSubjectOptions, kExplainOwnOptions, kAllowanceOptions, kCacheOptions);

const CommandSpec kExplainCommand = {
    "explain",
    "PROBLEM|KERNEL_NAME",
    "derive the choice for one problem: walls, intensities, waves, bound",
    "Tells step by step how the predicted time of the first choice comes "
    "about, and why it is not the best config of another template, tile, "
    "split-K factor or number of stages. Where memory must set the pace, it "
    "shows how many bytes are in flight and how many must be. --html makes a "
    "page of "
    "it: roofline, the path of the kernel to scale, waves, each formula with "
    "the sources of its values. If the cache has "
    "a portfolio for a range of the problem, that comes last: its kernels, "
    "where they were measured, and which one this value takes. Where only "
    "trials of another GPU are there, their time is rescaled by the ratio of "
    "the estimates, as a guess. Needs no GPU with --device NAME. For a "
    "kernel's name, as profilers show it, it tells "
    "family, template and knobs.\n  kiln explain PROBLEM --device h200-sxm",
    kExplainOptions,
    runExplain,
};

} // namespace kiln::cli
