#include "kiln-bench/SweepReport.h"

#include "Store/StoreFixture.h"
#include "cli/Console.h"

#include <llvm/Support/raw_ostream.h>

#include <cmath>

using namespace kiln;
using namespace kiln::cli;
using kiln::fake::FakeFamily;
using kiln::fake::makeProblem;

/// Configs in rank order with these times, 0 for what has none.
static SweepResult resultOf(const std::vector<double> &times) {
  SweepResult result;
  for (double ns : times) {
    SweptConfig &config = result.configs.emplace_back();
    config.rank = static_cast<int>(result.configs.size()) - 1;
    config.predictedNs = 1000 + 10 * config.rank;
    config.result.config = "fast.t" + std::to_string(16 << config.rank);
    config.result.medianNs = ns;
    config.result.samples = ns > 0 ? 7 : 0;
    config.result.validated = ns > 0;
    if (ns == 0)
      config.result.status = TrialStatus::Wrong;
  }
  return result;
}

TEST_CASE("a sweep's report has every config and what the first reach") {
  FakeFamily family;
  std::vector<Case> cases;
  for (const char *name : {"a", "b"})
    cases.push_back({name, {&family, makeProblem(family, "fake m=64 n=64")}});
  SweepReport report;
  report.rows.push_back(
      {&cases[0], resultOf({1000, 1500, 0, 1200, 1300, 1250, 800}), ""});
  report.rows.push_back({&cases[1], resultOf({500, 600}), ""});
  // One of the first's configs is wrong.
  CHECK(report.exitCode() == kExitSomeFailed);
  llvm::json::Object json = report.toJson();
  const llvm::json::Object &first =
      *json.getArray("cases")->front().getAsObject();
  CHECK(first.getArray("configs")->size() == 7);
  CHECK(first.getString("best") == "fast.t1024");
  CHECK(first.getInteger("best_rank") == 7);
  CHECK(first.getInteger("faulty") == 1);
  CHECK(first.getNumber("top1").value_or(0) == doctest::Approx(0.8));
  CHECK(first.getNumber("top5").value_or(0) == doctest::Approx(0.8));
  const llvm::json::Object &wrong =
      *(*first.getArray("configs"))[2].getAsObject();
  CHECK(wrong.getString("status") == "wrong");
  CHECK(wrong.get("measured_ns")->getAsNull());
  const llvm::json::Object *all = json.getObject("summary")->getObject("all");
  REQUIRE(all);
  CHECK(all->getInteger("cases") == 2);
  CHECK(all->getNumber("top1").value_or(0) ==
        doctest::Approx(std::sqrt(0.8)).epsilon(1e-3));
  CHECK(all->getNumber("top1_least").value_or(0) == doctest::Approx(0.8));
  CHECK(json.getObject("summary")->getObject("fake"));
  std::string text;
  llvm::raw_string_ostream os(text);
  report.print(os);
  CHECK(os.str().find("first choice reaches 89.4 %") != std::string::npos);
}

TEST_CASE("a space that was not measured to its end is no success") {
  FakeFamily family;
  Case one{"a", {&family, makeProblem(family, "fake m=64 n=64")}};
  SweepReport report;
  report.rows.push_back({&one, resultOf({1000, 900}), ""});
  SUBCASE("incomplete") { report.rows[0].result.isComplete = false; }
  SUBCASE("no first choice") { report.rows[0].result = resultOf({0, 900}); }
  SUBCASE("failed") { report.rows[0].error = "no memory"; }
  SUBCASE("never begun") {
    report.rows[0].result = SweepResult();
    report.rows[0].result.isComplete = false;
  }
  CHECK(report.exitCode() == kExitSomeFailed);
}

TEST_CASE("a sweep is interrupted where something was not tried") {
  FakeFamily family;
  Case one{"a", {&family, makeProblem(family, "fake m=64 n=64")}};
  SweepReport report;
  report.rows.push_back({&one, resultOf({1000, 900}), ""});
  report.rows.push_back({&one, SweepResult(), ""});
  report.rows.push_back({&one, SweepResult(), "no candidate"});
  CHECK_FALSE(report.isInterrupted());
  CHECK(report.toJson().getBoolean("interrupted") == false);
  SUBCASE("of a space") { report.rows[0].result.isComplete = false; }
  SUBCASE("of the cases") { report.rows[1].result.isComplete = false; }
  SUBCASE("since the device died") { report.rows[2].result.isComplete = false; }
  CHECK(report.toJson().getBoolean("interrupted") == true);
}

TEST_CASE("the summary counts what it leaves out") {
  FakeFamily family;
  Case one{"a", {&family, makeProblem(family, "fake m=64 n=64")}};
  SweepReport report;
  report.rows.push_back({&one, resultOf({1000, 800}), ""});
  report.rows.push_back({&one, SweepResult(), ""}); // nothing to compute
  auto summary = [&] {
    llvm::json::Object json = report.toJson();
    return *json.getObject("summary")->getObject("all");
  };
  auto text = [&] {
    std::string text;
    llvm::raw_string_ostream os(text);
    report.print(os);
    return os.str();
  };
  CHECK(summary().getInteger("of") == 1);
  SUBCASE("an interrupted space, whose best is that of what was tried") {
    report.rows.push_back({&one, resultOf({1000, 1100, 0}), ""});
    report.rows.back().result.isComplete = false;
    CHECK(summary().getInteger("without_first") == 0);
    CHECK(summary().getNumber("top1_least") == 0.8);
    CHECK(text().find("all: 1 of 2 cases; of the best, the first choice "
                      "reaches 80.0 % (least 80.0 %)") != std::string::npos);
    CHECK(text().find("1 not measured to the end") != std::string::npos);
  }
  SUBCASE("a first choice that is wrong") {
    report.rows.push_back({&one, resultOf({0, 900}), ""});
    CHECK(summary().getInteger("without_first") == 1);
    CHECK(summary().getNumber("top1_least") == 0.0);
    CHECK(text().find("(least 0.0 %)") != std::string::npos);
    CHECK(text().find("in 1 the first choice got no time") !=
          std::string::npos);
  }
  CHECK(summary().getInteger("cases") == 1);
  CHECK(summary().getInteger("of") == 2);
  CHECK(summary().getNumber("top1") == 0.8);
  report.rows.erase(report.rows.begin());
  CHECK(summary().getInteger("cases") == 0);
  CHECK(summary().get("top1")->getAsNull());
  CHECK(text().find("all: 0 of 1 case;") != std::string::npos);
}

TEST_CASE("configs that are faulty are counted and are no success") {
  FakeFamily family;
  Case one{"a", {&family, makeProblem(family, "fake m=64 n=64")}};
  SweepReport report;
  report.rows.push_back({&one, resultOf({1000, 900, 1100}), ""});
  auto text = [&] {
    std::string text;
    llvm::raw_string_ostream os(text);
    report.print(os);
    return os.str();
  };
  CHECK(report.exitCode() == kExitDone);
  CHECK(text().find("faulty") == std::string::npos);
  SweptConfig &last = report.rows[0].result.configs.back();
  last.result.samples = 0;
  SUBCASE("wrong") { last.result.status = TrialStatus::Wrong; }
  SUBCASE("out of bounds") { last.result.status = TrialStatus::OutOfBounds; }
  SUBCASE("not compiled") { last.result.status = TrialStatus::LaunchFailed; }
  CHECK(report.exitCode() == kExitSomeFailed);
  CHECK(text().find("measured  faulty  best") != std::string::npos);
  // A space without room for its operands is not to blame.
  last.result.status = TrialStatus::OutOfMemory;
  CHECK(report.exitCode() == kExitDone);
}
