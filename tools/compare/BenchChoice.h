//===- BenchChoice.h - the plan on Kiln's side ----------------------------===//
#pragma once

#include "cli/LiveSession.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// A plan with its kernels.
struct BenchChoice {
  Plan plan;
  std::vector<ArtifactPtr> artifacts;
  std::string from;       ///< "record", "estimated", "named", ...
  bool validated = false; ///< compared with the reference already
};

/// The plan of a config's text for \p which, compiled. Errors: InvalidArgument
/// for a text that is no config or cannot run; those of compiling.
llvm::Expected<BenchChoice> namedChoice(const Case &which,
                                        const std::string &config,
                                        const DeviceModel &device,
                                        ArtifactStore &artifacts);

/// Options that choose the plan on Kiln's side.
inline constexpr OptionSpec kChoiceOptions[] = {
    {"--config", "TEXT", "measure this config instead of the chosen one"},
    {"--budget", "TIME", "tune first, for so long; default: not at all"}};

/// The values of these options.
struct ChoiceRequest {
  std::optional<std::string> config;
  TuningOptions tuning;

  static llvm::Expected<ChoiceRequest> read(const ParsedOptions &options);
};

/// The choice for each of some cases: the named config, else that of the
/// records or the estimator, measured first where there is a budget.
class BenchChoices {
public:
  /// Tunes, unless a config is named. All must outlive it.
  BenchChoices(llvm::ArrayRef<Case> cases, const ChoiceRequest &request,
               LiveSession &session);

  /// The choice of the case \p index. Errors concern this case.
  llvm::Expected<BenchChoice> of(size_t index) const;

private:
  llvm::ArrayRef<Case> cases;
  const ChoiceRequest &request;
  LiveSession &session;
  std::vector<TuningOutcome> outcomes; ///< empty where a config is named
};

} // namespace kiln::cli
