//===- AttentionTemplate.h - base of the templates of attention -----------===//
//
// Each template of the family is its config type (kernel_src/attention) plus
// typed facts: its space, its limits, its classes, its estimate and its binder.
// The rest (values, texts, plans) follows from the config and is written once
// here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionEstimate.h"
#include "Families/Attention/AttentionFamily.h"
#include "Families/Attention/CollectStep.h"
#include "Families/Attention/FixedSplit.h"
#include "Families/TypedTemplate.h"

namespace kiln {

/// Configs whose kernel may run behind a step that collects K and V. Their
/// run-time knob `collectRoom` is the room for the rows in MiB, and 0 without
/// the step. They also have `collected` if a kernel serves problems with and
/// without the step by different translation units.
template <class Config>
concept CollectsRows = requires(Config config) {
  config.collectRoom;
};

template <class Config> void setCollectRoom(Config &config, int room) {
  if constexpr (CollectsRows<Config>)
    config.collectRoom = room;
  if constexpr (requires { config.collected; })
    config.collected = room > 0;
}
template <class Config> int collectRoomOf(const Config &config) {
  if constexpr (CollectsRows<Config>)
    return config.collectRoom;
  return 0;
}
/// The splits of \p config, as CollectedProblem takes them.
template <class Config> int splitsOf(const Config &config) {
  if constexpr (requires { config.splits; })
    return config.splits;
  return 0;
}

/// A template of the family, given its config type.
template <class Config> class AttentionTemplate : public TypedTemplate<Config> {
  using Typed = TypedTemplate<Config>;
  using Typed::valuesOf;

public:
  using Typed::Typed;
  using TimedConfig = Template::TimedConfig;

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Values)> emit) const final {
    AttentionProblem attention = read(problem);
    forEachFormConfig(attention, signatureOf(attention), device,
                      [&](const Config &config) { emit(valuesOf(config)); });
  }

  std::optional<Rejection> prune(const Problem &problem, const Values &values,
                                 const DeviceModel &device) const final {
    AttentionProblem attention = read(problem);
    return check(attention, signatureOf(attention), fromValues<Config>(values),
                 device);
  }

  Estimate estimate(const Problem &problem, const Values &values,
                    const DeviceModel &device) const final {
    return predictLaunch(read(problem), fromValues<Config>(values), device);
  }

  llvm::SmallVector<Values, 4>
  variantsAt(const Problem &problem, const Values &values,
             const DeviceModel &device) const final {
    const AttentionProblem attention = read(problem);
    llvm::SmallVector<Values, 4> variants;
    forEachVariantAndOwn(
        attention, signatureOf(attention), fromValues<Config>(values), device,
        [&](const Config &variant) { variants.push_back(valuesOf(variant)); });
    return variants;
  }

  std::optional<TimedConfig> fastestAt(const Allowance &allowance,
                                       const Problem &problem,
                                       llvm::ArrayRef<Values> configs,
                                       const DeviceModel &device) const final {
    const AttentionProblem attention = read(problem);
    const AttentionSignature signature = signatureOf(attention);
    return this->fastestOf(
        configs,
        [&](const Config &config, Emit<Config> emit) {
          forEachVariantAndOwn(attention, signature, config, device, emit);
        },
        [&](const Config &config) -> std::optional<double> {
          if (check(attention, signature, config, device) ||
              (allowance.isLimited() &&
               this->exceeds(allowance, problem, valuesOf(config), device)))
            return std::nullopt;
          return predictLaunch(attention, config, device).totalNs;
        });
  }

  Derivation explain(const Problem &problem, const Values &values,
                     const DeviceModel &device) const final {
    const AttentionProblem attention = read(problem);
    const Config config = fromValues<Config>(values);
    Derivation steps;
    const auto end = [&](const Prediction<Figure> &launch) {
      steps.setTotal(named(launch.totalNs, "total", "ns"), launch.bound);
      return steps;
    };
    if (collectRoomOf(config) == 0)
      return end(derive(attention, config, device, steps));
    const Collected form = collectedOf(attention, config);
    const Prediction<Figure> round = derive(form.round, config, device, steps);
    steps.begin("rounds of collected keys");
    return end(withCollect(form.problem, form.rounds, device, round));
  }

  void judge(const Problem &problem, const DeviceModel &device,
             SpaceSink &sink) const final {
    AttentionProblem attention = read(problem);
    AttentionSignature signature = signatureOf(attention);
    forEachFormConfig(attention, signature, device, [&](const Config &config) {
      auto values = [&] { return valuesOf(config); };
      if (auto rejection = check(attention, signature, config, device))
        sink.reject(*rejection, values);
      else
        sink.rank(values(), predictLaunch(attention, config, device),
                  this->classOfConfig(config));
    });
  }

  WorkspaceLayout workspace(const Problem &problem, const Values &values,
                            const DeviceModel &device) const final {
    const AttentionProblem attention = read(problem);
    const Config config = fromValues<Config>(values);
    if (collectRoomOf(config) == 0)
      return workspaceOf(attention, config, device);
    const Collected form = collectedOf(attention, config);
    return withCollected(form.problem, form.rounds,
                         workspaceOf(form.round, config, device));
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const final {
    const Config config = fromValues<Config>(values);
    const AttentionProblem attention = read(problem);
    if (collectRoomOf(config) == 0)
      return planOf(problem, values, attention, config, device);
    const Collected form = collectedOf(attention, config);
    Plan plan = planOf(problem, values, form.round, config, device);
    prependCollect(attention, form.type, splitsOf(config), form.rounds, device,
                   plan);
    return plan;
  }

protected:
  /// Calls \p emit with the template's space for a problem, best guesses first.
  virtual void forEachConfig(const AttentionProblem &problem,
                             const AttentionSignature &signature,
                             const DeviceModel &device,
                             Emit<Config> emit) const = 0;

  /// Calls \p emit with the run-time knobs that the space has for a kernel.
  virtual void forEachVariant(const AttentionProblem &,
                              const AttentionSignature &, const Config &config,
                              const DeviceModel &, Emit<Config> emit) const {
    emit(config);
  }

  /// The type as which a step may collect K and V (and Q, if its type differs)
  /// ahead of the kernels for \p problem; nullopt if that gains no time, or if
  /// no kernel supports the collected rows.
  virtual std::optional<DType> collectedType(const AttentionProblem &,
                                             const AttentionSignature &) const {
    return std::nullopt;
  }

  /// The template's own limits, most telling first. \p config may be invalid:
  /// its knobs are only known to be within the schema's bounds.
  virtual std::optional<Rejection>
  checkLimits(const AttentionProblem &problem,
              const AttentionSignature &signature, const Config &config,
              const DeviceModel &device) const = 0;

  /// The limits of a problem with a fixed split, on top of checkLimits():
  /// refuses configs that only the batch would tell apart. By default the
  /// template has no such problems. See FixedSplit.h.
  virtual std::optional<Rejection>
  checkFixedSplit(const AttentionProblem &problem, const AttentionSignature &,
                  const Config &, const DeviceModel &) const {
    return notForFixedSplit(problem, "other templates'");
  }

  /// The first config of the space for one sequence with free splits; nullopt
  /// for an empty space.
  std::optional<Config> firstOfOne(const AttentionProblem &problem,
                                   const AttentionSignature &signature,
                                   const DeviceModel &device) const {
    AttentionProblem one = oneSequenceOf(problem);
    std::optional<Config> first;
    forEachFormConfig(one, signature, device, [&](const Config &config) {
      if (!first && !check(one, signature, config, device))
        first = config;
    });
    return first;
  }

  /// The time of a config that prune() accepts. It is called for a whole space
  /// and allocates nothing.
  virtual Estimate predict(const AttentionProblem &problem,
                           const Config &config,
                           const DeviceModel &device) const = 0;
  /// The same with its derivation.
  virtual Prediction<Figure> derive(const AttentionProblem &problem,
                                    const Config &config,
                                    const DeviceModel &device,
                                    Derivation &steps) const = 0;

  /// The workspace of a config that checkLimits() accepts.
  virtual WorkspaceLayout workspaceOf(const AttentionProblem &, const Config &,
                                      const DeviceModel &) const {
    return {};
  }

  /// Adds to \p plan, which has one kernel, its binder and any further kernels
  /// and tensor maps.
  virtual void completePlan(const AttentionProblem &problem,
                            const AttentionSignature &signature,
                            const Config &config, const DeviceModel &device,
                            Plan &plan) const = 0;

private:
  /// A problem behind the step that collects, in the form for a config.
  struct Collected {
    CollectedProblem problem;
    DType type;
    CollectRounds rounds;
    AttentionProblem round;
  };

  /// \p problem must outlive the result, and collectedType() must accept it.
  Collected collectedOf(const AttentionProblem &problem,
                        const Config &config) const {
    constexpr int64_t kMiB = int64_t(1) << 20;
    const AttentionSignature signature = signatureOf(problem);
    const DType type =
        collectedType(problem, signature).value_or(problem.dtype);
    CollectedProblem collected(problem, signature.align, type,
                               splitsOf(config));
    const CollectRounds rounds =
        collected.roundsWithin(collectRoomOf(config) * kMiB);
    return {collected, type, rounds, collected.ofRound(rounds)};
  }

  /// The space: kernels that read K and V in place, then kernels behind the
  /// step that collects.
  void forEachFormConfig(const AttentionProblem &problem,
                         const AttentionSignature &signature,
                         const DeviceModel &device, Emit<Config> emit) const {
    forEachConfig(problem, signature, device, emit);
    forEachRoom(problem, signature, Config{},
                [&](const Collected &form, int room) {
                  forEachConfig(form.round, signatureOf(form.round), device,
                                [&](Config config) {
                                  setCollectRoom(config, room);
                                  emit(config);
                                });
                });
  }

  /// Calls \p take with the form of \p problem for each room for collected rows
  /// that makes a difference.
  template <class Take>
  void forEachRoom(const AttentionProblem &problem,
                   const AttentionSignature &signature, Config config,
                   const Take &take) const {
    if (!CollectsRows<Config> || !collectedType(problem, signature))
      return;
    int64_t lastRounds = 0;
    for (int room : kCollectRooms) {
      setCollectRoom(config, room);
      const Collected form = collectedOf(problem, config);
      if (form.rounds.count() != lastRounds)
        take(form, room);
      lastRounds = form.rounds.count();
    }
  }

  Estimate predictLaunch(const AttentionProblem &problem, const Config &config,
                         const DeviceModel &device) const {
    if (collectRoomOf(config) == 0)
      return predict(problem, config, device);
    const Collected form = collectedOf(problem, config);
    return withCollect(form.problem, form.rounds, device,
                       predict(form.round, config, device));
  }

  /// The plan of \p config for \p attention, which is \p problem or one of its
  /// rounds.
  Plan planOf(const Problem &problem, const Values &values,
              const AttentionProblem &attention, const Config &config,
              const DeviceModel &device) const {
    const AttentionSignature signature = signatureOf(attention);
    Plan plan = this->startPlan(this->entry, problem, values, signature, config,
                                config.sharedBytes(signature),
                                /*maySpill=*/this->isGeneric(), device);
    plan.workspace = workspaceOf(attention, config, device);
    plan.takesDependentLaunch = hasDependentLaunch(device);
    completePlan(attention, signature, config, device, plan);
    return plan;
  }

  /// A config's variants, followed by the config itself if the space lacks it:
  /// members of ranges keep their splits at values for which other numbers are
  /// usual.
  void forEachVariantAndOwn(const AttentionProblem &problem,
                            const AttentionSignature &signature,
                            const Config &config, const DeviceModel &device,
                            Emit<Config> emit) const {
    bool hasOwn = false;
    auto take = [&](const Config &variant) {
      hasOwn |= variant == config;
      emit(variant);
    };
    if (collectRoomOf(config) == 0)
      forEachVariant(problem, signature, config, device, take);
    else
      forEachRoom(problem, signature, config,
                  [&](const Collected &form, int room) {
                    forEachVariant(form.round, signatureOf(form.round), config,
                                   device, [&](Config variant) {
                                     setCollectRoom(variant, room);
                                     take(variant);
                                   });
                  });
    if (!hasOwn)
      emit(config);
  }

  static AttentionProblem read(const Problem &problem) {
    return readAttentionProblem(problem.values.array().data());
  }

  /// First come the template's limits, then the general limits of the device.
  std::optional<Rejection> check(const AttentionProblem &problem,
                                 const AttentionSignature &signature,
                                 const Config &config,
                                 const DeviceModel &device) const {
    if (auto rejection = checkThreads(config.threads(), device))
      return rejection;
    if (auto rejection = checkKernel(problem, signature, config, device))
      return rejection;
    if (problem.fixedSplit == 0)
      return std::nullopt;
    return checkFixedSplit(problem, signature, config, device);
  }

  /// The limits of the problem that the kernel of \p config sees.
  std::optional<Rejection> checkKernel(const AttentionProblem &problem,
                                       const AttentionSignature &signature,
                                       const Config &config,
                                       const DeviceModel &device) const {
    Config plain = config;
    setCollectRoom(plain, collectRoomOf(config));
    if (!(plain == config))
      return Rejection{PruneReason::Dominated, double(collectRoomOf(config)), 0,
                       "MiB of collected rows", "as the kernel has them"};
    if (collectRoomOf(config) == 0)
      return checkForm(problem, signature, config, device);
    if (!collectedType(problem, signature))
      return Rejection{PruneReason::Dominated, double(collectRoomOf(config)), 0,
                       "MiB of collected rows"};
    const Collected form = collectedOf(problem, config);
    const double bytes = double(form.problem.roundBytes(form.rounds));
    if (bytes > kMaxCollectBytes)
      return Rejection{PruneReason::Workspace, bytes, kMaxCollectBytes, "B"};
    return checkForm(form.round, signatureOf(form.round), config, device);
  }

  std::optional<Rejection> checkForm(const AttentionProblem &problem,
                                     const AttentionSignature &signature,
                                     const Config &config,
                                     const DeviceModel &device) const {
    if (auto rejection = checkLimits(problem, signature, config, device))
      return rejection;
    // This comes before any computation with the config: isValid() guarantees
    // sizes that fit into ints.
    if (!config.isValid(signature))
      return Rejection{PruneReason::InstructionShape};
    return checkSharedBytes(config.sharedBytes(signature), device);
  }
};

/// A template whose kernels walk over tiles.
template <class Config>
class TiledAttention : public AttentionTemplate<Config> {
public:
  using AttentionTemplate<Config>::AttentionTemplate;

protected:
  /// The kernel as its estimate sees it.
  virtual AttentionTileKernel tileKernel(const AttentionProblem &problem,
                                         const Config &config,
                                         const DeviceModel &device) const = 0;

  /// The limits of its kernel, as checkLimits() counts them.
  virtual AttentionWalls wallsOf(const AttentionSignature &signature,
                                 const Config &config,
                                 const DeviceModel &device) const = 0;

  Estimate predict(const AttentionProblem &problem, const Config &config,
                   const DeviceModel &device) const final {
    return estimateAttentionTiles(problem, tileKernel(problem, config, device),
                                  device);
  }
  Prediction<Figure> derive(const AttentionProblem &problem,
                            const Config &config, const DeviceModel &device,
                            Derivation &steps) const final {
    addAttentionWalls(wallsOf(signatureOf(problem), config, device), device,
                      steps);
    return explainAttentionTiles(problem, tileKernel(problem, config, device),
                                 device, steps);
  }
};

} // namespace kiln
