//===- Sm90Pages.h - pages of K and V as boxes of TMA ---------------------===//
//
// The wgmma templates of attention load pages by a box each, or by a box that
// lies within one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionProblem.h"
#include "Kernel/Estimate.h"
#include "Model/MathUtil.h"

#include <algorithm>
#include <optional>

namespace kiln {

// The clocks that keep the thread busy that loads. The kernels differ in what
// they do for a page, and so in what was measured (H200):

/// `sm90`, for a page of K, or of V: its number, which comes with seven others,
/// and a box for each slab. 2048 queries of 8192 keys, 32 heads: 413 us with
/// pages of 16, 570 of 8, 374 without.
inline constexpr double kPageClocks = 50;
/// `sm90mla`, for a box of a page, beside two divisions a block of keys. 128
/// sequences of 4096 keys, 128 heads: 267 us with pages of 64, 245 without; 16
/// sequences, pages of 16: 62 us, 50 without.
inline constexpr double kBoxClocks = 55;

/// Pages of a step of \p keys keys; 0 where there are none.
inline int64_t pagesOfStep(const AttentionProblem &problem, int64_t keys) {
  return problem.isPaged()
             ? ceilDiv(keys, std::clamp<int64_t>(problem.pageSize, 1, keys))
             : 0;
}

/// The rejection of pages that \p keys keys, \p unit, are neither whole ones
/// of nor a part that divides one.
inline std::optional<Rejection> checkPages(const AttentionProblem &problem,
                                           int64_t keys, llvm::StringRef unit) {
  if (!problem.isPaged())
    return std::nullopt;
  constexpr int64_t kLeastRows = 8; // of a box: the swizzle repeats then
  if (problem.pageSize % kLeastRows != 0)
    return Rejection{PruneReason::Alignment, double(problem.pageSize),
                     double(kLeastRows), "tokens of a page"};
  if (keys % problem.pageSize != 0 && problem.pageSize % keys != 0)
    return Rejection{PruneReason::InstructionShape, double(keys), 0, unit,
                     "whole pages, or a part of one that divides it"};
  return std::nullopt;
}

} // namespace kiln
