// warmup --pool with the stand-in compiler.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

using namespace kiln::testing;

static llvm::json::Object poolOf(const ToolResult &result) {
  llvm::json::Object json = result.json();
  return *json.getArray("pools")->front().getAsObject();
}

static const std::string kCommand =
    "warmup --pool attention_merge d=128 dtype=bf16 --device h200-sxm "
    "--layers 16 ";

TEST_CASE("a pool is compiled, stored and there the second time") {
  Tool tool;
  ToolResult first = tool.run(kCommand + "--json");
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  llvm::json::Object pool = poolOf(first);
  CHECK(pool.getString("signature"));
  CHECK(pool.getBoolean("stored") == true);
  CHECK(pool.getBoolean("was_there") == false);
  CHECK(pool.getInteger("compiled").value_or(0) > 0);
  CHECK(pool.getInteger("compiled") == pool.getInteger("kernels"));
  REQUIRE(!pool.getArray("curve")->empty());
  const llvm::json::Object &last =
      *pool.getArray("curve")->back().getAsObject();
  CHECK(last.getInteger("kernels") == pool.getInteger("pool_kernels"));

  tool.environment["KILN_NVRTC"] = "/nonexistent/libnvrtc.so";
  pool = poolOf(tool.run(kCommand + "--json"));
  CHECK(pool.getInteger("compiled") == 0);
  CHECK(pool.getBoolean("was_there") == true);
  CHECK(tool.run("cache ls --kind pool").out.find("pool") != std::string::npos);
}

TEST_CASE("a pool's table tells kernels and regret") {
  Tool tool;
  ToolResult result = tool.run(kCommand + "--max-kernels 2 --no-cache");
  CHECK(result.code == 0);
  for (const char *part : {"kernels", "mean %", "p99 %", "most %",
                           "drawn problems", "pool not stored"}) {
    CAPTURE(part);
    CHECK(result.out.find(part) != std::string::npos);
  }
}

TEST_CASE("a pool for each alignment") {
  Tool tool;
  ToolResult result =
      tool.run("warmup --pool attention_merge d=120 dtype=bf16 --device "
               "h200-sxm --layers 4 --align all --json");
  REQUIRE(result.code == 0);
  CHECK(!result.json().getArray("pools")->empty());
}

TEST_CASE("what a pool cannot be made of ends with 2, without NVRTC with 3") {
  Tool tool;
  for (const char *line :
       {"warmup --pool gemm dtype=bf16 k=64 --device h200-sxm",
        "warmup --pool --device h200-sxm",
        "warmup --pool dtype=bf16 --device h200-sxm",
        "warmup --pool gemm dtype=bf16 --top 2 --device h200-sxm",
        "warmup --pool gemm dtype=bf16 --align 8 --device h200-sxm",
        "warmup gemm m=1 n=2 k=3 dtype=bf16 --align all --device h200-sxm"}) {
    CAPTURE(line);
    ToolResult result = tool.run(line);
    CHECK(result.code == 2);
    CHECK(result.hasOneErrorLine());
  }
  tool.environment["KILN_NVRTC"] = "/nonexistent/libnvrtc.so";
  CHECK(tool.run(kCommand).code == 3);
}

TEST_CASE("a pool that is not on disk is an error") {
  Tool tool;
  // A read-only folder takes nothing.
  ToolResult result = tool.run(kCommand + "--cache-dir /proc/no/such --json");
  CHECK(result.code != 0);
}
