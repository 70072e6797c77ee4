//===- KnownCover.cpp -----------------------------------------------------===//
#include "Tune/KnownCover.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

static bool areSame(const PortfolioMember &a, const PortfolioMember &b) {
  return a.tmpl == b.tmpl && a.config == b.config;
}

std::optional<Portfolio> renewCover(const Portfolio &cover,
                                    const ProblemRange &range,
                                    llvm::ArrayRef<PortfolioMember> kept,
                                    llvm::ArrayRef<PortfolioMember> ofParts,
                                    const BarredConfigs &barred) {
  if (cover.range().low != range.low || cover.range().high != range.high)
    return std::nullopt;
  Portfolio renewed = cover;
  size_t found = 0;
  for (PortfolioMember &member : renewed.mutableMembers()) {
    if (barred.contains(*member.tmpl, member.config))
      return std::nullopt;
    member.times.clear();
    member.validated = false;
    for (const PortfolioMember &known : ofParts)
      if (areSame(known, member)) {
        member.validated |= known.validated;
        llvm::append_range(member.times, known.times);
      }
    for (const PortfolioMember &known : kept)
      if (areSame(known, member)) {
        member.validated = known.validated;
        member.times = known.times;
        ++found;
      }
  }
  if (found != kept.size())
    return std::nullopt;
  renewed.calibrate();
  return renewed;
}

} // namespace kiln
