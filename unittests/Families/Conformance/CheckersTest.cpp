// The conformance suite's own checks, on families and launches that are wrong
// on purpose.
#include "Families/Conformance/AlignmentCheck.h"
#include "Families/Conformance/DerivationCheck.h"
#include "Families/Conformance/Draw.h"
#include "Families/Conformance/LaunchCheck.h"
#include "Families/Transpose/TransposeFamily.h"

#include "Kernel/Space.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <functional>
#include <set>

using namespace kiln;
using namespace kiln::conformance;

namespace {

const KernelFamily &elementwise() { return *registry().find("elementwise"); }

/// The family elementwise with another operand table.
class WrongTable final : public KernelFamily {
public:
  using Change = std::function<void(OperandTable &)>;
  explicit WrongTable(Change change) : change(std::move(change)) {}

  llvm::StringRef name() const override { return elementwise().name(); }
  const Schema &problemSchema() const override {
    return elementwise().problemSchema();
  }
  llvm::Expected<Problem> canonicalise(Values values) const override {
    return elementwise().canonicalise(std::move(values));
  }
  bool isEmpty(const Problem &problem) const override {
    return elementwise().isEmpty(problem);
  }
  OperandTable operands(const Problem &problem) const override {
    OperandTable table = elementwise().operands(problem);
    change(table);
    return table;
  }
  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return elementwise().reference(problem, device);
  }
  double flops(const Problem &problem) const override {
    return elementwise().flops(problem);
  }

private:
  Change change;
};

/// The family transpose2d with signatures that ignore the distance of rows.
class WrongSignature final : public KernelFamily {
public:
  WrongSignature() { addTemplate(makeTiledTransposeTemplate()); }

  llvm::StringRef name() const override { return transpose().name(); }
  const Schema &problemSchema() const override {
    return transpose().problemSchema();
  }
  llvm::Expected<Problem> canonicalise(Values values) const override {
    auto problem = transpose().canonicalise(values);
    if (!problem)
      return problem;
    for (llvm::StringRef key : {"ldx", "ldy"})
      values.set(key, 0);
    problem->signature =
        llvm::cantFail(transpose().canonicalise(std::move(values))).signature;
    return problem;
  }
  bool isEmpty(const Problem &problem) const override {
    return transpose().isEmpty(problem);
  }
  OperandTable operands(const Problem &problem) const override {
    return transpose().operands(problem);
  }
  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return transpose().reference(problem, device);
  }
  double flops(const Problem &problem) const override {
    return transpose().flops(problem);
  }

private:
  static const KernelFamily &transpose() {
    return *registry().find("transpose2d");
  }
};

Problem problem() {
  return testing::parse(elementwise(), "op=add rows=64 cols=64 dtype=bf16");
}

/// The fault of the table after y, or all of it, was changed.
std::string faultOfTable(WrongTable::Change change) {
  return faultOfOperands(WrongTable(std::move(change)), problem());
}
std::string faultOfY(const std::function<void(OperandSpec &)> &change) {
  return faultOfTable([&](OperandTable &table) { change(table.operands[1]); });
}

/// A binder that forgets the address of the last operand.
class ForgetfulBinder final : public Binder {
public:
  explicit ForgetfulBinder(std::shared_ptr<const Binder> inner)
      : inner(std::move(inner)) {}
  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override {
    Arguments forgotten = arguments;
    forgotten.operands[2].address = 0;
    inner->bind(forgotten, context, spec);
  }

private:
  std::shared_ptr<const Binder> inner;
};

/// A binder that changes the first kernel of another binder's launch.
class WrongStep final : public Binder {
public:
  using Change = std::function<void(KernelStep &)>;
  WrongStep(std::shared_ptr<const Binder> inner, Change change)
      : inner(std::move(inner)), change(std::move(change)) {}
  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override {
    inner->bind(arguments, context, spec);
    change(spec.steps[0].kernel);
  }

private:
  std::shared_ptr<const Binder> inner;
  Change change;
};

} // namespace

TEST_CASE("conformance finds a message that is not one clear line") {
  CHECK(faultOfLine("gemm: m=1 is below 2", "gemm") == "");
  for (const char *message :
       {"gemm: m=1 is below 2.", "gemm: M is bad", "m=1 is below 2",
        "gemm: m=1\nis below 2", "gemm: ", "softmax: m=1 is below 2"}) {
    CAPTURE(message);
    CHECK(faultOfLine(message, "gemm") != "");
  }
}

TEST_CASE("conformance finds what is wrong with an operand table") {
  CHECK(faultOfTable([](OperandTable &) {}) == "");
  auto checkY = [](llvm::StringRef expected, auto change) {
    CHECK(llvm::StringRef(faultOfY(change)).contains(expected));
  };
  checkY("no tolerance", [](OperandSpec &y) { y.tolerance = {}; });
  checkY("leading dimension", [](OperandSpec &y) { --y.leadingDimension; });
  checkY("another shape", [](OperandSpec &y) { y.rows = 63; });
  checkY("another shape", [](OperandSpec &y) { y.mayBe = 1; });
  checkY("nothing may be", [](OperandSpec &y) { y.mayBe = 99; });
  checkY("without a name", [](OperandSpec &y) { y.name = ""; });
  checkY("x: two operands", [](OperandSpec &y) { y.name = "x"; });
  checkY("multiple of its elements",
         [](OperandSpec &y) { y.misalignment = 1; });
  checkY("slot 0 is taken", [](OperandSpec &y) { y.slot = 0; });
  checkY("nothing is written", [](OperandSpec &y) { y.present = false; });
  checkY("matrices that overlap", [](OperandSpec &y) {
    y.batch = 2;
    y.batchStride = 64 * 64 - 1;
  });
  checkY("matrices that overlap", [](OperandSpec &y) {
    y.planes = 2;
    y.planeStride = 63;
    y.leadingDimension = 128;
  });
  checkY("another shape", [](OperandSpec &y) {
    y.planes = 2;
    y.planeStride = 64;
    y.leadingDimension = 128;
    y.mayBe = 0;
  });
  CHECK(faultOfTable([](OperandTable &table) {
          table.operands[0].outliers.outlier = 1e39;
        }) == "x: an outlier that its type does not hold");
}

TEST_CASE("conformance finds integers that trials cannot fill") {
  auto faultOfX = [](DType type, IntegerInit init) {
    return faultOfTable([&](OperandTable &table) {
      table.operands[0].type = type;
      table.operands[0].outliers.integers = init;
      table.operands[0].usual.integers = init;
      table.operands[1].mayBe = -1;
    });
  };
  constexpr auto kLengths = IntegerData::Lengths;
  CHECK(faultOfX(DType::INT32, {kLengths, 0, 7}) == "");
  CHECK(faultOfX(DType::INT32, {}) == "x: integers that trials cannot fill");
  CHECK(faultOfX(DType::FP32, {kLengths, 0, 7}) ==
        "x: integers in a type of reals");
  CHECK(faultOfX(DType::INT32, {kLengths, 8, 7}) == "x: integers from 8 to 7");
  CHECK(faultOfX(DType::INT32, {kLengths, -1, 7}) ==
        "x: integers from -1 to 7");
  CHECK(faultOfX(DType::INT32, {IntegerData::Values, -1, 7}) == "");
  CHECK(faultOfX(DType::INT64, {IntegerData::Indices, -1, 7}) == "");
  CHECK(faultOfX(DType::INT32, {IntegerData::Indices, -2, 7}) ==
        "x: integers from -2 to 7");
  CHECK(faultOfX(DType::INT32, {kLengths, 0, int64_t(1) << 31}) != "");
  CHECK(faultOfX(DType::INT32, {IntegerData::Offsets, 2, 4, 8190}) == "");
  CHECK(faultOfX(DType::INT32, {IntegerData::Offsets, 2, 4, 8189}) ==
        "x: 4095 lengths of 2 in 8189");
}

TEST_CASE("conformance finds an operand that no kernel is told of") {
  Space space = llvm::cantFail(exploreSpace(elementwise(), problem(), h200()));
  const Candidate &first = space.ranked.front();
  Plan plan = first.tmpl->plan(problem(), first.config, h200());
  CHECK(faultOfLaunch(elementwise(), problem(), plan, h200()) == "");
  plan.binder = std::make_shared<ForgetfulBinder>(plan.binder);
  CHECK(faultOfLaunch(elementwise(), problem(), plan, h200()) ==
        "the address of add reaches no kernel");
  plan.sharedBytes.clear();
  CHECK(faultOfPlan(plan, h200()) != "");
}

TEST_CASE("conformance finds a launch of another block than was compiled") {
  const KernelFamily &family = *registry().find("transpose2d");
  const Problem square = testing::parse(family, "rows=256 cols=256 dtype=bf16");
  const auto config =
      llvm::cantFail(family.parseConfig("tiled.tr128.tc128.t256.v8"));
  Plan plan = config.tmpl->plan(square, config.config, h200());
  const auto binder = plan.binder;
  auto faultOfStep = [&](WrongStep::Change change) {
    plan.binder = std::make_shared<WrongStep>(binder, std::move(change));
    return faultOfLaunch(family, square, plan, h200());
  };
  CHECK(faultOfStep([](KernelStep &) {}) == "");
  CHECK(faultOfStep([](KernelStep &step) { step.sharedBytes = 0; }) ==
        "0 B of shared memory, 32768 planned");
  CHECK(faultOfStep([](KernelStep &step) { step.block.x = 128; }) ==
        "blocks of 128 threads, __launch_bounds__ has 256");
}

TEST_CASE("conformance finds a signature that forgets a leading dimension") {
  const KernelFamily &family = *registry().find("transpose2d");
  const Problem square = testing::parse(family, "rows=64 cols=64 dtype=bf16");
  std::set<std::string> tested;
  CHECK(faultOfLeadingDimensions(family, square, tested) == "");
  CHECK(tested.size() == 2);
  CHECK(
      faultOfLeadingDimensions(WrongSignature(), square, tested) ==
      "transpose2d rows=64 cols=64 dtype=bf16 ldx=65537: has the signature and "
      "the configs of packed rows");
}

TEST_CASE("conformance finds operands that are never misaligned") {
  CHECK(faultOfMisalignment(elementwise(), problem()) == "");
  WrongTable aligned([](OperandTable &table) {
    for (OperandSpec &spec : table.operands)
      spec.misalignment = 0;
  });
  CHECK(faultOfMisalignment(aligned, problem()) ==
        problem().text() + " align=2: no operand is misaligned");
}

TEST_CASE("conformance finds a derivation of another estimate") {
  Space space = llvm::cantFail(exploreSpace(elementwise(), problem(), h200()));
  const Candidate &first = space.ranked.front();
  Estimate estimate = first.tmpl->estimate(problem(), first.config, h200());
  Derivation derivation = first.tmpl->explain(problem(), first.config, h200());
  CHECK(faultOf(derivation, estimate) == "");
  CHECK(faultOf(Derivation(), estimate) == "nothing is derived");
  estimate.totalNs *= 1.001;
  CHECK(faultOf(derivation, estimate) != "");
}

TEST_CASE("conformance draws the same problems each time, of every value") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    auto once = drawProblems(*family, Sizes::Usual, 200);
    auto again = drawProblems(*family, Sizes::Usual, 200);
    for (size_t i = 0; i < once.size(); ++i)
      CHECK(once[i].typed.text() == again[i].typed.text());
    for (const Field &field : family->problemSchema().fields())
      if (field.kind == FieldKind::Enum)
        for (const FieldName &name : field.names) {
          CAPTURE(name.name.str());
          CHECK(llvm::any_of(once, [&](const DrawnProblem &drawn) {
            return llvm::StringRef(drawn.typed.text())
                .contains((field.key + "=" + name.name).str());
          }));
        }
  }
}
