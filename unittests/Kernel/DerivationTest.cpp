// The structure of derivations: numbers, text and references.
#include "Kernel/Derivation.h"

#include "Kernel/Estimate.h"

#include <doctest/doctest.h>

using namespace kiln;

namespace {

Figure work(double value, llvm::StringLiteral name,
            llvm::StringLiteral unit = "ns") {
  return given<Figure>(value, name, unit);
}

/// A pace of two, a loop of many and a total.
Derivation derive() {
  const Figure wgmma = named(
      work(524.4, "busy", "clk") / work(1, "clock", "GHz"), "wgmma", "ns");
  const Figure pace = named(largest({wgmma, work(97, "L2")}), "pace", "ns");
  const Figure loop = named(work(64, "steps", "") * pace, "loop", "ns");
  Derivation steps;
  steps.begin("a step");
  steps.add(pace, {.note = "side by side", .verdict = "wgmma sets the pace"});
  steps.begin("all");
  steps.setTotal(named(work(620, "launch") + loop +
                           work(3, "turns", "") * work(10, "between tiles"),
                       "total", "ns"),
                 "tensor");
  return steps;
}

} // namespace

TEST_CASE("E12: results get the steps that they come from, in order") {
  const Derivation steps = derive();
  REQUIRE(steps.size() == 4);
  CHECK(steps[1].name() == "wgmma");
  CHECK(steps[1].section == "a step");
  CHECK(steps[2].name() == "pace");
  CHECK(steps[2].words.verdict == "wgmma sets the pace");
  CHECK(steps[3].name() == "loop");
  CHECK(steps[3].section == "all");
  CHECK(steps.total().name() == "total");
  CHECK(steps.total().words.blames == "tensor");
  CHECK(steps.total().words.verdict == "bound by tensor");
  CHECK(steps.find("pace")->value() == 524.4);
  CHECK(steps.find("nothing") == nullptr);
}

TEST_CASE("E12: the text of a formula is the formula") {
  const Derivation steps = derive();
  CHECK(steps.formulaText(1) ==
        "wgmma = busy 524.40 clk / clock 1 GHz = 524.40 ns");
  CHECK(steps.formulaText(2) ==
        "pace = max( wgmma 524.40 ns [1] , L2 97 ns ) = 524.40 ns");
  CHECK(steps.formulaText(3) ==
        "loop = steps 64 x pace 524.40 ns [2] = 33.562 us");
  CHECK(steps.formulaText(4) == "total = launch 620 ns + loop 33.562 us [3] + "
                                "turns 3 x between tiles 10 ns = 34.212 us");
  // Brackets where a rule binds less than its parent.
  Derivation nested;
  const Figure a = work(6, "a", ""), b = work(2, "b", ""), c = work(3, "c", "");
  nested.add(named((a + b) * c, "p", ""));
  nested.add(named(a / (b * c), "q", ""));
  nested.add(named(a - (b - c), "d", ""));
  nested.add(named(a / b / c, "r", ""));
  nested.add(named(norm(3.5, {a, b + c}), "n", ""));
  CHECK(nested.formulaText(1) == "p = ( a 6 + b 2 ) x c 3 = 24");
  CHECK(nested.formulaText(2) == "q = a 6 / ( b 2 x c 3 ) = 1");
  CHECK(nested.formulaText(3) == "d = a 6 - ( b 2 - c 3 ) = 7");
  CHECK(nested.formulaText(4) == "r = a 6 / b 2 / c 3 = 1");
  CHECK(nested.formulaText(5) ==
        "n = norm( 3.5000 ; a 6 , b 2 + c 3 ) = 6.7730");
}

TEST_CASE("pieces of a formula say what they are") {
  const Derivation steps = derive();
  const std::vector<FormulaPiece> pieces = steps.formulaPieces(2);
  std::string text;
  for (const FormulaPiece &piece : pieces)
    text += piece.text;
  CHECK(text == steps.formulaText(2));
  REQUIRE(pieces.size() == 7);
  CHECK(pieces[0].text == "pace = ");
  CHECK(pieces[2].text == "wgmma 524.40 ns [1]");
  CHECK(pieces[2].step == 1);
  REQUIRE(pieces[4].value);
  CHECK(pieces[4].value->name == "L2");
  CHECK(pieces[4].value->source == FigureSource::Work);
  // The third addend of the total, which is no result.
  const Figure turns = steps.total().figure.formula().parts[2];
  CHECK(steps.numberOf(turns) == 0);
  CHECK(steps.piecesOf(turns).front().text == "turns 3");
}

TEST_CASE("E12: addends have names and add up to the total") {
  const Derivation steps = derive();
  const std::vector<Addend> addends = steps.addends();
  REQUIRE(addends.size() == 3);
  CHECK(addends[0].name == "launch");
  CHECK(addends[1].name == "loop");
  CHECK(addends[2].name == "between tiles");
  CHECK(addends[2].ns == 30);
  CHECK(steps.addendOf("launch") == 620);
  CHECK(steps.addendOf("nothing") == 0);
  double sum = 0;
  for (const Addend &addend : addends)
    sum += addend.ns;
  CHECK(sum == doctest::Approx(steps.total().value()));
  CHECK(Derivation().addends().empty());
}

TEST_CASE("a result that was told keeps its step") {
  Derivation steps;
  const Figure a = named(work(1, "x1") + work(2, "y1"), "a", "ns");
  CHECK(steps.add(a) == 1);
  // The same formula elsewhere is the same result.
  const Figure twin = named(work(1, "x1") + work(2, "y1"), "a", "ns");
  CHECK(steps.add(twin, {.verdict = "told"}) == 1);
  CHECK(steps[1].words.verdict == "told");
  const Figure other = named(work(1, "x1") + work(3, "y1"), "a", "ns");
  CHECK(steps.add(other) == 2);
  steps.amend("a", {.verdict = "amended"});
  CHECK(steps[1].words.verdict == "amended");
}

TEST_CASE("C12: JSON has all that it takes to compute a step again") {
  Derivation steps;
  const Figure a =
      named(norm(2.27, {work(3, "dram"), work(4, "l2")}), "wave", "ns");
  steps.setTotal(named(a + fitted<Figure>(7, "start", "ns"), "total", "ns"),
                 "dram");
  llvm::json::Object json = steps.toJson();
  const llvm::json::Array &list = *json.getArray("steps");
  REQUIRE(list.size() == 2);
  const llvm::json::Object &wave = *list[0].getAsObject();
  const llvm::json::Object &expression = *wave.getObject("expression");
  CHECK(expression.getString("rule") == "norm");
  CHECK(expression.getNumber("exponent") == 2.27);
  CHECK(expression.getArray("of")->size() == 2);
  const llvm::json::Array &sum =
      *list[1].getAsObject()->getObject("expression")->getArray("of");
  CHECK(sum[0].getAsObject()->getInteger("step") == 1);
  CHECK(sum[1].getAsObject()->getString("source") == "fitted");
  CHECK(sum[1].getAsObject()->getNumber("value") == 7);
}

TEST_CASE("quantities have their unit, and microseconds from 1000 ns on") {
  CHECK(quantityText(999.5, "ns") == "999.50 ns");
  CHECK(quantityText(1500, "ns") == "1.5000 us");
  CHECK(quantityText(33561.6, "ns") == "33.562 us");
  CHECK(quantityText(134217728, "B") == "134217728 B");
  CHECK(quantityText(0.25, "") == "0.25000");
}
