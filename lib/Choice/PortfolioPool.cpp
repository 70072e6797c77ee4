//===- PortfolioPool.cpp - the portfolios of a context --------------------===//
#include "Choice/PortfolioPool.h"

#include "Choice/PlanRequest.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <bit>

namespace kiln {

/// Values of a dynamic extent that a layer is prepared for at least: the tokens
/// of a long prompt.
static constexpr int64_t kLeastOfLayer = 8192;

bool serves(const ProblemRange &range, const Record &problem) {
  const ExtentPoint point = range.pointOf(problem);
  if (!range.contains(point))
    return false;
  // A leading dimension is no field of the one problem whose rows it packs, so
  // what was described is made canonical at this point.
  std::optional<Problem> own = range.find(point);
  return own && own->record == problem;
}

std::string layerKey(const KernelFamily &family, const Problem &problem) {
  std::string key;
  auto add = [&](const void *from, size_t count) {
    key.append(static_cast<const char *>(from), count);
  };
  const KernelFamily *address = &family;
  add(&address, sizeof(address));
  llvm::ArrayRef<Field> fields = problem.record.schema().fields();
  for (auto [field, value] : llvm::zip(fields, problem.record.values()))
    if (!field.mayVary() && field.role != FieldRole::LeadingDimension)
      add(&value, sizeof(value));
  llvm::ArrayRef<int64_t> signature = problem.signature.values();
  add(signature.data(), signature.size() * sizeof(int64_t));
  return key;
}

//===----------------------------------------------------------------------===//
// One portfolio
//===----------------------------------------------------------------------===//

KnownPortfolio::KnownPortfolio(Portfolio given, bool isStored)
    : portfolio(std::move(given)), isStored(isStored),
      measured(portfolio.measuredMembers() > 0) {
  for (const PortfolioMember &member : members())
    targets.push_back(llvm::cantFail(range().at(member.high),
                                     "a member's plan is made for `high`"));
}

kiln_source KnownPortfolio::sourceOf(uint32_t member) const {
  if (members()[member].validated)
    return KILN_SOURCE_RECORD;
  return isStored ? KILN_SOURCE_DECISION : KILN_SOURCE_ESTIMATE;
}

std::optional<ProblemRange> layerOf(const KernelFamily &family,
                                    const Problem &problem) {
  const int dynamic = family.dynamicExtent();
  if (dynamic < 0 || problem.record[dynamic] < 1)
    return std::nullopt;
  const int64_t value = problem.record[dynamic];
  const int64_t above =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value)));
  const int64_t last =
      largestValue(family, problem, std::max(above, kLeastOfLayer));
  auto ranges = rangesOf(family, problem.record, dynamic, 1, last);
  if (!ranges) {
    llvm::consumeError(ranges.takeError());
    return std::nullopt;
  }
  for (ProblemRange &range : *ranges)
    if (serves(range, problem.record))
      return std::move(range);
  return std::nullopt;
}

std::shared_ptr<const KnownPortfolio> findStored(const PortfolioStore &store,
                                                 ProblemRange range,
                                                 const DeviceModel &device,
                                                 llvm::StringRef deviceClass,
                                                 uint64_t workspaceBytes) {
  const std::string layer = range.fixedText();
  for (const PortfolioKey &key : {PortfolioKey::measured(layer, deviceClass),
                                  PortfolioKey::estimated(layer, device)}) {
    std::optional<StoredPortfolio> stored =
        store.find(key, range.low, range.high);
    if (!stored)
      continue;
    // Trials found nothing right: nor would they for the estimator's choice.
    if (stored->isHopeless())
      return nullptr;
    ProblemRange whole = range;
    whole.low.assign(stored->low.begin(), stored->low.end());
    whole.high.assign(stored->high.begin(), stored->high.end());
    Portfolio restored =
        Portfolio::restore(whole, *stored, device, workspaceBytes);
    if (!restored.empty())
      return std::make_shared<const KnownPortfolio>(std::move(restored),
                                                    /*isStored=*/true);
  }
  return nullptr;
}

} // namespace kiln
