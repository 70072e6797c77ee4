// plan and explain: what they answer, in either form, and how fast.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

using namespace kiln::testing;

static const std::string kProblem =
    "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT --device h200-sxm";

TEST_CASE("plan ranks and says why configs are pruned") {
  Tool tool;
  ToolResult result = tool.run("plan " + kProblem + " --top 5 --pruned --json");
  REQUIRE(result.code == 0);
  CHECK(result.err.empty());
#ifdef NDEBUG
  CHECK(result.cpuSeconds < 0.2);
#endif
  llvm::json::Object json = result.json();
  CHECK(json.getString("device") == "h200-sxm");
  const llvm::json::Object *problem =
      json.getArray("problems")->front().getAsObject();
  CHECK(problem->getString("problem") ==
        "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT");
  const llvm::json::Array &candidates = *problem->getArray("candidates");
  REQUIRE(candidates.size() == 5);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const llvm::json::Object &candidate = *candidates[i].getAsObject();
    CHECK(candidate.getInteger("rank") == int64_t(i + 1));
    CHECK(candidate.getNumber("predicted_us").value_or(0) > 0);
    CHECK(candidate.getString("config"));
    CHECK(candidate.getString("bound"));
    CHECK(!candidate.getObject("terms")->empty());
  }
  const llvm::json::Object &pruned = *problem->getObject("pruned");
  CHECK(pruned.getArray("configs")->size() ==
        size_t(pruned.getInteger("count").value_or(-1)));
  int64_t byReason = 0;
  for (const auto &[reason, count] : *pruned.getObject("by_reason"))
    byReason += count.getAsInteger().value_or(0);
  CHECK(byReason == pruned.getInteger("count"));
}

TEST_CASE("plan takes several problems, suites and models") {
  Tool tool;
  ToolResult two = tool.run("plan gemm m=1 n=64 k=64 dtype=fp16 gemm m=0 n=8 "
                            "k=8 dtype=bf16 --device a100-sxm4-80gb");
  CHECK(two.code == 0);
  CHECK(two.out.find("gemm m=1 n=64 k=64 dtype=fp16") != std::string::npos);
  CHECK(two.out.find("nothing to compute") != std::string::npos);
  ToolResult classic = tool.run("plan " + kProblem + " --model classic --json");
  REQUIRE(classic.code == 0);
  CHECK(classic.json().getString("model") == "classic");
}

TEST_CASE("a device may come from a file") {
  Tool tool;
  std::string all = tool.run("info --device h200-sxm --json --no-cache").out;
  std::string known =
      tool.suite(R"({"name": "h200-sxm", "smCount": 66})", "half.json");
  ToolResult half = tool.run({"explain", "gemm", "m=8192", "n=8192", "k=64",
                              "dtype=bf16", "--device", known});
  CHECK(half.code == 0);
  CHECK(half.out.find("66 SMs") != std::string::npos);
  std::string own = tool.suite(
      R"({"name": "mine", "ccMajor": 8, "ccMinor": 6, "smCount": 7})",
      "mine.json");
  ToolResult mine = tool.run({"plan", "gemm", "m=64", "n=64", "k=64",
                              "dtype=bf16", "--json", "--device", own});
  REQUIRE(mine.code == 0);
  CHECK(mine.json().getString("arch") == "sm_86");
  std::string nameless = tool.suite(R"({"smCount": 7})", "nameless.json");
  ToolResult refused = tool.run({"plan", "gemm", "m=64", "n=64", "k=64",
                                 "dtype=bf16", "--device", nameless});
  CHECK(refused.code == 2);
  CHECK(refused.hasOneErrorLine());
}

TEST_CASE("explain derives the choice and compares the runner-up") {
  Tool tool;
  ToolResult text = tool.run("explain " + kProblem);
  REQUIRE(text.code == 0);
#ifdef NDEBUG
  CHECK(text.cpuSeconds < 0.2);
#endif
  for (const char *part :
       {"register wall", "shared-memory wall", "latency wall", "intensity",
        "waves", "bound", "runner-up", "difference"}) {
    CAPTURE(part);
    CHECK(text.out.find(part) != std::string::npos);
  }
  llvm::json::Object json = tool.run("explain " + kProblem + " --json").json();
  CHECK(json.getObject("choice")->getInteger("rank") == 1);
  CHECK(json.getObject("derivation")->getArray("steps")->size() >= 6);
  CHECK(json.getObject("rival")->getInteger("rank") == 2);
}

TEST_CASE("explain takes a config, also one that cannot run") {
  Tool tool;
  llvm::json::Object planned =
      tool.run("plan " + kProblem + " --top 3 --json").json();
  std::string third = (*planned.getArray("problems")
                            ->front()
                            .getAsObject()
                            ->getArray("candidates"))[2]
                          .getAsObject()
                          ->getString("config")
                          ->str();
  llvm::json::Object json =
      tool.run("explain " + kProblem + " --json --config " + third).json();
  CHECK(json.getObject("choice")->getInteger("rank") == 3);
  CHECK(json.getObject("rival")->getInteger("rank") == 1);
  // Any that the pruner names.
  planned = tool.run("plan " + kProblem + " --pruned --json").json();
  const llvm::json::Object &pruned = *planned.getArray("problems")
                                          ->front()
                                          .getAsObject()
                                          ->getObject("pruned")
                                          ->getArray("configs")
                                          ->front()
                                          .getAsObject();
  ToolResult refused = tool.run("explain " + kProblem + " --json --config " +
                                pruned.getString("config")->str());
  CHECK(refused.code == 0);
  CHECK(refused.json().getObject("rejected")->getString("reason") ==
        pruned.getString("reason"));
}

TEST_CASE("what memory must pace is told in GB/s") {
  Tool tool;
  const std::string thin =
      "gemm m=1 n=4096 k=4096 dtype=bf16 layout=NT --device h200-sxm";
  ToolResult planned = tool.run("plan " + thin);
  CHECK(planned.out.find("GB/s") != std::string::npos);
  CHECK(planned.out.find("TFLOP/s") == std::string::npos);
  ToolResult explained = tool.run("explain " + thin);
  CHECK(explained.out.find("GB/s") != std::string::npos);
  CHECK(explained.out.find("TFLOP/s") == std::string::npos);
  ToolResult thick = tool.run("plan " + kProblem);
  CHECK(thick.out.find("TFLOP/s") != std::string::npos);
}
