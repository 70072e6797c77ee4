//===- CompileOrder.cpp ---------------------------------------------------===//
#include "Tune/CompileOrder.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

bool sharesKernel(const Candidate &a, const Candidate &b) {
  if (a.tmpl != b.tmpl)
    return false;
  for (auto [i, field] : llvm::enumerate(a.config.schema().fields()))
    if (field.role != FieldRole::RuntimeKnob &&
        a.config[static_cast<int>(i)] != b.config[static_cast<int>(i)])
      return false;
  return true;
}

/// Whether the generic kernels of \p ranked are far slower than the others.
static bool isGenericFarSlower(llvm::ArrayRef<Candidate> ranked) {
  constexpr double kFarSlower = 8;
  auto generic = llvm::find_if(ranked, [](const Candidate &candidate) {
    return candidate.tmpl->isGeneric();
  });
  return generic != ranked.end() &&
         generic->estimate.totalNs >
             kFarSlower * ranked.front().estimate.totalNs;
}

std::optional<size_t>
nextToCompile(llvm::ArrayRef<Candidate> ranked, llvm::ArrayRef<size_t> tried,
              llvm::function_ref<bool(size_t rank)> mayTry) {
  const bool isFar = isGenericFarSlower(ranked);
  const bool isSpent =
      tried.size() >= (isFar ? kMostCompileAttempts : kCompileAttempts);
  for (bool isLastResort : {false, true})
    for (size_t rank = 0; rank < ranked.size(); ++rank) {
      const bool isGeneric = ranked[rank].tmpl->isGeneric();
      const bool hasTurn =
          isGeneric ? isLastResort || !isFar : !isLastResort && !isSpent;
      auto sharesIt = [&](size_t other) {
        return sharesKernel(ranked[other], ranked[rank]);
      };
      if (hasTurn && llvm::none_of(tried, sharesIt) && mayTry(rank))
        return rank;
    }
  return std::nullopt;
}

} // namespace kiln
