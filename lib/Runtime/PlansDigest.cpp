//===- PlansDigest.cpp - one number for all that is prepared --------------===//
//
// Equal digests mean equal choices at all prepared values. Choices follow from
// the numbers of the device, from the members of portfolios and from their
// times, so these are what is hashed. Times in the cache are those of one
// measurement, whichever process reads them.
//
//===----------------------------------------------------------------------===//
#include "Runtime/PlansDigest.h"

#include "Call/CanonicalProblem.h"
#include "Store/PortfolioStore.h"
#include "Support/Hash.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

/// Adds the text of each single problem that is prepared, and of its code.
static void addValues(const Engine &engine, const ContextState &state,
                      std::vector<std::string> &texts) {
  struct Kept {
    const KernelFamily &family;
    DispatchTable::KeyValues values;
    std::string code;
  };
  std::vector<Kept> kept;
  engine.plans().forEachKept(state.id, [&](const KernelFamily &family,
                                           DispatchTable::KeyValues values,
                                           const ActivePlan &plan) {
    kept.push_back({family, std::move(values), plan.loaded->codeText()});
  });
  for (const Kept &one : kept)
    texts.push_back(Values(one.family.problemSchema(), one.values).text() +
                    ": " + one.code);
}

std::string plansDigest(const Engine &engine, const ContextState &state) {
  std::vector<std::string> texts;
  addValues(engine, state, texts);
  for (const auto &range : state.allRanges())
    texts.push_back(range->facts());
  llvm::sort(texts); // the order of calls does not count
  texts.push_back(PortfolioKey::estimated("", state.model).device);
  std::string all;
  for (const std::string &text : texts)
    all += fmt::format("{}\n{}\n", text.size(), text);
  return strongHash(all).hex();
}

} // namespace kiln
