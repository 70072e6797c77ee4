//===- GenericChoice.h - why a generic kernel is first --------------------===//
//
// A generic template serves problems that no other template does, often at a
// hundredth of the speed. Its user wants to know which limit excludes the fast
// kernels here, and which similar problem they would serve. The limit is read
// from rejected configs. The similar problem is found by planning neighbours in
// one size or in the alignment, which needs nothing from families.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Space.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A template that has configs for a problem, and the limit that excludes them.
struct TemplateLimit {
  const Template *tmpl = nullptr;
  /// The most telling rejection; nullopt: some config may run, but is predicted
  /// to take longer.
  std::optional<Rejection> rejection;
  double predictedNs = 0; ///< of the best config that may run; 0: none may

  /// "packed: alignment: 8 B, 16 needed".
  std::string text() const;
};

/// A change of the problem after which a template that is not generic is the
/// first choice, and takes less than half of the time for equal work.
struct GenericRemedy {
  /// "k=4096 (a multiple of 8)", "align=16", "a workspace limit of at least 300
  /// MiB", "m of at most 4064".
  std::string change;
  std::string config;     ///< the first choice after the change
  double predictedNs = 0; ///< and its time
  double workShare = 1;   ///< the part of the problem's work that is left; at
                          ///< most 1
};

struct GenericChoice {
  std::string config; ///< the first choice
  std::vector<TemplateLimit> limits;
  /// At most three; changes that leave most of the work come first.
  std::vector<GenericRemedy> remedies;

  /// The explanation in one line.
  std::string text() const;
  llvm::json::Object toJson() const;
};

/// Explains why the first choice of \p space is generic; nullopt if it is not.
/// \p space is that of \p problem within \p allowance, with rejected configs.
/// Plans about a hundred problems: some 10 ms.
std::optional<GenericChoice> explainGeneric(const KernelFamily &family,
                                            const Problem &problem,
                                            const DeviceModel &device,
                                            const Space &space,
                                            const Allowance &allowance);

} // namespace kiln
