//===- KnownCover.h - a cover that was searched before --------------------===//
//
// Private to the session.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/BarredConfigs.h"
#include "Tune/Portfolio.h"

#include <llvm/ADT/ArrayRef.h>

#include <optional>

namespace kiln {

/// Returns \p cover with today's facts about its members: members in \p kept
/// are as they are there, and \p ofParts has times of further ones. nullopt if
/// the cover has to be searched again: it is of another range, has a barred
/// member, or lacks one of \p kept.
std::optional<Portfolio> renewCover(const Portfolio &cover,
                                    const ProblemRange &range,
                                    llvm::ArrayRef<PortfolioMember> kept,
                                    llvm::ArrayRef<PortfolioMember> ofParts,
                                    const BarredConfigs &barred);

} // namespace kiln
