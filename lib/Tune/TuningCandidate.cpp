//===- TuningCandidate.cpp - a config from its estimate to its trial ------===//
#include "Tune/TuningCandidate.h"

#include <llvm/ADT/STLExtras.h>

#include <cassert>
#include <tuple>

namespace kiln {

TuningCandidate::TuningCandidate(Candidate given, int rank)
    : candidate(std::move(given)), config(candidate.config.text()), rank(rank) {
}

void TuningCandidate::makePlan(const Problem &problem,
                               const DeviceModel &device) {
  if (!kernel.empty())
    return;
  plan = candidate.tmpl->plan(problem, candidate.config, device);
  kernel = kernelDigest(plan);
}

void TuningCandidate::request(ArtifactStore &store, int64_t priority) {
  assert(!kernel.empty() && "no plan yet");
  if (stage != Stage::Idle && stage != Stage::Compiling)
    return;
  // The new requests come first, so that no compilation is cancelled in
  // between.
  std::vector<PendingArtifact> requests;
  for (const TranslationUnit &unit : plan.kernels)
    requests.push_back(store.request(unit, priority));
  pending = std::move(requests);
  stage = Stage::Compiling;
  poll();
}

std::vector<PendingArtifact> TuningCandidate::takePending() {
  if (stage == Stage::Compiling)
    stage = Stage::Idle;
  return std::move(pending);
}

bool TuningCandidate::poll() {
  if (stage != Stage::Compiling)
    return true;
  for (const PendingArtifact &request : pending)
    if (!request.isReady())
      return false;
  settle();
  return true;
}

bool TuningCandidate::wait(const std::atomic<bool> *cancel) {
  if (stage != Stage::Compiling)
    return true;
  for (const PendingArtifact &request : pending)
    if (!request.waitUnless(cancel))
      return false;
  settle();
  return true;
}

void TuningCandidate::settle() {
  stage = Stage::Ready;
  for (auto [i, request] : llvm::enumerate(pending)) {
    const ArtifactOutcome &outcome = request.wait();
    if (!outcome && stage == Stage::Ready) {
      stage = Stage::Failed;
      failure = outcome;
      failedKernel = i;
    }
    compiled += outcome && outcome.origin == ArtifactOrigin::Compiled;
    artifacts.push_back(outcome.artifact);
  }
  pending.clear();
}

bool TuningCandidate::isMeasured() const {
  return stage == Stage::Tried && isTimed(trial);
}

TuningChoice TuningCandidate::choice(ChoiceOrigin origin) const {
  TuningChoice choice;
  choice.origin = origin;
  choice.candidate = candidate;
  choice.plan = plan;
  choice.artifacts = artifacts;
  choice.loaded = loaded;
  if (isMeasured()) {
    choice.validated = trial.validated;
    choice.measuredNs = trial.medianNs;
    choice.ciLowNs = trial.ciLowNs;
    choice.ciHighNs = trial.ciHighNs;
  }
  return choice;
}

static bool isTied(const TrialResult &best, const TrialResult &other) {
  return other.medianNs <= best.medianNs * (1 + kTieBand) ||
         (other.ciLowNs <= best.medianNs && other.medianNs <= best.ciHighNs);
}

std::string reasonOf(const TrialResult &result) {
  return result.message.empty()
             ? nameOf(result.status).str()
             : fmt::format("{}: {}", nameOf(result.status), result.message);
}

TuningCandidate *chooseFastest(llvm::ArrayRef<TuningCandidate *> measured) {
  assert(!measured.empty() && "nothing to choose from");
  const TuningCandidate *best =
      *llvm::min_element(measured, [](const auto *a, const auto *b) {
        return std::tie(a->trial.medianNs, a->rank) <
               std::tie(b->trial.medianNs, b->rank);
      });
  TuningCandidate *chosen = nullptr;
  for (TuningCandidate *other : measured)
    if (isTied(best->trial, other->trial) &&
        (!chosen || other->rank < chosen->rank))
      chosen = other;
  return chosen;
}

} // namespace kiln
