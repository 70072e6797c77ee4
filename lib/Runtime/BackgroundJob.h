//===- BackgroundJob.h - one layer, range or problem to be looked at ------===//
//
// Private to the background.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Runtime/Background.h"
#include "Store/ArtifactStore.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct Background::Job {
  /// One of which the trials came to nothing, through no fault of its kernels,
  /// or for which the device was full, is begun again so much later.
  static constexpr std::chrono::seconds kBetweenAttempts{10};

  std::shared_ptr<ContextState> context;
  const KernelFamily *family = nullptr;
  Problem problem; ///< speaks for it
  std::string name;
  Stage stage = Stage::Generic;
  uint64_t order = 0;
  /// Of what kiln_prepare was asked for; a layer finds its own.
  std::optional<ProblemRange> range;
  bool isHinted = true, retunes = false;
  bool isLayer = false;   ///< that was launched
  bool hasFailed = false; ///< is not begun again
  int attempts = 0;
  TrialPace::Clock::time_point notBefore{}; ///< the next attempt
  /// Values of the layer that were launched; more may come while it is worked
  /// on, with the mutex held.
  std::vector<Problem> launched;
  /// Of its range, so that each stage, and each resumption of one, need not
  /// search it again.
  std::shared_ptr<const Portfolio> cover;
  /// The kernels of First, which compile while other jobs are worked on.
  std::vector<PendingArtifact> ahead;
};

} // namespace kiln
