//===- DependentCase.h - one plan, launched with and without dependence ---===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Store/LoadedPlan.h"
#include "Trial/GpuTrials.h"
#include "Trial/TrialBuffers.h"

#include <memory>
#include <string>
#include <vector>

namespace kiln::fake {

/// One config of a problem with its own operands, launched like an engine's
/// calls.
class DependentCase {
public:
  DependentCase(GpuTrials &trials, const KernelFamily &family,
                std::string problemText, const std::string &config)
      : driver(*trials.driver), problem(must(family.parseProblem(problemText))),
        stream(must(Stream::create(driver))),
        tools(must(TrialTools::load(driver, *trials.artifacts, trials.device))),
        loader(driver), request(trials.request(family, problem, {config})) {
    TrialBufferOptions options;
    options.capBytes = uint64_t(1) << 30;
    options.forTiming = false;
    buffers = std::make_unique<TrialBuffers>(must(TrialBuffers::create(
        driver, tools, family, problem, options, stream.handle())));
    const TrialCandidate &candidate = request.candidates.front();
    plan = must(LoadedPlan::load(loader, candidate.plan, candidate.artifacts,
                                 static_cast<int32_t>(trials.device.smCount),
                                 KernelLifetime::Users));
    memory = must(DeviceMemory::allocate(driver, plan->workspace().bytes()));
    if (!memory.empty())
      cantFail(fillAsync(driver, memory.address(), 0, memory.bytes(),
                         stream.handle()));
    cantFail(stream.synchronize());
  }

  /// The arguments; with \p isDependent those of a launch that may begin early,
  /// and whose weights are constant.
  Arguments arguments(bool isDependent) const {
    Arguments arguments = buffers->arguments(0);
    arguments.isDependent = isDependent;
    if (isDependent)
      arguments.constants = constants();
    return arguments;
  }
  /// A bit for each operand that is a weight.
  uint32_t constants() const {
    uint32_t bits = 0;
    for (auto [i, operand] : llvm::enumerate(buffers->table().operands))
      if (operand.present && operand.role == OperandRole::Constant)
        bits |= uint32_t(1) << i;
    return bits;
  }

  llvm::Error launch(bool isDependent) {
    return plan->launch(arguments(isDependent), workspace(), stream.handle());
  }
  Workspace workspace() const {
    return {memory.address(), memory.bytes(), true};
  }

  /// Fills the outputs with poison, or with their earlier content, and waits.
  void clearOutputs() {
    cantFail(buffers->prepareOutputs(stream.handle()));
    cantFail(stream.synchronize());
  }

  /// All bytes of all outputs, once the stream is done.
  std::vector<uint8_t> outputs() {
    cantFail(stream.synchronize());
    std::vector<uint8_t> all;
    for (const TrialOutput &output : buffers->outputs()) {
      const auto bytes = static_cast<uint64_t>(buffers->specOf(output).bytes());
      const size_t at = all.size();
      all.resize(at + bytes);
      cantFail(copyToHost(driver, all.data() + at, buffers->addressOf(output),
                          bytes));
    }
    return all;
  }

  const Driver &driver;
  Problem problem;
  Stream stream;
  TrialTools tools;
  KernelLoader loader;
  TrialRequest request; ///< of the one config
  std::unique_ptr<TrialBuffers> buffers;
  std::shared_ptr<const LoadedPlan> plan;
  DeviceMemory memory; ///< the workspace

private:
  static void cantFail(llvm::Error error) {
    if (error)
      FAIL(summarize(std::move(error)).message);
  }
};

} // namespace kiln::fake
