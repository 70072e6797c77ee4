//===- Ranges.h - ranges of layers, for commands that prepare them --------===//
#pragma once

#include "Call/ProblemRange.h"
#include "cli/Layers.h"

#include <string>
#include <vector>

namespace kiln::cli {

inline constexpr OptionSpec kRangesOption = {
    "--range", "KEY=FIRST..LAST",
    "prepare all values of a dynamic extent, both included; may be repeated "
    "for another extent",
    /*repeats=*/true};

/// A layer over the values of a range. Where alignment follows from them, a
/// layer has several.
struct RangeCase {
  std::string name;
  ProblemRange range;
};

/// The ranges of a command: --range over its problems, where their own values
/// of that extent do not matter, or over the layers or cases of --suite. Layers
/// that are equal up to the range count as one. Errors (InvalidArgument,
/// Unsupported, Io) name file, case and key.
llvm::Expected<std::vector<RangeCase>> readRanges(const ParsedOptions &options,
                                                  const Registry &registry);

} // namespace kiln::cli
