#include "compare/BenchReport.h"

#include "Store/StoreFixture.h"
#include "Tools/Samples.h"
#include "cli/Console.h"

#include <llvm/Support/raw_ostream.h>

#include <cmath>

using namespace kiln;
using namespace kiln::cli;
using kiln::fake::FakeFamily;
using kiln::fake::makeProblem;
using kiln::testing::takes;

namespace {

/// Three cases of a family that no peer computes.
struct ReportFixture {
  ReportFixture() {
    add("large", "fake m=16384 n=1024", {60 << 20, 60 << 20}, 50e3, 45e3);
    add("larger", "fake m=32768 n=1024", {120 << 20, 120 << 20}, 100e3, 98e3);
    add("small", "fake m=1 n=1024", {4096, 4096}, 4e3, 1e3);
    for (size_t i = 0; i < cases.size(); ++i)
      report.rows[i].which = &cases[i];
  }
  void add(const char *name, const char *problem, StreamBytes bytes,
           double kilnNs, double streamNs) {
    cases.push_back({name, {&family, makeProblem(family, problem)}});
    BenchRow &row = report.rows.emplace_back();
    row.config = "fast.t64";
    row.correct = true;
    row.kiln = takes(kilnNs);
    row.baseline = {bytes, takes(streamNs), "copy", 12};
  }
  std::string text() const {
    std::string text;
    llvm::raw_string_ostream os(text);
    report.print(os);
    return os.str();
  }

  FakeFamily family;
  std::vector<Case> cases;
  BenchReport report;
};

} // namespace

TEST_CASE("a memory-bound case tells bytes, rates and the fraction") {
  ReportFixture f;
  llvm::json::Object json = f.report.toJson();
  const llvm::json::Object &row =
      *json.getArray("cases")->front().getAsObject();
  CHECK(row.getInteger("bytes") == 120 << 20);
  CHECK(row.getNumber("gbs").value_or(0) == doctest::Approx(2516.58));
  CHECK(row.getNumber("stream_gbs").value_or(0) == doctest::Approx(2796.2));
  CHECK(row.getNumber("fraction").value_or(0) == doctest::Approx(0.9));
  CHECK(row.getString("stream") == "copy");
  // Nothing of a peer.
  for (const char *key : {"ratio", "peer_us", "tflops"})
    CHECK_FALSE(row.get(key));
  CHECK(f.report.exitCode() == kExitDone);
  std::string text = f.text();
  CHECK(text.find("fraction") != std::string::npos);
  CHECK(text.find("TFLOP/s") == std::string::npos);
}

TEST_CASE("whole calls and peaks of memory are told where they were taken") {
  ReportFixture f;
  CHECK(f.text().find("call of an engine") == std::string::npos);
  f.report.rows[1].call = EngineCallTime{"fast.t32", 12500, 2250};
  f.report.peaks = {3'000'000, 200'000, 100'000};
  const std::string text = f.text();
  CHECK(text.find("call of an engine") != std::string::npos);
  CHECK(text.find("larger             fast.t32    12.50     2.25") !=
        std::string::npos);
  CHECK(text.find("peak memory: 3.0 MB of operands and workspaces and 0.2 MB "
                  "of kernels on the device, 0.1 MB of") != std::string::npos);
  llvm::json::Object json = f.report.toJson();
  CHECK(json.getObject("peak_bytes")->getInteger("scratch") == 3'000'000);
  const llvm::json::Array &cases = *json.getArray("cases");
  CHECK_FALSE(cases[0].getAsObject()->get("call"));
  const llvm::json::Object &call = *cases[1].getAsObject()->getObject("call");
  CHECK(call.getString("config") == "fast.t32");
  CHECK(call.getNumber("wall_us") == 12.5);
  CHECK(call.getNumber("host_us") == 2.25);
}

TEST_CASE("the summary sets cases over 100 MB apart") {
  ReportFixture f;
  llvm::json::Object json = f.report.toJson();
  const llvm::json::Object *streams =
      json.getObject("summary")->getObject("stream");
  REQUIRE(streams);
  const llvm::json::Object *large = streams->getObject("over 100 MB");
  REQUIRE(large);
  CHECK(large->getInteger("cases") == 2);
  CHECK(large->getNumber("geomean").value_or(0) ==
        doctest::Approx(std::sqrt(0.9 * 0.98)).epsilon(1e-3));
  CHECK(large->getNumber("least").value_or(0) == doctest::Approx(0.9));
  const llvm::json::Object *all = streams->getObject("all");
  REQUIRE(all);
  CHECK(all->getInteger("cases") == 3);
  CHECK(all->getNumber("least").value_or(0) == doctest::Approx(0.25));
  CHECK(f.text().find("over 100 MB: 2 cases") != std::string::npos);
}

TEST_CASE("a case without a baseline keeps Kiln's time and says why") {
  ReportFixture f;
  BenchRow &row = f.report.rows.front();
  row.baseline.ns = {};
  row.noPeer = "no room";
  llvm::json::Object json = f.report.toJson();
  const llvm::json::Object &first =
      *json.getArray("cases")->front().getAsObject();
  CHECK(first.get("fraction")->getAsNull());
  CHECK(first.getString("no_stream") == "no room");
  CHECK(first.getNumber("gbs").value_or(0) > 0);
  CHECK(f.text().find("baseline n/a: large: no room") != std::string::npos);
  CHECK(f.report.exitCode() == kExitDone);
  f.report.rows.back().correct = false;
  CHECK(f.report.exitCode() == kExitSomeFailed);
}
