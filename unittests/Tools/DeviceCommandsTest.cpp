// info, tune and bench: without a GPU, and with the stand-in driver.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>
#include <filesystem>

using namespace kiln::testing;

static const std::string kProblem = "gemm m=64 n=64 k=64 dtype=bf16";

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
       {"tune " + kProblem, "bench " + kProblem, "plan " + kProblem,
        "warmup " + kProblem, "sweep " + kProblem, "bench --jit " + kProblem}) {
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
      "tune " + kProblem + " --budget 2s --max-trials 4 --top 4";
  std::filesystem::create_directories(tool.folder / "cache/v1");
  std::filesystem::permissions(tool.folder / "cache",
                               std::filesystem::perms::owner_all);
  std::filesystem::permissions(tool.folder / "cache/v1",
                               std::filesystem::perms::owner_all);
  writeBytes(tool.folder / "cache/v1/artifact", "a file in the folder's place");
  ToolResult result = tool.run(line);
  CHECK(result.code == 1);
  CHECK(result.out.find("not stored: 0 records, ") != std::string::npos);
  CHECK(result.err.find("kiln: warning: cannot write to the cache in ") !=
        std::string::npos);
  CHECK(tool.run(line + " --no-cache").out.find("not stored") ==
        std::string::npos);
}

TEST_CASE("tune tells what it could not measure") {
  Tool tool;
  // Kernels of the stand-in driver do nothing, so that none is valid.
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  ToolResult result = tool.run("tune " + kProblem + " --budget 2s --json");
  CHECK(result.code == 1);
  llvm::json::Object json = result.json();
  CHECK(json.getInteger("unmeasured") == 1);
  const llvm::json::Array &cases = *json.getArray("cases");
  REQUIRE(cases.size() == 1);
  CHECK(cases.front().getAsObject()->getString("problem") == kProblem);
  // Nothing to compute is no failure.
  CHECK(tool.run("tune gemm m=0 n=8 k=8 dtype=bf16 --budget 2s").code == 0);
}

TEST_CASE("sweep keeps its document when a case fails") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  // Kernels of the stand-in driver do nothing, nor does what judges them.
  std::string path = tool.folder / "sweep.json";
  ToolResult result = tool.run("sweep " + kProblem + " --json --out " + path);
  CHECK(result.code == 1);
  const llvm::json::Object json = result.json();
  const llvm::json::Array &cases = *json.getArray("cases");
  REQUIRE(cases.size() == 1);
  CHECK(cases.front().getAsObject()->getString("problem") == kProblem);
  CHECK(readBytes(path) == result.out);
  // Nothing to compute is no failure; no time to begin is.
  CHECK(tool.run("sweep gemm m=0 n=8 k=8 dtype=bf16").code == 0);
  ToolResult late = tool.run("sweep " + kProblem + " --time-limit 1ms --json");
  CHECK(late.code == 1);
  CHECK(late.json().getBoolean("interrupted") == true);
}

TEST_CASE("sweep draws problems of layers and records their times") {
  Tool tool;
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
  // What does not fit together is refused before anything is measured.
  for (const std::string &line :
       {draw + "--range n=1..64", draw + "--range m=64", draw + "--seed x",
        draw + kProblem, "sweep " + kProblem + " --draw 2",
        "sweep " + kProblem + " --seed 2", "sweep " + kProblem + " --sample 2",
        "sweep --suite " + layers}) {
    CAPTURE(line);
    ToolResult bad = tool.run(line);
    CHECK(bad.code == 2);
    CHECK(bad.hasOneErrorLine());
  }
}

TEST_CASE("bench draws problems of layers and meets them in every state") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string layers = tool.suite(
      R"({"layers": [{"name": "a", "family": "gemm", "n": 64, "k": 64,
                      "dtype": "bf16"}]})");
  const std::string path = tool.folder / "draw.json";
  const std::string draw = "bench --suite " + layers +
                           " --draw 2 --seed 5,6 --range m=1..64 --no-peer ";
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
        draw + "--hot", "bench " + kProblem + " --state first"}) {
    CAPTURE(line);
    ToolResult bad = tool.run(line);
    CHECK(bad.code == 2);
    CHECK(bad.hasOneErrorLine());
  }
}

TEST_CASE("bench draws rows and columns of memory-bound layers") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string layers = tool.suite(
      R"({"layers": [{"name": "softmax/a", "family": "softmax",
                      "dtype": "bf16"},
                     {"name": "cols60/b", "family": "softmax", "cols": 60,
                      "dtype": "fp32"}]})");
  const std::string draw =
      "bench --suite " + layers +
      " --draw 4 --range rows=1..4096 --range cols=33..8192 ";
  // No library is opened: a stream stands for the peer.
  ToolResult result = tool.run(draw + "--bytes 1K..1M --state first --json");
  CAPTURE(result.err);
  // Kernels of the stand-in driver do nothing, nor does what judges them.
  CHECK(result.code == 1);
  const llvm::json::Object json = result.json();
  CHECK(json.getString("peer") == "reference stream");
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
        draw + "--bytes 1T..2T", "bench " + kProblem + " --bytes 1K..2K"}) {
    CAPTURE(line);
    ToolResult bad = tool.run(line);
    CHECK(bad.code == 2);
    CHECK(bad.hasOneErrorLine());
  }
}

TEST_CASE("what a long command measured is not lost with its --out") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string empty = " gemm m=0 n=8 k=8 dtype=bf16";
  // Told before anything is measured.
  ToolResult nowhere = tool.run("sweep" + empty + " --out /no/such/file.json");
  CHECK(nowhere.code == 2);
  CHECK(nowhere.hasOneErrorLine());
  CHECK(nowhere.out.empty());
  for (std::string command : {"sweep", "bench --no-peer --commit abc"}) {
    CAPTURE(command);
    ToolResult full = tool.run(command + empty + " --json --out /dev/full");
    CHECK(full.code == 1);
    CHECK(full.hasOneErrorLine());
    CHECK(full.json().getArray("cases")->size() == 1);
  }
}

TEST_CASE("a result names its commit") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  const std::string path = tool.folder / "bench.json";
  for (const char *command :
       {"bench --no-peer", "bench --chain", "bench --jit --device h200-sxm"}) {
    CAPTURE(command);
    ToolResult bad = tool.run(std::string(command) +
                              " gemm m=0 n=8 k=8 dtype=bf16 --out " + path);
    CHECK(bad.code == 2);
    CHECK(bad.hasOneErrorLine());
    CHECK(bad.err.find("--commit") != std::string::npos);
  }
}

TEST_CASE("sweep keeps its document when the compiler is missing") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  tool.environment["KILN_NVRTC"] = "/nonexistent/libnvrtc.so";
  std::string path = tool.folder / "sweep.json";
  ToolResult result = tool.run({"sweep", "gemm m=0 n=8 k=8 dtype=bf16",
                                kProblem, "--json", "--out", path});
  CHECK(result.code == 3);
  CHECK(result.hasOneErrorLine());
  CHECK(result.json().getArray("cases")->size() == 2);
  CHECK(result.json().getBoolean("interrupted") == true);
  CHECK(readBytes(path) == result.out);
}

TEST_CASE("bench without its peer ends with 3") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  ToolResult result = tool.run("bench " + kProblem);
  CHECK(result.code == 3);
  CHECK(result.hasOneErrorLine());
}

TEST_CASE("bench --jit measures compilation for a GPU that is not here") {
  Tool tool;
  std::string path = tool.folder / "jit.json";
  ToolResult result =
      tool.run("bench --jit " + kProblem +
               " --device h200-sxm --json --commit abc --out " + path);
  llvm::json::Object json = result.json();
  CHECK(json.getString("commit") == "abc");
  CHECK(readBytes(path) == result.out);
  CHECK(json.getArray("kernels")->size() == 1);
  CHECK(json.getNumber("kernels_per_s").value_or(0) > 0);
  CHECK(json.getString("no_hits"));
}

TEST_CASE("bench --jit measures the way from the cache to a launch") {
  Tool tool;
  tool.environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
  llvm::json::Object json =
      tool.run("bench --jit " + kProblem + " --json").json();
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
