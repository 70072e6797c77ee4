// kiln stats.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kiln::testing;

static const std::string kStatistics =
    R"({"kiln_statistics":1,"version":"0.1.0","pid":123,)"
    R"("unix_ns":"1764000000000000000","engine":2,"statistics":{)"
    R"("launches":1000,"cache_hits":7,"compile_ns":1500000,)"
    R"("tune_ns":"9007199254740995","arena_bytes":1048576,)"
    R"("arena_peak_bytes":3145728,"background_paused":0,"new_field":5,)"
    R"("odd":[]},"waits":[)"
    R"({"call":"kiln_gemm","problem":"gemm m=1","phase":"compile",)"
    R"("reason":"no kernel","start_unix_ns":"1764000000000000000",)"
    R"("elapsed_ms":12.5,"phase_ms":11.0,"thread":77},)"
    R"({"call":"kiln_prepare","phase":"trial","elapsed_ms":200,"phase_ms":150,)"
    R"("later":{}},)"
    R"({"call":"kiln_gemm","problem":"gemm m=2","phase":"compile",)"
    R"("elapsed_ms":1.5,"phase_ms":1},3]})";

TEST_CASE("counts are grouped, and waits are sorted and summed up") {
  Tool tool;
  const std::string path = tool.suite(kStatistics, "stats.json");
  ToolResult text = tool.run({"stats", path});
  CHECK(text.code == 0);
  for (const char *part :
       {"engine 2 of process 123 (kiln 0.1.0) wrote it ",
        "calls       launches                        1000\n",
        "compile     compile_ns                  1.500 ms\n",
        "other       new_field                          5\n",
        "arena      1.00         3.00\n", "compile         2   14.000",
        "200.000  kiln_prepare  trial", "no kernel", "gemm m=2",
        "note: 2 counts or waits cannot be read"}) {
    CAPTURE(part);
    CAPTURE(text.out);
    CHECK(text.out.find(part) != std::string::npos);
  }
  CHECK(text.out.find("kiln_prepare") < text.out.find("gemm m=1"));
  CHECK(tool.run({"stats", path, "--top=1"}).out.find("gemm m=1") ==
        std::string::npos);

  llvm::json::Object json = tool.run({"stats", path, "--json"}).json();
  CHECK(json.getObject("statistics")->getInteger("new_field") == 5);
  CHECK(json.getObject("statistics")->getString("tune_ns") ==
        "9007199254740995");
  CHECK(json.getObject("waits_by_phase")
            ->getObject("compile")
            ->getNumber("elapsed_ms") == 14.0);
  CHECK(json.getNumber("age_s").value_or(-1) >= 0);
}

TEST_CASE("few fields are enough, and other files are refused") {
  Tool tool;
  auto run = [&](const std::string &json) {
    return tool.run({"stats", tool.suite(json, "s.json")});
  };
  CHECK(run(R"({"kiln_statistics":1,"statistics":{}})").code == 0);
  for (const char *bad :
       {"", "{", "[]", "{}", R"({"kiln_statistics":1})", R"({"statistics":{}})",
        R"({"kiln_statistics":2,"statistics":{}})"}) {
    CAPTURE(bad);
    ToolResult result = run(bad);
    CHECK(result.code == 2);
    CHECK(result.hasOneErrorLine());
    CHECK(result.err.find("s.json") != std::string::npos);
  }
  CHECK(tool.run("stats").code == 2);
  CHECK(tool.run("stats /nonexistent").hasOneErrorLine());
}

TEST_CASE("the file of a process is found by its environment") {
  Tool tool;
  ToolResult seen;
  // The program that runs as the process waits in its own folder.
  auto statsOf = [&](const std::string &variable) {
    Tool process;
    process.program = "/bin/sh";
    process.environment["KILN_STATISTICS"] = variable;
    process.run(
        {"-c", "cd " + tool.folder.path + "; : >started; exec sleep 60"},
        [&](pid_t pid) {
          while (!std::filesystem::exists(tool.folder / "started"))
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          std::filesystem::remove(tool.folder / "started");
          tool.suite(kStatistics, "own." + std::to_string(pid) + ".json");
          seen = tool.run({"stats", std::to_string(pid)});
          ::kill(pid, SIGKILL);
        });
    return seen;
  };
  for (const std::string &path :
       {std::string("own.%p.json"), tool.folder / "own.%p.json"}) {
    ToolResult result = statsOf(path);
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(result.out.find("launches") != std::string::npos);
  }
  CHECK(statsOf("").err.find("was started without KILN_STATISTICS") !=
        std::string::npos);
  CHECK(statsOf("gone.json").err.find("gone.json: No such file") !=
        std::string::npos);
  ToolResult none = tool.run("stats 4194305");
  CHECK(none.code == 2);
  CHECK(none.err.find("neither a file nor a process") != std::string::npos);
}
