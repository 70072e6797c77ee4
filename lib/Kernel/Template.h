//===- Template.h - one kernel source with its own config type ------------===//
//
// The interface that the author of a kernel implements. A template knows its
// configs, which of them a problem allows, how long each should take, the text
// that compiles it, and how arguments become a launch. It never touches the
// GPU.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Kernel/Allowance.h"
#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"
#include "Kernel/Plan.h"
#include "Kernel/Problem.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <initializer_list>
#include <optional>

namespace kiln {

/// Candidates with the same template and key are variations of one idea. Unless
/// they rank by time, a rank list begins with the best of each class, and
/// `rank` orders classes whose estimates tie.
struct CandidateClass {
  uint64_t key = 0;
  int32_t rank = 0;
  /// Whether estimates distinguish variations of one idea: then the candidate
  /// is placed by its time alone, and its class only relates it to others.
  bool ranksByTime = false;
};

/// A key for configs that agree in \p parts, mostly below 1024. A first part of
/// its own keeps the classes of different templates apart.
inline uint64_t classKey(std::initializer_list<int> parts) {
  uint64_t key = 0;
  for (int part : parts)
    key = key * 1024 + static_cast<uint64_t>(part);
  return key;
}

/// Takes a template's space, config by config.
class SpaceSink {
public:
  /// Takes a config that may run.
  virtual void rank(Values &&config, const Estimate &estimate,
                    CandidateClass candidateClass) = 0;
  /// Takes a config that breaks a limit; \p makeConfig is called only if
  /// rejected configs are kept.
  virtual void reject(const Rejection &rejection,
                      llvm::function_ref<Values()> makeConfig) = 0;

protected:
  ~SpaceSink() = default;
};

class Template {
public:
  virtual ~Template() = default;

  /// The first word of its configs' text: "mma".
  virtual llvm::StringRef name() const = 0;
  virtual const Schema &configSchema() const = 0;

  /// Calls \p emit with every config worth considering for \p problem, best
  /// guesses first; the order breaks ties. No hard limit is applied yet.
  virtual void enumerate(const Problem &problem, const DeviceModel &device,
                         llvm::function_ref<void(Values)> emit) const = 0;

  /// Returns the hard limit that \p config breaks, or nullopt. Accepts any
  /// config that parses by the schema, also an absurd one that a user typed.
  virtual std::optional<Rejection> prune(const Problem &problem,
                                         const Values &config,
                                         const DeviceModel &device) const = 0;

  /// Like prune(), and then checks the limits of \p allowance for the config's
  /// plan.
  std::optional<Rejection> pruneWithin(const Allowance &allowance,
                                       const Problem &problem,
                                       const Values &config,
                                       const DeviceModel &device) const;
  /// Checks only the limits of \p allowance, for the plan of a config that
  /// prune() let pass.
  std::optional<Rejection> exceeds(const Allowance &allowance,
                                   const Problem &problem, const Values &config,
                                   const DeviceModel &device) const;

  /// The workspace of the plan of a config that prune() let pass. The default
  /// makes the plan; a template with large spaces overrides it.
  virtual WorkspaceLayout workspace(const Problem &problem,
                                    const Values &config,
                                    const DeviceModel &device) const;

  /// The predicted time of a config that prune() let pass. Takes about a
  /// microsecond.
  virtual Estimate estimate(const Problem &problem, const Values &config,
                            const DeviceModel &device) const = 0;

  /// The configs of \p config's kernel that the space of \p problem may have,
  /// best guesses first: their run-time knobs follow from the problem, and
  /// estimates do not tell all of them apart. A kernel that was found for
  /// another problem should run with one of these. A template may return \p
  /// config itself in addition. The default returns only that.
  virtual llvm::SmallVector<Values, 4>
  variantsAt(const Problem &problem, const Values &config,
             const DeviceModel &device) const;

  struct TimedConfig {
    Values config;
    double ns;
  };
  /// Returns the fastest, by the estimate, of the variants of \p configs at \p
  /// problem that pruneWithin() lets pass; among equal ones the first. A config
  /// that is not a variant there has to be faster than all of them by more than
  /// a tie. nullopt if none may run. \p configs are of one kernel. Takes about
  /// a microsecond a variant, less if a base of typed templates overrides it,
  /// like judge().
  virtual std::optional<TimedConfig> fastestAt(const Allowance &allowance,
                                               const Problem &problem,
                                               llvm::ArrayRef<Values> configs,
                                               const DeviceModel &device) const;

  virtual CandidateClass classOf(const Problem &problem,
                                 const Values &config) const = 0;

  /// The derivation of estimate(): the same model over figures, with the words
  /// of a report. Its last step is the total.
  virtual Derivation explain(const Problem &problem, const Values &config,
                             const DeviceModel &device) const = 0;

  /// Gives \p sink every config of enumerate(), in its order, with the result
  /// of prune() or else of estimate() and classOf(). The default calls them
  /// config by config; a base of typed templates with large spaces reads
  /// problem and signature once and converts only configs that stay.
  virtual void judge(const Problem &problem, const DeviceModel &device,
                     SpaceSink &sink) const;

  /// The plan of a config that prune() let pass: texts, geometry and binder.
  /// Compiles nothing. Its workspace covers \p problem's extents.
  virtual Plan plan(const Problem &problem, const Values &config,
                    const DeviceModel &device) const = 0;

  /// Whether it serves every architecture, alignment and size, and so is the
  /// fallback of a signature.
  virtual bool isGeneric() const { return false; }
};

} // namespace kiln
