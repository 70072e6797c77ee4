//===- ChainReport.h - times of chains of launches ------------------------===//
#pragma once

#include "Trial/Statistics.h"
#include "cli/Report.h"
#include "compare/BenchReport.h"

#include <array>
#include <string>
#include <vector>

namespace kiln::cli {

/// How the launches of a chain follow each other.
enum class ChainLink {
  Ordered,   ///< each begins when the one ahead has ended
  Dependent, ///< each may begin before that, and reads nothing until then
  Constant   ///< the same, except for weights, which it reads at once
};
inline constexpr std::array<ChainLink, 3> kChainLinks = {
    ChainLink::Ordered, ChainLink::Dependent, ChainLink::Constant};
llvm::StringRef nameOf(ChainLink link);

/// One problem of a chain.
struct ChainStep {
  const Case *which = nullptr;
  std::string config, from;
};

/// One chain. Times are in ns, of one run of all steps; a count of 0 means not
/// measured.
struct ChainRow {
  std::string name;
  std::vector<ChainStep> steps;
  std::array<SampleSummary, kChainLinks.size()> ns;
  bool agrees = false; ///< all links leave the same results, bit for bit
  unsigned launches = 0;
  std::string error; ///< empty: it was measured

  /// The time of the ordered chain over that of \p link; 0 without both.
  double ratio(ChainLink link) const;
};

/// The result file and its table.
class ChainReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;

  BenchSetting setting;
  std::vector<ChainRow> rows;
  bool interrupted = false;

private:
  std::vector<double> ratios(ChainLink link) const;
};

} // namespace kiln::cli
