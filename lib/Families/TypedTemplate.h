//===- TypedTemplate.h - a template, given the type of its configs --------===//
#pragma once

#include "Families/KernelUnit.h"
#include "Families/LaunchLimits.h"
#include "Kernel/ConfigSchema.h"
#include "Kernel/FastestVariant.h"

namespace kiln {

/// The binder whose bind() is \p bind, which throws nothing.
template <class Bind> std::shared_ptr<const Binder> makeBinder(Bind bind) {
  struct Bound final : Binder {
    explicit Bound(Bind function) : function(std::move(function)) {}
    void bind(const Arguments &arguments, const LaunchContext &context,
              LaunchSpec &spec) const noexcept override {
      function(arguments, context, spec);
    }
    Bind function;
  };
  return std::make_shared<const Bound>(std::move(bind));
}

/// A template for configs of type \p Config. The values, their text and the
/// beginning of a plan follow from the type.
template <class Config> class TypedTemplate : public Template {
public:
  llvm::StringRef name() const final { return Config::kName; }
  const Schema &configSchema() const final { return schema; }

  CandidateClass classOf(const Problem &, const Values &values) const override {
    return classOfConfig(fromValues<Config>(values));
  }

protected:
  explicit TypedTemplate(const KernelEntry &entry)
      : entry(entry), schema(makeConfigSchema<Config>(Config::kName)) {}

  /// The class of which a config is a variation.
  virtual CandidateClass classOfConfig(const Config &config) const = 0;

  Values valuesOf(const Config &config) const {
    return toValues(config, schema);
  }

  /// The plan of \p values, which say \p config, as far as its first kernel:
  /// that of \p from and \p signature.
  template <class Signature>
  Plan startPlan(const KernelEntry &from, const Problem &problem,
                 const Values &values, const Signature &signature,
                 const Config &config, int sharedBytes, bool maySpill,
                 const DeviceModel &device) const {
    Plan plan;
    plan.problem = problem.values;
    plan.config = values;
    plan.kernels.push_back(makeKernelUnit(
        from, candidateOf(problem, values, signature, config, maySpill),
        device));
    plan.sharedBytes.push_back(static_cast<uint32_t>(sharedBytes));
    return plan;
  }

  /// The answer of fastestAt(), by fastestVariant().
  std::optional<TimedConfig> fastestOf(
      llvm::ArrayRef<Values> configs,
      llvm::function_ref<void(const Config &, Emit<Config>)> forEachVariant,
      llvm::function_ref<std::optional<double>(const Config &)> timeOf) const {
    llvm::SmallVector<Config, 4> typed;
    for (const Values &config : configs)
      typed.push_back(fromValues<Config>(config));
    auto fastest = fastestVariant<Config>(typed, forEachVariant, timeOf);
    if (!fastest)
      return std::nullopt;
    return TimedConfig{valuesOf(fastest->first), fastest->second};
  }

  const KernelEntry entry;

private:
  const Schema schema;
};

} // namespace kiln
