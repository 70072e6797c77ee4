// Ranges of layers: the kernels that warm-up compiles for them, and their
// display by explain.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace kiln::testing;

static const std::string kLayers = R"({"comment": "two", "layers": [
  {"name": "a", "family": "gemm", "n": 256, "k": 256, "dtype": "bf16",
   "layout": "NT"},
  {"name": "b", "family": "gemm", "n": 512, "k": 256, "dtype": "bf16",
   "layout": "NT"}]})";

static const char *const kRanged = "gemm m=7 n=256 k=256 dtype=bf16 layout=NT";

static llvm::json::Array rangesOf(const ToolResult &result) {
  llvm::json::Object json = result.json();
  llvm::json::Object &device = *(*json.getArray("devices"))[0].getAsObject();
  return std::move(*device.getArray("ranges"));
}

TEST_CASE("warm-up of a range compiles few kernels once, for all values") {
  Tool tool;
  std::vector<std::string> line = {"warmup",   "--suite",  tool.suite(kLayers),
                                   "--range",  "m=1..256", "--device",
                                   "h200-sxm", "--json"};
  ToolResult first = tool.run(line);
  REQUIRE(first.code == 0);
  llvm::json::Array ranges = rangesOf(first);
  REQUIRE(ranges.size() == 2);
  const llvm::json::Object &one = *ranges[0].getAsObject();
  CHECK(one.getString("name") == "a");
  CHECK(one.getString("from") == "estimated");
  CHECK(one.getInteger("compiled").value_or(0) > 0);
  CHECK(one.getBoolean("stored") == true);
  const llvm::json::Object &portfolio = *one.getObject("portfolio");
  CHECK(portfolio.getString("range") == "m=1..256");
  CHECK(portfolio.getInteger("kernels").value_or(0) <= 24);
  CHECK(portfolio.getInteger("measured") == 0);
  const llvm::json::Array &members = *portfolio.getArray("members");
  REQUIRE_FALSE(members.empty());
  for (const llvm::json::Value &value : members) {
    const llvm::json::Object &member = *value.getAsObject();
    CHECK(member.getString("config"));
    CHECK(member.getInteger("first").value_or(0) >= 1);
    CHECK(member.getInteger("last").value_or(0) <= 256);
  }
  // Not even NVRTC is needed now.
  tool.environment["KILN_NVRTC"] = "/nonexistent/libnvrtc.so";
  ranges = rangesOf(tool.run(line));
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].getAsObject()->getInteger("compiled") == 0);
  CHECK(ranges[0].getAsObject()->getString("stop") == "recorded");
}

TEST_CASE("problems and cases of suites name layers as well") {
  Tool tool;
  ToolResult result = tool.run(
      {"warmup", kRanged, "--range", "m=1..32", "--device", "h200-sxm"});
  CHECK(result.code == 0);
  for (const char *part : {"h200-sxm (sm_90)", "m=1..32", "kernels", "regret",
                           "estimated", "1 ranges"}) {
    CAPTURE(part);
    CHECK(result.out.find(part) != std::string::npos);
  }
  // Cases that differ in m alone are one layer.
  std::string suite = tool.suite(R"({"comment": "", "cases": [
  {"name": "x", "family": "gemm", "m": 1, "n": 256, "k": 256, "dtype": "bf16"},
  {"name": "y", "family": "gemm", "m": 9, "n": 256, "k": 256, "dtype": "bf16"}
  ]})");
  result = tool.run({"warmup", "--suite", suite, "--range", "m=1..8",
                     "--device", "h200-sxm", "--json"});
  REQUIRE(result.code == 0);
  CHECK(rangesOf(result).size() == 1);
}

TEST_CASE("explain shows the portfolio that a value takes its kernel from") {
  Tool tool;
  ToolResult before = tool.run({"explain", kRanged, "--device", "h200-sxm"});
  CHECK(before.code == 0);
  CHECK(before.out.find("portfolio") == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(tool.folder / "cache"));
  REQUIRE(tool.run({"warmup", kRanged, "--range", "m=1..64", "--device",
                    "h200-sxm"})
              .code == 0);
  ToolResult after = tool.run({"explain", kRanged, "--device", "h200-sxm"});
  CHECK(after.code == 0);
  for (const char *part : {"portfolio for m=1..64", "is chosen", "expected us",
                           "measured over predicted"}) {
    CAPTURE(part);
    CHECK(after.out.find(part) != std::string::npos);
  }
  llvm::json::Object json =
      tool.run({"explain", kRanged, "--device", "h200-sxm", "--json"}).json();
  const llvm::json::Object *portfolio = json.getObject("portfolio");
  REQUIRE(portfolio);
  CHECK_FALSE(portfolio->getArray("choices")->empty());
  // Beyond the range there is nothing to show.
  ToolResult beyond =
      tool.run("explain gemm m=65 n=256 k=256 dtype=bf16 layout=NT --device "
               "h200-sxm");
  CHECK(beyond.out.find("portfolio") == std::string::npos);
}

TEST_CASE("bad ranges are refused with one line") {
  Tool tool;
  for (const char *range :
       {"m", "m=", "m=1", "m=5..1", "m=0..4", "n=1..4", "q=1..4", "m=1..x"}) {
    CAPTURE(range);
    ToolResult result =
        tool.run({"warmup", kRanged, "--range", range, "--device", "h200-sxm"});
    CHECK(result.code == 2);
    CHECK(result.hasOneErrorLine());
  }
  for (const char *line :
       {"warmup --range m=1..4 --device h200-sxm",
        "warmup gemm m=1 n=64 k=64 --range m=1..4 --top 2 --device h200-sxm",
        "tune gemm m=1 n=64 k=64 --range m=1..4 --max-trials 2"}) {
    CAPTURE(line);
    ToolResult result = tool.run(line);
    CHECK(result.code == 2);
    CHECK(result.hasOneErrorLine());
  }
}
