// kiln-bench quality: records of sweeps, replayed.
#include "Support/TemporaryFolder.h"
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

using namespace kiln::testing;

/// A record of one space with the fake configs \p configs.
static std::string recordOf(const std::string &configs) {
  return R"({"device": "h200-sxm", "spaces": [{"name": "a/m64",
           "problem": "gemm m=64 n=64 k=64 dtype=bf16", "size": 9,
           "configs": [)" +
         configs + "]}]}";
}

static const std::string kTwo =
    R"(["mma.bm16.bn32.bk64.st3.wm1.wn2.mb2",0,1000],
                                   ["mma.bm32.bn32.bk64.st3.wm2.wn2.mb2",1,900])";

TEST_CASE("model quality replays records and checks floors") {
  BenchTool tool;
  const std::string record = tool.suite(recordOf(kTwo), "record.json");
  llvm::json::Object json = tool.run("quality " + record + " --json").json();
  CHECK(json.getString("device") == "h200-sxm");
  REQUIRE(json.getArray("spaces")->size() == 1);
  CHECK(json.getArray("spaces")->front().getAsObject()->getInteger("configs") ==
        2);
  CHECK(tool.run("quality " + record + " --device a100-sxm4-80gb").code != 1);
  llvm::json::Object unknown =
      tool.run("quality " + record + " --no-catalog --json").json();
  CHECK(unknown.getString("device") == json.getString("device"));
  CHECK(unknown.getArray("spaces")->size() == json.getArray("spaces")->size());

  // Floors name their records, beside them.
  const std::string floors = tool.suite(
      R"({"records": ["record.json"], "floors": {}, "what": "two configs"})",
      "floors.json");
  CHECK(tool.run("quality --check " + floors).code == 0);
  CHECK(tool.run("quality --update " + floors).code == 0);
  for (const char *kept : {"record.json", "two configs"})
    CHECK(readBytes(floors).find(kept) != std::string::npos);
  tool.suite(R"({"records": ["record.json"],
                 "floors": {"fit": {"all": {"top1": 1001}},
                            "test": {"all": {"top1": 1001}}}})",
             "floors.json");
  ToolResult fell = tool.run("quality --check " + floors);
  CHECK(fell.code == 1);
  CHECK(fell.out.find("fell: ") != std::string::npos);
  // A record that cannot be replayed any more is a fault, not a good figure.
  const std::string gone =
      tool.suite(recordOf(R"(["gone.x1",0,1000])"), "gone.json");
  ToolResult left = tool.run("quality " + gone);
  CHECK(left.code == 1);
  CHECK(left.out.find("not replayed: ") != std::string::npos);
}

TEST_CASE("model quality refuses what it cannot read") {
  BenchTool tool;
  const std::string record = tool.suite(recordOf(kTwo), "record.json");
  const std::string noRecord = tool.suite("{}", "empty.json");
  const std::string noFloors =
      tool.suite(R"({"records": [], "floors": {"fit": {"all": {"speed": 1}}}})",
                 "bad.json");
  const std::string noDevice =
      tool.suite(R"({"device": "abacus", "spaces": []})", "device.json");
  for (const std::string &line :
       {std::string("model"), "quality " + noRecord, "quality " + noDevice,
        std::string("quality /no/such/file"), "quality --check " + noFloors,
        "quality --check " + record}) {
    CAPTURE(line);
    ToolResult result = tool.run(line);
    CHECK(result.code == 2);
    CHECK(result.hasOneErrorLine());
  }
}
