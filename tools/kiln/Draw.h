//===- Draw.h - problems that nobody tuned --------------------------------===//
//
// What an engine meets: at each step another number of tokens. A draw pairs
// layers with values of dynamic extents, log-uniform over the range of each, a
// share of them odd, and no pair twice. It depends on seed, ranges and number
// of layers alone, on every machine.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kiln/Layers.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::cli {

inline constexpr OptionSpec kDrawOption = {
    "--draw", "N", "N problems of the suite's layers, drawn from --range"};
inline constexpr OptionSpec kSeedOption = {
    "--seed", "S,...", "of the draw, one draw for each; default 1"};

/// One pair, in the order in which they are met.
struct Drawn {
  size_t layer = 0;   ///< index
  ExtentPoint values; ///< of the ranges, in their order
  uint64_t seed = 0;  ///< of the draw that it belongs to
};

/// \p count pairs for each seed, one draw after another. Layers take turns in
/// an order that is shuffled each time. A later draw leaves out what an earlier
/// one has. Error InvalidArgument: there are not so many pairs.
llvm::Expected<std::vector<Drawn>> drawPairs(size_t layers,
                                             const NamedRanges &ranges,
                                             unsigned count,
                                             llvm::ArrayRef<uint64_t> seeds);

/// What --draw, --range, --seed and --suite ask for.
struct DrawRequest {
  NamedRanges ranges;
  unsigned count = 0;
  std::vector<uint64_t> seeds;
  std::vector<Layer> layers;
  std::vector<Drawn> drawn;
  std::vector<Case> cases; ///< of each of `drawn`

  /// "48 problems of layers.json, m=1..8192, seeds 1, 2".
  std::string text(llvm::StringRef suite) const;
};

/// nullopt where --draw is not given; then --range and --seed are an error.
llvm::Expected<std::optional<DrawRequest>>
readDraw(const ParsedOptions &options, const Registry &registry);

} // namespace kiln::cli
