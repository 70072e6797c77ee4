// kiln-bench background: on the stand-in driver, and what its report says.
#include "Tools/ToolRunner.h"
#include "cli/Console.h"
#include "kiln-bench/BackgroundReport.h"

#include <doctest/doctest.h>

using namespace kiln::cli;
using namespace kiln::testing;

static std::string printed(const BackgroundReport &report) {
  std::string text;
  llvm::raw_string_ostream os(text);
  report.print(os);
  return os.str();
}

static std::string layersOf(const Tool &tool, const std::string &more = "") {
  return tool.suite(R"({"layers": [
      {"name": "a", "family": "gemm", "n": 64, "k": 64, "dtype": "bf16",
       "layout": "NT")" +
                    more + R"(},
      {"name": "b", "family": "gemm", "n": 128, "k": 64, "dtype": "bf16",
       "layout": "NT"}]})");
}

TEST_CASE("background measures every part of the mode") {
  BenchTool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string path = tool.folder / "background.json";
  ToolResult result =
      tool.run("background --suite " + layersOf(tool) +
               " --range m=1..16 --seed 3 --calls 40 --time 300ms "
               "--checked 60 --budget 50ms --permille 500 --json "
               "--commit abc --out " +
               path);
  CAPTURE(result.err);
  // Kernels of the stand-in driver do nothing, nor does what judges them.
  CHECK(result.code == 1);
  CHECK(readBytes(path) == result.out);
  const llvm::json::Object json = result.json();
  CHECK(json.getString("commit") == "abc");
  CHECK(json.getString("protocol")->contains("500 thousandths"));
  const llvm::json::Object &figures = *json.getObject("background");
  CHECK(figures.getNumber("allowed_share") == 0.5);
  CHECK(figures.getObject("first")->getInteger("count") == 1);
  const llvm::json::Object &fresh = *figures.getObject("fresh");
  CHECK(fresh.getObject("us")->getInteger("count") == 40);
  CHECK(fresh.getObject("us")->getNumber("most").value_or(0) > 0);
  const llvm::json::Object &busy = *figures.getObject("busy");
  CHECK(busy.getNumber("seconds").value_or(0) >= 0.3);
  CHECK(busy.getArray("slowest")->size() == CallTimes::kSlowest);
  CHECK(figures.getObject("foreground")->getNumber("loss"));
  const llvm::json::Object &checked = *figures.getObject("checked");
  const int64_t calls = checked.getInteger("calls").value_or(0);
  CHECK(calls >= 60);
  // A result that is not written is not right.
  CHECK(checked.getInteger("wrong").value_or(0) +
            checked.getInteger("failed").value_or(0) ==
        calls);
  CHECK(checked.getInteger("captures").value_or(0) > 0);
  CHECK(checked.getInteger("failed_captures") == 0);
}

TEST_CASE("background refuses what it cannot measure") {
  BenchTool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string good = "background --suite " + layersOf(tool);
  const std::string problem = " gemm m=64 n=64 k=64 dtype=bf16";
  const std::string chained =
      tool.suite(R"({"layers": [{"name": "a", "family": "gemm", "n": 64,
                     "k": 64, "dtype": "bf16", "pointwise": "relu"}]})",
                 "chained.json");
  const std::string rows =
      tool.suite(R"({"layers": [{"name": "a", "family": "gemm", "n": 64,
                     "k": 64, "dtype": "int8"}]})",
                 "int8.json");
  for (const std::string &line :
       {good + " --draw 3", good + " --hot", good + " --permille 1001",
        good + " --range batch=1..4", good + problem,
        good + " --out " + (tool.folder / "no-commit.json"),
        std::string("background"), "background --suite " + chained,
        "background --suite " + rows, "background --calls 3" + problem}) {
    CAPTURE(line);
    ToolResult bad = tool.run(line);
    CAPTURE(bad.err);
    CHECK(bad.code == 2);
    CHECK(bad.hasOneErrorLine());
  }
}

namespace {
/// Possible findings of a good run.
struct BackgroundFixture {
  BackgroundFixture() {
    report.setting = {"background", "abc", "NVIDIA H200",  "580",
                      "13.0",       "",    "Random calls."};
    report.share = 0.05;
    report.firstUs = {900e3};
    report.fresh = CallTimes{{10, 20, 30, 240}, 2, 0.08, 7, 1, 8, {}};
    report.busy = CallTimes{{10, 550}, 20, 1, 900, 80, 3, {}};
    report.busy->addSlow({{550, 40, 0, 1}, 3, "a/m3", true, false});
    report.foreground = Foreground{{960, 1000}, {1, 1}, 0.04};
    report.checked =
        CheckedCalls{10000, 0, 0, 500, 900, 30, 0, 12, true, 14, 800, 0, 3.5};
    report.speeds = {{"a/m3", 10, 10, "n8", "n8"},
                     {"b/m9", 20, 19, "n16", "n32"}};
  }
  BackgroundReport report;
};
} // namespace

TEST_CASE("a report of the mode background has shares, times and ratios") {
  BackgroundFixture f;
  CHECK(f.report.exitCode() == kExitDone);
  CHECK(f.report.busy->share() == doctest::Approx(0.05));
  CHECK(f.report.foreground->loss() == doctest::Approx(0.04));
  const llvm::json::Object json = f.report.toJson();
  const llvm::json::Object &figures = *json.getObject("background");
  CHECK(figures.getObject("busy")->getNumber("share") == 0.05);
  CHECK(figures.getObject("fresh")->getObject("us")->getNumber("p99.9") == 240);
  const llvm::json::Object &speed = *figures.getObject("speed");
  CHECK(speed.getObject("summary")->getNumber("least") == 0.95);
  CHECK(speed.getArray("values")->size() == 2);
  const std::string text = printed(f.report);
  CHECK(text.find("5.00 % of 5.00 % allowed") != std::string::npos);
  CHECK(text.find("0 wrong") != std::string::npos);
  CHECK(text.find("3 pending") != std::string::npos);
  CHECK(text.find("550.0 us at 3.00 s, a/m3: 40.0 us of CPU, 0 waits, 1 times "
                  "preempted, a miss") != std::string::npos);
  CHECK(text.find("after 14.0 s, 800 trials, 3.5 s of the GPU") !=
        std::string::npos);
}

TEST_CASE("the slowest calls are kept, the slowest first") {
  CallTimes times;
  for (double us : {3.0, 9.0, 1.0, 7.0, 5.0, 2.0, 8.0, 9.5})
    if (times.isSlow(us))
      times.addSlow({{us, us, 0, 0}, 0, "", false, false});
  REQUIRE(times.slowest.size() == CallTimes::kSlowest);
  const double expected[] = {9.5, 9, 8, 7, 5};
  for (size_t i = 0; i < CallTimes::kSlowest; ++i)
    CHECK(times.slowest[i].time.us == expected[i]);
}

TEST_CASE("a report of the mode background tells what is bad and missing") {
  BackgroundFixture f;
  SUBCASE("a wrong result") { f.report.checked->wrong = 1; }
  SUBCASE("a call that failed") { f.report.checked->failed = 1; }
  SUBCASE("a capture that failed") { f.report.checked->failedCaptures = 1; }
  SUBCASE("no quiet") { f.report.checked->isQuiet = false; }
  SUBCASE("a run that was cut short") { f.report.interrupted = true; }
  SUBCASE("nothing but calls") {
    f.report.checked.reset();
    f.report.foreground.reset();
    f.report.speeds.clear();
    const llvm::json::Object json = f.report.toJson();
    CHECK_FALSE(json.getObject("background")->getObject("checked"));
    CHECK_FALSE(json.getObject("background")->getObject("speed"));
    CHECK(printed(f.report).find("results") == std::string::npos);
  }
  CHECK(f.report.exitCode() == kExitSomeFailed);
}
