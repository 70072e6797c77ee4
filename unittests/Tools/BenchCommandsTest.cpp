// The laboratory: without a GPU, and with the stand-in driver.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

using namespace kiln::testing;

TEST_CASE("every command of kiln-bench has help") {
  BenchTool bench;
  Tool tool;
  const ToolResult overview = bench.run("--help");
  CHECK(overview.code == 0);
  for (std::string name :
       {"draw", "chain", "background", "jit", "study", "sweep", "quality"}) {
    CAPTURE(name);
    CHECK(overview.out.find("  " + name + " ") != std::string::npos);
    const ToolResult help = bench.run(name + " --help");
    CHECK(help.code == 0);
    CHECK(help.out.find("usage: kiln-bench " + name + " ") == 0);
    // The other tool tells where the command is.
    const ToolResult elsewhere = tool.run(name);
    CHECK(elsewhere.code == 2);
    CHECK(elsewhere.err.find("it is one of kiln-bench") != std::string::npos);
  }
  CHECK(bench.run("--version").out == "kiln-bench " KILN_TOOL_VERSION "\n");
  CHECK(bench.run("tune").err ==
        "kiln-bench: error: unknown command 'tune', it is one of kiln\n");
}

TEST_CASE("bad input to kiln-bench gets one line and exit code 2") {
  BenchTool tool;
  struct {
    std::string line;    // the arguments of the program
    std::string mention; // a text that the error must have
  } cases[] = {
      {"", "kiln-bench --help"},
      {"sweeb", "did you mean sweep"},
      {"sweep " + kSmallProblem + " --device h200-sxm", "h200-sxm"},
      {"sweep " + kSmallProblem + " --time-limit soon", "--time-limit=soon"},
      {"sweep " + kSmallProblem + " --batch 1", "--batch=1"},
      {"draw --count 0", "--count=0"},
      {"chain " + kSmallProblem + " --hot", "unknown option '--hot'"},
      {"study " + kSmallProblem + " --permille 5",
       "unknown option '--permille'"},
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

TEST_CASE("what of kiln-bench needs a GPU ends with 3 where there is none") {
  BenchTool tool;
  for (std::string line : {"sweep " + kSmallProblem, "jit " + kSmallProblem,
                           "chain " + kSmallProblem}) {
    CAPTURE(line);
    ToolResult result = tool.run(line);
    CAPTURE(result.err);
    CHECK(result.code == 3);
    CHECK(result.hasOneErrorLine());
  }
}

TEST_CASE("sweep keeps its document when a case fails") {
  BenchTool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  // Kernels of the stand-in driver do nothing, nor does what judges them.
  std::string path = tool.folder / "sweep.json";
  ToolResult result =
      tool.run("sweep " + kSmallProblem + " --json --out " + path);
  CHECK(result.code == 1);
  const llvm::json::Object json = result.json();
  const llvm::json::Array &cases = *json.getArray("cases");
  REQUIRE(cases.size() == 1);
  CHECK(cases.front().getAsObject()->getString("problem") == kSmallProblem);
  CHECK(readBytes(path) == result.out);
  // Nothing to compute is no failure; no time to begin is.
  CHECK(tool.run("sweep gemm m=0 n=8 k=8 dtype=bf16").code == 0);
  ToolResult late =
      tool.run("sweep " + kSmallProblem + " --time-limit 1ms --json");
  CHECK(late.code == 1);
  CHECK(late.json().getBoolean("interrupted") == true);
}

TEST_CASE("sweep draws problems of layers and records their times") {
  BenchTool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string layers = tool.suite(
      R"({"layers": [{"name": "a", "family": "gemm", "n": 64, "k": 64,
                      "dtype": "bf16"}]})");
  const std::string record = tool.folder / "record.json";
  const std::string draw = "sweep --suite " + layers + " --draw 2 --seed 5 ";
  ToolResult result = tool.run(draw +
                               "--range m=1..64 --top 4 --sample 3 "
                               "--json --record " +
                               record);
  CAPTURE(result.err);
  const llvm::json::Object json = result.json();
  const llvm::json::Array &cases = *json.getArray("cases");
  REQUIRE(cases.size() == 2);
  for (const llvm::json::Value &value : cases) {
    const llvm::json::Object &one = *value.getAsObject();
    CHECK(one.getString("name")->starts_with("a/m"));
    // Kernels of the stand-in driver do nothing, nor does what judges them.
    CHECK(one.getString("error"));
  }
  CHECK(readBytes(record).find("\"spaces\"") != std::string::npos);
  // Options that do not fit together are refused before anything is measured.
  for (const std::string &line :
       {draw + "--range n=1..64", draw + "--range m=64", draw + "--seed x",
        draw + kSmallProblem, "sweep " + kSmallProblem + " --draw 2",
        "sweep " + kSmallProblem + " --seed 2",
        "sweep " + kSmallProblem + " --sample 2", "sweep --suite " + layers}) {
    CAPTURE(line);
    ToolResult bad = tool.run(line);
    CHECK(bad.code == 2);
    CHECK(bad.hasOneErrorLine());
  }
}

TEST_CASE("bench draws problems of layers and meets them in every state") {
  BenchTool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string layers = tool.suite(
      R"({"layers": [{"name": "a", "family": "gemm", "n": 64, "k": 64,
                      "dtype": "bf16"}]})");
  const std::string path = tool.folder / "draw.json";
  const std::string draw = "draw --suite " + layers +
                           " --count 2 --seed 5,6 --range m=1..64 --no-peer ";
  ToolResult result =
      tool.run(draw +
               "--state first,met,tuned,prepared --budget 20ms "
               "--prepare-budget 50ms --json --commit abc --out " +
               path);
  CAPTURE(result.err);
  // Kernels of the stand-in driver do nothing, nor does what judges them.
  CHECK(result.code == 1);
  CHECK(readBytes(path) == result.out);
  const llvm::json::Object json = result.json();
  const llvm::json::Array &cases = *json.getArray("cases");
  REQUIRE(cases.size() == 4);
  for (const llvm::json::Value &value : cases)
    for (const char *state : {"first", "met", "tuned", "prepared"}) {
      const llvm::json::Object *side = value.getAsObject()->getObject(state);
      REQUIRE(side);
      CHECK_FALSE(side->getString("config")->empty());
      CHECK(side->getBoolean("correct") == false);
      CHECK((side->getNumber("first_call_ms").value_or(0) > 0) ==
            (std::string(state) != "tuned"));
    }
  const llvm::json::Object &states = *json.getObject("draw");
  CHECK(states.getObject("prepared")->getArray("layers")->size() == 1);
  CHECK(states.getObject("prepared")->getInteger("kernels").value_or(0) > 0);
  CHECK(states.getObject("first")->getInteger("compiles").value_or(0) > 0);
  for (const std::string &line :
       {draw + "--state first,first", draw + "--state often", draw + "--jit",
        draw + "--hot", "draw " + kSmallProblem + " --state first"}) {
    CAPTURE(line);
    ToolResult bad = tool.run(line);
    CHECK(bad.code == 2);
    CHECK(bad.hasOneErrorLine());
  }
}

TEST_CASE("bench draws rows and columns of memory-bound layers") {
  BenchTool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string layers = tool.suite(
      R"({"layers": [{"name": "softmax/a", "family": "softmax",
                      "dtype": "bf16"},
                     {"name": "cols60/b", "family": "softmax", "cols": 60,
                      "dtype": "fp32"}]})");
  const std::string draw =
      "draw --suite " + layers +
      " --count 4 --range rows=1..4096 --range cols=33..8192 ";
  // No library is opened: the peer is a copy baseline.
  ToolResult result = tool.run(draw + "--bytes 1K..1M --state first --json");
  CAPTURE(result.err);
  // Kernels of the stand-in driver do nothing, nor does what judges them.
  CHECK(result.code == 1);
  const llvm::json::Object json = result.json();
  CHECK(json.getString("peer") == "copy baseline");
  REQUIRE(json.getArray("cases")->size() == 4);
  for (const llvm::json::Value &value : *json.getArray("cases")) {
    const llvm::json::Object &one = *value.getAsObject();
    const int64_t bytes = one.getInteger("bytes").value_or(0);
    CHECK((bytes >= 1024 && bytes <= 1 << 20));
    const bool isOwn = one.getString("name")->starts_with("cols60");
    CHECK((one.getInteger("cols") == 60) == isOwn);
    CHECK(one.getString("name")->contains("-cols") != isOwn);
  }
  // Ranges of columns cannot be prepared, and bytes are a range of sizes.
  for (const std::string &line :
       {draw + "--state prepared", draw + "--bytes 1M", draw + "--bytes 2M..1M",
        draw + "--bytes 0..1M", draw + "--bytes 1P..2P",
        draw + "--bytes 1T..2T", "draw " + kSmallProblem + " --bytes 1K..2K"}) {
    CAPTURE(line);
    ToolResult bad = tool.run(line);
    CHECK(bad.code == 2);
    CHECK(bad.hasOneErrorLine());
  }
}

TEST_CASE("sweep keeps its document when the compiler is missing") {
  BenchTool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  tool.environment["KILN_NVRTC"] = "/nonexistent/libnvrtc.so";
  std::string path = tool.folder / "sweep.json";
  ToolResult result = tool.run({"sweep", "gemm m=0 n=8 k=8 dtype=bf16",
                                kSmallProblem, "--json", "--out", path});
  CHECK(result.code == 3);
  CHECK(result.hasOneErrorLine());
  CHECK(result.json().getArray("cases")->size() == 2);
  CHECK(result.json().getBoolean("interrupted") == true);
  CHECK(readBytes(path) == result.out);
}

TEST_CASE("jit measures compilation for a GPU that is not here") {
  BenchTool tool;
  std::string path = tool.folder / "jit.json";
  ToolResult result =
      tool.run("jit " + kSmallProblem +
               " --device h200-sxm --json --commit abc --out " + path);
  llvm::json::Object json = result.json();
  CHECK(json.getString("commit") == "abc");
  CHECK(readBytes(path) == result.out);
  CHECK(json.getArray("kernels")->size() == 1);
  CHECK(json.getNumber("kernels_per_s").value_or(0) > 0);
  CHECK(json.getString("no_hits"));
}

TEST_CASE("jit measures the way from the cache to a launch") {
  BenchTool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  llvm::json::Object json = tool.run("jit " + kSmallProblem + " --json").json();
  CHECK(json.getArray("hits")->size() == 1);
  CHECK(json.getBoolean("nvrtc_loaded_on_hits") == false);
  CHECK(json.getInteger("cases") == 1);
  CHECK(json.getInteger("recorded") == 0);
  // The stand-in's kernels compute nothing, so mode tune finds none right.
  const llvm::json::Object *fresh = json.getObject("new_problems");
  REQUIRE(fresh);
  REQUIRE(fresh->getArray("problems")->size() == 1);
  const llvm::json::Object *row =
      (*fresh->getArray("problems"))[0].getAsObject();
  CHECK(row->getNumber("predict_ms").value_or(0) > 0);
  CHECK(row->getNumber("cached_ms").value_or(0) > 0);
}

TEST_CASE("what a sweep measured is not lost with its --out") {
  BenchTool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string empty = "sweep gemm m=0 n=8 k=8 dtype=bf16";
  // Told before anything is measured.
  ToolResult nowhere = tool.run(empty + " --out /no/such/file.json");
  CHECK(nowhere.code == 2);
  CHECK(nowhere.hasOneErrorLine());
  CHECK(nowhere.out.empty());
  ToolResult full = tool.run(empty + " --json --out /dev/full");
  CHECK(full.code == 1);
  CHECK(full.hasOneErrorLine());
  CHECK(full.json().getArray("cases")->size() == 1);
}

TEST_CASE("a result of kiln-bench names its commit") {
  BenchTool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string path = tool.folder / "bench.json";
  for (const char *command : {"chain", "jit --device h200-sxm"}) {
    CAPTURE(command);
    ToolResult bad = tool.run(std::string(command) +
                              " gemm m=0 n=8 k=8 dtype=bf16 --out " + path);
    CHECK(bad.code == 2);
    CHECK(bad.hasOneErrorLine());
    CHECK(bad.err.find("--commit") != std::string::npos);
  }
}
