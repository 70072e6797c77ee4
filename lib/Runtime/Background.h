//===- Background.h - better plans, off the critical path -----------------===//
//
// The mode background. A launch takes a plan that is loaded, and one thread of
// the engine makes better ones. Three questions shape it: which waits a launch
// may have, how much of the process that thread may use, and how its results
// come to serve launches.
//
// *A launch* that finds no plan in the table, nor in a prepared range,
// estimates the plans that are loaded for its signature and takes the best: a
// stand-in (Chooser::standIns()). It ranks no space, reads no kernel and loads
// no module, because the driver lets a load wait for all work of the device.
// Other threads hold the locks that it takes for look-ups and insertions only;
// a kernel that is being loaded counts as missing. If nothing is loaded for the
// signature, the launch takes the steps for this mode (ChoiceOrder.h). It loads
// a generic kernel beside the first one, for the problems that the first one
// does not serve. Then it notes its layer here. Hits work as in every mode.
//
// *A layer* that was noted becomes a job. A job has four stages. All jobs
// finish a stage before any begins the next, so the worst stand-ins are
// replaced first:
//   Generic  the generic kernel of the signature is there
//   First    the estimator's choices at the values that were launched
//   Cover    the estimator's portfolio of all values of the layer
//   Measure  that portfolio, measured
// Trials of one layer take a minute and more with a small share. They end after
// a piece when a launch meets another layer, and go on behind it. (Exception:
// kiln_prepare wants a single problem retuned. These trials run to their end
// first, since nothing of a cut series would be kept.) Ranges and problems that
// kiln_prepare was asked for have the estimator's choices already, so they have
// only the first stage and the last. A job that fails is not begun again in
// this engine: the cause (no compiler, no correct kernel) rarely goes away, and
// its launches have a plan that serves. If the device was full, or too busy for
// trials, a job is tried three times, 10 s apart, and then given up until a
// miss or kiln_prepare asks for it again.
//
// While a layer is in work, eight values that miss are remembered, and the
// largest, which its range has to reach. If there were more, the table of plans
// is searched at the end for stand-ins outside of the range.
//
// *Swapping.* The result of a stage is published where launches look: a range
// is added to the context, and then the table's values that it serves are
// replaced one by one, each under the table's lock for one insertion. A miss in
// between looks at the ranges' version again, as for kiln_prepare. Nothing is
// unloaded and no plan is freed, so a launch in progress, a plan handle or a
// graph keeps its plan.
//
// *The duty cycle.* Trials ask before each piece of work (TrialPace.h), some 2
// ms. A piece that took t from its first launch to its end, an upper bound of
// its GPU time, is followed by a rest of t (1 / share - 1). No credit is kept
// for times without trials. No piece begins while a stream of the process is
// known to be captured: a launch into a capture that had to look for a plan or
// an arena reports it, and that holds for a moment. (A capture of hits alone is
// not seen, since hits should not pay for it. Trials do not disturb captures;
// kiln_background_pause keeps them away from work that should not be slowed
// down.) Compilations have threads of a lower priority; this thread keeps the
// usual one, since it takes the same locks as launches.
//
// *Loading code.* The driver lets cuModuleLoadData and cuMemFree wait for all
// work of the device that is in flight, and meanwhile no thread can launch:
// with 20 ms in flight a launch of another thread took 20 ms (measured, H200,
// driver 580; cuFuncLoad, memory of pools, graphs and copies hold up no
// thread). So scratch memory comes from a pool, and nothing is unloaded or
// freed before the engine ends. A load waits for a millisecond without
// launches, or for a tenth of it if that does not come soon: in such a gap the
// launching thread waits for the device, or has nothing in flight. A call that
// takes a tenth of a millisecond to find a stand-in would look like such a gap,
// so it reports itself. If no gap comes for a second, all loads that are due go
// ahead at once: then either launches never wait for the device, so that little
// is in flight, or one of them is held up for the work in flight.
//
// *Pausing* ends the trials at hand after their piece, gives their memory back
// and begins nothing. Measurements made by then are kept. A stage that was cut
// short begins again when the pause ends, and does only the missing work. The
// search for a cover, up to a second of host time, is not cut short and not
// repeated, because otherwise short intervals between pauses would make no
// progress. Only the end of the engine cancels it. So a paused engine that is
// waited for does nothing on the GPU, and its contexts may be destroyed: the
// jobs of a destroyed context are dropped. The context's id shows that, since
// the driver tells it of a destroyed one, too (isAlive()).
//
// Rejected: a thread for each context (trials on one GPU disturb each other,
// and what one context measured serves the others of its device class from the
// cache); trials while the GPU idles (idleness cannot be seen from outside, and
// work that comes finds the device busy); a lock-free swap of whole tables
// (replaced entries are few, and readers have the sequence numbers of
// Dispatch.h).
//
// Limits: the share holds for each engine, not for the process, and for all of
// its devices together. The lowest priority of a stream is that of ordinary
// streams, so blocks of trials go last only if the caller's streams have a
// higher one.
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
#include <string>
#include <thread>
#include <vector>

namespace kiln {

class Engine;
struct RangePart;

/// The engine's search for better plans beside the launches. Thread-safe. Its
/// thread starts with the first job.
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
  /// Cancels and ends the thread. Called by one thread, once.
  void stop();

  /// Notes that a launch of \p problem found no plan. Takes microseconds.
  void noteLaunch(ContextState &context, const KernelFamily &family,
                  const Problem &problem);
  /// Queues the trials of \p part, or of \p problem alone, for which
  /// kiln_prepare was asked and which have plans.
  void noteRange(ContextState &context, const RangePart &part, bool retune);
  void noteValue(ContextState &context, const KernelFamily &family,
                 const Problem &problem, bool retune);
  void noteCapture() { thePace.noteCapture(); }
  /// Marks the time in which a call looks for a stand-in that it will launch.
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
  /// For a loader of code: waits for a good moment if this is the background's
  /// thread.
  void awaitLoad();

  /// Begins nothing until resume() was called as often. Does not wait.
  void pause();
  /// False if nothing is paused.
  bool resume();
  /// Waits until nothing is pending or, while it is paused, until nothing is in
  /// progress; a negative time means for ever. False when the time is over, and
  /// at once on the working thread, which is then in a hook.
  bool wait(int64_t timeoutMs);
  Counts counts() const;
  /// Starts the thread without a job, if the system grants one, so that it
  /// learns which kernels other processes find wrong.
  void watch();
  /// For tests, before there is work: sets how long a job is put off.
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

  static const char *purposeOf(Stage stage);
  Stage runStage(Job &job);
  Stage loadGeneric(Job &job);
  Stage chooseFirst(Job &job);
  bool findRange(Job &job);
  Stage cover(Job &job);
  Stage measure(Job &job);
  Stage measureValue(Job &job);
  void swapRange(Job &job);
  bool replace(Job &job, const Problem &problem, const ChosenPlan &chosen);
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
  uint64_t interruptionsBefore = 0; ///< before the current stage; the thread's
  TrialPace::Clock::time_point recheckAt{}; ///< the thread's

  mutable std::mutex mutex; ///< guards what follows
  std::condition_variable changed;
  std::thread thread;
  std::atomic<bool> isStopping{false}; ///< read without it, too
  bool isWorking = false;
  bool mayYield = false;   ///< its trials can be resumed where they end
  bool isYielding = false; ///< they should end soon, for a layer without trials
  bool wasRefused = false; ///< the system granted no thread, which was logged
  uint64_t pauses = 0, nextOrder = 0;
  /// By name; `queue` has the ones that are not in work.
  std::map<std::string, JobPtr> jobs;
  std::map<std::pair<Stage, uint64_t>, JobPtr> queue;
  std::map<std::string, JobPtr> failed; ///< null, by name
  /// Jobs that were given up for now, with the time of the next attempt.
  std::map<std::string, TrialPace::Clock::time_point> givenUp;
  uint64_t doneCount = 0;
  // The following members need no mutex.
  std::chrono::milliseconds putOff{10000};
  std::atomic<uint64_t> swapCount{0};
  std::atomic<std::thread::id> worker{};
};

} // namespace kiln
