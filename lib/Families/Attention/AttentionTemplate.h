//===- AttentionTemplate.h - what the templates of attention share --------===//
//
// Each template of the family is its config type (kernel_src/attention) plus
// typed facts: its space, its limits, its classes, its estimate and its binder.
// The rest (records, texts, plans) follows from the config and is written once
// here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionFamily.h"
#include "Families/Attention/FixedSplit.h"
#include "Families/KernelUnit.h"
#include "Families/LaunchLimits.h"
#include "Kernel/ConfigSchema.h"
#include "Kernel/FastestVariant.h"

namespace kiln {

/// A template of the family, given its config type.
template <class Config> class AttentionTemplate : public Template {
public:
  explicit AttentionTemplate(const KernelEntry &entry)
      : entry(entry), schema(makeConfigSchema<Config>(Config::kName)) {}

  llvm::StringRef name() const final { return Config::kName; }
  const RecordSchema &configSchema() const final { return schema; }

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Record)> emit) const final {
    AttentionProblem attention = read(problem);
    forEachConfig(
        attention, signatureOf(attention), device,
        [&](const Config &config) { emit(toRecord(config, schema)); });
  }

  std::optional<Rejection> prune(const Problem &problem, const Record &record,
                                 const DeviceModel &device) const final {
    AttentionProblem attention = read(problem);
    return check(attention, signatureOf(attention), fromRecord<Config>(record),
                 device);
  }

  Estimate estimate(const Problem &problem, const Record &record,
                    const DeviceModel &device) const final {
    return predict(read(problem), fromRecord<Config>(record), device,
                   Detail::Terms);
  }

  Estimate estimateTime(const Problem &problem, const Record &record,
                        const DeviceModel &device) const final {
    return predict(read(problem), fromRecord<Config>(record), device,
                   Detail::Time);
  }

  llvm::SmallVector<Record, 4>
  variantsAt(const Problem &problem, const Record &record,
             const DeviceModel &device) const final {
    const AttentionProblem attention = read(problem);
    llvm::SmallVector<Record, 4> variants;
    forEachVariantAndOwn(attention, signatureOf(attention),
                         fromRecord<Config>(record), device,
                         [&](const Config &variant) {
                           variants.push_back(toRecord(variant, schema));
                         });
    return variants;
  }

  std::optional<TimedConfig> fastestAt(const Allowance &allowance,
                                       const Problem &problem,
                                       llvm::ArrayRef<Record> configs,
                                       const DeviceModel &device) const final {
    const AttentionProblem attention = read(problem);
    const AttentionSignature signature = signatureOf(attention);
    llvm::SmallVector<Config, 4> typed;
    for (const Record &config : configs)
      typed.push_back(fromRecord<Config>(config));
    auto fastest = fastestVariant<Config>(
        typed,
        [&](const Config &config,
            llvm::function_ref<void(const Config &)> emit) {
          forEachVariantAndOwn(attention, signature, config, device, emit);
        },
        [&](const Config &config) -> std::optional<double> {
          if (check(attention, signature, config, device) ||
              (allowance.isLimited() &&
               exceeds(allowance, problem, toRecord(config, schema), device)))
            return std::nullopt;
          return predict(attention, config, device, Detail::Time).totalNs;
        });
    if (!fastest)
      return std::nullopt;
    return TimedConfig{toRecord(fastest->first, schema), fastest->second};
  }

  Derivation explain(const Problem &problem, const Record &record,
                     const DeviceModel &device) const final {
    return derive(read(problem), fromRecord<Config>(record), device);
  }

  CandidateClass classOf(const Problem &, const Record &record) const final {
    return classOfConfig(fromRecord<Config>(record));
  }

  void judge(const Problem &problem, const DeviceModel &device,
             SpaceSink &sink) const final {
    AttentionProblem attention = read(problem);
    AttentionSignature signature = signatureOf(attention);
    forEachConfig(attention, signature, device, [&](const Config &config) {
      auto record = [&] { return toRecord(config, schema); };
      if (auto rejection = check(attention, signature, config, device))
        sink.reject(*rejection, record);
      else
        sink.rank(record(), predict(attention, config, device, Detail::Time),
                  classOfConfig(config));
    });
  }

  WorkspaceLayout workspace(const Problem &problem, const Record &record,
                            const DeviceModel &device) const final {
    return workspaceOf(read(problem), fromRecord<Config>(record), device);
  }

  Plan plan(const Problem &problem, const Record &record,
            const DeviceModel &device) const final {
    Config config = fromRecord<Config>(record);
    AttentionProblem attention = read(problem);
    AttentionSignature signature = signatureOf(attention);
    Plan plan;
    plan.problem = problem.record;
    plan.config = record;
    int sharedBytes = config.sharedBytes(signature);
    plan.kernels.push_back(makeKernelUnit(
        entry, candidateOf(problem, record, signature, config, isGeneric()),
        device));
    plan.sharedBytes.push_back(static_cast<uint32_t>(sharedBytes));
    plan.workspace = workspaceOf(attention, config, device);
    plan.takesDependentLaunch = device.ccMajor >= 9;
    completePlan(attention, signature, config, device, plan);
    return plan;
  }

protected:
  /// Calls \p emit with the template's space for a problem, best guesses first.
  virtual void
  forEachConfig(const AttentionProblem &problem,
                const AttentionSignature &signature, const DeviceModel &device,
                llvm::function_ref<void(const Config &)> emit) const = 0;

  /// Calls \p emit with the run-time knobs that the space has of a kernel.
  virtual void
  forEachVariant(const AttentionProblem &, const AttentionSignature &,
                 const Config &config, const DeviceModel &,
                 llvm::function_ref<void(const Config &)> emit) const {
    emit(config);
  }

  /// What a config is a variation of.
  virtual CandidateClass classOfConfig(const Config &config) const = 0;

  /// The template's own limits, most telling first. \p config may be invalid:
  /// its knobs are within the schema's bounds, no more is known of them.
  virtual std::optional<Rejection>
  checkLimits(const AttentionProblem &problem,
              const AttentionSignature &signature, const Config &config,
              const DeviceModel &device) const = 0;

  /// Of a problem with a fixed split, on top of checkLimits(): refuses what the
  /// choice among would depend on the batch. By default the template has no
  /// such problems. See FixedSplit.h.
  virtual std::optional<Rejection>
  checkFixedSplit(const AttentionProblem &problem, const AttentionSignature &,
                  const Config &, const DeviceModel &) const {
    return notForFixedSplit(problem, "other templates'");
  }

  /// The first config of the space of one sequence, keys shared out at will;
  /// nullopt: there is none.
  std::optional<Config> firstOfOne(const AttentionProblem &problem,
                                   const AttentionSignature &signature,
                                   const DeviceModel &device) const {
    AttentionProblem one = oneSequenceOf(problem);
    std::optional<Config> first;
    forEachConfig(one, signature, device, [&](const Config &config) {
      if (!first && !check(one, signature, config, device))
        first = config;
    });
    return first;
  }

  /// The time of a config that prune() lets pass. With Detail::Time it is asked
  /// of a whole space: it allocates nothing, and its terms go nowhere.
  virtual Estimate predict(const AttentionProblem &problem,
                           const Config &config, const DeviceModel &device,
                           Detail detail) const = 0;
  virtual Derivation derive(const AttentionProblem &problem,
                            const Config &config,
                            const DeviceModel &device) const = 0;

  /// Of a config that checkLimits() lets pass.
  virtual WorkspaceLayout workspaceOf(const AttentionProblem &, const Config &,
                                      const DeviceModel &) const {
    return {};
  }

  /// Adds to \p plan, of one kernel, its binder, and further kernels and tensor
  /// maps where there are any.
  virtual void completePlan(const AttentionProblem &problem,
                            const AttentionSignature &signature,
                            const Config &config, const DeviceModel &device,
                            Plan &plan) const = 0;

private:
  /// A config's variants, and itself last where the space has it not: members
  /// of ranges keep their splits at values for which other numbers are usual.
  void
  forEachVariantAndOwn(const AttentionProblem &problem,
                       const AttentionSignature &signature,
                       const Config &config, const DeviceModel &device,
                       llvm::function_ref<void(const Config &)> emit) const {
    bool hasOwn = false;
    forEachVariant(problem, signature, config, device,
                   [&](const Config &variant) {
                     hasOwn |= variant == config;
                     emit(variant);
                   });
    if (!hasOwn)
      emit(config);
  }

  static AttentionProblem read(const Problem &problem) {
    return readAttentionProblem(problem.record.values().data());
  }

  /// First the template's limits, then those of the device that hold for all.
  std::optional<Rejection> check(const AttentionProblem &problem,
                                 const AttentionSignature &signature,
                                 const Config &config,
                                 const DeviceModel &device) const {
    if (auto rejection = checkThreads(config.threads(), device))
      return rejection;
    if (auto rejection = checkLimits(problem, signature, config, device))
      return rejection;
    // Before anything is computed from the config: what isValid lets pass has
    // sizes that fit into ints.
    if (!config.isValid(signature))
      return Rejection{PruneReason::InstructionShape};
    if (auto rejection =
            checkSharedBytes(config.sharedBytes(signature), device))
      return rejection;
    if (problem.fixedSplit == 0)
      return std::nullopt;
    return checkFixedSplit(problem, signature, config, device);
  }

  KernelEntry entry;
  RecordSchema schema;
};

} // namespace kiln
