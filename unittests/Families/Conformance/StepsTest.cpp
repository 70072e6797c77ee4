// Steps are found wherever they are, and only there, on a family with made-up
// times.
#include "Families/Conformance/KnownGaps.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>

using namespace kiln;
using namespace kiln::conformance;

namespace {

/// A time in ns, from a problem's values: n, parts, align.
using Pace = std::function<double(const Values &)>;
enum SteppedField { N, Parts, Align };

const Schema &steppedSchema() {
  static const Schema schema(
      "stepped", TextStyle::Spaced,
      {{.key = "n",
        .role = FieldRole::DynamicExtent,
        .required = true,
        .maximum = 1 << 24},
       {.key = "parts", .role = FieldRole::Extent, .defaultValue = 4},
       {.key = "align",
        .role = FieldRole::Alignment,
        .defaultValue = 16,
        .minimum = 1,
        .maximum = 16}});
  return schema;
}

class PacedTemplate final : public Template {
public:
  explicit PacedTemplate(Pace pace) : pace(std::move(pace)) {}
  llvm::StringRef name() const override { return "paced"; }
  const Schema &configSchema() const override {
    static const Schema schema("paced", TextStyle::Dotted, {});
    return schema;
  }
  void enumerate(const Problem &, const DeviceModel &,
                 llvm::function_ref<void(Values)> emit) const override {
    emit(Values(configSchema()));
  }
  std::optional<Rejection> prune(const Problem &, const Values &,
                                 const DeviceModel &) const override {
    return std::nullopt;
  }
  WorkspaceLayout workspace(const Problem &, const Values &,
                            const DeviceModel &) const override {
    return {};
  }
  Estimate estimate(const Problem &problem, const Values &,
                    const DeviceModel &) const override {
    Estimate estimate;
    estimate.totalNs = pace(problem.values);
    return estimate;
  }
  CandidateClass classOf(const Problem &, const Values &) const override {
    return {};
  }
  Derivation explain(const Problem &, const Values &,
                     const DeviceModel &) const override {
    return {};
  }
  Plan plan(const Problem &, const Values &,
            const DeviceModel &) const override {
    return {};
  }

private:
  Pace pace;
};

/// Accepts multiples of 4 parts; its work is n.
class SteppedFamily final : public KernelFamily {
public:
  explicit SteppedFamily(Pace pace) {
    addTemplate(std::make_unique<PacedTemplate>(std::move(pace)));
  }
  llvm::StringRef name() const override { return "stepped"; }
  const Schema &problemSchema() const override { return steppedSchema(); }
  llvm::Expected<Problem> canonicalise(Values values) const override {
    if (auto error = values.check())
      return error;
    if (values[Parts] % 4 != 0)
      return makeError(ErrorCode::Unsupported, "stepped: odd parts");
    Problem problem;
    problem.values = std::move(values);
    return problem;
  }
  bool isEmpty(const Problem &) const override { return false; }
  OperandTable operands(const Problem &) const override { return {}; }
  std::unique_ptr<Reference> reference(const Problem &,
                                       const DeviceModel &) const override {
    return nullptr;
  }
  double flops(const Problem &problem) const override {
    return double(problem.values[N]);
  }
  double compulsoryBytes(const Problem &problem) const override {
    return flops(problem);
  }
};

/// Steps in the form "slow n/fast n".
std::string textOf(llvm::ArrayRef<Step> steps) {
  std::string text;
  for (const Step &step : steps)
    text += (text.empty() ? "" : " ") + step.changed.str() + ":" +
            step.slow.problem.values.valueText(N) + "/" +
            step.fast.problem.values.valueText(N);
  return text;
}

std::string stepsAround(Pace pace, const std::string &text) {
  const SteppedFamily family(std::move(pace));
  Predictor predictor(family, testing::h200());
  return textOf(findSteps(predictor, text));
}

std::string stepsAlong(Pace pace, const std::string &text) {
  const SteppedFamily family(std::move(pace));
  Predictor predictor(family, testing::h200());
  return textOf(walk(predictor, text, N));
}

double straight(const Values &values) { return 100.0 * double(values[N]); }

/// Ten times as long for values above \p last.
Pace stepBehind(int64_t last) {
  return [=](const Values &values) {
    return straight(values) * (values[N] > last ? 10 : 1);
  };
}

} // namespace

TEST_CASE("a step beside a problem is found, and no other") {
  CHECK(stepsAround(straight, "stepped n=1000") == "");
  CHECK(stepsAround(stepBehind(1000), "stepped n=1000") == "n:1001/1000");
  CHECK(stepsAround(stepBehind(1000), "stepped n=1001") == "n:1001/1000");
  CHECK(stepsAround(stepBehind(1000), "stepped n=990") == "");
  // Twice the work may take twice the time, and more where launches dominate.
  CHECK(stepsAround(straight, "stepped n=1") == "");
  CHECK(stepsAround(stepBehind(1), "stepped n=1") == "");
}

TEST_CASE("rows that begin elsewhere and less alignment are neighbours") {
  auto odd = [](const Values &values) {
    return straight(values) * (values[N] % 8 != 0 ? 5 : 1);
  };
  CHECK(stepsAround(odd, "stepped n=1000") == "n:1001/1000");
  auto loose = [](const Values &values) {
    return straight(values) * (values[Align] < 8 ? 5 : 1);
  };
  CHECK(stepsAround(loose, "stepped n=1000") == "align:1000/1000");
  CHECK(stepsAround(loose, "stepped n=1000 align=4") == "");
}

TEST_CASE("a size whose neighbours are refused has the next that are not") {
  auto parted = [](const Values &values) {
    return straight(values) * (values[Parts] > 8 ? 5 : 1);
  };
  CHECK(stepsAround(parted, "stepped n=1000 parts=8") == "parts:1000/1000");
  CHECK(stepsAround(parted, "stepped n=1000 parts=4") == "");
}

TEST_CASE("a walk finds thresholds that are not drawn") {
  CHECK(stepsAlong(straight, "stepped n=1") == "");
  CHECK(stepsAlong(stepBehind(12345), "stepped n=1") == "n:12346/12345");
  // No neighbours differ if times grow gradually.
  CHECK(stepsAlong(
            [](const Values &values) {
              return straight(values) * std::sqrt(double(values[N]));
            },
            "stepped n=1") == "");
}

TEST_CASE("gaps cover what their conditions hold for") {
  const SteppedFamily family(straight);
  Fault fault;
  fault.promise = Promise::Step;
  fault.family = &family;
  fault.sm = 90;
  fault.problem = llvm::cantFail(family.parseProblem("stepped n=24 align=8"));
  fault.tmpl = "paced";
  fault.changed = "n";
  fault.ratio = 4.5;
  auto covers = [&](const char *line) {
    return KnownGap{line, ""}.covers(fault);
  };
  for (const char *line :
       {"step stepped", "step other|stepped n=24", "step stepped n=7|24",
        "step stepped n>=24 n<=24 n/8 n%16", "step stepped parts=",
        "step stepped sm=80|90 to=paced changed=n ratio<=5 workspace="}) {
    CAPTURE(line);
    CHECK(covers(line));
  }
  for (const char *line :
       {"empty stepped", "step other", "step stepped n=7", "step stepped n>=25",
        "step stepped n<=23", "step stepped n/16", "step stepped n%8",
        "step stepped parts>=1", "step stepped ratio<=4", "step stepped to=x",
        "step stepped workspace=short"}) {
    CAPTURE(line);
    CHECK_FALSE(covers(line));
  }
}
