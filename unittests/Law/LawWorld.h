//===- LawWorld.h - a world in which every kernel has a true time ---------===//
//
// A choice can be judged only if the truth is known. Here the truth is the
// estimate, off by factors that a seed draws: for the template, for the kernel,
// for the kernel as its extents change, and for the kernel at one value. The
// stand-in driver takes this world's time for each launch, so that trials read
// the truth, with noise. A test asks the world for the time of the launched
// config, and of the one that the estimator alone would have launched.
//
// The stand-in knows a launch by its function's name, its grid and its
// parameters. The world reads the problem and the config from these, including
// run-time knobs: no side channel exists.
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

/// The deviation of a world from the estimate, and of its clock. Each figure is
/// a relative standard deviation, unless noted otherwise.
struct LawFactors {
  double ofTemplate = 0.05;
  double ofKernel = 0.03;
  double ofExtent = 0.03; ///< correlated over an octave
  double ofValue = 0.005;
  double ofReading = 0.01; ///< of a trial, for some milliseconds
  double ofSession = 0.15; ///< the maximum, for all times of a process
  /// Wall time that passes in a unit of the device's time, so that trials use
  /// up budgets; not a deviation.
  double wallShare = 0.05;

  /// A world as far off, which is read without noise and at once.
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

  /// The factor of its kernel, which configs that differ only in run-time knobs
  /// share.
  std::string kernel() const;
  bool empty() const { return tmpl == nullptr; }
};

/// Thread-safe. Only one may be attached at a time, and no FakeGpu may be made
/// meanwhile.
class LawWorld {
public:
  explicit LawWorld(uint64_t seed, const LawFactors &factors = {});
  ~LawWorld();
  LawWorld(const LawWorld &) = delete;
  LawWorld &operator=(const LawWorld &) = delete;

  /// Makes the stand-in driver ask this world for times. Once for each FakeGpu.
  void attach();
  /// Announces problems to launch: \p text gives the facts that launches do not
  /// show. Problems of one family differ only in extents.
  void expect(const std::string &text);
  /// Starts another process: the clock gets another scale.
  void beginProcess();

  /// The last candidate that the calling thread has launched since its previous
  /// call; empty if there was none.
  LawPlace takeLaunched();
  /// The first of the estimate's ranking for the problem \p text, which the
  /// mode predict takes on an empty cache. Some 100 us the first time.
  const LawPlace &predicted(const std::string &text);
  /// Whether trials have timed the kernel of \p place anywhere. (Trials use a
  /// stream of their own, and callers of these tests the default one.)
  bool isTimed(const LawPlace &place);
  /// Whether trials have timed the kernels of \p one and \p other, which belong
  /// to one problem, beside each other within an octave of it, and the first
  /// one appeared to be no slower, after applying the errors of the estimates
  /// found there to the problem.
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
  std::mutex mutex; ///< guards the members below
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
  std::unordered_map<std::string, std::unique_ptr<LawPlace>> predictions;
  std::unordered_map<const KernelFamily *, Problem> expected;
  /// Places at which kernels were timed, by family and compiled config.
  std::map<std::string, std::vector<const LawPlace *>> timed;
  uint64_t process = 0;
  double scale = 1;
  double owedNs = 0; ///< wall time that has yet to pass
};

} // namespace kiln::testing
