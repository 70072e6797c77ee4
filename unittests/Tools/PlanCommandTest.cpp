// plan and explain: their answers, in either form, and their speed.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

using namespace kiln::testing;

static const std::string kPlanned =
    "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT --device h200-sxm";

TEST_CASE("plan ranks and says why configs are pruned") {
  Tool tool;
  const std::string problemText =
      "gemm m=64 n=6144 k=4096 dtype=bf16 layout=NT";
  ToolResult result = tool.run("plan " + problemText +
                               " --device h200-sxm --top 5 --pruned --json");
  REQUIRE(result.code == 0);
  CHECK(result.err.empty());
#ifdef NDEBUG
  CHECK(result.cpuSeconds < 0.2);
#endif
  llvm::json::Object json = result.json();
  CHECK(json.getString("device") == "h200-sxm");
  const llvm::json::Object *problem =
      json.getArray("problems")->front().getAsObject();
  CHECK(problem->getString("problem") == problemText);
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
  CHECK(byReason > 0);
}

/// How many configs of the one problem of \p plan a workspace forbids.
static int64_t forbidden(const ToolResult &plan) {
  REQUIRE(plan.code == 0);
  const llvm::json::Object json = plan.json();
  return json.getArray("problems")
      ->front()
      .getAsObject()
      ->getObject("pruned")
      ->getObject("by_reason")
      ->getInteger("workspace")
      .value_or(0);
}

TEST_CASE("plan, explain and warmup allow what an engine allows") {
  Tool tool;
  // A gather copies rows into the workspace.
  const std::string problem = "gemm m=4096 n=2048 k=4096 dtype=bf16 layout=NT "
                              "batch=8 groups=ends gather=1";
  const std::string plan = "plan " + problem + " --device h200-sxm --json";
  const ToolResult usual = tool.run(plan);
  CHECK(usual.json().getInteger("workspace_limit_bytes") == 256 << 20);
  CHECK(forbidden(tool.run(plan + " --workspace-limit 256M")) ==
        forbidden(usual));
  CHECK(forbidden(tool.run(plan + " --workspace-limit 0")) > forbidden(usual));
  const ToolResult unlimited = tool.run(plan + " --unlimited");
  CHECK(forbidden(unlimited) == 0);
  CHECK_FALSE(unlimited.json().getInteger("workspace_limit_bytes"));

  // A config that engines may not take is one that cannot run.
  const llvm::json::Object ranked =
      tool.run("plan " + problem + " --device h200-sxm --top 1 --json").json();
  const std::string first = ranked.getArray("problems")
                                ->front()
                                .getAsObject()
                                ->getArray("candidates")
                                ->front()
                                .getAsObject()
                                ->getString("config")
                                .value_or("")
                                .str();
  const std::string explain =
      "explain " + problem + " --device h200-sxm --config " + first;
  CHECK(tool.run(explain).out.find("cannot run") == std::string::npos);
  CHECK(tool.run(explain + " --workspace-limit 0").out.find("cannot run") !=
        std::string::npos);
  for (const char *command : {"plan ", "explain ", "warmup "}) {
    CAPTURE(command);
    ToolResult both = tool.run(command + problem +
                               " --device h200-sxm --unlimited "
                               "--workspace-limit 1G");
    CHECK(both.code == 2);
    CHECK(both.hasOneErrorLine());
  }
}

TEST_CASE("plan and explain say why a generic kernel is the first choice") {
  Tool tool;
  // No tensor cores of this device take e4m3.
  const std::string problem =
      "gemm m=512 n=512 k=512 dtype=e4m3 layout=NT --device v100-sxm2";
  const std::string plan = "plan " + problem;
  const std::string out = tool.run(plan).out;
  const size_t line = out.find(" is generic: ");
  REQUIRE(line != std::string::npos);
  CHECK(out.find("mma: architecture: 70, 80 needed", line) <
        out.find('\n', line));
  const llvm::json::Object json = tool.run(plan + " --json").json();
  const llvm::json::Object *generic =
      json.getArray("problems")->front().getAsObject()->getObject("generic");
  REQUIRE(generic);
  CHECK(!generic->getArray("limits")->empty());
  CHECK(tool.run("explain " + problem).out.find(" is generic: ") !=
        std::string::npos);
  CHECK(tool.run("explain " + problem + " --json").json().getObject("generic"));
  const llvm::json::Object usual =
      tool.run("plan " + kPlanned + " --json --top 1").json();
  CHECK_FALSE(
      usual.getArray("problems")->front().getAsObject()->getObject("generic"));
}

TEST_CASE("E7: plan lists what adds up, and no floor beside it") {
  Tool tool;
  ToolResult planned = tool.run("plan " + kPlanned + " --top 1");
  REQUIRE(planned.code == 0);
  CHECK(planned.out.find("beyond the path 12") != std::string::npos);
  CHECK(planned.out.find("floor") == std::string::npos);
}

TEST_CASE("plan takes several problems") {
  Tool tool;
  ToolResult two = tool.run("plan gemm m=1 n=64 k=64 dtype=fp16 gemm m=0 n=8 "
                            "k=8 dtype=bf16 --device a100-sxm4-80gb");
  CHECK(two.code == 0);
  CHECK(two.out.find("gemm m=1 n=64 k=64 dtype=fp16") != std::string::npos);
  CHECK(two.out.find("nothing to compute") != std::string::npos);
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
  ToolResult text = tool.run("explain " + kPlanned);
  REQUIRE(text.code == 0);
#ifdef NDEBUG
  CHECK(text.cpuSeconds < 0.2);
#endif
  for (const char *part :
       {"registers = ", "shared memory = ", "S_min = ", "intensity of the tile",
        "share of a further wave", "intensity of the problem",
        "share of the dense peak", "bound by", "runner-up", "difference",
        "what it breaks or costs", "k doubled", "shared memory halved"}) {
    CAPTURE(part);
    CHECK(text.out.find(part) != std::string::npos);
  }
  // Steps are numbered, and say which they come from.
  CHECK(text.out.find("walls\n  1 accumulators = ") != std::string::npos);
  CHECK(text.out.find("-> bound by tensor") != std::string::npos);
  llvm::json::Object json = tool.run("explain " + kPlanned + " --json").json();
  CHECK(json.getObject("choice")->getInteger("rank") == 1);
  const llvm::json::Array &steps =
      *json.getObject("derivation")->getArray("steps");
  REQUIRE(steps.size() >= 6);
  const auto total = llvm::find_if(steps, [](const llvm::json::Value &step) {
    return step.getAsObject()->getString("name") == "total";
  });
  REQUIRE(total != steps.end());
  CHECK(*total->getAsObject()->getNumber("value") ==
        doctest::Approx(*json.getObject("choice")->getNumber("total_ns")));
  CHECK(total->getAsObject()->getObject("expression")->getArray("of")->size() >=
        5);
}

TEST_CASE("explain takes the name of a kernel apart") {
  Tool tool;
  const std::string name = "kiln_transpose2d_tiled_tr32_tc64_t128_v4_sig01ef";
  ToolResult text = tool.run("explain " + name);
  CHECK(text.code == 0);
  for (const char *part : {"family     transpose2d\n", "template   tiled\n",
                           "config     tiled.tr32.tc64.t128.v4\n",
                           "signature  01ef\n", "tileRows"}) {
    CAPTURE(part);
    CHECK(text.out.find(part) != std::string::npos);
  }
  llvm::json::Object json = tool.run("explain --json " + name).json();
  CHECK(json.getString("family") == "transpose2d");
  CHECK(json.getString("template") == "tiled");
  const llvm::json::Object &knob =
      *json.getArray("knobs")->front().getAsObject();
  CHECK(knob.getString("knob") == "tr");
  CHECK(knob.getInteger("value") == 32);
  CHECK(knob.getString("meaning") == "tileRows");
  CHECK(tool.run("explain --json kiln_gemm_step_gather_sig01ef")
            .json()
            .getString("kernel") == "step gather");

  ToolResult wrong = tool.run("explain kiln_transpose2d_tiled_sig01ef");
  CHECK(wrong.code == 2);
  CHECK(wrong.hasOneErrorLine());
  CHECK(wrong.err.find("is not the name of a kernel of Kiln") !=
        std::string::npos);
}

/// The value of the knob \p key in \p config: "128" for "bm" of "sm90.bm128".
static std::string knob(llvm::StringRef config, llvm::StringRef key) {
  llvm::SmallVector<llvm::StringRef, 16> parts;
  config.split(parts, '.');
  for (llvm::StringRef part : parts)
    if (part.consume_front(key) && !part.empty() && isdigit(part[0]))
      return part.str();
  return "";
}

TEST_CASE("E13: the runner-up is of another kind, and says why it loses") {
  Tool tool;
  for (llvm::StringRef problem :
       {"gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT --device h200-sxm",
        "gemm m=128 n=4096 k=4096 dtype=bf16 layout=NT --device h200-sxm",
        "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT --device "
        "a100-sxm4-40gb"}) {
    CAPTURE(problem.str());
    llvm::json::Object json =
        tool.run("explain " + problem.str() + " --json").json();
    const llvm::json::Object &rival = *json.getObject("rival");
    llvm::StringRef own = *json.getObject("choice")->getString("config");
    llvm::StringRef other = *rival.getString("config");
    CAPTURE(own.str());
    CAPTURE(other.str());
    auto tile = [](llvm::StringRef config) {
      std::string m = knob(config, "bm"), n = knob(config, "bn");
      return m < n ? std::make_pair(n, m) : std::make_pair(m, n);
    };
    CHECK((own.split('.').first != other.split('.').first ||
           tile(own) != tile(other) || knob(own, "bk") != knob(other, "bk") ||
           knob(own, "st") != knob(other, "st") ||
           knob(own, "sk") != knob(other, "sk")));
    CHECK(*rival.getInteger("rank") > 1);
    const llvm::StringRef verdict = *rival.getString("verdict");
    CHECK((verdict.contains("Most of the difference is") ||
           verdict.contains("The largest change is")));
  }
}

TEST_CASE("E6: explain shows the wall that a typed tile hits") {
  Tool tool;
  const std::string config = " --config sm90.bm256.bn256.bk64.st2.wg2.cm1.cn1";
  ToolResult text = tool.run("explain " + kPlanned + config);
  CHECK(text.code == 0);
  CHECK(text.out.find("cannot run: register wall: 256") != std::string::npos);
  llvm::json::Object json =
      tool.run("explain " + kPlanned + " --json" + config).json();
  CHECK(json.getObject("rejected")->getString("detail") ==
        "register wall: 256 accumulators a thread, 192 allowed");
  CHECK(json.getObject("rejected")->getInteger("value") == 256);
  CHECK(json.getObject("rejected")->getInteger("limit") == 192);
}

TEST_CASE("explain takes a config, also one that cannot run") {
  Tool tool;
  llvm::json::Object planned =
      tool.run("plan " + kPlanned + " --top 3 --json").json();
  std::string third = (*planned.getArray("problems")
                            ->front()
                            .getAsObject()
                            ->getArray("candidates"))[2]
                          .getAsObject()
                          ->getString("config")
                          ->str();
  llvm::json::Object json =
      tool.run("explain " + kPlanned + " --json --config " + third).json();
  CHECK(json.getObject("choice")->getInteger("rank") == 3);
  CHECK(json.getObject("rival")->getInteger("rank") == 1);
  // Any that the pruner names: on an A100 large tiles hit a wall.
  const std::string other = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT "
                            "--device a100-sxm4-80gb";
  planned = tool.run("plan " + other + " --pruned --json").json();
  const llvm::json::Object &pruned = *planned.getArray("problems")
                                          ->front()
                                          .getAsObject()
                                          ->getObject("pruned")
                                          ->getArray("configs")
                                          ->front()
                                          .getAsObject();
  ToolResult refused = tool.run("explain " + other + " --json --config " +
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
  ToolResult thick = tool.run("plan " + kPlanned);
  CHECK(thick.out.find("TFLOP/s") != std::string::npos);
}
