//===- EmulatedTrials.h - kernels that run beside their references --------===//
#pragma once

#include "Emulator/Emulator.h"
#include "Families/Families.h"
#include "Kernel/Sources.h"
#include "Trial/DependentCase.h"
#include "Trial/GpuTrials.h"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace kiln::emulated {

using fake::DependentCase;
using fake::must;

/// A problem and configs of its space; without any, the best of each template.
struct Sample {
  std::string family, problem;
  std::vector<std::string> configs = {};
  TrialData data = TrialData::Usual;
  PlantedValue planted = {};
};

/// The stand-in driver and compiler, with kernels that run.
struct EmulatedTrials {
  /// On \p sms SMs, unless 0: with few of them blocks of small problems have
  /// several tiles.
  explicit EmulatedTrials(int sms = 0) {
    if (sms == 0)
      return;
    trials.device.smCount = sms;
    trials.runner = must(InProcessTrials::create(*trials.driver, trials.device,
                                                 *trials.artifacts));
  }

  Emulator emulator;
  fake::GpuTrials trials{makeBuiltinRegistry(), environment()};

  static Environment environment() {
    Environment environment;
    environment.kilnDriver = KILN_BINARY_DIR "/lib/libkiln_fake_cuda.so";
    environment.kilnNvrtc = KILN_BINARY_DIR "/lib/libkiln_fake_nvrtc.so";
    return environment;
  }

  std::vector<std::string> configsOf(const Sample &sample) {
    if (!sample.configs.empty())
      return sample.configs;
    const KernelFamily &family = **trials.registry.get(sample.family);
    std::set<const Template *> seen;
    std::vector<std::string> configs;
    for (const Candidate &candidate :
         must(exploreSpace(family, must(family.parseProblem(sample.problem)),
                           trials.device))
             .ranked)
      if (seen.insert(candidate.tmpl).second)
        configs.push_back(candidate.config.text());
    return configs;
  }

  DependentCase dependent(const Sample &sample, const std::string &config) {
    return DependentCase(trials, **trials.registry.get(sample.family),
                         sample.problem, config);
  }

  TrialResult run(const Sample &sample, const std::string &config) {
    const KernelFamily &family = **trials.registry.get(sample.family);
    TrialRequest request = trials.request(
        family, must(family.parseProblem(sample.problem)), {config});
    request.options.measure = false;
    request.options.data = sample.data;
    request.options.planted = sample.planted;
    request.options.timeLimit = std::chrono::minutes(10);
    return must(trials.runner->run(request)).front();
  }
};

/// Compares all configs of \p samples with their references; \p sms: as of
/// EmulatedTrials.
inline void check(const std::vector<Sample> &samples, int sms = 0) {
  EmulatedTrials trials(sms);
  for (const Sample &sample : samples) {
    CAPTURE(sample.problem);
    const std::vector<std::string> configs = trials.configsOf(sample);
    REQUIRE_FALSE(configs.empty());
    for (const std::string &config : configs) {
      CAPTURE(config);
      CAPTURE(trials.emulator.fault());
      TrialResult result = trials.run(sample, config);
      CAPTURE(result.message);
      CHECK(result.validated);
      REQUIRE(trials.emulator.fault() == "");
    }
  }
}

/// While it lives, \p text in \p file of the kernel sources, which are without
/// indentation and comments, is \p replacement.
class Patch {
public:
  Patch(llvm::StringRef file, llvm::StringRef text, llvm::StringRef replacement)
      : original(kernelSources()) {
    write(plain);
    write(patched);
    std::string contents = testing::readBytes(patched / file.str());
    const size_t at = contents.find(text.str());
    REQUIRE(at != std::string::npos);
    contents.replace(at, text.size(), replacement.str());
    testing::writeBytes(patched / file.str(), contents);
    must(overrideKernelSources(patched.path));
  }
  ~Patch() { llvm::consumeError(overrideKernelSources(plain.path)); }
  Patch(const Patch &) = delete;

private:
  void write(const testing::TemporaryFolder &folder) {
    for (const SourceFile &file : original->files())
      testing::writeBytes(folder / file.name, file.contents);
  }

  std::shared_ptr<const SourceSet> original;
  testing::TemporaryFolder plain, patched;
};

} // namespace kiln::emulated
