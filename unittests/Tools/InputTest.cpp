// Files and texts from outside, which may be anything.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

#include <sys/stat.h>

using namespace kiln::testing;

TEST_CASE("F18: names of cases cannot steer a terminal or forge a line") {
  Tool tool;
  const std::string json =
      R"({"cases": [{"name": "a\u001b[2J\nkiln: error: forged\u009b\u007f",
       "family": "gemm", "m": 64, "n": 64, "k": 64, "dtype": "bf16"}]})";
  for (const char *command : {"plan", "warmup"}) {
    ToolResult result = tool.run(
        {command, "--suite", tool.suite(json), "--device", "h200-sxm"});
    CHECK(result.code == 0);
    CHECK(result.out.find("\nkiln: error") == std::string::npos);
    for (const char *harmful : {"\x1b", "\x7f", "\xc2\x9b"})
      CHECK(result.out.find(harmful) == std::string::npos);
  }
  ToolResult refused =
      tool.run(std::vector<std::string>{"plan", "gemm m=\x7f\xc2\x9b\x1b[2J"});
  CHECK(refused.code == 2);
  CHECK(refused.hasOneErrorLine());
  for (const char *harmful : {"\x1b", "\x7f", "\xc2\x9b"})
    CHECK(refused.err.find(harmful) == std::string::npos);
}

TEST_CASE("F18: what has no end is not read") {
  Tool tool;
  const std::string problem = "gemm m=64 n=64 k=64 dtype=bf16";
  for (std::string line : {"plan --suite /dev/zero --device h200-sxm",
                           "plan gemm m=1 n=8 k=8 dtype=bf16 --device "
                           "/dev/zero",
                           "plan gemm m=1 n=8 k=8 dtype=bf16 --device "
                           "h200-sxm --override /dev/zero"}) {
    CAPTURE(line);
    ToolResult result = tool.run(line);
    CHECK(result.code == 2);
    CHECK(result.hasOneErrorLine());
    CHECK(result.err.find("/dev/zero") != std::string::npos);
  }
}

TEST_CASE("F18: paths that are not UTF-8 are told as JSON") {
  Tool tool;
  const std::string odd = tool.folder / "caf\xe9";
  for (const std::vector<std::string> &line :
       {std::vector<std::string>{"info", "--json", "--cache-dir", odd,
                                 "--nvrtc", odd},
        std::vector<std::string>{"cache", "ls", "--json", "--cache-dir", odd},
        std::vector<std::string>{"cache", "verify", "--json", "--cache-dir",
                                 odd}}) {
    REQUIRE((::mkdir(odd.c_str(), 0700) == 0 || errno == EEXIST));
    ToolResult result = tool.run(line);
    CHECK(result.code == 0);
    CHECK(!result.json().empty());
  }
  const std::string device =
      tool.suite(R"({"name": "h200-sxm"})", "d\xe9vice.json");
  ToolResult result = tool.run({"info", "--json", "--device", device});
  CHECK(result.code == 0);
  CHECK(!result.json().empty());
}

TEST_CASE("F18: a key twice and true for a number are slips") {
  Tool tool;
  auto errorOf = [&](const std::string &fields) {
    ToolResult result =
        tool.run({"plan", "--device", "h200-sxm", "--suite",
                  tool.suite(R"({"cases": [{"name": "a", "family": "gemm", )" +
                             fields + "}]}")});
    CHECK((result.code == 0 || (result.code == 2 && result.hasOneErrorLine())));
    return result.err;
  };
  CHECK(errorOf(R"("m": 64, "n": 64, "k": 64, "dtype": "bf16")").empty());
  CHECK(errorOf(R"("m": 64, "n": 64, "k": 64, "dtype": "bf16", "m": 1)")
            .find("key 'm' is there twice") != std::string::npos);
  CHECK(errorOf(R"("m": 64, "n": 64, "k": 64, "dtype": "bf16", "\u006d": 1)")
            .find("key 'm' is there twice") != std::string::npos);
  CHECK(errorOf(R"("m": true, "n": 64, "k": 64, "dtype": "bf16")")
            .find("m is not an integer") != std::string::npos);
  ToolResult result =
      tool.run({"plan", "gemm m=1 n=8 k=8 dtype=bf16", "--device",
                tool.suite(R"({"name": "h200-sxm", "smCount": 66,
                               "smCount": 132})",
                           "device.json")});
  CHECK(result.code == 2);
  CHECK(result.err.find("key 'smCount' is there twice") != std::string::npos);
}
