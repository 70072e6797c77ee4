//===- TrialSession.cpp - one request of trials ---------------------------===//
#include "Trial/TrialSession.h"

#include "Observe/Span.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln {

static constexpr const char *kAfterDeath =
    "the device died before this was tried";
static constexpr const char *kBehindLate =
    "another launch had not ended before this was tried";

static bool isRefusalOfConfig(int64_t driverCode) {
  return llvm::any_of(kConfigRefusals, [&](const ConfigRefusal &refusal) {
    return refusal.driverCode == driverCode;
  });
}

/// Notes the meaning of \p error for a candidate, and for the device.
void TrialSession::blame(Attempt &attempt, const ErrorSummary &error,
                         FailureOf what) {
  TrialStatus status =
      what == FailureOf::Candidate && isRefusalOfConfig(error.driverCode)
          ? TrialStatus::LaunchFailed
          : TrialStatus::NotTried;
  if (error.code == ErrorCode::DeviceOutOfMemory)
    status = TrialStatus::OutOfMemory;
  if (error.code == ErrorCode::ContextDead)
    status = TrialStatus::ContextDead;
  if (error.code == ErrorCode::InProgress)
    status = TrialStatus::Late;
  attempt.fail(status, error.message);
  context.alive &= status != TrialStatus::ContextDead;
  hasLateWork |= status == TrialStatus::Late;
}

/// Allocates the workspace in the scratch memory that the operands leave: zeros
/// in its zeroed region, NaN elsewhere.
void TrialSession::takeWorkspace(Attempt &attempt) {
  const WorkspaceLayout &layout = attempt.plan->workspace();
  if (layout.bytes() == 0)
    return;
  uint64_t bytes = layout.bytes() + kRedZoneBytes;
  const uint64_t taken = context.state->buffers->bytes();
  if (taken + workspaceBytes + bytes > context.capBytes) {
    attempt.fail(
        TrialStatus::OutOfMemory,
        fmt::format("no room for a workspace of {} bytes", layout.bytes()));
    return;
  }
  workspaceBytes += bytes;
  auto memory = context.allocate(bytes);
  if (!memory)
    return blame(attempt, summarize(memory.takeError()),
                 FailureOf::Surroundings);
  attempt.memory = std::move(*memory);
  DeviceAddress address = attempt.memory.address();
  attempt.workspace = {address, layout.bytes(), true};
  if (llvm::Error error = fillWorkspace(attempt))
    blame(attempt, summarize(std::move(error)), FailureOf::Surroundings);
}

/// Fills the zeroed region with zeros and the rest with NaN; a red zone
/// follows.
llvm::Error TrialSession::fillWorkspace(const Attempt &attempt) {
  const WorkspaceLayout &layout = attempt.plan->workspace();
  const DeviceAddress address = attempt.workspace.address;
  const uint64_t bytes = layout.bytes() + kRedZoneBytes;
  CudaStream stream = context.stream.handle();
  constexpr uint8_t kPoisonByte = kTrialPoison & 0xff;
  if (llvm::Error error =
          fillAsync(context.driver, address, kPoisonByte, bytes, stream))
    return error;
  return fillAsync(context.driver, address, 0, layout.zeroedBytes, stream);
}

llvm::Error TrialSession::load(const TrialCandidate &candidate) {
  const Plan &plan = candidate.plan;
  if (candidate.artifacts.size() != plan.kernels.size() ||
      llvm::is_contained(candidate.artifacts, nullptr))
    return makeError(
        ErrorCode::InvalidArgument, "{} comes with {} artifacts for {} kernels",
        candidate.config(), candidate.artifacts.size(), plan.kernels.size());
  Attempt &attempt = attempts.emplace_back();
  attempt.result.config = candidate.config();
  attempt.isProven = candidate.isProven;
  attempt.isKept = candidate.isKept;
  attempt.plan = candidate.loaded;
  if (!attempt.plan) {
    auto loaded = LoadedPlan::load(context.loader(), plan, candidate.artifacts,
                                   static_cast<int32_t>(context.device.smCount),
                                   context.lifetime());
    if (!loaded) {
      blame(attempt, summarize(loaded.takeError()), FailureOf::Candidate);
      return llvm::Error::success();
    }
    attempt.plan = std::move(*loaded);
  }
  takeWorkspace(attempt);
  return llvm::Error::success();
}

void TrialSession::takeTime(Attempt &attempt, const SampledTime &time) {
  if (time.error.code != ErrorCode::Success)
    return blame(attempt, time.error,
                 time.isOfLaunch ? FailureOf::Candidate
                                 : FailureOf::Surroundings);
  if (time.ns.count == 0)
    return attempt.fail(TrialStatus::Timeout,
                        "not measured within the time limit");
  attempt.result.medianNs = time.ns.median;
  attempt.result.ciLowNs = time.ns.ciLow;
  attempt.result.ciHighNs = time.ns.ciHigh;
  attempt.result.samples = static_cast<int64_t>(time.ns.count);
}

/// Times all usable candidates side by side.
void TrialSession::measure() {
  const TrialBuffers &buffers = *context.state->buffers;
  SamplingOptions options;
  options.minSamples = request.options.minSamples;
  options.maxSamples = request.options.maxSamples;
  options.deadline = deadline;
  options.hangLimit = context.options.hangLimit;
  options.pace = context.options.pace;
  options.rests = true;
  options.warm = [&](CudaStream stream) { return buffers.flush(stream); };
  if (request.options.mode == MeasurementMode::Cold) {
    options.copies = buffers.copies();
    if (buffers.needsFlush())
      options.flush = options.warm;
  }
  std::vector<Arguments> arguments;
  for (unsigned copy = 0; copy < options.copies; ++copy)
    arguments.push_back(buffers.arguments(copy));
  std::vector<TimedLaunch> launches;
  std::vector<Attempt *> timed;
  for (Attempt &attempt : attempts) {
    if (!attempt.isUsable())
      continue;
    timed.push_back(&attempt);
    options.keep.push_back(attempt.isKept);
    launches.emplace_back(
        [&](unsigned copy, CudaStream stream) {
          return attempt.plan->launch(arguments[copy], attempt.workspace,
                                      stream);
        },
        [&](unsigned copy, GraphBuilder &graph) {
          return attempt.plan->addTo(graph, arguments[copy], attempt.workspace);
        });
  }
  if (timed.empty())
    return;
  auto times = measureInterleaved(context.driver, context.stream.handle(),
                                  launches, options);
  if (!times) {
    ErrorSummary error = summarize(times.takeError());
    for (Attempt *attempt : timed)
      blame(*attempt, error, FailureOf::Surroundings);
    return;
  }
  for (size_t i = 0; i < timed.size(); ++i)
    takeTime(*timed[i], (*times)[i]);
}

/// Compares one candidate with the reference, and once more over fresh data if
/// it is wrong. Only wrong results that repeat are the kernel's fault: other
/// threads may have written to the device's memory, or the difference may be
/// noise of one set of data. \p hasFailed becomes true if the launch failed,
/// with its error.
llvm::Expected<TrialVerdict> TrialSession::compare(Attempt &attempt,
                                                   bool &hasFailed) {
  const observe::Span span(
      observe::Phase::Trial, [&] { return attempt.result.config; },
      "kernels are compared with the reference");
  CudaStream stream = context.stream.handle();
  auto run = [&](const Arguments &arguments) {
    llvm::Error error =
        attempt.plan->launch(arguments, attempt.workspace, stream);
    hasFailed = static_cast<bool>(error);
    if (hasFailed || attempt.memory.empty())
      return error;
    return context.state->buffers->checkZone(
        attempt.workspace.address + attempt.workspace.bytes, kRedZoneBytes,
        kTrialPoison, stream);
  };
  TrialPace *pace = context.options.pace;
  ValidationTime time{context.options.hangLimit, deadline, deadline, cancel,
                      pace};
  const auto afterHang = trialTime(pace) + context.options.hangLimit;
  if (request.options.extraTime.count() > 0)
    time.latest = std::min(deadline + request.options.extraTime, afterHang);
  TrialValidator &validator = *context.state->validator;
  auto first = validator.validate(run, stream, time);
  if (!first || !isWrongResult(first->status))
    return first;
  if (llvm::Error error = validator.renew(stream))
    return error;
  if (!attempt.memory.empty())
    if (llvm::Error error = fillWorkspace(attempt))
      return error;
  time.deadline = time.latest =
      std::max(deadline, trialTime(pace) + context.options.hangLimit);
  auto again = validator.validate(run, stream, time);
  if (!again || isWrongResult(again->status))
    return again;
  again->message = fmt::format(
      "not {} with other data, at first: {}",
      again->status == TrialStatus::Ok ? "repeated" : "compared again",
      first->message);
  again->status = TrialStatus::NotTried;
  again->maxErrorRatio = first->maxErrorRatio;
  return again;
}

llvm::Error TrialSession::validate(Attempt &attempt) {
  if (llvm::Error error = context.makeValidator())
    return error;
  bool hasFailed = false;
  auto verdict = compare(attempt, hasFailed);
  if (!verdict) {
    ErrorSummary error = summarize(verdict.takeError());
    if (!hasFailed && error.code != ErrorCode::ContextDead &&
        error.code != ErrorCode::InProgress)
      return errorOf(error);
    blame(attempt, error,
          hasFailed ? FailureOf::Candidate : FailureOf::Surroundings);
    return llvm::Error::success();
  }
  // Its times stay; only its correctness is unknown.
  if (verdict->status == TrialStatus::Timeout && attempt.result.samples > 0)
    return llvm::Error::success();
  attempt.result.maxErrorRatio = verdict->maxErrorRatio;
  attempt.result.validated = verdict->status == TrialStatus::Ok;
  if (verdict->status != TrialStatus::Ok)
    attempt.fail(verdict->status, std::move(verdict->message));
  return llvm::Error::success();
}

llvm::Error TrialSession::validateAll() {
  for (Attempt &attempt : attempts) {
    if (!attempt.isUsable() || !goesOn())
      continue;
    if (isLate(/*awaitsProof=*/true)) {
      attempt.fail(TrialStatus::Timeout, "not validated within the time limit");
      continue;
    }
    if (llvm::Error error = validate(attempt))
      return error;
  }
  return llvm::Error::success();
}

/// Validates the fastest first, until the others are slower than one that is
/// right.
llvm::Error TrialSession::validateWinners() {
  std::vector<Attempt *> order;
  for (Attempt &attempt : attempts)
    if (attempt.isUsable())
      order.push_back(&attempt);
  llvm::stable_sort(order, [](const Attempt *a, const Attempt *b) {
    return a->result.medianNs < b->result.medianNs;
  });
  double bestNs = std::numeric_limits<double>::infinity();
  for (Attempt *attempt : order) {
    double ns = attempt->result.medianNs;
    if (ns > bestNs * (1 + kTieBand) || !goesOn())
      break;
    if (attempt->isProven) {
      attempt->result.validated = true;
    } else if (isLate(/*awaitsProof=*/std::isinf(bestNs))) {
      break;
    } else if (llvm::Error error = validate(*attempt)) {
      return error;
    }
    if (attempt->result.validated)
      bestNs = std::min(bestNs, ns);
  }
  return llvm::Error::success();
}

/// After the device died only validated results count, and none of its memory
/// can be freed.
void TrialSession::endWithDevice() {
  for (Attempt &attempt : attempts) {
    if (attempt.result.status == TrialStatus::Ok && !attempt.result.validated)
      attempt.fail(TrialStatus::ContextDead, kAfterDeath);
    attempt.memory.leak();
    if (attempt.plan)
      keepForever(std::move(attempt.plan));
  }
  context.abandon();
}

/// After work that did not end in time, all that it may use stays as it is
/// until it ends. The context lives, and the other candidates' results stay.
void TrialSession::leaveLateWork() {
  CudaStream stream = context.stream.handle();
  auto end = Event::create(context.driver, Event::Timing::Disabled);
  llvm::Error error = end ? end->record(stream) : end.takeError();
  if (error) { // its end cannot be observed
    llvm::consumeError(std::move(error));
    context.alive = false;
    return;
  }
  LateWork &late = context.late.emplace(LateWork{std::move(*end), {}, {}, {}});
  late.state = std::move(context.state);
  late.plans = context.plansOutside(); // unloading any plan would wait, too
  for (Attempt &attempt : attempts) {
    if (attempt.plan && attempt.result.status == TrialStatus::Ok &&
        attempt.result.samples == 0 && !attempt.result.validated)
      attempt.fail(TrialStatus::NotTried, kBehindLate);
    late.plans.push_back(std::move(attempt.plan));
    late.workspaces.push_back(std::move(attempt.memory));
  }
}

llvm::Error TrialSession::run() {
  auto isBusy = context.isBusy();
  if (!isBusy)
    return isBusy.takeError();
  if (*isBusy)
    return makeError(ErrorCode::InProgress,
                     "a launch of an earlier trial has not ended yet");
  llvm::Error error = context.setUp(request);
  for (const TrialCandidate &candidate : request.candidates) {
    if (error || !goesOn())
      break;
    error = load(candidate);
  }
  const TrialOptions &options = request.options;
  bool afterwards =
      options.validation == TrialValidation::MayWin && options.measure;
  if (!error && goesOn() && !afterwards &&
      options.validation != TrialValidation::None)
    error = validateAll();
  if (!error && goesOn() && options.measure)
    measure();
  if (!error && goesOn() && afterwards)
    error = validateWinners();
  if (error) {
    ErrorSummary summary = summarize(std::move(error));
    context.alive &= summary.code != ErrorCode::ContextDead;
    hasLateWork |= summary.code == ErrorCode::InProgress;
    error = errorOf(summary);
  }
  if (context.alive && hasLateWork)
    leaveLateWork();
  if (!context.alive)
    endWithDevice();
  return error;
}

std::vector<TrialResult> TrialSession::takeResults() {
  std::vector<TrialResult> results;
  for (size_t i = 0; i < request.candidates.size(); ++i) {
    if (i < attempts.size()) {
      TrialResult &result = results.emplace_back(std::move(attempts[i].result));
      if (result.status == TrialStatus::Ok && attempts[i].plan) {
        context.handOut(attempts[i].plan);
        result.loaded = std::move(attempts[i].plan);
      }
      continue;
    }
    TrialResult &result = results.emplace_back();
    result.config = request.candidates[i].config();
    result.status =
        context.alive ? TrialStatus::NotTried : TrialStatus::ContextDead;
    result.message = context.alive ? kBehindLate : kAfterDeath;
  }
  return results;
}

} // namespace kiln
