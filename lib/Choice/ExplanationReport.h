//===- ExplanationReport.h - an explanation, as text and JSON -------------===//
#pragma once

#include "Choice/Explanation.h"
#include "Support/Report.h"

namespace kiln {

/// The summary of \p e in two or three sentences: the config's place, its
/// predicted time and rates, its bound. \p e has no rejection.
std::string summaryText(const Explanation &e);

/// The report that `kiln explain` prints: summary, derivation, the rival term
/// by term, why the choice is generic, the portfolio.
class ExplanationReport final : public Report {
public:
  /// \p e must outlive it.
  explicit ExplanationReport(const Explanation &e) : e(e) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  const Explanation &e;
};

} // namespace kiln
