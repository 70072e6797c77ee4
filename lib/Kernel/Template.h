//===- Template.h - one kernel source with its own config type ------------===//
//
// What the author of a kernel implements. A template knows its configs, which
// of them a problem allows, how long each should take, the text that compiles
// it, and how arguments become a launch. It never touches the GPU.
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

#include <optional>

namespace kiln {

class ClassicTemplate;

/// Candidates of one template and key are variations of one idea. Unless they
/// rank by time, a rank list begins with the best of each class, and `rank`
/// orders classes whose estimates tie.
struct CandidateClass {
  uint64_t key = 0;
  int32_t rank = 0;
  /// True where estimates tell variations of one idea apart: the candidate has
  /// its place by its time alone, and its class says what it is related to.
  bool ranksByTime = false;
};

/// Takes a template's space, config by config.
class SpaceSink {
public:
  /// A config that may run. The estimate's terms are not wanted.
  virtual void rank(Values &&config, const Estimate &estimate,
                    CandidateClass candidateClass) = 0;
  /// A config that breaks a limit; \p makeConfig is called only where rejected
  /// configs are kept.
  virtual void reject(const Rejection &rejection,
                      llvm::function_ref<Values()> makeConfig) = 0;

protected:
  ~SpaceSink() = default;
};

class Template {
public:
  virtual ~Template() = default;

  /// First word of its configs' text: "mma".
  virtual llvm::StringRef name() const = 0;
  virtual const Schema &configSchema() const = 0;

  /// Calls \p emit with every config worth considering for \p problem, best
  /// guesses first; the order breaks ties. No hard limit is applied yet.
  virtual void enumerate(const Problem &problem, const DeviceModel &device,
                         llvm::function_ref<void(Values)> emit) const = 0;

  /// The hard limit that \p config breaks, or nullopt. Accepts any config that
  /// the schema lets parse, also an absurd one that a user typed.
  virtual std::optional<Rejection> prune(const Problem &problem,
                                         const Values &config,
                                         const DeviceModel &device) const = 0;

  /// The same, and then what \p allowance forbids the config's plan.
  std::optional<Rejection> pruneWithin(const Allowance &allowance,
                                       const Problem &problem,
                                       const Values &config,
                                       const DeviceModel &device) const;
  /// What \p allowance alone forbids the plan of a config that prune() let
  /// pass.
  std::optional<Rejection> exceeds(const Allowance &allowance,
                                   const Problem &problem, const Values &config,
                                   const DeviceModel &device) const;

  /// The workspace of the plan of a config that prune() let pass. This one
  /// makes the plan; a template says it itself where its spaces are large.
  virtual WorkspaceLayout workspace(const Problem &problem,
                                    const Values &config,
                                    const DeviceModel &device) const;

  /// Predicted time of a config that prune() let pass. About a microsecond.
  virtual Estimate estimate(const Problem &problem, const Values &config,
                            const DeviceModel &device) const = 0;

  /// The same without terms. This one makes them.
  virtual Estimate estimateTime(const Problem &problem, const Values &config,
                                const DeviceModel &device) const {
    return estimate(problem, config, device);
  }

  /// The configs of \p config's kernel that the space of \p problem may have,
  /// best guesses first: their run-time knobs follow from the problem, and
  /// estimates do not tell all of them apart. A kernel that was found for
  /// another problem is to run with one of these. A template may answer
  /// \p config itself beside them. This one answers it alone.
  virtual llvm::SmallVector<Values, 4>
  variantsAt(const Problem &problem, const Values &config,
             const DeviceModel &device) const;

  struct TimedConfig {
    Values config;
    double ns;
  };
  /// The fastest, by the estimate, of the variants of \p configs at
  /// \p problem that pruneWithin() lets pass; of equal ones the first. One of
  /// \p configs that is no variant there has to be faster than all of them by
  /// more than a tie. nullopt: none may run. \p configs are of one kernel.
  /// About a microsecond a variant, less where a base of typed templates
  /// overrides it as it does judge().
  virtual std::optional<TimedConfig> fastestAt(const Allowance &allowance,
                                               const Problem &problem,
                                               llvm::ArrayRef<Values> configs,
                                               const DeviceModel &device) const;

  virtual CandidateClass classOf(const Problem &problem,
                                 const Values &config) const = 0;

  /// The derivation of estimate(): steps whose last result is its total.
  virtual Derivation explain(const Problem &problem, const Values &config,
                             const DeviceModel &device) const = 0;

  /// Gives \p sink every config of enumerate(), in its order, with what
  /// prune(), or else estimate() and classOf(), say of it. This one asks them
  /// config by config; a base of typed templates whose spaces are large reads
  /// problem and signature once and converts only configs that stay.
  virtual void judge(const Problem &problem, const DeviceModel &device,
                     SpaceSink &sink) const;

  /// How the classic model sees its configs; null: they have no tiles.
  virtual const ClassicTemplate *classic() const { return nullptr; }

  /// The plan of a config that prune() let pass: texts, geometry and binder.
  /// Compiles nothing. Its workspace covers \p problem's extents.
  virtual Plan plan(const Problem &problem, const Values &config,
                    const DeviceModel &device) const = 0;

  /// True when every architecture, alignment and size is served: the kernel
  /// that a signature falls back to.
  virtual bool isGeneric() const { return false; }
};

} // namespace kiln
