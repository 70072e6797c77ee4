//===- Layers.h - problems without their dynamic extent -------------------===//
//
// What an engine knows of a model before it runs: the projections' sizes, but
// not how many tokens a step will have. A suite of layers (its key is "layers"
// where that of other suites is "cases") leaves out the extent that a range
// names.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kiln/CommonOptions.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::cli {

inline constexpr OptionSpec kRangeOption = {
    "--range", "KEY=FIRST..LAST", "values of a dynamic extent, both included"};

/// Values of the dynamic extent called `key`: "m=1..8192".
struct NamedRange {
  std::string key;
  int64_t first = 1, last = 1;

  /// Error: InvalidArgument.
  static llvm::Expected<NamedRange> parse(llvm::StringRef text);
  std::string text() const;
};

/// A problem with the extent of a range left open.
struct Layer {
  std::string name;
  const KernelFamily *family = nullptr;
  Record described; ///< with the range's first value, not canonical

  /// The problem at \p value, called "name/m137". Errors: those of
  /// KernelFamily::canonicalise.
  llvm::Expected<Case> at(llvm::StringRef key, int64_t value) const;
};

/// The layers of a suite's JSON, in order; \p path names it in errors, which
/// are those of parseSuite(). A layer that has \p range's extent is one.
llvm::Expected<std::vector<Layer>> parseLayers(const llvm::json::Value &json,
                                               llvm::StringRef path,
                                               const NamedRange &range,
                                               const Registry &registry);

/// The layers of --suite that pass --filter, one at least.
llvm::Expected<std::vector<Layer>> readLayers(const ParsedOptions &options,
                                              const NamedRange &range,
                                              const Registry &registry);

} // namespace kiln::cli
