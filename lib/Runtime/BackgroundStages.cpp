//===- BackgroundStages.cpp - the stages of a layer's job -----------------===//
#include "Call/CanonicalProblem.h"
#include "Runtime/Acquisition.h"
#include "Runtime/BackgroundJob.h"
#include "Runtime/Engine.h"
#include "Runtime/ServedValues.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

/// The number of a layer's launched values that get the estimator's choice
/// before the layer does.
static constexpr size_t kMostFirst = 3;
/// The attempts at a job whose trials come to nothing, or for which the device
/// is full, before it is given up.
static constexpr int kMostAttempts = 3;

AcquireOptions Background::options(Job &job) const {
  AcquireOptions options;
  options.isBackground = true;
  options.preferTrials = true;
  options.retune = job.retunes;
  options.budget = EngineConfig::timeOf(INT64_MAX);
  options.cancel = &thePace.interrupted();
  options.cover = &job.cover;
  options.cancelCover = &isStopping;
  return options;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Runs the stage of \p job and returns the next one, or the same if it was
/// interrupted.
Background::Stage Background::runStage(Job &job) {
  switch (job.stage) {
  case Stage::Generic:
    return loadGeneric(job);
  case Stage::First:
    compileAhead(job);
    return chooseFirst(job);
  case Stage::Cover:
    return job.isLayer && findRange(job) ? cover(job) : Stage::Measure;
  case Stage::Measure:
    return job.range ? measure(job) : measureValue(job);
  case Stage::Done:
    break;
  }
  return Stage::Done;
}

/// Puts \p job off, unless it has had all its attempts.
bool Background::mayTryAgain(Job &job) const {
  job.notBefore = TrialPace::Clock::now() + putOff;
  return ++job.attempts < kMostAttempts;
}

/// Ends a job for which there was no room in all of its attempts. A later
/// request begins it again, no sooner than another attempt would.
Background::Stage Background::giveUp(Job &job, const ErrorSummary &why) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    const auto now = TrialPace::Clock::now();
    std::erase_if(givenUp, [&](auto &other) { return other.second <= now; });
    givenUp[job.name] = job.notBefore;
  }
  job.isGivenUp = true;
  engine.hooks().log().warning("background: {}: {}; given up for now",
                               job.problem.text(), why.message);
  return Stage::Done;
}

/// Ends a job that failed, unless it was only interrupted, or there may be room
/// for it later.
Background::Stage Background::fail(Job &job, llvm::Error error) {
  ErrorSummary summary = summarize(std::move(error));
  if (wasInterrupted())
    return job.stage;
  if (summary.code == ErrorCode::DeviceOutOfMemory)
    return mayTryAgain(job) ? job.stage : giveUp(job, summary);
  job.hasFailed = true;
  engine.hooks().log().warning("background: {}: {}", job.problem.text(),
                               summary.message);
  return Stage::Done;
}

/// Loads a generic kernel, so that the next launch of the signature has one
/// that serves.
Background::Stage Background::loadGeneric(Job &job) {
  const PlanRequest request{*job.family, job.problem};
  // Another layer's kernel mostly serves, while the best one here would be
  // compiled.
  if (llvm::any_of(
          engine.chooser(*job.context, request).standIns(),
          [](const Choice &choice) { return choice.tmpl->isGeneric(); }))
    return Stage::First;
  const AcquireOptions given = options(job);
  llvm::Error error =
      Acquisition(engine, *job.context, request, given, nullptr).loadGeneric();
  const bool isCut = error && wasInterrupted();
  // There may be no generic kernel, and other kernels may serve.
  llvm::consumeError(std::move(error));
  return isCut ? job.stage : Stage::First;
}

/// The values of \p job that the estimator chooses for one by one.
std::vector<Problem> Background::firstProblems(const Job &job) const {
  std::vector<Problem> problems;
  if (!job.isLayer)
    return problems;
  problems.push_back(job.problem);
  std::lock_guard<std::mutex> lock(mutex);
  for (const Problem &problem : job.launched)
    if (problems.size() < kMostFirst && !(problem.values == job.problem.values))
      problems.push_back(problem);
  return problems;
}

/// Begins to compile the kernels that \p job, and others in the stage First,
/// will ask for.
void Background::compileAhead(Job &job) {
  std::vector<Job *> waiting = {&job};
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto &[key, other] : queue)
      if (key.first == Stage::First)
        waiting.push_back(other.get());
  }
  for (Job *one : waiting) {
    if (!one->ahead.empty())
      continue;
    for (const Problem &problem : firstProblems(*one)) {
      if (wasInterrupted())
        return;
      const PlanRequest request{*one->family, problem};
      for (const TranslationUnit &unit :
           engine.chooser(*one->context, request).unitsToCompile())
        one->ahead.push_back(engine.services().artifacts->request(
            unit, compile_priority::kAhead));
    }
  }
}

/// Makes the estimator's choices for values that have a stand-in.
Background::Stage Background::chooseFirst(Job &job) {
  for (const Problem &problem : firstProblems(job)) {
    if (wasInterrupted())
      return job.stage;
    const DispatchKey key{job.family, job.context->id, problem.values.array()};
    const ChosenPlan known = engine.plans().lookup(key);
    if (known && known.plan->source != KILN_SOURCE_STAND_IN &&
        known.plan->source != KILN_SOURCE_GENERIC)
      continue;
    const PlanRequest request{*job.family, problem};
    AcquireOptions given = options(job);
    given.preferTrials = false;
    auto chosen = Acquisition(engine, *job.context, request, given, nullptr)
                      .runWithoutTrials();
    if (chosen) {
      replace(job, problem, *chosen);
      continue;
    }
    // An error that stops the later stages as well is reported by them.
    llvm::consumeError(chosen.takeError());
    if (wasInterrupted())
      return job.stage;
    break;
  }
  job.ahead.clear();
  return Stage::Cover;
}

/// Finds the range for which the layer of the job is prepared. False if it has
/// none.
bool Background::findRange(Job &job) {
  const KernelFamily &family = *job.family;
  auto sizeOf = [&](const Problem &problem) {
    double size = 1;
    for (int extent : family.dynamicExtents())
      size *= static_cast<double>(problem.values[extent]);
    return size;
  };
  Problem largest = job.problem;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto *values : {&job.launched, &job.largest})
      for (const Problem &problem : *values)
        if (sizeOf(problem) > sizeOf(largest))
          largest = problem;
  }
  job.range = layerOf(family, largest, job.context->portfolios);
  return job.range.has_value();
}

/// Makes the estimator's portfolio.
Background::Stage Background::cover(Job &job) {
  const PlanRequest request{*job.family, job.problem, &*job.range, true};
  AcquireOptions given = options(job);
  given.retune = false;
  Acquisition work(engine, *job.context, request, given, nullptr);
  auto chosen = work.runWithoutTrials();
  if (!chosen)
    return fail(job, chosen.takeError());
  swapRange(job);
  return wasInterrupted() && !work.isComplete() ? job.stage : Stage::Measure;
}

/// Whether nothing of \p range is left to measure.
static bool isMeasured(const ContextState &context, const ProblemRange &range) {
  auto known = context.findRange(range);
  return known && !known->isFallback() && !known->isWrong();
}

Background::Stage Background::measure(Job &job) {
  const PlanRequest request{*job.family, job.problem, &*job.range,
                            job.isHinted};
  const AcquireOptions given = options(job);
  Acquisition work(engine, *job.context, request, given, nullptr);
  auto chosen = work.run();
  if (!chosen)
    return fail(job, chosen.takeError());
  swapRange(job);
  if (wasInterrupted() && !work.isComplete()) {
    // Otherwise its stored trials would be made once more.
    if (work.hasStored())
      job.retunes = false;
    return job.stage;
  }
  if (isMeasured(*job.context, *job.range))
    return Stage::Done;
  // There was no room, or the device was busy; a later attempt may succeed.
  if (mayTryAgain(job))
    return Stage::Measure;
  return giveUp(job,
                {ErrorCode::NotPrepared, "its trials are not complete", 0});
}

Background::Stage Background::measureValue(Job &job) {
  const PlanRequest request{*job.family, job.problem};
  const AcquireOptions given = options(job);
  Acquisition work(engine, *job.context, request, given, nullptr);
  auto chosen = work.run();
  if (!chosen)
    return fail(job, chosen.takeError());
  replace(job, job.problem, *chosen);
  return wasInterrupted() && !work.isComplete() ? job.stage : Stage::Done;
}

//===----------------------------------------------------------------------===//
// Swapping
//===----------------------------------------------------------------------===//

bool Background::replace(Job &job, const Problem &problem,
                         const ChosenPlan &chosen) {
  const DispatchKey key{job.family, job.context->id, problem.values.array()};
  const bool isOther = engine.plans().replace(key, chosen);
  swapCount += isOther;
  if (isOther)
    job.asked.arrive("swap");
  return isOther;
}

/// Lets values that were launched before the range existed choose again.
void Background::swapRange(Job &job) {
  forEachServed(
      engine.plans(), *job.range, job.context->id, [&](const Problem &problem) {
        ChosenPlan now = job.context->chooseFromRanges(*job.family, problem);
        if (now)
          replace(job, problem, now);
      });
}

/// Notes values of the layer that were launched while \p job was in work, more
/// than it remembers. The ones outside of its range still have stand-ins.
void Background::noteStandIns(const Job &job) {
  const std::string layer = layerKey(*job.family, job.problem);
  forEachValue(engine.plans(), *job.family, job.context->id,
               [&](Values values) {
                 if (job.range && serves(*job.range, values))
                   return;
                 auto problem = makeProblem(*job.family, std::move(values));
                 if (!problem)
                   return llvm::consumeError(problem.takeError());
                 if (layerKey(*job.family, *problem) != layer)
                   return;
                 const ChosenPlan known = engine.plans().lookup(
                     {job.family, job.context->id, problem->values.array()});
                 if (known && known.plan->source == KILN_SOURCE_STAND_IN)
                   noteLaunch(*job.context, *job.family, *problem);
               });
}

} // namespace kiln
