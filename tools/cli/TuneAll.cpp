//===- TuneAll.cpp - the tuning of many problems --------------------------===//
#include "cli/TuneAll.h"

#include "Tune/TuningSession.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringMap.h>

#include <algorithm>
#include <memory>

namespace kiln::cli {

namespace {
/// The tuning of many problems within one budget; equal ones are tuned once.
class SharedTuning {
public:
  using Clock = TuningOptions::Clock;

  SharedTuning(const TuningContext &context,
               llvm::ArrayRef<Registry::NamedProblem> problems,
               const TuningOptions &options)
      : problems(problems), options(options),
        deadline(Clock::now() + options.budget), sessions(problems.size()),
        firstOf(problems.size()), outcomes(problems.size()) {
    llvm::StringMap<size_t> known;
    for (auto [i, named] : llvm::enumerate(problems)) {
      std::string key =
          fmt::format("{} {} {}", named.family->name(), named.problem.text(),
                      named.problem.signature.text());
      firstOf[i] = known.try_emplace(key, i).first->second;
      if (firstOf[i] != i)
        continue;
      order.push_back(i);
      sessions[i] = std::make_unique<TuningSession>(context, *named.family,
                                                    named.problem, options);
    }
  }

  std::vector<TuningOutcome> run() {
    begin();
    for (size_t done = 0; done < order.size(); ++done)
      finish(order[done], done);
    for (size_t i = 0; i < problems.size(); ++i)
      if (firstOf[i] != i)
        outcomes[i] = outcomes[firstOf[i]];
    report(progressAt(problems.size(), 0));
    return std::move(outcomes);
  }

private:
  /// Requests all first choices, sets the order, and requests the rest in it.
  void begin() {
    int64_t priority = compile_priority::kAhead;
    for (size_t i : order)
      sessions[i]->begin(priority++);
    llvm::stable_sort(order, [&](size_t a, size_t b) {
      return sessions[a]->predictedNs() < sessions[b]->predictedNs();
    });
    for (size_t i : order) {
      sessions[i]->compileAhead(priority);
      priority += sessions[i]->priorities();
    }
    // Trials begin when only the kernels that they need next are left to
    // compile. Earlier, the first problems' shares would pass in waiting.
    const Clock::time_point half = deadline - options.budget / 2;
    for (size_t i : order)
      sessions[i]->awaitFirst(1, half);
    waiting = llvm::count_if(
        order, [&](size_t i) { return sessions[i]->needsTrials(); });
  }

  /// Finishes problem \p i within an equal share of the time that is left, but
  /// not before its first choice had its trial. A problem that needs less
  /// leaves more to the others. The share begins when its first batches are
  /// compiled, or half of it has passed: otherwise the first problems would
  /// measure next to nothing.
  void finish(size_t i, size_t done) {
    TuningSession &session = *sessions[i];
    TuningProgress progress = progressAt(done, i);
    report(progress);
    if (session.needsTrials() && isDead) {
      outcomes[i].error = {ErrorCode::ContextDead,
                           "the device died while others were tuned"};
      outcomes[i].result.stop = StopReason::Device;
    } else {
      constexpr size_t kFirstBatches = 4;
      const Clock::time_point now = Clock::now();
      session.awaitFirst(kFirstBatches * std::max(options.batch, 1u),
                         now + (shareEnd() - now) / 2);
      const Clock::time_point end = shareEnd();
      waiting -= session.needsTrials();
      outcomes[i].error = summarize(session.finish(end, std::move(progress)));
      outcomes[i].result = session.takeResult();
      // The code of all winners need not be loaded at the same time.
      outcomes[i].result.choice.loaded.reset();
      isDead |= outcomes[i].error.code == ErrorCode::ContextDead;
    }
    // Requests that no problem needs any more are cancelled.
    sessions[i].reset();
  }

  /// The end of an equal share of the time that is left.
  Clock::time_point shareEnd() const {
    const Clock::time_point now = Clock::now();
    const auto left = std::max(deadline - now, Clock::duration::zero());
    return now + left / std::max<size_t>(waiting, 1);
  }

  TuningProgress progressAt(size_t done, size_t problem) const {
    TuningProgress progress;
    progress.problemsDone = done;
    progress.problems = problems.size();
    progress.problem = problem;
    return progress;
  }

  void report(const TuningProgress &progress) const {
    if (options.progress)
      options.progress(progress);
  }

  llvm::ArrayRef<Registry::NamedProblem> problems;
  const TuningOptions &options;
  Clock::time_point deadline;
  std::vector<std::unique_ptr<TuningSession>> sessions;
  std::vector<size_t> firstOf; ///< the first problem that equals it
  std::vector<size_t> order;   ///< of distinct problems
  std::vector<TuningOutcome> outcomes;
  size_t waiting = 0; ///< problems that are still to be measured
  bool isDead = false;
};
} // namespace

std::vector<TuningOutcome>
tuneAll(const TuningContext &context,
        llvm::ArrayRef<Registry::NamedProblem> problems,
        const TuningOptions &options) {
  return SharedTuning(context, problems, options).run();
}

} // namespace kiln::cli
