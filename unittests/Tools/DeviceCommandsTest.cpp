// info, tune and bench: without a GPU, and with the stand-in driver.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>
#include <filesystem>

using namespace kiln::testing;

TEST_CASE("info tells what is missing and where numbers come from") {
  Tool tool;
  ToolResult result = tool.run("info --json");
  CHECK(result.code == 0);
  llvm::json::Object json = result.json();
  CHECK(json.getObject("driver")->getBoolean("found") == false);
  CHECK(json.getObject("nvrtc")->getBoolean("found") == true);
  CHECK(json.getArray("devices")->empty());
  CHECK(json.getArray("catalog")->size() >= 8);
  CHECK(json.getArray("families")->size() >= 1);
  ToolResult device = tool.run("info --device t4");
  CHECK(device.code == 0);
  CHECK(device.out.find("smCount") != std::string::npos);
  CHECK(device.out.find("catalog") != std::string::npos);
  CHECK(device.out.find("architecture") != std::string::npos);
}

TEST_CASE("info shows a live device") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  llvm::json::Object json = tool.run("info --json").json();
  REQUIRE(json.getArray("devices")->size() == 1);
  const llvm::json::Object &device =
      *json.getArray("devices")->front().getAsObject();
  CHECK(device.getString("name") == "h200-sxm");
  CHECK(device.getBoolean("live") == true);
  CHECK(device.getObject("numbers")->getObject("smCount")->getString(
            "source") == "driver");
}

TEST_CASE("what needs a GPU ends with 3 where there is none") {
  Tool tool;
  for (std::string line :
       {"tune " + kSmallProblem, "bench " + kSmallProblem,
        "plan " + kSmallProblem, "warmup " + kSmallProblem}) {
    CAPTURE(line);
    ToolResult result = tool.run(line);
    CAPTURE(result.err);
    CHECK(result.code == 3);
    CHECK(result.hasOneErrorLine());
  }
}

TEST_CASE("F4: tune tells which kernels are not on disk") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string line =
      "tune " + kSmallProblem + " --budget 2s --max-trials 4 --top 4";
  std::filesystem::create_directories(tool.folder / "cache/v1");
  std::filesystem::permissions(tool.folder / "cache",
                               std::filesystem::perms::owner_all);
  std::filesystem::permissions(tool.folder / "cache/v1",
                               std::filesystem::perms::owner_all);
  writeBytes(tool.folder / "cache/v1/artifact", "a file in the folder's place");
  ToolResult result = tool.run(line);
  CHECK(result.code == 1);
  CHECK(result.out.find("not stored: 0 records, ") != std::string::npos);
  CHECK(result.out.find("\npeak memory: ") != std::string::npos);
  CHECK(result.err.find("kiln: warning: cannot write to the cache in ") !=
        std::string::npos);
  CHECK(tool.run(line + " --no-cache").out.find("not stored") ==
        std::string::npos);
}

TEST_CASE("tune tells what it could not measure") {
  Tool tool;
  // Kernels of the stand-in driver do nothing, so that none is valid.
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  ToolResult result = tool.run("tune " + kSmallProblem + " --budget 2s --json");
  CHECK(result.code == 1);
  llvm::json::Object json = result.json();
  CHECK(json.getInteger("unmeasured") == 1);
  const llvm::json::Array &cases = *json.getArray("cases");
  REQUIRE(cases.size() == 1);
  CHECK(cases.front().getAsObject()->getString("problem") == kSmallProblem);
  const llvm::json::Object &peaks = *json.getObject("peak_bytes");
  for (const char *kind : {"scratch", "modules", "host"})
    CHECK(peaks.getInteger(kind).value_or(0) > 0);
  // Nothing to compute is no failure.
  CHECK(tool.run("tune gemm m=0 n=8 k=8 dtype=bf16 --budget 2s").code == 0);
}

TEST_CASE("what a long command measured is not lost with its --out") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string command =
      "bench --no-peer --commit abc gemm m=0 n=8 k=8 dtype=bf16";
  // Told before anything is measured.
  ToolResult nowhere = tool.run(command + " --out /no/such/file.json");
  CHECK(nowhere.code == 2);
  CHECK(nowhere.hasOneErrorLine());
  CHECK(nowhere.out.empty());
  ToolResult full = tool.run(command + " --json --out /dev/full");
  CHECK(full.code == 1);
  CHECK(full.hasOneErrorLine());
  CHECK(full.json().getArray("cases")->size() == 1);
}

TEST_CASE("a result names its commit") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  ToolResult bad = tool.run("bench --no-peer gemm m=0 n=8 k=8 dtype=bf16 "
                            "--out " +
                            (tool.folder / "bench.json"));
  CHECK(bad.code == 2);
  CHECK(bad.hasOneErrorLine());
  CHECK(bad.err.find("--commit") != std::string::npos);
}

TEST_CASE("bench without its peer ends with 3") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  ToolResult result = tool.run("bench " + kSmallProblem);
  CHECK(result.code == 3);
  CHECK(result.hasOneErrorLine());
}
