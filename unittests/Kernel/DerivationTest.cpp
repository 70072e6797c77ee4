// The structure of derivations: rules, references and the text made of them.
#include "Kernel/Derivation.h"

#include "Kernel/Estimate.h"

#include <doctest/doctest.h>

using namespace kiln;

static double resultOf(StepRule rule, std::vector<StepTerm> terms,
                       double exponent = 1) {
  DerivationStep step;
  step.rule = rule;
  step.terms = std::move(terms);
  step.exponent = exponent;
  return evaluate(step);
}

TEST_CASE("E12: every rule makes its result of the terms") {
  std::vector<StepTerm> terms{{"a", 3, "ns"}, {"b", 4, "ns", 2}};
  CHECK(resultOf(StepRule::Fact, terms) == 0);
  CHECK(resultOf(StepRule::Sum, terms) == 11);
  CHECK(resultOf(StepRule::Max, terms) == 4);
  CHECK(resultOf(StepRule::Excess, terms) == 0);
  CHECK(resultOf(StepRule::Excess, {{"a", 9}, {"b", 4}}) == 5);
  CHECK(resultOf(StepRule::Quotient, {{"a", 12}, {"b", 3}, {"c", 2}}) == 2);
  CHECK(resultOf(StepRule::Norm, terms, 2) == doctest::Approx(5));
  CHECK(resultOf(StepRule::Sum, {}) == 0);
}

TEST_CASE("E12: steps are numbered, and terms name where they come from") {
  Derivation steps;
  steps.add({"register wall", "256 / 2", "fits"});
  int pace = steps.add({.title = "pace",
                        .verdict = "wgmma sets the pace",
                        .rule = StepRule::Max,
                        .terms = {{"wgmma", 524.4}, {"L2", 97}}});
  CHECK(pace == 2);
  CHECK(steps.termOf(pace, "L2").value == 97);
  int loop = steps.add({.title = "loop",
                        .rule = StepRule::Sum,
                        .terms = {steps.resultOf(pace, 64)}});
  CHECK(steps[loop].result == doctest::Approx(64 * 524.4));
  int total = steps.add({.title = "total",
                         .rule = StepRule::Sum,
                         .terms = {{"launch", 620}, steps.resultOf(loop)}});
  CHECK(steps[total].result == doctest::Approx(620 + 64 * 524.4));

  CHECK(calculationText(steps[1]).empty());
  CHECK(calculationText(steps[2]) ==
        "max(wgmma 524.4 ns, L2 97 ns) = 524.4 ns");
  CHECK(calculationText(steps[3]) == "64 x pace 524.4 ns (2) = 33.56 us");
  CHECK(calculationText(steps[4]) ==
        "launch 620 ns + loop 33.56 us (3) = 34.18 us");

  llvm::json::Object json = steps.toJson();
  const llvm::json::Array &list = *json.getArray("steps");
  REQUIRE(list.size() == 4);
  CHECK(list[0].getAsObject()->getString("rule") == "fact");
  CHECK(!list[0].getAsObject()->get("result"));
  const llvm::json::Object &last = *list[2].getAsObject();
  CHECK(last.getInteger("number") == 3);
  CHECK(last.getString("rule") == "sum");
  const llvm::json::Object &term =
      *last.getArray("terms")->front().getAsObject();
  CHECK(term.getInteger("step") == 2);
  CHECK(term.getInteger("count") == 64);
}

TEST_CASE("E6: a rejection names the wall and both numbers") {
  Rejection wall{PruneReason::Registers, 256, 192, "accumulators a thread"};
  CHECK(wall.text() == "register wall: 256 accumulators a thread, 192 allowed");
  CHECK(*wall.toJson().getNumber("value") == 256);
  CHECK(*wall.toJson().getNumber("limit") == 192);
  CHECK(wall.toJson().getString("reason") == "registers");
  Rejection shape{PruneReason::InstructionShape, 32, 0, "elements of k a stage",
                  "64 or 128"};
  CHECK(shape.text() ==
        "instruction-shape: 32 elements of k a stage, 64 or 128 allowed");
  CHECK(shape.toJson().getString("allowed") == "64 or 128");
  CHECK((Rejection{PruneReason::SharedMemory, 245760, 232448, "B"}.text()) ==
        "shared-memory wall: 245760 B, 232448 allowed");
  CHECK((Rejection{PruneReason::Type}.text()) == "type");
  CHECK((Rejection{PruneReason::Grid, 9, 8, "blocks"}.text()) ==
        "grid: 9 blocks, limit 8 blocks");
}
