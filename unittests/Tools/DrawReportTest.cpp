#include "kiln-bench/DrawReport.h"

#include "Store/StoreFixture.h"
#include "Tools/Samples.h"
#include "cli/Console.h"

#include <llvm/Support/raw_ostream.h>

#include <map>

using namespace kiln;
using namespace kiln::cli;
using kiln::fake::FakeFamily;
using kiln::fake::makeProblem;
using kiln::testing::takes;

namespace {

/// Two draws over two layers, met and prepared.
struct DrawFixture {
  DrawFixture() {
    report.states = {DrawState::Met, DrawState::Prepared};
    report.costs.resize(2);
    report.costs[1].layers = {{"a", 2000, 40, 10, 1000, ""},
                              {"b", 4000, 60, 14, 2000, ""}};
    report.seeds = {1, 2};
    cases.reserve(4);
    add(0, 8, 1, 1000, 900);
    add(1, 8, 1, 1000, 1250);
    add(0, 300, 1, 1000, 1000);
    add(0, 301, 2, 1000, 800);
  }
  /// Kiln takes \p metNs when it meets \p value, half of it when prepared.
  void add(size_t layer, int64_t value, uint64_t seed, double peerNs,
           double metNs) {
    cases.push_back(
        {"layer/m" + std::to_string(value),
         {&family,
          makeProblem(family, "fake m=" + std::to_string(value) + " n=64")}});
    DrawRow &row = report.rows.emplace_back();
    row.which = &cases.back();
    row.drawn = {layer, {value}, seed};
    row.peer = takes(peerNs);
    row.sides.push_back(
        {"fast.t64", takes(metNs), 100.0 + 10 * cases.size(), true, true, ""});
    row.sides.push_back({"fast.t128", takes(metNs / 2), 0.05, true, true, ""});
  }
  std::string text() const {
    std::string text;
    llvm::raw_string_ostream os(text);
    report.print(os);
    return os.str();
  }

  FakeFamily family;
  std::vector<Case> cases;
  DrawReport report;
};

} // namespace

TEST_CASE("a draw's report has figures by state, band and seed") {
  DrawFixture f;
  CHECK(f.report.exitCode() == kExitDone);
  const llvm::json::Object json = f.report.toJson();
  CHECK(json.getArray("cases")->size() == 4);
  const llvm::json::Object &row =
      *json.getArray("cases")->front().getAsObject();
  CHECK(row.getInteger("m") == 8);
  CHECK(row.getInteger("seed") == 1);
  CHECK(row.getObject("met")->getString("config") == "fast.t64");
  CHECK(row.getObject("met")->getNumber("ratio").value_or(0) ==
        doctest::Approx(1 / 0.9).epsilon(1e-4));
  const llvm::json::Object &met = *json.getObject("draw")->getObject("met");
  const llvm::json::Object &bands = *met.getObject("bands");
  CHECK(bands.getObject("1-16")->getInteger("cases") == 2);
  CHECK(bands.getObject("1-16")->getNumber("least") == 0.8);
  CHECK(bands.getObject("257-1024")->getInteger("cases") == 2);
  CHECK(bands.getObject("65-256")->getInteger("cases") == 0);
  CHECK(met.getObject("all")->getNumber("below_0.95") == 0.25);
  CHECK(met.getObject("seeds")->getObject("2")->getNumber("geomean") == 1.25);
  CHECK(met.getObject("first_call_ms")->getNumber("most") == 140.0);
  // Only the third case is of a layer that its draw met before.
  CHECK(met.getObject("known_layer_call_ms")->getInteger("count") == 1);
  CHECK(met.getObject("known_layer_call_ms")->getNumber("most") == 130.0);
  const llvm::json::Object &prepared =
      *json.getObject("draw")->getObject("prepared");
  CHECK(prepared.getObject("layer_ms")->getNumber("most") == 4000.0);
  CHECK(prepared.getObject("layer_kernels")->getNumber("most") == 14.0);
  CHECK(prepared.getArray("layers")->size() == 2);
  const std::string text = f.text();
  CHECK(text.find("1-16") != std::string::npos);
  CHECK(text.find("65-256") == std::string::npos);
  CHECK(text.find("2 layers prepared in 6.0 s") != std::string::npos);
}

TEST_CASE("a draw beside a copy baseline has figures by bytes, odd columns and "
          "kind") {
  FakeFamily family;
  std::vector<Case> cases;
  DrawReport report;
  report.states = {DrawState::First};
  report.costs.resize(1);
  report.seeds = {1};
  report.ranges = {{"m", 1, 65536}, {"n", 33, 4096}};
  report.fixed = {false, true};
  cases.reserve(3);
  auto add = [&](const std::string &name, int64_t n, StreamBytes bytes,
                 double streamNs) {
    cases.push_back({name, {&family, makeProblem(family, "fake m=8 n=64")}});
    DrawRow &row = report.rows.emplace_back();
    row.which = &cases.back();
    row.drawn = {0, {8, n}, 1};
    row.peer = takes(streamNs);
    row.bytes = bytes;
    row.variant = "copy";
    row.sides.push_back({"fast.t64", takes(100e3), 1, true, std::nullopt, ""});
  };
  add("softmax/m8-n65", 65, {100'000'000, 100'000'000}, 80e3);
  add("softmax/m8-n64", 64, {10'000'000, 10'000'000}, 90e3);
  add("add/m8-n65", 65, {1'000'000, 1'000'000}, 100e3);
  const llvm::json::Object json = report.toJson();
  const llvm::json::Object &row =
      *json.getArray("cases")->front().getAsObject();
  CHECK(row.getInteger("bytes") == 200'000'000);
  CHECK(row.getString("stream") == "copy");
  CHECK(row.getObject("first")->getNumber("gbs") == 2000.0);
  CHECK(row.getObject("first")->getNumber("ratio") == 0.8);
  const llvm::json::Object &first = *json.getObject("draw")->getObject("first");
  const llvm::json::Object &bands = *first.getObject("bands");
  CHECK(bands.getObject("over 100 MB")->getNumber("least") == 0.8);
  CHECK(bands.getObject("10 to 100 MB")->getNumber("least") == 0.9);
  CHECK(bands.getObject("less than 10 MB")->getNumber("least") == 1.0);
  std::map<std::string, int64_t> groups;
  for (const llvm::json::Value &value : *first.getArray("groups"))
    groups[value.getAsObject()->getString("name")->str()] =
        *value.getAsObject()->getInteger("cases");
  CHECK(groups == std::map<std::string, int64_t>{{"odd n", 2},
                                                 {"no odd n", 1},
                                                 {"over 100 MB, odd n", 1},
                                                 {"softmax", 2},
                                                 {"add", 1}});
}

TEST_CASE("a draw with something wrong is no success") {
  DrawFixture f;
  std::string mention;
  DrawSide &side = f.report.rows[1].sides[0];
  SUBCASE("wrong") {
    side.correct = false;
    mention = "layer/m8: met, fast.t64: WRONG";
  }
  SUBCASE("failed") {
    side.error = "no memory";
    mention = "layer/m8: met, fast.t64: no memory";
  }
  SUBCASE("unlike the peer") {
    side.agrees = false;
    mention = "differs from the peer";
  }
  SUBCASE("not prepared") {
    f.report.costs[1].layers[1].error = "no compiler";
    mention = "not prepared: b: no compiler";
  }
  SUBCASE("interrupted") {
    f.report.interrupted = true;
    mention = "ended before";
  }
  CHECK(f.report.exitCode() == kExitSomeFailed);
  CHECK(f.text().find(mention) != std::string::npos);
}

TEST_CASE("a draw without a peer has times and no ratios") {
  DrawFixture f;
  for (DrawRow &row : f.report.rows) {
    row.peer = {};
    for (DrawSide &side : row.sides)
      side.agrees.reset();
  }
  CHECK(f.report.exitCode() == kExitDone);
  const llvm::json::Object json = f.report.toJson();
  CHECK(json.getObject("draw")->getObject("met")->getObject("all")->getInteger(
            "cases") == 0);
  CHECK(json.getArray("cases")
            ->front()
            .getAsObject()
            ->getObject("met")
            ->getNumber("kiln_us") == 0.9);
}
