// Trials of every family of Families.def under the stand-in driver: the operand
// table is enough to allocate, fill, launch, compare and judge.
//
// The stand-in's memory is the host's, and this test plays its kernels. At
// first they do nothing: every output has to be found unwritten. The
// comparisons show where the outputs lie, so that the kernels of the second
// trial can write all of their elements and no other byte: the verdict has to
// be good.
#include "Families/Conformance/Draw.h"
#include "Store/FakeDevice.h"
#include "Store/StoreFixture.h"
#include "Trial/FakeTools.h"
#include "Trial/InProcessTrials.h"

#include "Kernel/Space.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>

using namespace kiln;
using namespace kiln::conformance;

namespace {

/// Plays the tools of trials, and kernels that write \p outputs.
class PlayedKernels {
public:
  PlayedKernels() {
    kilnFakeOnLaunch("kiln_*", playKernel, this, 0);
    kilnFakeOnLaunch("trial/TrialTools.cuh", playTool, this,
                     sizeof(CompareToleranceParams));
  }

  /// Whether kernels write the outputs that were compared, or do nothing.
  bool writes = false;
  int launches = 0; ///< of candidates and references

  /// Must be called when the operands of another problem replace these.
  void forgetOutputs() { outputs.clear(); }

private:
  /// The place of an output.
  struct Output {
    DType type;
    long long rows = 0;
    RowLayout layout;
  };
  std::map<char *, Output> outputs; ///< by address

  template <class Params> static Params read(const KilnFakeLaunch *launch) {
    return fake::paramsOf<Params>(launch->params);
  }

  static void playKernel(KilnFakeLaunch *, void *user) {
    auto *self = static_cast<PlayedKernels *>(user);
    ++self->launches;
    if (!self->writes)
      return;
    for (const auto &[address, output] : self->outputs)
      for (long long row = 0; row < output.rows; ++row)
        std::memset(
            address + output.layout.offsetOf(row) * bytesOf(output.type),
            kWritten,
            static_cast<size_t>(output.layout.cols * bytesOf(output.type)));
  }

  static void playTool(KilnFakeLaunch *launch, void *user) {
    llvm::StringRef name = launch->function;
    if (name == "kilnFillNormal")
      fillNormal(read<FillNormalParams>(launch));
    else if (name == "kilnFillIntegers")
      fake::fillIntegers(read<FillIntegersParams>(launch));
    else if (name == "kilnFillPattern")
      fake::fillPattern(read<FillPatternParams>(launch));
    else if (name == "kilnCheckRedZone")
      fake::checkRedZone(read<CheckRedZoneParams>(launch));
    else if (name == "kilnCheckGaps")
      fake::checkGaps(read<CheckGapsParams>(launch));
    else if (name == "kilnCountDifferences")
      fake::countDifferences(read<CountDifferencesParams>(launch));
    else if (name == "kilnCompareTolerance")
      static_cast<PlayedKernels *>(user)->compare(
          read<CompareToleranceParams>(launch));
  }

  static void fillNormal(const FillNormalParams &params) {
    std::memset(params.data, kSample,
                static_cast<size_t>(params.count * bytesOf(params.type)));
  }

  /// An element is right if it was written.
  void compare(const CompareToleranceParams &params) {
    auto *data = static_cast<char *>(const_cast<void *>(params.d));
    Output &output = outputs[data];
    output = {params.type, std::max<long long>(output.rows, params.rowEnd),
              params.layout};
    CompareResult &result = *params.result;
    for (long long row = params.rowBegin; row < params.rowEnd; ++row)
      for (long long column = 0; column < params.layout.cols; ++column) {
        char *element = data + (params.layout.offsetOf(row) + column) *
                                   bytesOf(params.type);
        ++result.checked;
        if (std::all_of(element, element + bytesOf(params.type),
                        [](char byte) { return byte == kWritten; }))
          continue;
        ++result.mismatches;
        result.firstBad = std::min<unsigned long long>(
            result.firstBad, row * params.layout.cols + column);
      }
  }

  // Not the poison of any type.
  static constexpr char kSample = 0x11, kWritten = 0x22;
};

/// Trials of one candidate at a time, each with its own stand-in.
struct TrialsOfFirstChoice : fake::FakeDevice, fake::StoreFixture {
  TrialsOfFirstChoice() {
    InProcessTrialsOptions options;
    options.scratchBytes = 64 << 20;
    runner = fake::must(
        InProcessTrials::create(*driver, h200(), *artifacts, options));
  }

  TrialResult run(const KernelFamily &family, const Problem &problem,
                  bool measure) {
    Space space = fake::must(exploreSpace(family, problem, h200()));
    const Candidate &first = space.ranked.front();
    TrialRequest request;
    request.family = &family;
    request.problem = problem;
    request.options.validation =
        measure ? TrialValidation::None : TrialValidation::All;
    request.options.measure = measure;
    TrialCandidate &candidate = request.candidates.emplace_back();
    candidate.plan = first.tmpl->plan(problem, first.config, h200());
    for (const TranslationUnit &unit : candidate.plan.kernels)
      candidate.artifacts.push_back(fake::must(artifacts->get(unit)));
    return fake::must(runner->run(request)).at(0);
  }

  PlayedKernels played;
  std::unique_ptr<InProcessTrials> runner;
};

/// Whether the first operand that \p problem writes is read as well.
bool updates(const KernelFamily &family, const Problem &problem) {
  for (const OperandSpec &operand : family.operands(problem).operands)
    if (operand.isWritten())
      return operand.role == OperandRole::InOut;
  return false;
}

} // namespace

TEST_CASE("conformance: a trial of the first choice comes to a verdict") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    TrialsOfFirstChoice trials;
    std::vector<Problem> problems = drawWork(*family, Sizes::Small, 6);
    for (const Problem &problem : problems) {
      CAPTURE(problem.text());
      trials.played.forgetOutputs();
      trials.played.writes = false;
      TrialResult nothing = trials.run(*family, problem, /*measure=*/false);
      CAPTURE(nothing.config);
      CAPTURE(nothing.message);
      // An operand that is read as well has old values, which are wrong.
      CHECK(nothing.status == (updates(*family, problem)
                                   ? TrialStatus::Wrong
                                   : TrialStatus::NotWritten));
      CHECK(trials.played.launches > 0);
      trials.played.writes = true;
      TrialResult all = trials.run(*family, problem, /*measure=*/false);
      CAPTURE(all.message);
      CHECK(all.status == TrialStatus::Ok);
      CHECK(all.validated);
    }
    trials.played.forgetOutputs();
    TrialResult timed = trials.run(*family, problems.front(),
                                   /*measure=*/true);
    CAPTURE(timed.message);
    CHECK(timed.samples > 0);
    CHECK(timed.medianNs > 0);
  }
}
