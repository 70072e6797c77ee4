// The page of kiln-bench quality.
#include "kiln-bench/QualityPage.h"

#include "Families/Families.h"
#include "Support/Json.h"
#include "Support/TemporaryFolder.h"
#include "Tools/ToolRunner.h"
#include "Tools/XmlCheck.h"

#include <doctest/doctest.h>

#include <set>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::testing;

static bool contains(llvm::StringRef text, llvm::StringRef part) {
  return text.contains(part);
}

/// A report of one space of each of \p families, with a wrong first choice.
static QualityReport reportOf(std::vector<std::string> families) {
  QualityReport report;
  report.device = "h200-sxm";
  report.commit = "abc123";
  report.records.push_back({"h200/one.json", "a few & more", "def456",
                            "NVIDIA H200", "580.1", "nvrtc 13.0 x", "cold L2",
                            families.size(), 2 * families.size()});
  for (const std::string &family : families) {
    ReplayedSpace &space = report.spaces.emplace_back();
    space.name = family + "/<m7>";
    space.family = space.regime = family;
    space.isTest = family == families.front();
    space.configs = 2 * kWholeSpace;
    space.main = {0.5, 1};
    space.random = {0.4, 0.8};
    space.errors = {0.1, 0.2};
    space.timed = {{"tiled", "dram", 900, 1000}, {"line", "l2", 1100, 500}};
    space.regret = regretCurve({1000, 500}, 500);
    space.randomRegret = expectedRegretCurve({1000, 500}, 500);
    space.blame = blame({"tiled.x1", "tiled", "dram", 900, 1000, {{"w", 900}}},
                        {"line.x1", "line", "l2", 1100, 500, {{"w", 1100}}});
  }
  report.families = families;
  report.families.push_back("unmeasured");
  return report;
}

TEST_CASE("the page of quality has every family, its sources and the blame") {
  const std::string page = qualityPage(reportOf({"gemm", "rmsnorm"}));
  CHECK(isWellFormed(page));
  for (const char *loaded : {"http:", "https:", "<script", "<link", "src="})
    CHECK_FALSE(contains(page, loaded));
  for (const char *part :
       {"<h2>gemm</h2>", "<h2>rmsnorm</h2>", "commit abc123",
        "h200/one.json (NVIDIA H200, commit def456)", "a few &amp; more",
        "gemm/&lt;m7&gt;", "gemm: tiled &gt; line", "gemm: w",
        "Families without a recorded sweep: unmeasured."})
    CHECK_MESSAGE(contains(page, part), part);
  CHECK(page == qualityPage(reportOf({"gemm", "rmsnorm"})));
}

TEST_CASE("the page of quality can do without most of it") {
  CHECK(isWellFormed(qualityPage({})));
  QualityReport report = reportOf({"gemm"});
  report.records.clear();
  report.spaces[0].configs = 2; // too few for a regret
  report.spaces[0].blame.reset();
  report.left = {"gemm <gone>"};
  const std::string page = qualityPage(report);
  CHECK(isWellFormed(page));
  CHECK(contains(page, "no regrets"));
  CHECK(contains(page, "gemm &lt;gone&gt;"));
}

TEST_CASE("without files all recorded sweeps are replayed") {
  BenchTool tool;
  const std::string file = tool.folder.path + "/quality.html";
  const std::string out = tool.folder.path + "/quality.json";
  ToolResult result =
      tool.run("quality --html " + file + " --out " + out + " --commit abc123");
  CHECK(result.code == 0);
  CHECK(contains(result.out, " recorded spaces on h200-sxm"));
  const std::string page = readBytes(file);
  CHECK(isWellFormed(page));
  CHECK(contains(page, "commit abc123"));

  auto json = llvm::cantFail(readJsonFile(out));
  const llvm::json::Object &object = *json.getAsObject();
  CHECK(object.getString("commit") == "abc123");
  CHECK(object.getString("gpu") == "NVIDIA H200");
  CHECK(object.getString("cuda")->starts_with("13.0"));
  const llvm::json::Object &families = *object.getObject("families");
  // Each family is either measured and on the page, or named as not measured.
  llvm::StringRef missing =
      llvm::StringRef(page).split("Families without a recorded sweep: ").second;
  missing = missing.split('.').first;
  const Registry registry = makeBuiltinRegistry();
  for (const auto &family : registry.families()) {
    const std::string name = family->name().str();
    CAPTURE(name);
    CHECK(contains(page, "<h2>" + name + "</h2>") ==
          (families.get(name) != nullptr));
    llvm::SmallVector<llvm::StringRef> names;
    missing.split(names, ", ");
    CHECK(llvm::is_contained(names, name) == (families.get(name) == nullptr));
  }
  std::set<std::string> replayed;
  for (const llvm::json::Value &space : *object.getArray("spaces"))
    replayed.insert(space.getAsObject()->getString("family")->str());
  CHECK(replayed.size() == families.size());
  CHECK(object.getArray("not_replayed")->empty());
}

TEST_CASE("a folder of sweeps has to have some") {
  BenchTool tool;
  for (const std::string &line :
       {"quality --sweeps " + tool.folder.path,
        std::string("quality --sweeps /no/such/folder"),
        std::string("quality --out result.json"), // without --commit
        std::string("quality --html /no/such/folder/page.html")}) {
    CAPTURE(line);
    ToolResult result = tool.run(line);
    CHECK(result.code == 2);
    CHECK(result.hasOneErrorLine());
  }
}
