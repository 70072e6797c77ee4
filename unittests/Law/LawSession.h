//===- LawSession.h - engines that launch in a world, and the verdict -----===//
#pragma once

#include "Law/LawLayer.h"
#include "Law/LawWorld.h"
#include "Runtime/RuntimeFixture.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::testing {

/// The part of Kiln that serves the launches of a session.
enum class LawServer { Predict, Tune, Background, Prepared, Cancelled };
enum class LawOrder { Random, Ascending, Descending };

/// The course of a session. Its values are launched one after the other.
struct LawPlan {
  LawServer server = LawServer::Tune;
  LawOrder order = LawOrder::Random;
  int64_t budgetMs = 1000;
  /// A server in a second process, on the same cache, launches the second half
  /// of the values. It prepares nothing.
  std::optional<LawServer> then = std::nullopt;
  /// The limit of CPU time of the launching process; after it no further value
  /// is launched.
  double limitSeconds = 1e9;

  std::string text() const;
};

/// One launch: the launched config, and the one that the mode predict would
/// launch.
struct LawLaunch {
  LawPlace launched, predicted;
  /// Whether trials timed the kernels of both, here or in another session.
  bool hasEvidence = false;
  /// LawWorld::foundNoSlower() for both.
  bool isSupported = false;

  /// Above 1 if the launched config is faster.
  double gain() const { return predicted.trueNs / launched.trueNs; }
  /// Whether the estimator considers both equal.
  bool isTie() const {
    return launched.estimateNs <= kEstimateTie * predicted.estimateNs;
  }
  /// The judged gain. Until both of two equal estimates are measured, luck
  /// decides which is better: then the estimates are compared.
  double judgedGain() const {
    return hasEvidence || !isTie() ? gain()
                                   : predicted.estimateNs / launched.estimateNs;
  }
  std::string text() const;
};

/// Launches of one kind, summed up as they are judged.
struct LawTally {
  uint64_t values = 0, beyond3 = 0;
  double logSum = 0;
  double trueLogSum = 0; ///< of the true gains
  LawLaunch worst;

  void add(const LawLaunch &launch);
  double geomean() const;
  double shareBeyond3() const;
  std::string text() const;
};

/// Tallies by the kind of session and by family, and over all.
class LawTable {
public:
  void add(const LawPlan &plan, const std::string &layer,
           const LawLaunch &launch);
  /// A line for each kind.
  void print() const;
  const LawTally &all() const { return total; }

private:
  std::map<std::string, LawTally> lines;
  LawTally total;
};

/// A machine whose kernels take the times of \p world.
struct LawFixture : RuntimeFixture {
  explicit LawFixture(LawWorld &world);
  kiln_engine *engineFor(LawServer server, int64_t budgetMs);
};

/// Launches \p values of \p layer according to \p plan and gives each launch to
/// \p take. Launches outside of the law are left out: in the mode background it
/// gives the launches after its thread is done.
void runSession(LawWorld &world, LawLayer &layer, const LawPlan &plan,
                std::vector<LawValue> values,
                llvm::function_ref<void(const LawLaunch &)> take);

} // namespace kiln::testing
