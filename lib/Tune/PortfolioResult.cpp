//===- PortfolioResult.cpp - the results of sessions of ranges ------------===//
//
// Also the kernels that sessions tell each other of.
//
//===----------------------------------------------------------------------===//
#include "Tune/PortfolioSession.h"

#include "Support/EnumName.h"

#include <llvm/ADT/STLExtras.h>

#include <set>

namespace kiln {

static std::string signatureKey(const ProblemRange &range) {
  return fmt::format("{} {}", range.family->name(), range.signature.text());
}

llvm::ArrayRef<KnownConfig> SharedKernels::of(const ProblemRange &range) const {
  auto known = bySignature.find(signatureKey(range));
  return known == bySignature.end() ? llvm::ArrayRef<KnownConfig>()
                                    : llvm::ArrayRef(known->second);
}

void SharedKernels::add(const Portfolio &portfolio) {
  std::vector<KnownConfig> &list = bySignature[signatureKey(portfolio.range())];
  for (const PortfolioMember &member : portfolio.members())
    if (llvm::none_of(list, [&](const KnownConfig &known) {
          return known.tmpl == member.tmpl && known.config == member.config;
        }))
      list.push_back({member.tmpl, member.config});
}

std::string
PortfolioResult::missingOnDisk(const ArtifactStore &artifacts,
                               const PortfolioStore &portfolios) const {
  std::vector<std::string> missing;
  std::set<Digest> seen;
  size_t lost = 0;
  for (const MemberCode &member : code)
    for (const TranslationUnit &unit : member.plan.kernels)
      if (seen.insert(unit.digest()).second)
        lost += !artifacts.isOnDisk(unit);
  if (lost)
    missing.push_back(fmt::format("{} of {} kernels", lost, seen.size()));
  if (!keptAs || !portfolios.isOnDisk(*keptAs))
    missing.push_back("the portfolio");
  return missing.empty()
             ? ""
             : fmt::format("not on disk: {}", fmt::join(missing, " and "));
}

llvm::StringRef nameOf(PortfolioOrigin origin) {
  using enum PortfolioOrigin;
  static constexpr EnumName<PortfolioOrigin> kNames[] = {
      {Stored, "stored"}, {Measured, "measured"}, {Estimated, "estimated"}};
  return nameIn(kNames, origin);
}

} // namespace kiln
