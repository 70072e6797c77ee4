//===- BackgroundJob.h - one layer, range or problem in work --------------===//
//
// Private to the background.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Observe/Trace.h"
#include "Runtime/Background.h"
#include "Store/ArtifactStore.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct Background::Job {
  std::shared_ptr<ContextState> context;
  const KernelFamily *family = nullptr;
  Problem problem; ///< represents it
  std::string name;
  Stage stage = Stage::Generic;
  uint64_t order = 0;
  /// The range that kiln_prepare was asked for; a layer finds its own.
  std::optional<ProblemRange> range;
  bool isHinted = true, retunes = false;
  bool isLayer = false;   ///< that was launched
  bool hasFailed = false; ///< is not begun again
  bool isGivenUp = false; ///< until something asks for it again
  bool isGone = false;    ///< with its context
  int attempts = 0;       ///< at its stage
  TrialPace::Clock::time_point notBefore{}; ///< the next attempt
  /// Values of the layer that were launched; more may come while it is worked
  /// on, with the mutex held.
  std::vector<Problem> launched;
  /// For each dynamic extent, in order: the value with the most of it. The
  /// range of the job has to reach them.
  std::vector<Problem> largest;
  /// More values were launched, which only the table of plans knows.
  bool hasDropped = false;
  /// kiln_prepare wants its trials made again. Guarded by the mutex.
  bool wantsRetune = false;
  /// Notes a value that was launched. The mutex is held.
  void note(const Problem &value);
  /// The cover of its range, so that no stage, nor its resumption, searches it
  /// again.
  std::shared_ptr<const Portfolio> cover;
  /// The kernels of First, which compile while other jobs are worked on.
  std::vector<PendingArtifact> ahead;
  observe::Flow asked; ///< where a launch, or a preparation, asked for it
};

} // namespace kiln
