//===- Draw.h - problems that nobody tuned --------------------------------===//
//
// What an engine meets: at each step another number of tokens. A draw pairs
// layers with values of dynamic extents, log-uniform over the range of each, a
// share of them odd, and no pair twice. It depends on seed, ranges and number
// of layers alone, on every machine.
//
// What engines of models that do not exist yet meet: extents that no step
// changes are drawn as well, where ranges name them. Weights and rows are
// stored by these, so a third of their values is odd, a third divides by 8 and
// a third by 64. With a range of bytes the draw depends on the layers, too: a
// problem's bytes are log-uniform, and its values are drawn until it has about
// as many.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cli/Layers.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace kiln::cli {

/// Options that say what is drawn.
inline constexpr OptionSpec kDrawnOptions[] = {
    {"--range", "KEY=FIRST..LAST",
     "values of an extent, both included; may be repeated for another extent; "
     "default m=1..8192. A layer that gives an extent that is not dynamic "
     "keeps "
     "it",
     /*repeats=*/true},
    {"--bytes", "LEAST..MOST",
     "what a problem reads and writes at least, log-uniform: 512K..2G; "
     "default: as values make it"},
    {"--seed", "S,...", "of the draw, one draw for each; default 1"}};

/// One pair, in the order in which they are met.
struct Drawn {
  size_t layer = 0;   ///< index
  ExtentPoint values; ///< of the ranges, in their order
  uint64_t seed = 0;  ///< of the draw that it belongs to
};

/// What pairs are drawn from.
struct DrawSpace {
  size_t layers = 0;
  NamedRanges ranges;
  /// Of each range, whether its extent is fixed in an engine; empty: none is.
  std::vector<bool> fixed = {};
  /// Of each layer, the values that it has of its own, 0 where it has none;
  /// empty: no layer has one.
  std::vector<ExtentPoint> own = {};
  /// The least and the most bytes of a problem; none: any.
  std::optional<std::pair<uint64_t, uint64_t>> bytes = std::nullopt;
  /// The bytes of a layer at values; needed with `bytes`.
  std::function<llvm::Expected<int64_t>(size_t layer, const ExtentPoint &)>
      bytesOf = nullptr;
};

/// \p count pairs for each seed, one draw after another. Layers take turns in
/// an order that is shuffled each time. A later draw leaves out what an earlier
/// one has. Errors: InvalidArgument where there are not so many pairs; those of
/// DrawSpace::bytesOf.
llvm::Expected<std::vector<Drawn>> drawPairs(const DrawSpace &space,
                                             unsigned count,
                                             llvm::ArrayRef<uint64_t> seeds);

/// What kDrawnOptions and --suite ask for.
struct DrawRequest {
  NamedRanges ranges;
  std::optional<std::pair<uint64_t, uint64_t>> bytes;
  unsigned count = 0;
  std::vector<uint64_t> seeds;
  std::vector<Layer> layers;
  std::vector<Drawn> drawn;
  std::vector<Case> cases; ///< of each of `drawn`

  /// "48 problems of layers.json, m=1..8192, seeds 1, 2".
  std::string text(llvm::StringRef suite) const;
  /// Of each range, whether its extent is fixed in an engine: it does not vary
  /// from call to call.
  std::vector<bool> fixed() const;
  /// The first range whose extent is; null: there is none.
  const NamedRange *fixedRange() const;
};

/// Draws \p count problems for each seed.
llvm::Expected<DrawRequest> readDraw(const ParsedOptions &options,
                                     unsigned count, const Registry &registry);

} // namespace kiln::cli
