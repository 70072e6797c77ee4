// kiln-bench study with the stand-in driver, where kernels do nothing, and with
// stand-ins of the profiler.
#include "Support/Error.h"
#include "Tools/ToolRunner.h"
#include "cli/CounterProfiler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::testing;

namespace {

const std::string kStudied = "attention sq=64 sk=64 heads=1 d=128 dtype=fp16";
const std::string kStudy = "study " + kStudied + " --set prog --samples 3 ";

struct ToolWithDriver : BenchTool {
  ToolWithDriver() {
    environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  }
};

const llvm::json::Array &configsOf(const llvm::json::Object &document) {
  const llvm::json::Array *configs = document.getArray("configs");
  REQUIRE(configs);
  return *configs;
}

constexpr const char *kHeader =
    R"("ID","Process ID","Kernel Name","gpu__time_duration.sum",)"
    R"("launch__registers_per_thread","lts__t_sector_hit_rate.pct",)"
    R"("sm__cycles_elapsed.max")";

/// A program in \p folder that writes \p csv where ncu is told to.
std::string fakeProfiler(const Tool &tool, const std::string &csv) {
  std::string path = tool.folder / "ncu";
  std::ofstream(path) << "#!/bin/sh\nwhile [ \"$1\" != --log-file ]; do shift; "
                         "done\ncat > \"$2\" <<'END'\n"
                      << csv << "\nEND\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

} // namespace

TEST_CASE("study measures every config of the set") {
  ToolWithDriver tool;
  std::string csv = tool.folder / "study.csv";
  ToolResult result = tool.run(kStudy + "--json --csv " + csv);
  CAPTURE(result.err);
  // Nothing is right that the stand-in computes.
  CHECK(result.code == 1);
  const llvm::json::Object json = result.json();
  CHECK(json.getString("set") == "prog");
  REQUIRE(configsOf(json).size() == 7);
  for (const llvm::json::Value &value : configsOf(json)) {
    const llvm::json::Object &row = *value.getAsObject();
    CHECK(row.getString("name")->starts_with("(FP16, 128, 64, 64, 4): async+"));
    CHECK(row.getBoolean("correct") == false);
    CHECK(row.getInteger("sharedBytes") == (64 + 2 * 64) * 128 * 2);
    CHECK(row.getInteger("blocksPerSm") == 2);
  }
  std::string text = readBytes(csv);
  CHECK(std::count(text.begin(), text.end(), '\n') == 8);
  CHECK(text.rfind("case,name,config,us,", 0) == 0);
}

TEST_CASE("study: where the name of the set comes from") {
  ToolWithDriver tool;
  tool.environment["KERNELS"] = "128,64";
  const llvm::json::Object json =
      tool.run("study " + kStudied + " --samples 3 --json").json();
  CHECK(configsOf(json).size() == 16);
  // A type that the problem does not have makes a problem of its own.
  CHECK(configsOf(json).back().getAsObject()->getString("problem")->contains(
      "sq=64"));
  // The given value wins.
  CHECK(configsOf(tool.run(kStudy + "--json").json()).size() == 7);
}

TEST_CASE("study: what cannot be is one line") {
  ToolWithDriver tool;
  auto failure = [&](const std::string &line) {
    ToolResult result = tool.run(line);
    CAPTURE(line);
    CHECK(result.code == 2);
    CHECK(result.hasOneErrorLine());
    return result.err;
  };
  CHECK(failure("study " + kStudied + " --set fast")
            .find("no set of configs is called 'fast': there are tune, all, "
                  "prog, progall or R,K") != std::string::npos);
  CHECK(failure("study gemm m=8 n=8 k=8 dtype=bf16 --set tune")
            .find("gemm has no named sets of configs") != std::string::npos);
  CHECK(failure("study " + kStudied + " --runs 3").find("--set names no set") !=
        std::string::npos);
  ToolResult nowhere = tool.run({"study", kStudied, "--set="});
  CHECK(nowhere.err.find("--set names no set") != std::string::npos);
}

TEST_CASE("study --launch-only measures nothing") {
  ToolWithDriver tool;
  ToolResult result = tool.run(kStudy + "--launch-only --runs 2");
  CAPTURE(result.err);
  CHECK(result.code == 0);
  CHECK(result.out.empty());
}

TEST_CASE("study --profile says where ncu is missing") {
  ToolWithDriver tool;
  ToolResult result =
      tool.run(kStudy + "--profile --ncu " + (tool.folder / "none"));
  CHECK(result.code != 0);
  CHECK(result.hasOneErrorLine());
  CHECK(result.err.find("--profile needs ncu (Nsight Compute), which is not "
                        "there (searched: ") != std::string::npos);
}

TEST_CASE("study --profile joins the profiler's launches by their order") {
  ToolWithDriver tool;
  std::string csv =
      "==PROF== Connected\n" + std::string(kHeader) +
      "\n\"\",\"\",\"\",\"ns\",\"register/thread\",\"%\",\"cycle\"";
  for (int launch = 0; launch < 14; ++launch)
    csv += "\n\"" + std::to_string(launch) +
           "\",\"1\",\"kiln_gemm_mma_bm64_sig1f0a\",\"" +
           std::to_string(1000 + 100 * launch) +
           "\",\"168\",\"75.5\",\"2,000\"";
  ToolResult result = tool.run(kStudy + "--runs 2 --json --profile --ncu " +
                               fakeProfiler(tool, csv));
  CAPTURE(result.err);
  const llvm::json::Object json = result.json();
  for (const llvm::json::Value &value : configsOf(json)) {
    const llvm::json::Object &row = *value.getAsObject();
    const llvm::json::Object *profile = row.getObject("profile");
    REQUIRE(profile);
    // The mean of its two launches.
    double place = double(*row.getInteger("place"));
    CHECK(*profile->getNumber("us") ==
          doctest::Approx((1050 + 200 * place) * 1e-3));
    CHECK(profile->getNumber("registers") == 168);
    CHECK(profile->getNumber("cycles") == 2000);
    CHECK(profile->getNumber("l2HitRate") == 75.5);
  }
}

TEST_CASE("profiles: what is no table is an error") {
  auto message = [](llvm::StringRef csv) {
    auto launches = parseProfile(csv, "kiln_");
    REQUIRE(!launches);
    return summarize(launches.takeError()).message;
  };
  CHECK(message("") == "ncu wrote no table; its last line: (nothing)");
  CHECK(message("==ERROR== it is broken\n") ==
        "ncu wrote no table; its last line: ==ERROR== it is broken");
  CHECK(message("==ERROR== ERR_NVGPUCTRPERM\n")
            .find("NVreg_RestrictProfilingToAdminUsers=0") !=
        std::string::npos);
  CHECK(message("\"ID\",\"Kernel Name\"\n") ==
        "ncu's table has no column 'gpu__time_duration.sum'");
  // Other kernels are passed over.
  auto launches = parseProfile(
      std::string(kHeader) +
          "\n\"0\",\"1\",\"fill, of \"\"it\"\"\",\"5\",\"6\",\"7\",\"8\"\n"
          "\"1\",\"1\",\"kilnFlushL2\",\"5\",\"6\",\"7\",\"8\"\n"
          "\"2\",\"1\",\"kiln_gemm_mma_bm64_sig1f0a\",\"1,234.5\",\"6\","
          "\"7\",\"8\"\n",
      "kiln_");
  REQUIRE(bool(launches));
  REQUIRE(launches->size() == 1);
  CHECK(launches->front().durationNs == 1234.5);
}
