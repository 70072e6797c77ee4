//===- Blame.cpp ----------------------------------------------------------===//
#include "kiln-bench/Blame.h"

#include "Support/Format.h"
#include "kiln-bench/Quality.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <map>

namespace kiln::cli {

std::vector<CostAddend> addendsOf(const Candidate &candidate,
                                  const Problem &problem,
                                  const DeviceModel &device) {
  std::vector<CostAddend> addends;
  for (const auto &[name, ns] : candidate.derive(problem, device).addends())
    addends.push_back({name.str(), ns});
  return addends;
}

double BlamedConfig::addend(llvm::StringRef name) const {
  double sum = 0;
  for (const CostAddend &one : addends)
    if (one.name == name)
      sum += one.ns;
  return sum;
}

Blame blame(BlamedConfig chosen, BlamedConfig best) {
  constexpr double kLeastShare = 0.01;
  Blame result;
  result.regret = std::max(chosen.measuredNs / best.measuredNs - 1, 0.0);
  for (const BlamedConfig *side : {&best, &chosen})
    for (const CostAddend &one : side->addends) {
      const double difference = best.addend(one.name) - chosen.addend(one.name);
      if (difference > result.inFavourNs) {
        result.inFavourNs = difference;
        result.term = one.name;
      }
    }
  if (result.inFavourNs >= kLeastShare * chosen.predictedNs) {
    result.kind = BlameKind::Term;
  } else {
    result.term.clear();
    result.inFavourNs = 0;
    if (chosen.bound != best.bound)
      result.kind = BlameKind::Bound;
  }
  result.chosen = std::move(chosen);
  result.best = std::move(best);
  return result;
}

std::string Blame::cause() const {
  switch (kind) {
  case BlameKind::Term:
    return term;
  case BlameKind::Bound:
    return fmt::format("bound: {}, not {}", chosen.bound, best.bound);
  case BlameKind::Tie:
    return "a tie";
  }
  return "";
}

std::string Blame::templatePair() const {
  return fmt::format("{} > {}", chosen.tmpl, best.tmpl);
}

std::vector<BlameSum>
sumBlames(llvm::ArrayRef<ReplayedSpace> spaces,
          llvm::function_ref<std::string(const ReplayedSpace &)> keyOf) {
  std::map<std::string, BlameSum> byKey;
  for (const ReplayedSpace &space : spaces) {
    if (!space.blame)
      continue;
    BlameSum &sum = byKey[keyOf(space)];
    ++sum.count;
    sum.regret += space.blame->regret;
  }
  std::vector<BlameSum> sums;
  for (auto &[key, sum] : byKey) {
    sum.key = key;
    sums.push_back(std::move(sum));
  }
  llvm::stable_sort(sums, [](const BlameSum &a, const BlameSum &b) {
    return a.regret > b.regret;
  });
  return sums;
}

} // namespace kiln::cli
