// kiln trace.
#include "Tools/ToolRunner.h"
#include "Tools/TraceSamples.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace kiln::testing;

TEST_CASE("a trace is shown as tables and as JSON") {
  Tool tool;
  const std::string path = tool.suite(traceOf(sampleEvents()), "t.json");
  ToolResult text = tool.run({"trace", path});
  CHECK(text.code == 0);
  CHECK(text.err.empty());
  for (const char *part :
       {"kiln 0.1.0, server, pid 12, H200", "8 intervals on 2 threads",
        "kiln_gemm      2     4.012       4.000", "wait 88 %", "gemm m=32",
        "compile      1         0.500", "arena bytes        2   256       512",
        "pool"}) {
    CAPTURE(part);
    CAPTURE(text.out);
    CHECK(text.out.find(part) != std::string::npos);
  }
  CHECK(text.out.find("note:") == std::string::npos);

  llvm::json::Object json = tool.run({"trace", path, "--json"}).json();
  CHECK(json.getInteger("intervals") == 8);
  CHECK(json.getBoolean("is_cut") == false);
  const llvm::json::Object *first =
      (*json.getArray("longest"))[0].getAsObject();
  CHECK(first->getInteger("number") == 1);
  CHECK(first->getNumber("ms") == 4.0);
  CHECK(first->getObject("phases_ms")->getNumber("wait") == 3.5);
  CHECK((*json.getArray("waits"))[0].getAsObject()->getNumber(
            "longest_wait_ms") == 0.5);
}

TEST_CASE("one call is shown interval by interval") {
  Tool tool;
  const std::string path = tool.suite(traceOf(sampleEvents()), "t.json");
  ToolResult one = tool.run({"trace", path, "--call", "1"});
  CHECK(one.code == 0);
  CHECK(one.out.find("    wait") != std::string::npos);
  CHECK(one.out.find("work that it handed over\n") != std::string::npos);
  CHECK(one.out.find("gemm m=32") == std::string::npos);
  ToolResult all = tool.run({"trace", path, "--call", "kiln_gemm", "--top=1"});
  CHECK(all.out.find("the longest calls, 1 of 2") != std::string::npos);
  CHECK(tool.run({"trace", path, "--call", "0"}).code == 2);
  CHECK(tool.run({"trace", path, "--thread", "x"}).hasOneErrorLine());
}

TEST_CASE("stacks, a flame graph and a closed trace are written") {
  Tool tool;
  const std::string whole = traceOf(sampleEvents());
  const std::string path =
      tool.suite(whole.substr(0, whole.find(",{\"ph\":\"i\"") + 20), "t.json");
  const std::string folded = tool.folder / "f.txt", svg = tool.folder / "f.svg";
  ToolResult result =
      tool.run({"trace", path, "--folded", folded, "--svg", svg});
  CHECK(result.code == 0);
  CHECK(result.out.find("note: the file was cut") != std::string::npos);
  CHECK(readBytes(folded).find("main;kiln_gemm;lookup;wait 3500\n") !=
        std::string::npos);
  CHECK(readBytes(svg).ends_with("</svg>\n"));
  // The trace closes in its own place.
  CHECK(tool.run({"trace", path, "--close", path}).code == 0);
  CHECK(readBytes(path).ends_with("\n]}\n"));
  CHECK(tool.run({"trace", path}).out.find("note:") == std::string::npos);
  // Nothing is mixed with a file on stdout.
  CHECK(tool.run({"trace", path, "--folded", "-"}).out == readBytes(folded));
  CHECK(tool.run({"trace", path, "--svg", "/nonexistent/x"}).code != 0);
  CHECK(tool.run("trace").code == 2);
  CHECK(tool.run("trace /nonexistent").hasOneErrorLine());
  CHECK(tool.run("trace a b").code == 2);
}
