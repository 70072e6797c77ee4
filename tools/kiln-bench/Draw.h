//===- Draw.h - problems that were not tuned ------------------------------===//
//
// An engine meets another number of tokens at each step. A draw pairs layers
// with values of dynamic extents, log-uniform over the range of each, a share
// of them odd, and no pair twice. It depends on seed, ranges and number of
// layers alone, on every machine.
//
// Engines of future models meet other extents: extents that no step changes are
// drawn as well, where ranges name them. Weights and rows are stored by these,
// so a third of their values is odd, a third divides by 8 and a third by 64.
// With a range of bytes the draw depends on the layers, too: a problem's bytes
// are log-uniform, and its values are drawn until it has about as many.
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

/// Options of a draw.
inline constexpr OptionSpec kDrawnOptions[] = {
    {"--range", "KEY=FIRST..LAST",
     "values of an extent, both included; may be repeated for another extent; "
     "default m=1..8192. A layer that gives an extent that is not dynamic "
     "keeps "
     "it",
     /*repeats=*/true},
    {"--bytes", "LEAST..MOST",
     "the bytes that a problem must read and write, log-uniform: 512K..2G; "
     "default: those of the drawn values"},
    {"--seed", "S,...", "of the draw, one draw for each; default 1"}};

/// One pair, in the order in which they are met.
struct Drawn {
  size_t layer = 0;   ///< index
  ExtentPoint values; ///< of the ranges, in their order
  uint64_t seed = 0;  ///< of the draw that it belongs to
};

/// The space that pairs are drawn from.
struct DrawSpace {
  size_t layers = 0;
  NamedRanges ranges;
  /// Whether the extent of each range is fixed in an engine; empty: no extent
  /// is.
  std::vector<bool> fixed = {};
  /// The values that each layer gives itself, 0 where it gives none; empty: no
  /// layer gives one.
  std::vector<ExtentPoint> own = {};
  /// The least and the most bytes of a problem; none: any.
  std::optional<std::pair<uint64_t, uint64_t>> bytes = std::nullopt;
  /// The bytes of a layer at values; needed with `bytes`.
  std::function<llvm::Expected<int64_t>(size_t layer, const ExtentPoint &)>
      bytesOf = nullptr;
};

/// \p count pairs for each seed, one draw after another. Layers take turns in
/// an order that is shuffled each time. A later draw leaves out the pairs of
/// earlier ones. Errors: InvalidArgument for want of pairs; those of
/// DrawSpace::bytesOf.
llvm::Expected<std::vector<Drawn>> drawPairs(const DrawSpace &space,
                                             unsigned count,
                                             llvm::ArrayRef<uint64_t> seeds);

/// The draw that kDrawnOptions and --suite ask for.
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
  /// Whether the extent of each range is fixed in an engine: it does not vary
  /// from call to call.
  std::vector<bool> fixed() const;
  /// The first range with such an extent; null: no range has one.
  const NamedRange *fixedRange() const;
};

/// Draws \p count problems for each seed.
llvm::Expected<DrawRequest> readDraw(const ParsedOptions &options,
                                     unsigned count, const Registry &registry);

} // namespace kiln::cli
