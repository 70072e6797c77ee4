//===- LawWorld.h - a world in which every kernel has a true time ---------===//
//
// Whether a choice was good can be judged only where the truth is known. Here
// it is the estimate, off by factors that a seed draws: of the template, of the
// kernel, of the kernel as its extents change, and of the kernel at one value.
// The stand-in driver takes as long for each launch as this world says, so that
// trials read the truth, with noise; and a test asks it how long what was
// launched takes, and what the estimator alone would have launched.
//
// The stand-in knows a launch by its function's name, its grid and its
// parameters. From these the world reads the problem and the config, run-time
// knobs included: nothing is told behind the library's back.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Fakes/FakeCuda.h"
#include "Kernel/KernelName.h"
#include "Kernel/Space.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace kiln::testing {

/// How far a world is from the estimate, and what its clock makes of it. Each
/// figure is a relative standard deviation, unless it says else.
struct LawFactors {
  double ofTemplate = 0.05;
  double ofKernel = 0.03;
  double ofExtent = 0.03; ///< correlated over an octave
  double ofValue = 0.005;
  double ofReading = 0.01; ///< of a trial, for some milliseconds
  double ofSession = 0.15; ///< at most, of all times of a process
  /// Wall time that passes in a unit of the device's, so that trials use up
  /// budgets; not a deviation.
  double wallShare = 0.05;

  /// As far off, read without noise and at once.
  static LawFactors exact() {
    return {.ofReading = 0, .ofSession = 0, .wallShare = 0};
  }
};

/// A config at a problem.
struct LawPlace {
  const KernelFamily *family = nullptr;
  Problem problem;
  const Template *tmpl = nullptr;
  Values config;
  double estimateNs = 0;
  double trueNs = 0;

  /// Of its kernel, which configs that differ in run-time knobs share.
  std::string kernel() const;
  bool empty() const { return tmpl == nullptr; }
};

/// Thread-safe. One at a time, and no FakeGpu may be made while it is attached.
class LawWorld {
public:
  explicit LawWorld(uint64_t seed, const LawFactors &factors = {});
  ~LawWorld();
  LawWorld(const LawWorld &) = delete;
  LawWorld &operator=(const LawWorld &) = delete;

  /// Has the stand-in driver ask this world for times. Once for each FakeGpu.
  void attach();
  /// Tells of problems that will be launched: \p text says what launches do
  /// not. Problems of one family differ in extents alone.
  void expect(const std::string &text);
  /// Another process begins: the clock has another scale.
  void beginProcess();

  /// The last candidate that the calling thread launched since it asked before;
  /// empty if there was none.
  LawPlace takeLaunched();
  /// P: the first of the estimate's ranking for the problem \p text, which the
  /// mode predict takes on an empty cache. Some 100 us the first time.
  const LawPlace &predicted(const std::string &text);
  /// Whether trials have timed the kernel of \p place anywhere. (Trials use a
  /// stream of their own, and callers of these tests the default one.)
  bool isTimed(const LawPlace &place);
  /// Whether trials have timed the kernels of \p one and \p other, which are of
  /// one problem, beside each other within an octave of it, and the first
  /// appeared to be no slower: what errors of estimates were found there, taken
  /// to the problem.
  bool foundNoSlower(const LawPlace &one, const LawPlace &other);

private:
  struct Told;
  struct Reader;
  struct Hook;
  struct Kernel;
  static const Reader kReaders[];

  static void run(KilnFakeLaunch *launch, void *user);
  Kernel &kernelOf(const char *function);
  const LawPlace &placeOf(Kernel &kernel, const Told &told);
  double durationOf(const Reader &reader, const KilnFakeLaunch &launch);
  void passTime(double ns);
  double trueNs(const LawPlace &place) const;
  double reading(const LawPlace &place) const;

  const uint64_t seed;
  const LawFactors factors;
  std::vector<std::unique_ptr<Hook>> hooks;
  std::mutex mutex; ///< guards what follows
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
  std::unordered_map<std::string, std::unique_ptr<LawPlace>> predictions;
  std::unordered_map<const KernelFamily *, Problem> expected;
  /// Where kernels were timed, by family and compiled config.
  std::map<std::string, std::vector<const LawPlace *>> timed;
  uint64_t process = 0;
  double scale = 1;
  double owedNs = 0; ///< wall time that is yet to pass
};

} // namespace kiln::testing
