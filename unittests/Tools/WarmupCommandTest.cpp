// warmup with the stand-in compiler: kernels that it compiles, stores and
// compiles again.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>
#include <filesystem>

using namespace kiln::testing;

static const std::string kSuite = R"({"comment": "three", "cases": [
  {"name": "a", "family": "gemm", "m": 1, "n": 4096, "k": 4096,
   "dtype": "bf16", "layout": "NT", "batch": 1},
  {"name": "b", "family": "gemm", "m": 4096, "n": 4096, "k": 4096,
   "dtype": "bf16", "layout": "NT"},
  {"name": "c", "family": "gemm", "m": 64, "n": 64, "k": 64,
   "dtype": "fp32", "pointwise": "bias,relu"}]})";

static llvm::json::Object deviceOf(const ToolResult &result, size_t index = 0) {
  llvm::json::Object json = result.json();
  return *(*json.getArray("devices"))[index].getAsObject();
}

TEST_CASE("a second warm-up compiles nothing") {
  Tool tool;
  std::vector<std::string> line = {"warmup",   "--suite",  tool.suite(kSuite),
                                   "--device", "h200-sxm", "--json"};
  ToolResult first = tool.run(line);
  REQUIRE(first.code == 0);
  CHECK(first.err.empty());
  llvm::json::Object device = deviceOf(first);
  CHECK(device.getInteger("compiled") == 3);
  CHECK(device.getInteger("decisions_stored") == 3);
  const llvm::json::Array &rows = *device.getArray("rows");
  REQUIRE(rows.size() == 3);
  for (const llvm::json::Value &value : rows) {
    const llvm::json::Object &row = *value.getAsObject();
    CHECK(row.getString("config"));
    CHECK(row.getNumber("predicted_us").value_or(0) > 0);
    CHECK(row.getString("bound"));
    CHECK(row.getBoolean("cached") == false);
  }
  // Not even NVRTC is needed now.
  tool.environment["KILN_NVRTC"] = "/nonexistent/libnvrtc.so";
  llvm::json::Object second = deviceOf(tool.run(line));
  CHECK(second.getInteger("compiled") == 0);
  CHECK(second.getInteger("from_cache") == 3);
}

TEST_CASE("warm-up serves several devices and prints a table") {
  Tool tool;
  ToolResult result =
      tool.run({"warmup", "--suite", tool.suite(kSuite), "--filter", "b",
                "--device", "h200-sxm", "--arch", "sm_80", "--top", "2"});
  CHECK(result.code == 0);
  for (const char *part : {"h200-sxm (sm_90)", "(sm_80)", "predicted us",
                           "compile ms", "cached", "2 compiled"}) {
    CAPTURE(part);
    CHECK(result.out.find(part) != std::string::npos);
  }
}

TEST_CASE("without NVRTC warm-up ends with 3") {
  Tool tool;
  tool.environment["KILN_NVRTC"] = "/nonexistent/libnvrtc.so";
  ToolResult result = tool.run("warmup gemm m=64 n=64 k=64 dtype=bf16 "
                               "--device h200-sxm");
  CHECK(result.code == 3);
}

TEST_CASE("warm-up writes texts for authors and works without a cache") {
  Tool tool;
  std::string texts = tool.folder / "texts";
  ToolResult result =
      tool.run({"warmup", "gemm m=64 n=64 k=64 dtype=bf16", "--device", "a10",
                "--dump-dir", texts, "--top", "2", "--no-cache"});
  CHECK(result.code == 0);
  CHECK(result.out.find("not stored") == std::string::npos);
  CHECK(filesIn(texts).size() == 2);
  CHECK(readBytes(filesIn(texts).front()).find("\nkiln_gemm_") !=
        std::string::npos);
}

TEST_CASE("decisions that cannot be kept are some failed work") {
  Tool tool;
  ToolResult result = tool.run("warmup gemm m=64 n=64 k=64 dtype=bf16 --device "
                               "h200-sxm --cache-dir /proc/no/such");
  CHECK(result.code == 1);
  CHECK(
      result.out.find("not stored: 1 kernels, 1 decisions: /proc/no/such: ") !=
      std::string::npos);
}

TEST_CASE("F4: a kernel that is not on disk is some failed work, and is told") {
  Tool tool;
  const std::string line =
      "warmup gemm m=64 n=64 k=64 dtype=bf16 --device h200-sxm";
  REQUIRE(tool.run(line).code == 0);
  std::string kernels = tool.folder / "cache/v1/artifact";
  std::filesystem::remove_all(kernels);
  writeBytes(kernels, "a file in the folder's place");
  ToolResult result = tool.run(line);
  CHECK(result.code == 1);
  for (const char *part :
       {"1 compiled", "not stored: 1 kernels, 0 decisions: cannot write",
        "0 decisions stored, 1 there already"}) {
    CAPTURE(part);
    CHECK(result.out.find(part) != std::string::npos);
  }
  CHECK(result.err.find("kiln: warning: cannot write to the cache in ") !=
        std::string::npos);
  llvm::json::Object device = deviceOf(tool.run(line + " --json"));
  CHECK(device.getInteger("unstored_kernels") == 1);
  CHECK(device.getInteger("decisions_stored") == 0);
  CHECK(device.getInteger("decisions_found") == 1);
}

TEST_CASE("F4: a damaged entry heals and is told") {
  Tool tool;
  const std::string line =
      "warmup gemm m=64 n=64 k=64 dtype=bf16 --device h200-sxm";
  REQUIRE(tool.run(line).code == 0);
  for (const std::string &path : filesIn(tool.folder / "cache/v1/artifact"))
    if (path.ends_with(".kiln"))
      writeBytes(path, readBytes(path) + "x");
  ToolResult healed = tool.run(line);
  CHECK(healed.code == 0);
  CHECK(healed.err.find("is damaged") != std::string::npos);
  CHECK(healed.out.find("1 entries of the cache were damaged") !=
        std::string::npos);
  ToolResult after = tool.run(line);
  CHECK(after.err.empty());
  CHECK(after.out.find("damaged") == std::string::npos);
}

TEST_CASE("an edited source has its own kernels compiled again, no others") {
  Tool tool;
  const std::string sources = tool.folder / "kernel_src";
  std::filesystem::copy(KILN_SOURCE_DIR "/kernel_src", sources,
                        std::filesystem::copy_options::recursive);
  tool.environment["KILN_KERNEL_SRC"] = sources;
  const std::vector<std::string> line = {"warmup",
                                         "--suite",
                                         tool.suite(R"({"cases": [
    {"name": "product", "family": "gemm", "m": 64, "n": 4096, "k": 4096,
     "dtype": "bf16", "layout": "NT"},
    {"name": "rows", "family": "softmax", "rows": 512, "cols": 1024,
     "dtype": "bf16"}]})"),
                                         "--device",
                                         "h200-sxm",
                                         "--json"};
  auto isCached = [&](const llvm::json::Object &device, size_t row) {
    const llvm::json::Array &rows = *device.getArray("rows");
    REQUIRE(rows.size() == 2);
    return rows[row].getAsObject()->getBoolean("cached");
  };
  llvm::json::Object first = deviceOf(tool.run(line));
  CHECK(first.getInteger("compiled") == 2);
  // A copy of the embedded sources has their keys.
  tool.environment.erase("KILN_KERNEL_SRC");
  CHECK(deviceOf(tool.run(line)).getInteger("compiled") == 0);
  tool.environment["KILN_KERNEL_SRC"] = sources;

  // Comments are no part of a key, in a folder as in the library.
  for (const std::string &path : filesIn(sources))
    writeBytes(path, "// An essay\n// of two lines.\n\n" + readBytes(path) +
                         "\n/* The end. */\n");
  CHECK(deviceOf(tool.run(line)).getInteger("compiled") == 0);

  const std::string file = sources + "/rows/RowMath.cuh";
  writeBytes(file, readBytes(file) + "struct Edited;\n");
  llvm::json::Object second = deviceOf(tool.run(line));
  CHECK(second.getInteger("compiled") == 1);
  CHECK(isCached(second, 0) == true);
  CHECK(isCached(second, 1) == false);
  CHECK(deviceOf(tool.run(line)).getInteger("compiled") == 0);
}

TEST_CASE("the texts of kernels replace links that others planted") {
  Tool tool;
  const std::string dump = tool.folder / "dump",
                    victim = tool.folder / "victim";
  const std::string warmup = "warmup " + kSmallProblem +
                             " --device h200-sxm --no-cache --dump-dir " + dump;
  REQUIRE(tool.run(warmup).code == 0);
  const std::vector<std::string> units = filesIn(dump);
  REQUIRE(units.size() == 1);
  writeBytes(victim, "precious");
  std::filesystem::remove(units[0]);
  std::filesystem::create_symlink(victim, units[0]);
  REQUIRE(tool.run(warmup).code == 0);
  CHECK(readBytes(victim) == "precious");
  CHECK(filesIn(dump) == units);
}
