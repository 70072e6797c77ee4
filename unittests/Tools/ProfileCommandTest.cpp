// kiln profile: a program with the helper inside and a stand-in CUPTI, reports
// of files as the helper writes them, and stand-ins of ncu.
#include "Tools/ToolRunner.h"
#include "cli/CounterProfiler.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::testing;

namespace {

const std::string kGemm = "gemm sm90.bm128.bn256.bk64.st4.wg2.cm1.cn1";

struct ProfileTool : Tool {
  ProfileTool() {
    environment["KILN_CUPTI"] = builtLibrary("libkiln_fake_cupti.so");
  }

  /// Profiles the program that does \p what.
  ToolResult profile(const std::string &options, const std::string &what) {
    return run("profile " + options + " -- " KILN_PROFILED_PROGRAM " " + what);
  }

  /// Profiles a shell that leaves \p documents as processes do.
  ToolResult report(const std::vector<std::string> &options,
                    const std::vector<std::string> &documents) {
    std::string script;
    for (size_t i = 0; i < documents.size(); ++i) {
      writeBytes(folder / (std::to_string(i) + ".in"), documents[i]);
      script += "cp " + (folder / (std::to_string(i) + ".in")) +
                " $KILN_PROFILER_OUT/" + std::to_string(i) + ".json; ";
    }
    std::vector<std::string> words = {"profile"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "sh", "-c", script});
    return run(words);
  }
};

/// The row of a document whose \p key is \p value.
const llvm::json::Object &rowOf(const llvm::json::Object &document,
                                llvm::StringRef key, llvm::StringRef value) {
  static const llvm::json::Object kNone;
  for (const llvm::json::Value &row : *document.getArray("rows"))
    if (row.getAsObject()->getString(key) == value)
      return *row.getAsObject();
  FAIL_CHECK("no row has " << key.str() << " " << value.str());
  return kNone;
}

std::string processOf(const std::string &rows, const std::string &device,
                      const std::string &more = "\"complete\":true") {
  return "{\"kilnProfile\":1,\"pid\":7,\"dropped\":0," + more +
         ",\"devices\":[" + device + "],\"rows\":[" + rows + "]}";
}

std::string deviceOf(const std::string &uuid, int first, int last, int busy) {
  return "{\"id\":0,\"name\":\"NVIDIA H200\",\"uuid\":\"" + uuid +
         "\",\"firstNs\":" + std::to_string(first) +
         ",\"lastNs\":" + std::to_string(last) +
         ",\"busyNs\":" + std::to_string(busy) + "}";
}

std::string rowCalled(const std::string &name, int calls, int totalNs) {
  const std::string mean = std::to_string(totalNs / calls);
  return "{\"kind\":\"kernel\",\"name\":\"" + name +
         "\",\"device\":0,\"calls\":" + std::to_string(calls) +
         ",\"totalNs\":" + std::to_string(totalNs) + ",\"minNs\":" + mean +
         ",\"maxNs\":" + mean + "}";
}

} // namespace

//===----------------------------------------------------------------------===//
// The helper in a program
//===----------------------------------------------------------------------===//

TEST_CASE("profile: kernels, copies and memsets of a program") {
  ProfileTool tool;
  ToolResult result = tool.profile("--json", "kernels");
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  // The program's own output goes to stderr.
  CHECK(result.err == "done\n");
  const llvm::json::Object json = result.json();
  CHECK(json.getInteger("processes") == 1);
  CHECK(json.getInteger("cutProcesses") == 0);
  CHECK(json.getInteger("droppedRecords") == 3);
  REQUIRE(json.getArray("rows")->size() == 5);
  const llvm::json::Object &gemm = rowOf(json, "kernel", kGemm + " sig1f55");
  CHECK(gemm.getInteger("calls") == 10);
  CHECK(gemm.getNumber("totalUs") == 54.5);
  CHECK(gemm.getNumber("meanUs") == 5.45);
  CHECK(gemm.getNumber("minUs") == 5);
  CHECK(gemm.getNumber("maxUs") == 5.9);
  CHECK(gemm.getString("template") == "sm90");
  CHECK(gemm.getInteger("registers") == 168);
  CHECK(gemm.getInteger("dynamicSharedBytes") == 230544);
  CHECK(*gemm.getArray("grid") == llvm::json::Array{132, 1, 1});
  CHECK(*gemm.getArray("block") == llvm::json::Array{384, 1, 1});
  // Kernels of other programs are demangled; devices are summed up.
  CHECK(rowOf(json, "kernel", "fill<float>").getInteger("calls") == 2);
  CHECK(rowOf(json, "kernel", "memcpy HtoD").getNumber("totalUs") == 0.5);
  CHECK(rowOf(json, "kernel", "memset").getString("kind") == "memset");
  REQUIRE(json.getArray("devices")->size() == 2);
  const llvm::json::Object &device =
      *(*json.getArray("devices"))[0].getAsObject();
  CHECK(device.getString("name") == "NVIDIA H200");
  CHECK(device.getNumber("spanUs") == 111);
  // 54.5, 6 of two that overlap, 1.5.
  CHECK(device.getNumber("busyUs") == 62);
}

TEST_CASE("profile --by device") {
  ProfileTool tool;
  const llvm::json::Object json =
      tool.profile("--by device --json", "kernels").json();
  CHECK(rowOf(json, "device", "1: NVIDIA H200").getNumber("totalUs") == 2);
  CHECK(rowOf(json, "device", "0: NVIDIA H200").getInteger("calls") == 14);
}

TEST_CASE("profile --by layer joins a graph's nodes with its launch") {
  ProfileTool tool;
  ToolResult result = tool.profile("--by layer --json", "ranges");
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const llvm::json::Object json = result.json();
  // Launched once, replayed three times.
  CHECK(rowOf(json, "layer", "layer 0").getNumber("totalUs") == 1 + 3 * 1);
  CHECK(rowOf(json, "layer", "layer 1").getNumber("totalUs") == 2 + 3 * 2);
  CHECK(rowOf(json, "layer", "(none)").getInteger("calls") == 6);
  const llvm::json::Object steps =
      tool.profile("--by step --json", "ranges").json();
  CHECK(rowOf(steps, "step", "prefill").getInteger("calls") == 3);
  CHECK(rowOf(steps, "step", "decode").getInteger("calls") == 9);
  const llvm::json::Object ranges =
      tool.profile("--by range --json", "ranges").json();
  CHECK(rowOf(ranges, "range", "early").getInteger("calls") == 1);
  CHECK(rowOf(ranges, "range", "prefill / layer 1 / inner")
            .getNumber("totalUs") == 2);
  CHECK(rowOf(ranges, "range", "prefill / inner").getNumber("totalUs") == 0.05);
  CHECK(rowOf(ranges, "range", "decode / layer 1").getInteger("calls") == 3);
  CHECK(rowOf(ranges, "range", "decode").getInteger("calls") == 3);
  CHECK(rowOf(ranges, "range", "(none)").getNumber("totalUs") == 0.7);
}

TEST_CASE("profile --by layer of a program without layers") {
  ProfileTool tool;
  CHECK(tool.profile("--by layer", "kernels")
            .out.find("note: no range has the category layer; --by range shows "
                      "all ranges") != std::string::npos);
}

TEST_CASE("profile --from-start off waits for cuProfilerStart") {
  ProfileTool tool;
  const llvm::json::Object json =
      tool.profile("--from-start off --json", "profiler").json();
  REQUIRE(json.getArray("rows")->size() == 1);
  CHECK(rowOf(json, "kernel", kGemm).getInteger("calls") == 1);
  CHECK(tool.profile("--json", "profiler").json().getArray("rows")->size() ==
        2);
  CHECK(tool.profile("--from-start no", "profiler").code == 2);
}

TEST_CASE("profile: processes of a command") {
  ProfileTool tool;
  const std::string program = KILN_PROFILED_PROGRAM;
  ToolResult result =
      tool.run({"profile", "--json", "--", "sh", "-c",
                program + " kernels & " + program + " kernels; wait"});
  CAPTURE(result.err);
  const llvm::json::Object json = result.json();
  CHECK(json.getInteger("processes") == 2);
  CHECK(rowOf(json, "kernel", kGemm + " sig1f55").getInteger("calls") == 20);
  // A child of fork writes what is its own.
  CHECK(tool.profile("--json", "fork").json().getInteger("processes") == 1);
  CHECK(tool.profile("--json", "forkFirst").json().getInteger("processes") ==
        2);
}

TEST_CASE("profile: a process that is killed leaves what it wrote before") {
  ProfileTool tool;
  ToolResult result = tool.profile("--from-start off", "killed");
  CHECK(result.code == 5);
  CHECK(result.out.find("note: 1 of 1 processes did not end by exit()") !=
        std::string::npos);
  CHECK(result.out.find(kGemm) != std::string::npos);
  CHECK(result.err.find("the command ended with 5") != std::string::npos);
}

//===----------------------------------------------------------------------===//
// Missing parts
//===----------------------------------------------------------------------===//

TEST_CASE("profile: what is missing is told") {
  ProfileTool tool;
  auto check = [&](const ToolResult &result, int code, const char *text) {
    CAPTURE(result.err);
    CHECK(result.code == code);
    CHECK(result.err.find(text) != std::string::npos);
  };
  check(tool.profile("", "nothing"), 1, "the command launched no kernel");
  check(tool.run("profile -- true"), 1,
        "no process of the command initialised CUDA");
  check(tool.run("profile -- /nonexistent/program"), 2,
        "/nonexistent/program cannot be started: No such file");
  check(tool.profile("--helper /nonexistent.so", "kernels"), 2,
        "--helper=/nonexistent.so is no file");
  check(tool.run("profile --by kernels -- true"), 2,
        "--by=kernels is not one of kernel, range, layer, step, device");
  check(tool.run("profile"), 2, "");
  check(tool.profile("", "kernels 3"), 3, "the command ended with 3");
  tool.environment["KILN_FAKE_CUPTI_RESULT"] = "39";
  check(tool.profile("", "nothing"), 3,
        "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: another profiler");
  tool.environment["KILN_CUPTI"] = "/nonexistent/libcupti.so";
  check(tool.profile("", "nothing"), 3, "KILN_CUPTI cannot be opened");
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

TEST_CASE("profile: the table") {
  ProfileTool tool;
  ToolResult result = tool.report(
      {"--top", "1"},
      {processOf(rowCalled("a", 2, 6000) + "," + rowCalled("b", 1, 3000) + "," +
                     rowCalled("c", 1, 1000),
                 deviceOf("aa", 1000, 21000, 10000))});
  CAPTURE(result.err);
  CHECK(result.code == 0);
  CHECK(result.out ==
        "device 0: NVIDIA H200: busy for 0.010 ms of 0.020 ms (50.0 %)\n"
        "\n"
        "kernel      calls     ms  mean us  min us  max us  share %\n"
        "a               2  0.006     3.00    3.00    3.00     60.0\n"
        "others (2)      2  0.004     2.00    1.00    3.00     40.0\n"
        "total           4  0.010     2.50    1.00    3.00    100.0\n");
}

TEST_CASE("profile: processes share devices by UUID") {
  ProfileTool tool;
  ToolResult result = tool.report(
      {"--json"},
      {processOf(rowCalled("a", 1, 1000), deviceOf("aa", 1000, 3000, 2000)),
       processOf(rowCalled("a", 1, 3000), deviceOf("aa", 2000, 5000, 3000)),
       processOf(rowCalled("a", 1, 5000), deviceOf("bb", 0, 10, 5))});
  const llvm::json::Object json = result.json();
  CHECK(json.getArray("devices")->size() == 2);
  const llvm::json::Object &row = rowOf(json, "kernel", "a");
  CHECK(row.getInteger("calls") == 3);
  CHECK(row.getNumber("minUs") == 1);
  CHECK(row.getNumber("maxUs") == 5);
  const llvm::json::Object &shared =
      *(*json.getArray("devices"))[0].getAsObject();
  // At most the whole span.
  CHECK(shared.getNumber("busyUs") == 4);
}

TEST_CASE("profile: long names fit the terminal") {
  ProfileTool tool;
  const std::string name(300, 'x');
  const std::vector<std::string> documents = {processOf(
      rowCalled("first" + name + "last", 2, 6000), deviceOf("aa", 1, 9, 5))};
  ToolResult cut = tool.report({"--width", "70"}, documents);
  CAPTURE(cut.out);
  CHECK(cut.out.find("firstxxx") != std::string::npos);
  CHECK(cut.out.find("...x") != std::string::npos);
  CHECK(cut.out.find("xlast ") != std::string::npos);
  std::istringstream lines(cut.out);
  for (std::string line; std::getline(lines, line);)
    CHECK(line.size() <= 70);
  // Nor is a character cut.
  std::string accents;
  for (int i = 0; i < 100; ++i)
    accents += "\xc3\xa9";
  for (const char *width : {"70", "71", "72", "73"})
    CHECK(
        tool.report({"--width", width}, {processOf(rowCalled(accents, 2, 6000),
                                                   deviceOf("aa", 1, 9, 5))})
            .out.find("\\x") == std::string::npos);
  // Without a terminal nothing is cut.
  CHECK(tool.report({}, documents).out.find(name) != std::string::npos);
}

TEST_CASE("profile --csv quotes names") {
  ProfileTool tool;
  const std::vector<std::string> documents = {processOf(
      rowCalled("f<a, b>(\\\"x\\\")", 2, 6000), deviceOf("aa", 1, 9, 5))};
  ToolResult result = tool.report({"--csv", "-"}, documents);
  CHECK(result.out == "kernel,kind,name,calls,total_us,mean_us,min_us,max_us,"
                      "share\n"
                      "\"f<a, b>(\"\"x\"\")\",\"kernel\",\"f<a, b>(\"\"x\"\")"
                      "\",2,6.000,3.000,3.000,3.000,1.000000\n");
  const std::string file = tool.folder / "profile.csv";
  CHECK(tool.report({"--csv", file}, documents).out.find("total") !=
        std::string::npos);
  CHECK(readBytes(file) == result.out);
}

TEST_CASE("profile: a file that is not the helper's is an error") {
  ProfileTool tool;
  CHECK(
      tool.report({}, {"{}"}).err.find("it is not of this version's helper") !=
      std::string::npos);
  CHECK(tool.report({}, {"["}).code == 2);
}

//===----------------------------------------------------------------------===//
// Counters
//===----------------------------------------------------------------------===//

namespace {

/// A program in \p folder that runs its command, writes \p csv where ncu is
/// told to, and its words into the file "words".
std::string fakeNcu(const Tool &tool, const std::string &csv) {
  std::string path = tool.folder / "ncu";
  std::ofstream(path) << "#!/bin/sh\necho \"$@\" >> " << tool.folder / "words"
                      << "\nwhile [ \"$1\" != --log-file ]; do shift; done\n"
                         "cat > \"$2\" <<'END'\n"
                      << csv << "\nEND\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

const std::string kCounters =
    "==PROF== Connected\n"
    R"("ID","Kernel Name","gpu__time_duration.sum","launch__registers_per_thread",)"
    R"("dram__bytes_read.sum","dram__bytes_write.sum","lts__t_sector_hit_rate.pct",)"
    R"("launch__occupancy_limit_registers","launch__occupancy_limit_shared_mem")"
    "\n\"\",\"\",\"ns\",\"\",\"byte\",\"byte\",\"%\",\"block\",\"block\"\n"
    R"("0","kiln_gemm_sm90_bm128_bn256_bk64_st4_wg2_cm1_cn1_sig1f55","2,000","168","1,000,000","500,000","n/a","3","1")"
    "\n"
    R"("1","kiln_gemm_sm90_bm128_bn256_bk64_st4_wg2_cm1_cn1_sig1f55","4,000","168","3,000,000","500,000","n/a","3","1")";

} // namespace

TEST_CASE("profile --counters of a command") {
  ProfileTool tool;
  ToolResult result = tool.profile("--json --counters --launch-skip 2 --ncu " +
                                       fakeNcu(tool, kCounters),
                                   "kernels");
  CAPTURE(result.err);
  CHECK(result.code == 0);
  const llvm::json::Object json = result.json();
  const llvm::json::Object *counters = json.getObject("counters");
  REQUIRE(counters);
  REQUIRE(counters->getArray("kernels")->size() == 1);
  const llvm::json::Object &row =
      *(*counters->getArray("kernels"))[0].getAsObject();
  CHECK(row.getString("kernel") == kGemm);
  CHECK(row.getInteger("launches") == 2);
  const llvm::json::Object &means = *row.getObject("counters");
  CHECK(means.getNumber("gpu__time_duration.sum") == 3000);
  CHECK(means.getNumber("dram__bytes_read.sum") == 2e6);
  CHECK(!means.get("lts__t_sector_hit_rate.pct"));
  // Columns that are absent, and that have no figure.
  const llvm::json::Array &missing = *counters->getArray("missing");
  auto isMissing = [&](llvm::StringRef metric) {
    return std::any_of(missing.begin(), missing.end(), [&](const auto &each) {
      return each.getAsString() == metric;
    });
  };
  CHECK(isMissing("lts__t_sector_hit_rate.pct"));
  CHECK(isMissing(
      "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"));
  CHECK(!isMissing("dram__bytes_read.sum"));
  const std::string words = readBytes(tool.folder / "words");
  CHECK(words.find("--kernel-name regex:^kiln_ --launch-skip 2 --launch-count "
                   "8 ") != std::string::npos);
  CHECK(words.find("--profile-from-start") == std::string::npos);
}

TEST_CASE("profile --counters: the table") {
  ProfileTool tool;
  ToolResult result = tool.profile(
      "--counters --all --ncu " + fakeNcu(tool, kCounters), "kernels");
  CAPTURE(result.out);
  CHECK(result.out.find("1 by shared") != std::string::npos);
  CHECK(result.out.find("note: this GPU lacks ") != std::string::npos);
  CHECK(readBytes(tool.folder / "words").find("regex") == std::string::npos);
}

TEST_CASE("profile --counters: ncu that may not count, or is not there") {
  ProfileTool tool;
  ToolResult refused = tool.profile(
      "--counters --ncu " +
          fakeNcu(tool, "==ERROR== ERR_NVGPUCTRPERM - The user does not have "
                        "permission"),
      "kernels");
  CHECK(refused.code == 2);
  CHECK(refused.err.find("NVreg_RestrictProfilingToAdminUsers=0") !=
        std::string::npos);
  // The times are there all the same.
  CHECK(refused.out.find(kGemm) != std::string::npos);
  ToolResult missing =
      tool.profile("--counters --ncu /nonexistent/ncu", "kernels");
  CHECK(missing.code == 2);
  CHECK(missing.err.find("--counters needs ncu (Nsight Compute), which is not "
                         "there (searched: /nonexistent/ncu)") !=
        std::string::npos);
}

TEST_CASE("counters: a metric that ncu does not know is asked for no more") {
  ProfileTool tool;
  const std::string path = tool.folder / "ncu";
  // Knows two metrics, as they would be on a GPU of an early driver.
  std::ofstream(path)
      << "#!/bin/sh\nfor word; do\n"
         "  if [ \"$previous\" = --metrics ]; then metrics=$word; fi\n"
         "  if [ \"$previous\" = --log-file ]; then log=$word; fi\n"
         "  previous=$word\ndone\n"
         "case $metrics in\n"
         "*odd*) echo '==ERROR== Failed to find metric odd.sum' > $log; exit "
         "1;;\n"
         "*) printf '\"ID\",\"Kernel "
         "Name\",\"even.sum\"\\n\"0\",\"k\",\"2\"\\n' "
         "> $log;;\nesac\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  CounterRequest request;
  request.ncu = path;
  request.metrics = {"even.sum", "odd.sum"};
  request.command = {"true"};
  auto counted = countLaunches(request);
  REQUIRE(bool(counted));
  REQUIRE(counted->launches.size() == 1);
  CHECK(counted->launches[0].values.at("even.sum") == 2);
  CHECK(counted->missing == std::vector<std::string>{"odd.sum"});
}

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

namespace {

struct DriverTool : ProfileTool {
  DriverTool() {
    environment["KILN_DRIVER"] = builtLibrary("libkiln_fake_cuda.so");
    environment["KILN_FAKE_CUPTI_KERNEL"] =
        "kiln_gemm_sm90_bm128_bn256_bk64_st4_wg2_cm1_cn1_sig1f55";
  }
};

} // namespace

TEST_CASE("run launches problems") {
  DriverTool tool;
  ToolResult result =
      tool.run("run " + kSmallProblem + " --launches 5 --mode predict --json");
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const llvm::json::Object json = result.json();
  CHECK(json.getString("mode") == "predict");
  REQUIRE(json.getArray("cases")->size() == 1);
  const llvm::json::Object &row = *(*json.getArray("cases"))[0].getAsObject();
  CHECK(row.getInteger("launches") == 5);
  CHECK(*row.getNumber("us") > 0);
  CHECK(!row.getString("config")->empty());
  CHECK(!row.get("graphNodes"));
}

TEST_CASE("run --graph replays the launches") {
  DriverTool tool;
  ToolResult result = tool.run("run " + kSmallProblem +
                               " --launches 5 --graph "
                               "3 --hot --mode predict --no-cache --json");
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const llvm::json::Object json = result.json();
  const llvm::json::Object &row = *(*json.getArray("cases"))[0].getAsObject();
  CHECK(row.getInteger("launches") == 15);
  CHECK(*row.getInteger("graphNodes") >= 5);
}

TEST_CASE("run: what cannot be") {
  DriverTool tool;
  ToolResult mode = tool.run("run " + kSmallProblem + " --mode fast");
  CHECK(mode.code == 2);
  CHECK(mode.err.find("--mode=fast is not one of tune, predict, background, "
                      "strict") != std::string::npos);
  ToolResult strict =
      tool.run("run " + kSmallProblem + " --mode strict --no-cache");
  CHECK(strict.code == 1);
  CHECK(strict.out.find("failed: ") != std::string::npos);
  tool.environment["KILN_DRIVER"] = "/nonexistent/libcuda.so";
  CHECK(tool.run("run " + kSmallProblem).code == 3);
}

TEST_CASE("profile PROBLEM shows the launches behind the first") {
  DriverTool tool;
  ToolResult result = tool.run("profile " + kSmallProblem +
                               " --launches 5 --mode predict --json");
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const llvm::json::Object json = result.json();
  // The stand-in has one launch for each part between start and stop.
  CHECK(rowOf(json, "kernel", kGemm).getInteger("calls") == 1);
  CHECK(tool.run("profile " + kSmallProblem + " --from-start on").code == 2);
}

TEST_CASE("profile PROBLEM --counters shows the estimate") {
  DriverTool tool;
  ToolResult result = tool.run("profile gemm m=4096 n=4096 k=4096 dtype=bf16 "
                               "layout=NT --launches 2 --hot --mode predict "
                               "--counters --launch-count 4 --json --ncu " +
                               fakeNcu(tool, kCounters));
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const llvm::json::Object json = result.json();
  const llvm::json::Object &row =
      *(*json.getObject("counters")->getArray("kernels"))[0].getAsObject();
  const llvm::json::Object *estimate = row.getObject("estimate");
  REQUIRE(estimate);
  CHECK(*estimate->getNumber("us") > 100);
  CHECK(estimate->getString("bound") == "tensor");
  const std::string words = readBytes(tool.folder / "words");
  CHECK(words.find("--launch-count 4 --profile-from-start off ") !=
        std::string::npos);
  CHECK(words.find(" run --launches=4 --mode=predict --hot gemm ") !=
        std::string::npos);
}
