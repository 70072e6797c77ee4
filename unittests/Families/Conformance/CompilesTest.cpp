// Compiles kernels of every family of Families.def with the real NVRTC, for
// every architecture of the catalog: each template's best config for a drawn
// problem, and the reference.
#include "Families/Conformance/Draw.h"
#include "KernelSrc/RealCompiler.h"

#include "Kernel/Space.h"
#include "Support/Format.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

using namespace kiln;
using namespace kiln::conformance;

namespace {

/// Kernels of one config after the other. An engine falls back to the later
/// ones if ptxas spills in the first one.
struct CompiledSample {
  std::string what;
  std::vector<std::vector<TranslationUnit>> choices;
};

/// The reason why an engine would refuse \p units, or the error of a
/// compilation.
struct CompileFault {
  std::string text;
  bool isRejection = false;
};

CompileFault compileAll(llvm::ArrayRef<TranslationUnit> units) {
  for (const TranslationUnit &unit : units) {
    auto artifact = testing::compiler().compile(unit);
    if (!artifact)
      return {llvm::toString(artifact.takeError()), false};
    // Kernels that may spill must not spill here either.
    if (std::string text = artifact->rejection(/*maySpill=*/false);
        !text.empty())
      return {text, true};
  }
  return {};
}

std::string compileFault(const CompiledSample &sample) {
  CompileFault fault;
  for (const auto &units : sample.choices) {
    fault = compileAll(units);
    if (!fault.isRejection)
      break;
  }
  return fault.text;
}

/// The units to compile, each first choice once.
class Samples {
public:
  void add(CompiledSample sample) {
    if (seen.insert(sample.choices[0][0].digest().hex()).second)
      list.push_back(std::move(sample));
  }

  /// Adds the best configs of each template that is missing in \p done.
  void addTemplates(const KernelFamily &family, const Problem &problem,
                    const DeviceModel &device,
                    std::set<const Template *> &done) {
    constexpr size_t kChoices = 3;
    if (done.size() == family.templates().size())
      return;
    Space space = llvm::cantFail(exploreSpace(family, problem, device));
    std::map<const Template *, CompiledSample> samples;
    for (const Candidate &candidate : space.ranked) {
      if (done.contains(candidate.tmpl))
        continue;
      CompiledSample &sample = samples[candidate.tmpl];
      if (sample.choices.size() == kChoices)
        continue;
      if (sample.choices.empty())
        sample.what = fmt::format("{}: {} | {}", device.name, problem.text(),
                                  candidate.config.text());
      Plan plan = candidate.tmpl->plan(problem, candidate.config, device);
      sample.choices.emplace_back(plan.kernels.begin(), plan.kernels.end());
    }
    for (auto &[tmpl, sample] : samples) {
      done.insert(tmpl);
      add(std::move(sample));
    }
  }

  void addReference(const KernelFamily &family, const Problem &problem,
                    const DeviceModel &device) {
    add({fmt::format("{}: reference of {}", device.name, problem.text()),
         {{family.reference(problem, device)->translationUnit()}}});
  }

  /// Compiles all on a few threads and checks that an engine would take each.
  void check() const {
    std::vector<std::string> faults(list.size());
    std::atomic<size_t> next = 0;
    auto work = [&] {
      for (size_t i; (i = next++) < list.size();)
        faults[i] = compileFault(list[i]);
    };
    std::vector<std::thread> threads;
    for (unsigned t = 1; t < std::max(2u, std::thread::hardware_concurrency());
         ++t)
      threads.emplace_back(work);
    work();
    for (std::thread &thread : threads)
      thread.join();
    for (auto [i, sample] : llvm::enumerate(list)) {
      CAPTURE(sample.what);
      CHECK(faults[i] == "");
    }
  }

private:
  std::vector<CompiledSample> list;
  std::set<std::string> seen;
};

/// The catalog's first device of each architecture that NVRTC compiles for.
std::vector<DeviceModel> devicesByArchitecture() {
  auto nvrtc = llvm::cantFail(testing::compiler().nvrtc());
  std::map<int, DeviceModel> byCapability;
  for (llvm::StringRef name : catalogNames()) {
    DeviceModel model = device(name);
    if (llvm::Error error = nvrtc->checkSupports(model.archName()))
      MESSAGE("left out: ", name.str(), ": ",
              summarize(std::move(error)).message);
    else
      byCapability.try_emplace(model.computeCapability(), model);
  }
  std::vector<DeviceModel> devices;
  for (auto &[capability, model] : byCapability)
    devices.push_back(std::move(model));
  return devices;
}

} // namespace

TEST_CASE("conformance: a sample compiles for every architecture") {
  if (!testing::hasNvrtc())
    return;
  Samples samples;
  for (const auto &family : registry().families()) {
    // Enough problems to meet each template of a device.
    std::vector<Problem> problems = drawWork(*family, Sizes::Usual, 60);
    for (const DeviceModel &model : devicesByArchitecture()) {
      // Each device begins with other problems.
      std::rotate(problems.begin(), problems.begin() + 7, problems.end());
      std::set<const Template *> done;
      for (const Problem &problem : problems)
        samples.addTemplates(*family, problem, model, done);
      constexpr size_t kReferences = 2;
      for (size_t i = 0; i < kReferences; ++i)
        samples.addReference(*family, problems[i], model);
    }
  }
  samples.check();
}
