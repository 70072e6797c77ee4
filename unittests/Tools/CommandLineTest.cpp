// Help, exit codes and the one line that bad input gets.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace kiln::testing;

TEST_CASE("every command has help") {
  Tool tool;
  ToolResult overview = tool.run("--help");
  CHECK(overview.code == 0);
  for (std::string name :
       {"info", "plan", "explain", "warmup", "tune", "bench", "cache"}) {
    CAPTURE(name);
    CHECK(overview.out.find("  " + name + " ") != std::string::npos);
    ToolResult help = tool.run(name + " --help");
    CHECK(help.code == 0);
    CHECK(help.err.empty());
    CHECK(help.out.find("usage: kiln " + name + " ") == 0);
    CHECK(help.out.find("--json") != std::string::npos);
  }
  CHECK(tool.run("--version").out == "kiln " KILN_TOOL_VERSION "\n");
}

TEST_CASE("the example of help works as it is") {
  Tool tool;
  for (std::string name : {"plan", "explain"}) {
    const std::string help = tool.run(name + " --help").out;
    const std::string begin = "\n  kiln " + name + " ";
    const size_t at = help.find(begin);
    REQUIRE(at != std::string::npos);
    const size_t words = at + begin.size();
    const std::string typed =
        help.substr(words, help.find('\n', words) - words);
    CAPTURE(typed);
    CHECK(tool.run(name + " " + typed).code == 0);
  }
}

TEST_CASE("bad input gets one line and exit code 2") {
  Tool tool;
  const std::string h200 = " --device h200-sxm";
  struct {
    std::string line;    // the arguments of the program
    std::string mention; // a text that the error must have
  } cases[] = {
      {"", "--help"},
      {"plam", "did you mean plan"},
      {"plan" + h200, "no problem"},
      {"plan m=4" + h200, "m=4"},
      {"plan conv m=4" + h200, "conv"},
      {"plan gemm m=4 n=4 dtype=bf16" + h200, "k is missing"},
      {"plan gemm m=-1 n=4 k=4 dtype=bf16" + h200, "m=-1"},
      {"plan gemm m=4 n=4 k=4 dtype=int4" + h200, "dtype=int4"},
      {"plan gemm m=4 n=4 k=4 dtype=bf16 color=red" + h200, "color"},
      {"plan gemm m=4 m=5 n=4 k=4 dtype=bf16" + h200, "twice"},
      {"plan gemm m=4 n=4 k=4 dtype=bf16 lda=1" + h200, "lda=1"},
      {"plan " + kSmallProblem + " --device h200-smx", "did you mean h200-sxm"},
      {"plan " + kSmallProblem + " --device /no/such.json", "/no/such.json"},
      {"plan " + kSmallProblem + " --devise h200-sxm", "did you mean --device"},
      {"plan " + kSmallProblem + h200 + " --top 0", "--top=0"},
      {"plan " + kSmallProblem + h200 + " --top", "--top"},
      {"plan " + kSmallProblem + h200 + " --top 1 --top 2", "twice"},
      {"plan " + kSmallProblem + h200 + " --pruned=yes", "--pruned"},
      {"plan --suite /no/such.json" + h200, "/no/such.json"},
      {"plan --suite /" + h200, "/"},
      {"explain " + kSmallProblem + " " + kSmallProblem + h200, "2 problems"},
      {"explain " + kSmallProblem + h200 + " --config mma.xx1", "xx"},
      {"explain " + kSmallProblem + h200 + " --config fast.t1", "fast"},
      {"warmup " + kSmallProblem + h200 + " --arch sm_12", "sm_12"},
      {"warmup " + kSmallProblem + h200 + " --threads many", "--threads=many"},
      {"tune " + kSmallProblem + h200, "h200-sxm"},
      {"tune " + kSmallProblem + " --budget soon", "--budget=soon"},
      {"bench " + kSmallProblem + " --budget 5", "--budget=5"},
      {"bench " + kSmallProblem + " --draw 3", "unknown option '--draw'"},
      {"sweep " + kSmallProblem,
       "unknown command 'sweep', it is one of kiln-bench"},
      {"model quality", "unknown command 'model', it is one of kiln-bench"},
      {"info extra", "extra"},
      {"cache", "ls"},
      {"cache rm", "rm"},
      {"cache ls --kind thing", "thing"},
      {"cache ls --cache-dir /dev/null", "/dev/null"},
  };
  for (const auto &[line, mention] : cases) {
    CAPTURE(line);
    ToolResult result = tool.run(line);
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(result.hasOneErrorLine());
    CHECK(result.err.find(mention) != std::string::npos);
  }
}

TEST_CASE("suites are checked case by case") {
  Tool tool;
  auto cases = [](const std::string &text) {
    return R"({"cases": [)" + text + "]}";
  };
  const std::string good = R"({"name": "a", "family": "gemm", "m": 1, "n": 8,
                              "k": 8, "dtype": "bf16"})";
  auto with = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    return cases(text.replace(text.find(from), from.size(), to));
  };
  struct {
    std::string json;
    std::vector<std::string> mentions;
  } suites[] = {
      {"{", {"suite.json"}},
      {"[]", {"cases"}},
      {R"({"cases": [], "extra": 1})", {"extra"}},
      {cases(""), {"no case"}},
      {cases(good + "," + good), {"case 'a'", "twice"}},
      {with(R"("name": "a", )", ""), {"case 1", "name is missing"}},
      {with("gemm", "conv"), {"case 'a'", "conv"}},
      {with(R"("m": 1)", R"("m": "one")"), {"case 'a'", "m is not"}},
      {with(R"("m": 1)", R"("m": -1)"), {"case 'a'", "m=-1"}},
      {with(R"("m": 1)", R"("mm": 1)"), {"case 'a'", "'mm'"}},
      {cases(std::string(100000, '[')), {"suite.json"}},
  };
  for (const auto &[json, mentions] : suites) {
    CAPTURE(json.substr(0, 200));
    ToolResult result =
        tool.run({"plan", "--suite", tool.suite(json), "--device", "t4"});
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(result.hasOneErrorLine());
    CHECK(result.err.find("suite.json") != std::string::npos);
    for (const std::string &mention : mentions)
      CHECK(result.err.find(mention) != std::string::npos);
  }
  CHECK(tool.run({"plan", "--suite", tool.suite(cases(good)), "--device",
                  "h200-sxm"})
            .code == 0);
}

TEST_CASE("a full disk is told, a reader that left is not") {
  Tool tool;
  tool.stdoutPath = "/dev/full";
  ToolResult full = tool.run("plan " + kSmallProblem + " --device h200-sxm");
  CHECK(full.code == 1);
  CHECK(full.hasOneErrorLine());
  // A shell closes the pipe at once.
  CHECK(std::system("'" KILN_TOOL "' --help | true") == 0);
}
