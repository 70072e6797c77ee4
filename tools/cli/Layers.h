//===- Layers.h - problems without their dynamic extents ------------------===//
//
// Before a model runs an engine knows the sizes of its projections, but not the
// number of tokens of a step. That is a layer. A suite of layers (its key is
// "layers" instead of "cases") leaves out the extents that ranges name.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cli/CommonOptions.h"
#include "kiln/kiln.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::cli {

/// Values of the dynamic extent called `key`: "m=1..8192".
struct NamedRange {
  std::string key;
  int64_t first = 1, last = 1;

  /// Error: InvalidArgument.
  static llvm::Expected<NamedRange> parse(llvm::StringRef text);
  std::string text() const;
};
using NamedRanges = std::vector<NamedRange>;

/// The ranges of --range; \p otherwise where it is not given. Errors
/// (InvalidArgument): no range, or a key that is given twice.
llvm::Expected<NamedRanges> readNamedRanges(const ParsedOptions &options,
                                            llvm::StringRef otherwise = "");
/// "batch=1..64 sk=1..4096"
std::string textOf(const NamedRanges &ranges);

/// As a kiln_problem has them; names point into \p ranges.
std::vector<kiln_range> givenRanges(const NamedRanges &ranges);

/// The extents of layers that ranges may name.
enum class RangedExtents {
  Dynamic, ///< extents that vary from call to call, which no layer gives
  /// Also extents that are fixed in an engine. A layer that gives one keeps it.
  All,
};

/// A problem with the extents of ranges left open.
struct Layer {
  std::string name;
  const KernelFamily *family = nullptr;
  Values described; ///< with the ranges' first values, not canonical
  /// For each range the value that the layer gives itself; 0: it is open.
  ExtentPoint own;

  /// Whether \p range is of an extent that does not vary from call to call.
  bool isFixed(const NamedRange &range) const;
  /// The problem at \p values of \p ranges, called "name/m137", or
  /// "name/batch8-sk4096". Errors: those of KernelFamily::canonicalise.
  llvm::Expected<Case> at(const NamedRanges &ranges,
                          llvm::ArrayRef<int64_t> values) const;
  /// The problem at the last values.
  llvm::Expected<Case> atLast(const NamedRanges &ranges) const;
};

/// The layers of a suite's JSON, in order; \p path names it in errors, which
/// are those of parseSuite(). A layer that gives a dynamic extent of \p ranges
/// is an error.
llvm::Expected<std::vector<Layer>> parseLayers(const llvm::json::Value &json,
                                               llvm::StringRef path,
                                               const NamedRanges &ranges,
                                               RangedExtents extents,
                                               const Registry &registry);

/// The layers of --suite that pass --filter, one at least.
llvm::Expected<std::vector<Layer>> readLayers(const ParsedOptions &options,
                                              const NamedRanges &ranges,
                                              RangedExtents extents,
                                              const Registry &registry);

} // namespace kiln::cli
