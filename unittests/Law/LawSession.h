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

/// How a session goes. Its values are launched one after the other.
struct LawPlan {
  LawServer server = LawServer::Tune;
  LawOrder order = LawOrder::Random;
  int64_t budgetMs = 1000;
  /// The server in a second process, on the same cache, which launches the
  /// second half of the values. It prepares nothing.
  std::optional<LawServer> then = std::nullopt;
  /// CPU time of the process that launches may take, after which no further
  /// value is launched.
  double limitSeconds = 1e9;

  std::string text() const;
};

/// One launch: what was launched, and what the mode predict would launch.
struct LawLaunch {
  LawPlace launched, predicted;
  /// Trials timed the kernels of both, here or elsewhere.
  bool hasEvidence = false;
  /// LawWorld::foundNoSlower() of them.
  bool isSupported = false;

  /// Above 1: what was launched is faster.
  double gain() const { return predicted.trueNs / launched.trueNs; }
  /// Whether the estimator takes both for equal.
  bool isTie() const {
    return launched.estimateNs <= kEstimateTie * predicted.estimateNs;
  }
  /// The gain that is judged. Which of two equal estimates is better is luck
  /// until both were measured: the estimates are compared then.
  double judgedGain() const {
    return hasEvidence || !isTie() ? gain()
                                   : predicted.estimateNs / launched.estimateNs;
  }
  std::string text() const;
};

/// Launches of a kind, summed up as they are judged.
struct LawTally {
  uint64_t values = 0, beyond3 = 0;
  double logSum = 0;
  double trueLogSum = 0; ///< of the gains as they are
  LawLaunch worst;

  void add(const LawLaunch &launch);
  double geomean() const;
  double shareBeyond3() const;
  std::string text() const;
};

/// Tallies by the kind of session and by family, and of all.
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

/// A machine whose kernels take what \p world says.
struct LawFixture : RuntimeFixture {
  explicit LawFixture(LawWorld &world);
  kiln_engine *engineFor(LawServer server, int64_t budgetMs);
};

/// Launches \p values of \p layer as \p plan says and gives each launch to
/// \p take. Only what law holds for is given: of the mode background what is
/// launched when its thread is done.
void runSession(LawWorld &world, LawLayer &layer, const LawPlan &plan,
                std::vector<LawValue> values,
                llvm::function_ref<void(const LawLaunch &)> take);

} // namespace kiln::testing
