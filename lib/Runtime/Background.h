//===- Background.h - better plans, off the critical path -----------------===//
//
// The mode background. A launch takes what is loaded, and what would serve
// better is made by one thread of the engine's. Three questions shape it: what
// a launch may wait for, what that thread may take from the process, and how
// what it found comes to serve.
//
// *A launch* that finds no plan in the table, nor in a prepared range,
// estimates what is loaded for its signature and takes the best: a stand-in
// (Chooser::standIns()). It ranks no space, reads no kernel and loads no
// module, because the driver lets a load wait for all work of the device. Locks
// that it takes are held by others for look-ups and insertions only; a kernel
// that is being loaded counts as one that is not there. If nothing is loaded
// for the signature, the launch takes the steps of its own (ChoiceOrder.h) and
// has a generic kernel beside the first, which serves whatever that one does
// not. Then it notes its layer here. Hits are as in every mode.
//
// *A layer* that was noted becomes a job. Jobs take four stages, and all jobs
// one stage before any takes the next, so that the worst stand-ins go first:
//   Generic  the generic kernel of the signature is there
//   First    the estimator's choices at the values that were launched
//   Cover    the estimator's portfolio of all values of the layer
//   Measure  that portfolio, measured
// Trials of one layer take a minute and more where they have a small share.
// They end after a piece when a launch meets another layer, and go on behind
// it. (Those of a single problem that kiln_prepare wants made again come to
// their end first: of what was cut short they would keep nothing.) Ranges and
// problems that kiln_prepare was asked for have the estimator's choices, and
// take the first of these and the last. A job that fails is not begun again in
// this engine: what made it fail (no compiler, nothing that is right) rarely
// goes away, and its launches have something that serves. A job for which the
// device was full, or too busy for trials, is tried three times, 10 s apart,
// and then given up until a miss or kiln_prepare asks for it again.
//
// Of a layer eight values that miss are remembered while it is worked on, and
// the largest, which its range has to reach. Where there were more, the table
// of plans is looked through in the end for stand-ins outside of the range.
//
// *Swapping.* What a stage found is published where launches look: a range is
// added to the context, and then the table's values that it serves are replaced
// one by one, each under the table's lock for one insertion. A miss that came
// between looks at the ranges' version again, as for kiln_prepare. Nothing is
// unloaded and no plan is freed, so a launch in progress, a plan handle or a
// graph keeps what it has.
//
// *The duty cycle.* Trials ask before each piece of work (TrialPace.h), some
// 2 ms. A piece that took t from its first launch to its end, which is no less
// than it had of the GPU, is followed by a rest of t (1 / share - 1). No credit
// is kept for times without trials. While a stream of the process is known to
// be captured no piece begins: a launch into a capture that had to look for a
// plan or an arena says so, and that holds for a moment. (A capture of launches
// that hit is not seen: hits are not to pay for it. Trials do not disturb
// captures; kiln_background_pause keeps them away from what should not be
// slowed down.) Compilations have threads of a lower priority; this thread
// keeps the usual one, since it takes the same locks as launches.
//
// *Loading code.* The driver lets cuModuleLoadData and cuMemFree wait for all
// work of the device that is in flight, and meanwhile no thread can launch:
// with 20 ms in flight a launch of another thread took 20 ms (measured, H200,
// driver 580; cuFuncLoad, memory of pools, graphs and copies hold up nobody).
// So scratch memory is a pool's, nothing is unloaded or freed before the engine
// ends, and a load waits for a moment without launches, a millisecond, or a
// tenth of it where that does not come soon: then who launches waits for the
// device, or has nothing in flight. A call that takes a tenth of a millisecond
// to find a stand-in is no such moment, and says so. If there is none for a
// second, loads go ahead, all that are due at once: then either launches never
// wait for the device, so that little is in flight, or one of them is held up
// for what is.
//
// *Pausing* ends the trials at hand after their piece, gives their memory back
// and begins nothing. What was measured by then is kept, and a stage that was
// cut short begins again, with what is missing, when the pause ends. The search
// for a cover, up to a second of the host's, is not cut short and not done
// again: else short moments between pauses would bring nothing on. Only the end
// of the engine cancels it. So a paused
// engine that is waited for does nothing on the GPU, and its contexts may be
// destroyed: the jobs of a context that is gone are dropped. Its id tells,
// which a driver answers of a destroyed one, too (isAlive()).
//
// Rejected: a thread for each context (trials on one GPU disturb each other,
// and what one context measured serves the others of its device class from the
// cache); trials while the GPU idles (nobody can tell from outside, and work
// that comes finds the device busy); a lock-free swap of whole tables (replaced
// entries are few, and readers have the sequence numbers of Dispatch.h).
//
// Limits: the share is of each engine, not of the process, and for all of its
// devices together. Priorities of streams end at that of ordinary streams, so
// blocks of trials go last only where the engine's own streams have more.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Runtime/BackgroundPace.h"
#include "Runtime/Flights.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace kiln {

class Engine;
struct RangePart;

/// What the engine looks for beside the launches. Thread-safe. Its thread
/// starts with the first job.
class Background {
public:
  struct Counts {
    uint64_t pending = 0; ///< layers, ranges and problems
    uint64_t done = 0;    ///< of these, finished or given up
    uint64_t swaps = 0;   ///< values that got another plan
    uint64_t gpuNs = 0;   ///< of trials, at most
    uint64_t heldNs = 0;  ///< that captures kept trials waiting
    bool isPaused = false;
  };

  Background(Engine &engine, double share,
             BackgroundPace::LaunchCount launches);
  ~Background();
  Background(const Background &) = delete;
  Background &operator=(const Background &) = delete;

  /// Ends the work soon; nothing is taken from then on.
  void cancel();
  /// The same, and ends the thread. By one thread, once.
  void stop();

  /// A launch of \p problem found no plan. Microseconds.
  void noteLaunch(ContextState &context, const KernelFamily &family,
                  const Problem &problem);
  /// kiln_prepare was asked for \p part, or \p problem alone, which have plans:
  /// they are to be measured.
  void noteRange(ContextState &context, const RangePart &part, bool retune);
  void noteValue(ContextState &context, const KernelFamily &family,
                 const Problem &problem, bool retune);
  void noteCapture() { thePace.noteCapture(); }
  /// A call that looks for a stand-in, which it will launch.
  class CallInWork {
  public:
    explicit CallInWork(Background &background) : pace(background.thePace) {
      pace.beginCall();
    }
    ~CallInWork() { pace.endCall(); }
    CallInWork(const CallInWork &) = delete;
    CallInWork &operator=(const CallInWork &) = delete;

  private:
    BackgroundPace &pace;
  };
  TrialPace &pace() { return thePace; }
  /// For a loader of code: waits if this is the background's thread.
  void awaitLoad();

  /// Begins nothing until as many calls of resume(). Does not wait.
  void pause();
  /// False: nothing is paused.
  bool resume();
  /// Waits until nothing is pending, or, while it is paused, until nothing is
  /// in progress; negative: for ever. False when the time is over, and at once
  /// on the thread that works, which is in a hook.
  bool wait(int64_t timeoutMs);
  Counts counts() const;
  /// For tests, before there is work: how long a job is put off.
  /// Has the thread run although there is no job, if the system grants one: it
  /// hears what other processes find wrong.
  void watch();
  void setPutOff(std::chrono::milliseconds time) { putOff = time; }

private:
  enum class Stage { Generic, First, Cover, Measure, Done };
  struct Job;
  using JobPtr = std::shared_ptr<Job>;

  void add(JobPtr job);
  bool start();
  void work() noexcept;
  JobPtr takeNext();
  bool isQuiet() const;
  void run(Job &job);
  void end(const Job &job) noexcept;
  void finish(Job &job);
  void noteStandIns(const Job &job);
  void compileAhead(Job &job);
  std::vector<Problem> firstProblems(const Job &job) const;

  Stage runStage(Job &job);
  Stage loadGeneric(Job &job);
  Stage chooseFirst(Job &job);
  bool findRange(Job &job);
  Stage cover(Job &job);
  Stage measure(Job &job);
  Stage measureValue(Job &job);
  void swapRange(Job &job);
  bool replace(const Job &job, const Problem &problem,
               const ChosenPlan &chosen);
  bool wasInterrupted() const {
    return thePace.interruptions() != interruptionsBefore;
  }
  bool mayTryAgain(Job &job) const;
  Stage giveUp(Job &job, const ErrorSummary &why);
  Stage fail(Job &job, llvm::Error error);
  BackgroundPace::Interruption interruption() const;
  void recheckVerdicts() noexcept;
  AcquireOptions options(Job &job) const;

  Engine &engine;
  BackgroundPace thePace;
  uint64_t interruptionsBefore = 0; ///< the stage at hand; of the thread
  TrialPace::Clock::time_point recheckAt{}; ///< of the thread

  mutable std::mutex mutex; ///< guards what follows
  std::condition_variable changed;
  std::thread thread;
  std::atomic<bool> isStopping{false}; ///< read without it, too
  bool isWorking = false;
  bool mayYield = false;   ///< it makes trials that go on where they end
  bool isYielding = false; ///< these are to end soon, for a layer without any
  bool wasRefused = false; ///< a thread, and somebody was told
  uint64_t pauses = 0, nextOrder = 0;
  /// By name; of these, `queue` has those that nobody works on.
  std::map<std::string, JobPtr> jobs;
  std::map<std::pair<Stage, uint64_t>, JobPtr> queue;
  std::map<std::string, JobPtr> failed; ///< null, by name
  /// Jobs that were given up for now, with the time of the next attempt.
  std::map<std::string, TrialPace::Clock::time_point> givenUp;
  uint64_t doneCount = 0;
  // These need no mutex.
  std::chrono::milliseconds putOff{10000};
  std::atomic<uint64_t> swapCount{0};
  std::atomic<std::thread::id> worker{};
};

} // namespace kiln
