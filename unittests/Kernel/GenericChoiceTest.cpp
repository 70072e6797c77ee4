// Why a generic kernel is the first choice, of a family that has fast kernels
// for some problems only.
#include "Kernel/GenericChoice.h"

#include "Support/Error.h"

#include <doctest/doctest.h>

using namespace kiln;

namespace {

enum ToyField { N, K, Align };

const Schema &toySchema() {
  static const Schema schema(
      "toy", TextStyle::Spaced,
      {{.key = "n", .role = FieldRole::DynamicExtent, .required = true},
       {.key = "k", .role = FieldRole::Extent, .required = true},
       {.key = "align",
        .role = FieldRole::Alignment,
        .defaultValue = 16,
        .minimum = 1,
        .maximum = 16}});
  return schema;
}

/// A template of one config.
class ToyTemplate : public Template {
public:
  explicit ToyTemplate(llvm::StringRef name)
      : schema(name, TextStyle::Dotted, {}) {}

  llvm::StringRef name() const override { return schema.name(); }
  const Schema &configSchema() const override { return schema; }
  void enumerate(const Problem &, const DeviceModel &,
                 llvm::function_ref<void(Values)> emit) const override {
    emit(Values(schema));
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
    estimate.totalNs = double(problem.values[N] * problem.values[K]) * pace();
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

protected:
  virtual double pace() const { return 1; }

private:
  Schema schema;
};

/// Takes rows at multiples of 16 bytes, and 1000 of them.
class FastTemplate final : public ToyTemplate {
public:
  FastTemplate() : ToyTemplate("fast") {}
  std::optional<Rejection> prune(const Problem &problem, const Values &,
                                 const DeviceModel &) const override {
    constexpr int64_t kMostRows = 1000;
    const Values &values = problem.values;
    if (values[Align] < 16)
      return Rejection{PruneReason::Alignment, double(values[Align]), 16, "B"};
    if (values[K] % 8 != 0)
      return Rejection{PruneReason::Alignment, 2, 16, "B"};
    if (values[N] > kMostRows)
      return Rejection{PruneReason::Grid, double(values[N]), kMostRows};
    return std::nullopt;
  }
};

/// Needs a MiB of workspace for each row.
class CopyingTemplate final : public ToyTemplate {
public:
  CopyingTemplate() : ToyTemplate("copying") {}
  WorkspaceLayout workspace(const Problem &problem, const Values &,
                            const DeviceModel &) const override {
    WorkspaceLayout layout;
    layout.scratchBytes = uint64_t(problem.values[N]) << 20;
    return layout;
  }
  double pace() const override { return 2; }
};

class GenericTemplate final : public ToyTemplate {
public:
  GenericTemplate() : ToyTemplate("slow") {}
  bool isGeneric() const override { return true; }
  double pace() const override { return 100; }
};

class ToyFamily final : public KernelFamily {
public:
  ToyFamily() {
    addTemplate(std::make_unique<FastTemplate>());
    addTemplate(std::make_unique<CopyingTemplate>());
    addTemplate(std::make_unique<GenericTemplate>());
  }
  llvm::StringRef name() const override { return "toy"; }
  const Schema &problemSchema() const override { return toySchema(); }
  llvm::Expected<Problem> canonicalise(Values values) const override {
    if (auto error = values.check())
      return error;
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
    return double(problem.values[N] * problem.values[K]);
  }
  double compulsoryBytes(const Problem &problem) const override {
    return flops(problem);
  }
};

std::optional<GenericChoice> choiceOf(llvm::StringRef text,
                                      uint64_t workspaceMiB) {
  static const ToyFamily family; // choices name its templates
  const Problem problem = llvm::cantFail(family.parseProblem(text));
  const Allowance allowance{workspaceMiB << 20};
  const DeviceModel device;
  const Space space = llvm::cantFail(exploreSpace(
      family, problem, device, {.keepRejected = true, .allowance = allowance}));
  return explainGeneric(family, problem, device, space, allowance);
}

/// The line, or "" where the first choice is not generic.
std::string told(llvm::StringRef text, uint64_t workspaceMiB = 1) {
  const auto choice = choiceOf(text, workspaceMiB);
  return choice ? choice->text() : "";
}

} // namespace

TEST_CASE("a generic first choice has reasons and remedies") {
  CHECK(told("toy n=100 k=64") == "");
  CHECK(told("toy n=100 k=64 align=4", 100) == "");
  CHECK(told("toy n=100 k=64 align=4") ==
        "slow is generic: fast: alignment: 4 B, 16 needed; copying: "
        "workspace: 104857600 B, limit 1048576 B. With a workspace limit of at "
        "least 100 MiB it is copying (12.8 us); with align=16 it is fast (6.4 "
        "us)");
}

TEST_CASE("sizes that avoid a generic kernel are told by their rule") {
  const std::string up = told("toy n=100 k=63");
  CHECK(up.find("with k=64 (a multiple of 8) it is fast") != std::string::npos);
  const std::string down = told("toy n=4000 k=64");
  CHECK(down.find("fast: grid: 4000, limit 1000;") != std::string::npos);
  CHECK(down.find("with n of at most 1000 it is fast (64.0 us)") !=
        std::string::npos);
}

TEST_CASE("a generic choice as JSON has both numbers of each limit") {
  const auto choice = choiceOf("toy n=100 k=64 align=4", 1);
  REQUIRE(choice);
  const llvm::json::Object json = choice->toJson();
  CHECK(json.getString("config") == "slow");
  const llvm::json::Array &limits = *json.getArray("limits");
  REQUIRE(limits.size() == 2);
  const llvm::json::Object &fast = *limits[0].getAsObject();
  CHECK(fast.getString("template") == "fast");
  CHECK(fast.getString("reason") == "alignment");
  CHECK(fast.getNumber("value") == 4);
  CHECK(fast.getNumber("limit") == 16);
  const llvm::json::Array &remedies = *json.getArray("remedies");
  REQUIRE(remedies.size() == 2);
  const llvm::json::Object &align = *remedies[1].getAsObject();
  CHECK(align.getString("change") == "align=16");
  CHECK(align.getString("config") == "fast");
  CHECK(align.getNumber("predicted_us").value_or(0) == doctest::Approx(6.4));
}
