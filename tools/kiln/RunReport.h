//===- RunReport.h - the result of kiln run -------------------------------===//
#pragma once

#include "Support/Error.h"
#include "cli/Report.h"
#include "cli/Suite.h"

#include <string>
#include <vector>

namespace kiln::cli {

/// The launches of one problem.
struct RunRow {
  const Case *which = nullptr;
  std::string config;    ///< as an engine describes it
  unsigned launches = 0; ///< that were timed
  double ns = 0;         ///< of one, between events around all of them
  double hostNs = 0;     ///< of one, until its call returned
  size_t graphNodes = 0; ///< of the graph that was replayed; 0: none
  ErrorSummary error;    ///< it did not run
};

class RunReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;

  std::string mode;
  std::vector<RunRow> rows;
  bool interrupted = false;
};

} // namespace kiln::cli
