//===- GenericChoice.h - why a generic kernel is the first choice ---------===//
//
// A generic template serves what nothing else does, often at a hundredth of the
// speed. Its user wants to know which limit the fast kernels have here, and
// which problem beside this one they would take. The first is read off
// rejected configs. The second is tried: neighbours in one size or in the
// alignment are planned, which needs no words of families.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Space.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A template that has configs for a problem, and the limit that keeps it from
/// the problem.
struct TemplateLimit {
  const Template *tmpl = nullptr;
  /// The rejection that tells most; nullopt: some config may run, and is
  /// predicted to take longer.
  std::optional<Rejection> rejection;
  double predictedNs = 0; ///< of the best one that may run; 0: none may

  /// "packed: alignment: 8 B, limit 16 B".
  std::string text() const;
};

/// One change with which a template that is not generic is the first choice,
/// and takes less than half of the time for equal work.
struct GenericRemedy {
  /// "k=4096 (a multiple of 8)", "align=16", "a workspace limit of at least 300
  /// MiB", "m of at most 4064".
  std::string change;
  std::string config;     ///< the first choice then
  double predictedNs = 0; ///< and its time
  double workShare = 1;   ///< of the problem's work that is left; at most 1
};

struct GenericChoice {
  std::string config; ///< the first choice
  std::vector<TemplateLimit> limits;
  /// At most three; those that leave most of the work come first.
  std::vector<GenericRemedy> remedies;

  /// One line.
  std::string text() const;
  llvm::json::Object toJson() const;
};

/// Why the first choice of \p space is generic; nullopt: it is not. \p space is
/// that of \p problem within \p allowance, with rejected configs. Plans a
/// hundred problems or so: some 10 ms.
std::optional<GenericChoice> explainGeneric(const KernelFamily &family,
                                            const Problem &problem,
                                            const DeviceModel &device,
                                            const Space &space,
                                            const Allowance &allowance);

} // namespace kiln
