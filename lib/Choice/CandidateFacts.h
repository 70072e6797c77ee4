//===- CandidateFacts.h - what is known of a ranking's configs ------------===//
#pragma once

#include "Choice/Chooser.h"

#include <string>
#include <vector>

namespace kiln {

/// The facts that cache and context have about one config.
struct CandidateFact {
  bool isLoaded = false; ///< for a problem of that signature
  bool isOnDisk = false; ///< all of its kernels
  bool isWrong = false;
  double measuredNs = 0; ///< today's kernel at this very problem; 0: none
};

/// Tells what is known of candidates of one problem, on one thread. All that is
/// given must outlive it.
class CandidateFacts {
public:
  CandidateFacts(const ChoiceSources &sources, const KernelFamily &family,
                 const Problem &problem);

  /// Returns the facts of a config that may run. Cost: its plan and the digests
  /// of its kernels, some 10 us.
  CandidateFact of(const Candidate &candidate) const;

private:
  double measuredNsOf(const std::string &config,
                      const std::string &kernel) const;

  const ChoiceSources from;
  const Problem &problem;
  const RecordMatch match;
  const std::vector<PlanPool::LoadedConfig> loaded;
};

} // namespace kiln
