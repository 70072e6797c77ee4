// Operand tables of every family of Families.def, compared with arguments and
// launches.
#include "Families/Conformance/AlignmentCheck.h"
#include "Families/Conformance/Draw.h"
#include "Families/Conformance/LaunchCheck.h"

#include "Kernel/Space.h"
#include "Support/Format.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <array>
#include <set>

using namespace kiln;
using namespace kiln::conformance;

TEST_CASE("conformance: the operand table agrees with the arguments") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    for (Sizes sizes : {Sizes::Small, Sizes::Usual, Sizes::Extreme})
      for (const DrawnProblem &drawn : drawProblems(*family, sizes, 100)) {
        CAPTURE(drawn.problem.text());
        CHECK(faultOfOperands(*family, drawn.problem) == "");
      }
    for (const Problem &problem : suiteProblems(*family)) {
      CAPTURE(problem.text());
      CHECK(faultOfOperands(*family, problem) == "");
    }
  }
}

/// The fault of one operand of a matrix product: it should have \p rows and
/// \p cols if \p isThere.
static std::string faultOfFactor(const OperandTable &table, int index,
                                 bool isThere, int64_t rows, int64_t cols) {
  if (!isThere && index < 0)
    return "";
  if (index < 0 || size_t(index) >= table.operands.size())
    return "no operand has its index";
  const OperandSpec &spec = table.operands[size_t(index)];
  if (spec.present != isThere)
    return isThere ? "its operand is absent" : "its operand is present";
  if (isThere && (spec.rows != rows || spec.cols != cols))
    return fmt::format("its operand is {} x {} for {} x {}", spec.rows,
                       spec.cols, rows, cols);
  return "";
}

/// The fault of the scales of a factor of \p rows and \p depth.
static std::string faultOfScales(const OperandTable &table,
                                 const ProductScales &scales, int64_t rows,
                                 int64_t depth) {
  const bool isThere = scales.kind != ScaleKind::None;
  auto blocks = [](int64_t extent, int size) {
    return size ? (extent + size - 1) / size : 1;
  };
  int64_t lines = blocks(rows, scaledRows(scales.kind));
  int64_t length = blocks(depth, scaledDepth(scales.kind));
  // Per-token and per-channel scales are one line, and so are block scales in
  // the order of rows for each step of k.
  if (!isBlockScale(scales.kind) || scales.alongRows)
    std::swap(lines, length);
  std::string text =
      faultOfFactor(table, scales.operand, isThere, lines, length);
  if (!text.empty() || !isThere)
    return text;
  const OperandSpec &spec = table.operands[size_t(scales.operand)];
  return !isBlockScale(scales.kind) || spec.leadingDimension == scales.ld
             ? ""
             : "a leading dimension that is not its operand's";
}

/// The fault of the matrix product that \p family describes for \p problem.
static std::string faultOfProduct(const KernelFamily &family,
                                  const Problem &problem) {
  const std::optional<MatrixProduct> product = family.matrixProduct(problem);
  if (!product)
    return family.peer(problem) == Peer::Blas ? "a library is not told what of"
                                              : "";
  const MatrixProduct &p = *product;
  const OperandTable table = family.operands(problem);
  const bool turnsA = isTransposedA(p.layout), turnsB = isTransposedB(p.layout);
  auto fault = [&](int index, bool isThere, int64_t rows, int64_t cols) {
    return faultOfFactor(table, index, isThere, rows, cols);
  };
  auto faultOfLink = [&](int index, PointwiseOp op, int64_t rows) {
    const int link = p.epilogue.find(op);
    return fault(index, p.epilogue.contains(op), rows,
                 p.n / p.epilogue.columnsBefore(link));
  };
  const std::string faults[] = {
      fault(p.a, true, turnsA ? p.k : p.m, turnsA ? p.m : p.k),
      fault(p.b, true, turnsB ? p.n : p.k, turnsB ? p.k : p.n),
      fault(p.c, p.beta != 0, p.m, p.n),
      fault(p.d, true, p.m, p.n / p.epilogue.columnsPerResult()),
      faultOfLink(p.bias, PointwiseOp::Bias, 1),
      faultOfLink(p.residual, PointwiseOp::Residual, p.m)};
  for (auto [i, text] : llvm::enumerate(faults))
    if (!text.empty())
      return fmt::format("{}: {}",
                         std::array{"a", "b", "c", "d", "bias", "residual"}[i],
                         text);
  for (const ProductScales *scales : {&p.scalesA, &p.scalesB}) {
    const bool isOfA = scales == &p.scalesA;
    const std::string text =
        faultOfScales(table, *scales, isOfA ? p.m : p.n, p.k);
    if (!text.empty())
      return fmt::format("scales of {}: {}", isOfA ? "a" : "b", text);
  }
  const auto &operands = table.operands;
  if (operands[p.a].type != p.type || operands[p.b].type != p.typeB ||
      operands[p.d].type != p.out || operands[p.d].batch != p.batch ||
      !operands[p.d].isWritten())
    return "a type, a batch or a result that is not the product's";
  const Arguments arguments = family.defaultArguments(problem);
  if (!llvm::is_contained(arguments.scalars, p.alpha) ||
      !llvm::is_contained(arguments.scalars, p.beta))
    return "a scalar that no launch has";
  const double flops = 2.0 * p.m * p.n * p.k * p.batch;
  return flops == family.flops(problem) ? "" : "other operations than its own";
}

TEST_CASE("conformance: a matrix product is what the operand table holds") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    for (Sizes sizes : {Sizes::Usual, Sizes::Extreme})
      for (const DrawnProblem &drawn : drawProblems(*family, sizes, 100)) {
        CAPTURE(drawn.problem.text());
        CHECK(faultOfProduct(*family, drawn.problem) == "");
      }
  }
}

TEST_CASE("conformance: an odd leading dimension or stride is told apart") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    std::set<std::string> tested;
    for (const Problem &problem : drawWork(*family, Sizes::Usual, 60))
      CHECK(faultOfLeadingDimensions(*family, problem, tested) == "");
    for (const Field &field : family->problemSchema().fields())
      if (field.role == FieldRole::LeadingDimension ||
          field.role == FieldRole::Stride) {
        CAPTURE(field.key.str());
        CHECK(tested.contains(field.key.str()));
      }
  }
}

TEST_CASE("conformance: trials try the least alignment") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    for (const Problem &problem : drawWork(*family, Sizes::Usual, 100))
      CHECK(faultOfMisalignment(*family, problem) == "");
  }
}

TEST_CASE("conformance: launches of each template carry every operand") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    std::set<const Template *> seen;
    std::vector<Problem> problems = drawWork(*family, Sizes::Small, 40);
    llvm::append_range(problems, drawWork(*family, Sizes::Usual, 40));
    llvm::append_range(problems, suiteProblems(*family));
    for (const Problem &problem : problems) {
      CAPTURE(problem.text());
      CHECK(faultOfReference(*family, problem, h200()) == "");
      Space space = llvm::cantFail(exploreSpace(*family, problem, h200()));
      std::set<const Template *> here;
      for (const Candidate &candidate : space.ranked) {
        if (!here.insert(candidate.tmpl).second)
          continue;
        CAPTURE(candidate.config.text());
        Plan plan = candidate.tmpl->plan(problem, candidate.config, h200());
        CHECK(faultOfPlan(plan, h200()) == "");
        CHECK(faultOfLaunch(*family, problem, plan, h200()) == "");
      }
      seen.insert(here.begin(), here.end());
    }
    // Problems of any kind reach every template.
    CHECK(seen.size() == family->templates().size());
  }
}
