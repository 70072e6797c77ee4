//===- Sm90Testing.h - a launch of the wgmma template, taken apart --------===//
#pragma once

#include "Driver/LaunchSpec.h"
#include "Families/Gemm/GemmProblem.h"
#include "Families/Gemm/GemmTesting.h"
#include "Kernel/Family.h"
#include "Kernel/Plan.h"
#include "gemm/RepackConfig.h"
#include "gemm/Sm90GemmParams.h"

#include <doctest/doctest.h>

#include <cstring>
#include <optional>

namespace kiln::testing {

/// A tensor map in a launch.
struct BoundMap {
  TensorMapSpec spec;
  DeviceAddress address = 0;
  bool isPrototype = false;
};

/// Addresses of test operands, which lie far apart.
constexpr DeviceAddress addressOf(int operand) {
  return 0x7000000000 + DeviceAddress(operand) * 0x100000000;
}
constexpr DeviceAddress kZeroedAddress = 0x6000000000,
                        kScratchAddress = 0x6800000000;

/// The result of binding \p plan to the problem of a call.
class BoundLaunch {
public:
  BoundLaunch(const Plan &plan, const Problem &problem,
              const LaunchContext &given = defaultContext())
      : BoundLaunch(plan, argumentsOf(problem), given) {}

  BoundLaunch(const Plan &plan, const Arguments &arguments,
              const LaunchContext &given = defaultContext())
      : plan(plan), prototypes(plan.tensorMaps.size()) {
    LaunchContext context = given;
    context.tensorMaps = prototypes.data();
    plan.binder->bind(arguments, context, spec);
    REQUIRE(spec.stepCount > 0);
  }

  static Arguments argumentsOf(const Problem &problem) {
    Arguments arguments = gemm().defaultArguments(problem);
    for (int i = 0; i < GemmOperand::Count; ++i)
      arguments.operands[i].address = addressOf(i);
    return arguments;
  }

  static LaunchContext defaultContext() {
    LaunchContext context;
    context.smCount = static_cast<int32_t>(h200().smCount);
    context.zeroed = kZeroedAddress;
    context.scratch = kScratchAddress;
    return context;
  }

  /// The product's step, which is the last.
  const KernelStep &product() const {
    const LaunchStep &step = spec.steps[spec.stepCount - 1];
    REQUIRE(step.kind == LaunchStep::Kind::Kernel);
    REQUIRE(step.kernel.paramBytes == sizeof(Sm90GemmParams));
    return step.kernel;
  }

  Sm90GemmParams params() const {
    Sm90GemmParams params;
    std::memcpy(static_cast<void *>(&params),
                spec.params + product().paramOffset, sizeof(params));
    return params;
  }

  /// The parameters of a copy of an operand by the plan's kernel \p function.
  RepackParams repack(uint32_t step, uint32_t function = 1) const {
    const KernelStep &kernel = spec.steps[step].kernel;
    REQUIRE(kernel.function == function);
    REQUIRE(kernel.paramBytes == sizeof(RepackParams));
    RepackParams params;
    std::memcpy(static_cast<void *>(&params), spec.params + kernel.paramOffset,
                sizeof(params));
    return params;
  }

  /// The map at byte \p member of the product's parameters; empty if the launch
  /// has no map there.
  std::optional<BoundMap> map(size_t member) const {
    for (uint32_t i = 0; i < spec.tensorMapCount; ++i) {
      const TensorMapPatch &patch = spec.tensorMaps[i];
      if (patch.paramOffset != product().paramOffset + member)
        continue;
      if (!patch.prototype)
        return BoundMap{spec.mapSpec(i), patch.address, false};
      auto index = static_cast<size_t>(patch.prototype - prototypes.data());
      REQUIRE(index < plan.tensorMaps.size());
      return BoundMap{plan.tensorMaps[index], patch.address, true};
    }
    return std::nullopt;
  }

  LaunchSpec spec;

private:
  const Plan &plan;
  std::vector<EncodedTensorMap> prototypes;
};

/// An sm90 config by its text, which may leave out clusters of one.
inline KernelFamily::NamedConfig sm90Config(llvm::StringRef text) {
  std::string full = text.str();
  for (llvm::StringRef key : {".cm", ".cn"})
    if (!text.contains(key))
      full += key.str() + "1";
  auto named = gemm().parseConfig(full);
  if (!named)
    FAIL(summarize(named.takeError()).message);
  return *named;
}

/// The plan of an sm90 config that the pruner accepts.
inline Plan sm90Plan(const Problem &problem, llvm::StringRef config) {
  auto named = sm90Config(config);
  if (auto rejection = named.tmpl->prune(problem, named.config, h200()))
    FAIL(rejection->text());
  return named.tmpl->plan(problem, named.config, h200());
}

} // namespace kiln::testing
